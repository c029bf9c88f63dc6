"""Checks of idempotency keys: a retry stores nothing twice."""

from __future__ import annotations

from dataclasses import replace

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, once, refused, same
from keyfold.contract import calls
from keyfold.contract.intents import Selector
from keyfold.errors import Conflict, IdempotencyConflict
from keyfold.flow import Plan


@check("I-01")
def a_retry(t: World) -> Plan[None]:
    first = yield from t.save("text", dedup_window=0, idempotency=once("k"))
    again = yield from t.save("text", dedup_window=0, idempotency=once("k"))
    same(again, replace(first, replayed=True), "the receipt of a retry")
    same((yield from t.listed()), ["text"], "what is stored")


@check("I-02")
def a_late_retry(t: World) -> Plan[None]:
    first = yield from t.save("one", "key", idempotency=once("k"))
    yield from t.save("two", "key")
    again = yield from t.save("one", "key", idempotency=once("k"))
    same(again, replace(first, replayed=True), "the receipt of a retry after the record changed")
    same((yield from t.read("key")).content, "two", "the content, which a retry leaves alone")


@check("I-03")
def another_body(t: World) -> Plan[None]:
    first = yield from t.save("one", "key", idempotency=once("k", "one"))
    error = yield from refused(t.save("two", "key", idempotency=once("k", "two")), IdempotencyConflict)
    same(error.existing_id, first.id, "the existing id in the error")
    same((yield from t.read("key")).content, "one", "the content after the refusal")


@check("I-04")
def keys_have_a_scope(t: World) -> Plan[None]:
    yield from t.save("one", "a", idempotency=once("k", "one"))
    other = yield from t.save("two", "b", idempotency=once("k", "two", operation="other"))
    theirs = yield from t.save("two", "a", of="b", idempotency=once("k", "two"))
    same((other.outcome, theirs.outcome), ("created", "created"), "another operation and another namespace")


@check("I-05")
def a_repeat_takes_the_key(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    first = yield from t.save("one", "key", idempotency=once("k"))
    same(first.outcome, "deduped", "the outcome of the repeat")
    yield from t.save("two", "key")
    again = yield from t.save("one", "key", idempotency=once("k"))
    same(again, first, "the receipt of a retry of the repeat")


@check("I-06")
def a_failed_write_takes_no_key(t: World) -> Plan[None]:
    yield from refused(t.save("one", "key", expect_revision=4, idempotency=once("k", "one")), Conflict)
    receipt = yield from t.save("two", "key", idempotency=once("k", "two"))
    same(receipt.outcome, "created", "the outcome with the key of a write that failed")


@check("I-07")
def forgetting_releases(t: World) -> Plan[None]:
    yield from t.save("one", "key", idempotency=once("k", "one"))
    yield from calls.forget(Selector(t.space(), ref=t.ref("key")))
    receipt = yield from t.save("two", "key", idempotency=once("k", "two"))
    same((receipt.outcome, receipt.replayed), ("created", False), "the receipt with a released key")


@check("I-08")
def keys_last_a_day(t: World) -> Plan[None]:
    first = yield from t.save("one", "key", idempotency=once("k"))
    t.step(86_399)
    again = yield from t.save("one", "key", idempotency=once("k"))
    same(again, replace(first, replayed=True), "the receipt of a retry within the day")
    t.step(2)
    yield from t.save("two", "key", idempotency=once("k", "two"))
    same(
        (yield from t.read("key")).content, "two", "the content after the key was used again on the next day"
    )


@check("I-09")
def a_delete_is_retried(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    selector = Selector(t.space(), ref=t.ref("key"), idempotency=once("k", operation="delete"))
    first = yield from calls.forget(selector)
    yield from t.save("two", "key")
    again = yield from calls.forget(selector)
    same((again.deleted, again.ids, again.replayed), (1, first.ids, True), "the answer to a retried delete")
    same((yield from t.listed()), ["two"], "what was saved in between")


@check("I-10")
def a_delete_of_everything_is_retried(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    selector = Selector(t.space(), everything=True, idempotency=once("k", operation="delete"))
    first = yield from calls.forget(selector)
    yield from t.save("two", "key")
    again = yield from calls.forget(selector)
    same((again.deleted, again.ids, again.replayed), (1, first.ids, True), "the answer to a retried delete")
    same((yield from t.listed()), ["two"], "what was saved in between")
