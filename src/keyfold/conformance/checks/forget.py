"""Checks of forgetting: what was asked for goes, and nothing else."""

from __future__ import annotations

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, refused, same, true
from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Past, Ref, Selector
from keyfold.errors import InvalidRequest
from keyfold.flow import Plan
from keyfold.model import SESSION


@check("D-01")
def one_by_key(t: World) -> Plan[None]:
    receipts = yield from t.save_each(["one", "two"])
    result = yield from calls.forget(Selector(t.space(), ref=t.ref("one")))
    same((result.deleted, result.ids), (1, (receipts[0].id,)), "how many, and which")
    same((result.dry_run, result.replayed), (False, False), "the marks of the result")
    true(result.erased, "erased is true, or says what it waits for")
    same((yield from t.listed()), ["two"], "what is left")
    same((yield from t.find("one")), None, "what was forgotten")


@check("D-02")
def one_by_id(t: World) -> Plan[None]:
    receipt = yield from t.save("one")
    yield from t.save("two")
    result = yield from calls.forget(Selector(t.space(), ref=Ref(t.space(), id=receipt.id)))
    same((result.deleted, result.ids), (1, (receipt.id,)), "how many, and which")
    same((yield from t.listed()), ["two"], "what is left")


@check("D-03")
def by_a_filter(t: World) -> Plan[None]:
    yield from t.save("one", "a", tags=("x",), session=(yield from t.in_session("s")))
    yield from t.save("two", "a", kind="document", type="document", tags=("x",))
    yield from t.save("three", "b", tags=("y",))
    result = yield from calls.forget(Selector(t.space(), where=Filter(tags=("x",))))
    same(result.deleted, 2, "how many were forgotten")
    same((yield from t.listed()), ["three"], "what is left")
    yield from calls.forget(Selector(t.space(), where=Filter()))
    same((yield from t.listed()), [], "what an open filter leaves")
    yield from t.session("s")


@check("D-04")
def everything(t: World) -> Plan[None]:
    yield from t.save("one", "a", session=(yield from t.in_session("s")))
    yield from t.save("two")
    result = yield from calls.forget(Selector(t.space(), everything=True))
    same((result.deleted, len(result.ids)), (2, 2), "how many were forgotten, sessions not counted")
    same((yield from t.listed()), [], "what is left")
    same((yield from t.find("s", kind=SESSION)), None, "the session")
    same((yield from calls.count(t.space())).by_kind, {}, "the counts")
    same((yield from calls.namespaces(t.space())), [], "the names that hold anything")


@check("D-05")
def a_dry_run(t: World) -> Plan[None]:
    receipts = yield from t.save_each(["one", "two"])
    for selector in (
        Selector(t.space(), ref=t.ref("one"), dry_run=True),
        Selector(t.space(), where=Filter(topic_prefix="one"), dry_run=True),
    ):
        result = yield from calls.forget(selector)
        same((result.deleted, result.ids), (1, (receipts[0].id,)), "how many would go, and which")
        same((result.dry_run, result.erased), (True, False), "the marks of the result")
    result = yield from calls.forget(Selector(t.space(), everything=True, dry_run=True))
    same(result.deleted, 2, "how many would go with everything")
    same(sorted((yield from t.listed())), ["one", "two"], "what is left")


@check("D-06")
def other_users(t: World) -> Plan[None]:
    for of in ("a", "b"):
        yield from t.save("shared", "key", of=of)
        yield from t.save("shared", of=of)
        yield from t.save("shared new", "key", of=of)
    yield from calls.forget(Selector(t.space("a"), everything=True))
    same(len((yield from t.listed(of="b"))), 2, "what is left of the other user's")
    if t.capabilities.history:
        past = yield from calls.history(t.ref("key", of="b"))
        same(len(past.revisions), 2, "the states of the other user's record")
    if t.capabilities.search:
        same(len((yield from t.found("shared", of="b"))), 2, "what a search finds of the other user's")


@check("D-07")
def anothers_id(t: World) -> Plan[None]:
    theirs = yield from t.save("theirs", "key", of="b")
    result = yield from calls.forget(Selector(t.space(), ref=Ref(t.space(), id=theirs.id)))
    same((result.deleted, result.ids), (0, ()), "what forgetting another's id says")
    same((yield from t.listed(of="b")), ["theirs"], "the other user's record")


@check("D-08")
def its_history(t: World) -> Plan[None]:
    receipt = yield from t.save("one", "key")
    yield from t.save("two", "key")
    yield from calls.forget(Selector(t.space(), ref=t.ref("key")))
    same((yield from calls.history(t.ref("key"))), Past(None, ()), "the history by key")
    same((yield from calls.history(Ref(t.space(), id=receipt.id))), Past(None, ()), "the history by id")
    again = yield from t.save("three", "key")
    same(
        (again.outcome, again.revision_count), ("created", 1), "the receipt of a save under the forgotten key"
    )
    past = yield from calls.history(t.ref("key"))
    same([state.content for state in past.revisions], ["three"], "the states of the new record")


@check("D-09")
def nothing(t: World) -> Plan[None]:
    for selector in (
        Selector(t.space(), ref=t.ref("absent")),
        Selector(t.space(), where=Filter(tags=("x",))),
        Selector(t.space(), everything=True),
    ):
        result = yield from calls.forget(selector)
        same((result.deleted, result.ids, result.erased), (0, (), False), "the result of forgetting nothing")


@check("D-10")
def an_empty_selector(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    yield from refused(calls.forget(Selector(t.space())), InvalidRequest)
    both = Selector(t.space(), ref=t.ref("absent"), everything=True)
    yield from refused(calls.forget(both), InvalidRequest)
    same((yield from t.listed()), ["one"], "what is left")


@check("D-11")
def a_key_with_slashes(t: World) -> Plan[None]:
    yield from t.save_each(["a", "a/b", "a/b/c", "A/B"])
    yield from calls.forget(Selector(t.space(), ref=t.ref("a/b")))
    same((yield from t.listed(order="key")), ["A/B", "a", "a/b/c"], "what is left")


@check("D-12")
def a_session(t: World) -> Plan[None]:
    yield from t.save("one", "key", session=(yield from t.in_session("s")))
    result = yield from calls.forget(Selector(t.space(), ref=t.ref("s", kind=SESSION)))
    same(result.deleted, 1, "how many were forgotten")
    same((yield from t.find("s", kind=SESSION)), None, "the session")
    same((yield from t.read("key")).content, "one", "the record that was made in it")
