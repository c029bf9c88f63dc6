"""Checks of reads, listings and counts, and of the engine as a whole."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from keyfold.conformance.registry import check
from keyfold.conformance.world import LONG_AGO, World, refused, same, true
from keyfold.contract import calls
from keyfold.contract.calls import Call
from keyfold.contract.intents import Intent, Order, Query, Ref, SearchQuery, Selector, position_of
from keyfold.errors import InvalidRequest, NotFound, Unavailable
from keyfold.flow import Plan
from keyfold.model import DOCUMENT, OBSERVATION, SESSION


@check("P-01")
def one_record(t: World) -> Plan[None]:
    receipt = yield from t.save("text", "key")
    record = yield from t.read("key")
    same((yield from calls.get(Ref(t.space(), id=receipt.id))), record, "the record by its id")
    same((yield from t.find("other")), None, "an absent key")
    same((yield from t.find("key", kind=DOCUMENT)), None, "the key under another kind")
    for identity in ("0", "999999999999", "no-such-id", ""):
        same((yield from calls.get(Ref(t.space(), id=identity))), None, "an id that was never issued")


@check("P-02")
def anothers_record(t: World) -> Plan[None]:
    receipt = yield from t.save("theirs", "key", of="b")
    same((yield from calls.get(Ref(t.space(), id=receipt.id))), None, "another namespace's record by its id")
    same((yield from t.find("key")), None, "another namespace's key")
    same((yield from t.listed()), [], "the listing")


def _in_time(t: World) -> Plan[None]:
    for number, content in enumerate(["one", "two", "three"]):
        yield from t.load(content, content, LONG_AGO + timedelta(seconds=number))
    yield from t.load("zero", "zero", LONG_AGO - timedelta(microseconds=1))


@check("P-03")
def newest_first(t: World) -> Plan[None]:
    yield from _in_time(t)
    same((yield from t.listed(order="newest")), ["three", "two", "one", "zero"], "the listing, newest first")


@check("P-04")
def oldest_first(t: World) -> Plan[None]:
    yield from _in_time(t)
    same((yield from t.listed(order="oldest")), ["zero", "one", "two", "three"], "the listing, oldest first")


@check("P-05")
def by_key(t: World) -> Plan[None]:
    keys = ["b", "a", "B", "é", "z", "中", "\U0001f600", "\uff5e", "a b", "a/b", "10", "9"]
    yield from t.save_each(keys)
    same((yield from t.listed(order="key")), sorted(keys), "the listing by key, in the order of code points")


@check("P-06")
def a_rewrite_moves_to_the_front(t: World) -> Plan[None]:
    yield from _in_time(t)
    yield from t.save("new", "one")
    same((yield from t.listed()), ["new", "three", "two", "zero"], "the listing after a rewrite")


@check("P-07")
def totals(t: World) -> Plan[None]:
    yield from _in_time(t)
    first = yield from calls.page(Query(t.space(), limit=3))
    same((first.total, len(first.items)), (4, 3), "total and length of the first page")
    true(first.position is not None, "the first page of two says where the next starts")
    second = yield from calls.page(Query(t.space(), limit=3, position=first.position))
    same(
        (second.total, len(second.items), second.position),
        (4, 1, None),
        "total, length, end of the last page",
    )
    whole = yield from calls.page(Query(t.space(), limit=4))
    same((len(whole.items), whole.position), (4, None), "a page that just fits")


def _paged(t: World, order: Order) -> Plan[None]:
    """Seven records of one microsecond, and some in other times and kinds, come once each whatever the pages."""
    for number in range(7):
        yield from t.load(f"same {number}", f"k{number % 4}", kind=(OBSERVATION, DOCUMENT)[number // 4])
    yield from t.load("before", "k9", LONG_AGO - timedelta(microseconds=1))
    yield from t.load(
        "after", "01ARYZ6S410000000000000000", LONG_AGO + timedelta(microseconds=1), minted=True
    )
    whole = yield from t.listed(order=order)
    same(len(set(whole)), 9, "the number of records in the listing")
    for limit in (1, 2, 3, 8, 9):
        same((yield from t.paged(order=order, limit=limit)), whole, f"the pages of {limit}, put together")


@check("P-08")
def pages_newest_first(t: World) -> Plan[None]:
    yield from _paged(t, "newest")


@check("P-09")
def pages_oldest_first(t: World) -> Plan[None]:
    yield from _paged(t, "oldest")


@check("P-10")
def pages_by_key(t: World) -> Plan[None]:
    yield from _paged(t, "key")


@check("P-11")
def a_place_is_exclusive(t: World) -> Plan[None]:
    yield from _in_time(t)
    start = position_of((yield from t.read("two")), "oldest")
    same((yield from t.listed(order="oldest", position=start)), ["three"], "what comes after a record")
    same((yield from t.listed(order="newest", position=start)), ["one", "zero"], "what comes before it")
    gone = yield from calls.forget(Selector(t.space(), ref=t.ref("two")))
    same(gone.deleted, 1, "how many were forgotten")
    same(
        (yield from t.listed(order="oldest", position=start)),
        ["three"],
        "what comes after a place left empty",
    )


@check("P-12")
def a_place_that_is_none(t: World) -> Plan[None]:
    yield from t.save("text", "key")
    for position in ("", "x", "1", "1.x", "[]", '["a", 1]'):
        for order in ("newest", "key"):
            yield from refused(t.listed(order=order, position=position), InvalidRequest)


@check("P-13")
def keyed_only(t: World) -> Plan[None]:
    yield from t.save("keyed", "key")
    yield from t.save("unkeyed")
    page = yield from calls.page(Query(t.space(), keyed_only=True))
    same(
        ([record.content for record in page.items], page.total),
        (["keyed"], 1),
        "the keyed ones and their total",
    )


@check("P-14")
def kinds(t: World) -> Plan[None]:
    for kind in ("observation", "document", "turn", "summary"):
        yield from t.save(kind, "key", kind=kind, type="any")
    same(
        (yield from t.listed(order="key")),
        ["observation", "document", "turn", "summary"],
        "all kinds, in order",
    )
    same((yield from t.listed(order="key", kinds=("turn", "document"))), ["document", "turn"], "two kinds")


@check("P-15")
def counts(t: World) -> Plan[None]:
    yield from t.save("one", "a", session=(yield from t.in_session("s")))
    yield from t.save("two", "a", pinned=True)
    yield from t.save("three", type="profile")
    yield from t.save("four", "a", kind=DOCUMENT, type="document")
    found = yield from calls.count(t.space())
    kinds = {"observation": 2, "document": 1} | ({"session": 1} if t.capabilities.session_activity else {})
    same(found.by_kind, kinds, "how many of each kind")
    same(found.by_type, {"decision": 1, "profile": 1, "document": 1}, "how many of each type")
    same((found.total, found.keyed, found.pinned), (3, 1, 1), "in all, keyed, pinned")
    if t.capabilities.history:
        same(found.revisions, 4, "the states that can be read")
    records = (yield from calls.page(Query(t.space()))).items
    times = (min(record.created_at for record in records), max(record.updated_at for record in records))
    same((found.oldest, found.newest), times, "the oldest creation and the newest change")


@check("P-16")
def counts_of_nothing(t: World) -> Plan[None]:
    found = yield from calls.count(t.space())
    same((found.total, found.by_kind, found.by_type), (0, {}, {}), "the counts of an empty namespace")
    same((found.revisions, found.oldest, found.newest), (0, None, None), "its states and times")


@check("P-17")
def ids_are_issued_once(t: World) -> Plan[None]:
    issued: list[str] = []
    for _ in range(3):
        receipt = yield from t.save("text", "key")
        issued.append(receipt.id)
        yield from calls.forget(Selector(t.space(), everything=True))
    same(len(set(issued)), 3, "the number of ids of three records that followed each other")


@check("P-18")
def health(t: World) -> Plan[None]:
    found = yield from calls.health()
    true(found.ok, "an engine that serves says so")
    same(found.engine, t.capabilities.engine, "the engine's name")


@check("P-19", config={})
def closing(t: World) -> Plan[None]:  # saves nothing: a closed engine could not forget it
    yield Call("close", ())
    yield Call("close", ())
    space = t.space()
    after: list[Plan[Any]] = [
        t.save("new", "key"),
        calls.store_many([t.intent("new", "key")]),
        t.find("key"),
        calls.page(Query(space)),
        *([calls.search(SearchQuery(space, "text"))] if t.capabilities.search else []),
        calls.forget(Selector(space, everything=True)),
        calls.count(space),
        calls.namespaces(),
        calls.history(t.ref("key")),
        calls.health(),
    ]
    for plan in after:
        yield from refused(plan, Unavailable)


@check("P-20")
def ids_of_sessions(t: World) -> Plan[None]:
    yield from t.save("text", "key", session=(yield from t.in_session("s")))
    session = yield from t.session("s")
    stray = Ref(t.space(), id=session.id)
    same((yield from calls.get(stray)), None, "a memory by the id of a session")
    same((yield from calls.history(stray)).record, None, "the history of a memory by the id of a session")
    same((yield from calls.forget(Selector(t.space(), ref=stray))).deleted, 0, "memories forgotten by it")
    update = Intent(t.space(), mode="update", id=session.id, title="changed")
    yield from refused(calls.store(update), NotFound)
    same((yield from t.session("s")), session, "the session")
    same((yield from calls.get(replace(stray, kind=SESSION))), session, "the session by its id")
