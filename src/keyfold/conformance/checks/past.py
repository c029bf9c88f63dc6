"""Checks of history, of expiry, and of imports, which bring their past along."""

from __future__ import annotations

from datetime import timedelta

from keyfold.conformance.registry import check
from keyfold.conformance.world import LONG_AGO, World, digest, refused, same, true
from keyfold.contract import calls
from keyfold.contract.intents import Past, Query, Ref, Selector, SessionUse
from keyfold.errors import NotFound
from keyfold.flow import Plan
from keyfold.model import SESSION, Revision


@check("H-01")
def history_newest_first(t: World) -> Plan[None]:
    for text in ("one", "two", "three"):
        yield from t.save(text, "key")
    past = yield from calls.history(t.ref("key"))
    states = [(state.revision, state.content, state.is_current) for state in past.revisions]
    same(states, [(3, "three", True), (2, "two", False), (1, "one", False)], "the states")
    same(past.record, (yield from t.read("key")), "the record in its history")


@check("H-02")
def a_past_state_is_whole(t: World) -> Plan[None]:
    later = (t.now() + timedelta(days=1)).replace(microsecond=7)
    use = SessionUse("s", explicit=True)
    first = yield from t.save(
        "one",
        "key",
        title="One",
        metadata={"a": [1]},
        tags=("x",),
        pinned=True,
        expires_at=later,
        session=use,
    )
    written = (yield from t.read("key")).updated_at
    yield from t.save("two", "key", title="Two", type="profile", metadata=None, tags=None, pinned=None)
    past = yield from calls.history(Ref(t.space(), id=first.id))
    expected = Revision(
        1, "one", "One", "decision", {"a": [1]}, ("x",), "s", written, False, digest("one"), True, later
    )
    same(past.revisions[1:], (expected,), "the past states")


@check("H-03")
def a_repeat_leaves_no_trace(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    yield from t.save("one", "key")
    past = yield from calls.history(t.ref("key"))
    same(len(past.revisions), 1, "the states after a repeat")


@check("H-04")
def history_of_nothing(t: World) -> Plan[None]:
    other = yield from t.save("theirs", "key", of="b")
    same((yield from calls.history(t.ref("key"))), Past(None, ()), "the history of what is absent")
    theirs = yield from calls.history(Ref(t.space(), id=other.id))
    same(theirs, Past(None, ()), "the history of another namespace's record")


@check("H-05", config={"keep_revisions": 2})
def the_newest_states_are_kept(t: World) -> Plan[None]:
    for text in ("one", "two", "three", "four"):
        yield from t.save(text, "key")
    past = yield from calls.history(t.ref("key"))
    same(
        [state.content for state in past.revisions], ["four", "three"], "the states of a store that keeps two"
    )
    same((yield from t.read("key")).revision_count, 4, "the revision, which counts all")


@check("E-01")
def an_expired_record_is_not_read(t: World) -> Plan[None]:
    receipt = yield from t.save("text", "key", expires_at=LONG_AGO)
    same((yield from t.find("key")), None, "the expired record by its key")
    same((yield from calls.get(Ref(t.space(), id=receipt.id))), None, "the expired record by its id")
    if t.capabilities.history:
        same((yield from calls.history(t.ref("key"))), Past(None, ()), "its history")


@check("E-02")
def an_expired_record_is_not_listed(t: World) -> Plan[None]:
    yield from t.save("gone", "gone", expires_at=LONG_AGO)
    yield from t.save("here", "here")
    page = yield from calls.page(Query(t.space()))
    same(([record.content for record in page.items], page.total), (["here"], 1), "the listing and its total")


@check("E-03")
def an_expired_record_is_not_found(t: World) -> Plan[None]:
    yield from t.save("apple gone", "gone", expires_at=LONG_AGO)
    yield from t.save("apple here", "here")
    hits = yield from t.hits("apple")
    same(
        ([hit.record.content for hit in hits.items], hits.total),
        (["apple here"], 1),
        "the hits and their total",
    )


@check("E-04")
def an_expired_record_is_not_counted(t: World) -> Plan[None]:
    yield from t.save("gone", "gone", expires_at=LONG_AGO)
    counts = yield from calls.count(t.space())
    same((counts.total, counts.by_type, counts.newest), (0, {}, None), "the counts")
    if t.capabilities.names_expire:
        same((yield from calls.namespaces(t.space())), [], "the names that hold anything")


@check("E-05")
def a_save_over_an_expired_record(t: World) -> Plan[None]:
    first = yield from t.save("one", "key", expires_at=LONG_AGO)
    second = yield from t.save("two", "key", expires_at=None)
    same((second.outcome, second.revision_count), ("created", 1), "the receipt")
    if t.capabilities.fresh_ids:
        true(first.id != second.id, "the new record has a new id")
    if t.capabilities.history:
        past = yield from calls.history(t.ref("key"))
        same([state.content for state in past.revisions], ["two"], "its states")


@check("E-06")
def an_expired_record_is_no_duplicate(t: World) -> Plan[None]:
    yield from t.save("text", expires_at=LONG_AGO)
    receipt = yield from t.save("text", expires_at=LONG_AGO)
    same(receipt.outcome, "created", "the outcome of the same text again")
    yield from t.save("text", "Some-Key", expires_at=LONG_AGO)
    keyed = yield from t.save("text", "some key")
    same(keyed.similar_keys, (), "the similar keys")


@check("E-07")
def an_expired_record_is_not_changed(t: World) -> Plan[None]:
    first = yield from t.save("text", "key", expires_at=LONG_AGO)
    yield from refused(t.save("new", "key", mode="update", expires_at=None), NotFound)
    yield from refused(t.save("new", mode="update", id=first.id, expires_at=None), NotFound)
    result = yield from calls.forget(Selector(t.space(), ref=t.ref("key")))
    same((result.deleted, result.ids), (0, ()), "what forgetting it says")


@check("E-08")
def the_moment_of_expiry(t: World) -> Plan[None]:
    yield from t.save("text", "key", expires_at=t.now() + timedelta(seconds=60))
    t.step(59.999999)
    same((yield from t.listed()), ["text"], "the listing just before")
    t.step(0.000001)
    same((yield from t.listed()), [], "the listing at the moment itself")
    same((yield from t.find("key")), None, "the record at the moment itself")


def _state(number: int, content: str, at_day: int) -> Revision:
    return Revision(
        number,
        content,
        "Title",
        "decision",
        {},
        (),
        None,
        LONG_AGO + timedelta(days=at_day),
        False,
        digest(content),
    )


@check("L-01")
def an_import_keeps_times(t: World) -> Plan[None]:
    later = LONG_AGO + timedelta(days=3, microseconds=1)
    receipt = yield from t.load("text", "key", later, created=LONG_AGO, revision=4, taint="external")
    record = yield from t.read("key")
    same((record.created_at, record.updated_at), (LONG_AGO, later), "the times")
    same(
        (receipt.outcome, record.revision_count, record.taint),
        ("created", 4, "external"),
        "outcome, revision, taint",
    )


@check("L-02")
def an_import_twice(t: World) -> Plan[None]:
    past = (_state(1, "one", 0), _state(2, "two", 1))
    last = LONG_AGO + timedelta(days=2)
    yield from t.load("three", "key", last, created=LONG_AGO, past=past, revision=3)
    before = yield from t.read("key")
    again = yield from t.load("three", "key", last, created=LONG_AGO, past=past, revision=3)
    same((again.outcome, again.replayed), ("deduped", True), "the receipt of the second import")
    same((yield from t.read("key")), before, "the record after the second import")
    same((yield from t.listed()), ["three"], "what is stored")


@check("L-03")
def an_import_with_its_past(t: World) -> Plan[None]:
    past = (_state(1, "one", 0), _state(2, "two", 1))
    yield from t.load("three", "key", LONG_AGO + timedelta(days=2), created=LONG_AGO, past=past, revision=3)
    found = yield from calls.history(t.ref("key"))
    states = [(state.revision, state.content, state.written_at) for state in found.revisions]
    expected = [
        (3 - back, text, LONG_AGO + timedelta(days=2 - back))
        for back, text in enumerate(["three", "two", "one"])
    ]
    same(states, expected, "the states")


@check("L-04")
def an_import_of_what_is_newer(t: World) -> Plan[None]:
    first = yield from t.load("one", "key", LONG_AGO)
    second = yield from t.load(
        "two", "key", LONG_AGO + timedelta(days=1), revision=2, past=(_state(1, "one", 0),)
    )
    same(
        (second.outcome, second.id, second.revision_count),
        ("updated", first.id, 2),
        "the receipt of a newer state",
    )
    third = yield from t.load("old", "key", LONG_AGO - timedelta(days=1))
    same(third.outcome, "deduped", "the outcome of an older state")
    record = yield from t.read("key")
    same((record.content, record.updated_at), ("two", LONG_AGO + timedelta(days=1)), "content and time")


@check("L-05")
def an_import_of_an_unkeyed_record(t: World) -> Plan[None]:
    minted = "01ARYZ6S410000000000000000"
    first = yield from t.load("text", minted, minted=True)
    again = yield from t.load("text", minted, minted=True)
    same((first.topic_key, again.outcome, again.id), (None, "deduped", first.id), "the receipts")
    same((yield from t.find(minted)), None, "an observation with that key given by a caller")
    same((yield from t.read(minted, minted=True)).content, "text", "the record by its minted key")


@check("L-06")
def an_import_opens_no_session(t: World) -> Plan[None]:
    yield from t.load("text", "key", session=SessionUse("s", explicit=True))
    same((yield from t.read("key")).session_id, "s", "the session of the record")
    same((yield from t.find("s", kind=SESSION)), None, "the session's own record")
