"""Checks of saves without a key, of the dedup rules that can be chosen, and of batches."""

from __future__ import annotations

from typing import Any

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, refused, same, true
from keyfold.contract import calls
from keyfold.contract.intents import Ref
from keyfold.errors import Conflict
from keyfold.flow import Plan


@check("U-01")
def no_key(t: World) -> Plan[None]:
    one = yield from t.save("one")
    two = yield from t.save("two")
    same((one.outcome, one.topic_key, one.similar_keys), ("created", None, ()), "the receipt")
    true(one.id != two.id, "two texts have two ids")
    record = yield from calls.get(Ref(t.space(), id=one.id))
    same((record and record.content, record and record.minted), ("one", True), "the record by its id")
    same(sorted((yield from t.listed())), ["one", "two"], "what is stored")


@check("U-02")
def a_repeat(t: World) -> Plan[None]:
    first = yield from t.save("text", metadata={"a": 1})
    again = yield from t.save("text", metadata={"a": 1})
    same((again.outcome, again.replayed, again.id), ("deduped", True, first.id), "the receipt of a repeat")
    same((yield from t.listed()), ["text"], "what is stored")


@check("U-03")
def a_repeat_with_a_difference(t: World) -> Plan[None]:
    yield from t.save("text")
    changes: dict[str, Any] = {"title": "Another", "type": "profile", "tags": ("x",), "metadata": {"a": 1}}
    for name, value in changes.items():
        receipt = yield from t.save("text", **{name: value})
        same(receipt.outcome, "created", f"the outcome of another {name}")


@check("U-04")
def the_window(t: World) -> Plan[None]:
    first = yield from t.save("text", dedup_window=60.0)
    t.step(60)
    within = yield from t.save("text", dedup_window=60.0)
    same((within.outcome, within.id), ("deduped", first.id), "a repeat after 60 seconds")
    t.step(0.000001)
    after = yield from t.save("text", dedup_window=60.0)
    same(after.outcome, "created", "the outcome after the window")


@check("U-05")
def no_window(t: World) -> Plan[None]:
    yield from t.save("text", dedup_window=0)
    receipt = yield from t.save("text", dedup_window=0)
    same(receipt.outcome, "created", "the outcome with the window off")


@check("U-06")
def a_window_without_end(t: World) -> Plan[None]:
    first = yield from t.save("text", dedup_window=None)
    t.step(400 * 86_400)
    again = yield from t.save("text", dedup_window=None)
    same((again.outcome, again.id), ("deduped", first.id), "a repeat after 400 days")


@check("U-07")
def another_namespace(t: World) -> Plan[None]:
    first = yield from t.save("text", of="a")
    second = yield from t.save("text", of="b")
    same(second.outcome, "created", "the outcome of the same text in another namespace")
    true(first.id != second.id, "two namespaces have two records")


@check("U-08")
def content_alone_under_a_key(t: World) -> Plan[None]:
    yield from t.save("text", "key", dedup_on="content", title="One")
    again = yield from t.save("text", "key", dedup_on="content", title="Two", tags=("x",))
    same(again.outcome, "deduped", "the outcome of the same content with another title")
    same((yield from t.read("key")).title, "One", "the title")
    other = yield from t.save("other", "key", dedup_on="content", title="Two")
    same(other.outcome, "updated", "the outcome of another content")


@check("U-09")
def content_alone_without_a_key(t: World) -> Plan[None]:
    first = yield from t.save("text", dedup_on="content", title="One")
    again = yield from t.save("text", dedup_on="content", title="Two")
    same(
        (again.outcome, again.id), ("deduped", first.id), "the receipt of the same content with another title"
    )


@check("U-10")
def a_batch(t: World) -> Plan[None]:
    intents = [t.intent("one", "a"), t.intent("two", "b"), t.intent("three", "a"), t.intent("two", "b")]
    receipts = yield from calls.store_many(intents)
    outcomes = [(receipt.topic_key, receipt.outcome, receipt.revision_count) for receipt in receipts]
    expected = [("a", "created", 1), ("b", "created", 1), ("a", "updated", 2), ("b", "deduped", 1)]
    same(outcomes, expected, "the receipts of a batch, in its order")
    same((yield from t.listed(order="key")), ["three", "two"], "what is stored")
    same((yield from calls.store_many([])), [], "the receipts of an empty batch")


@check("U-11")
def a_batch_that_fails(t: World) -> Plan[None]:
    yield from t.save("held", "held")
    batch = [t.intent("one", "a"), t.intent("new", "held"), t.intent("two", "held", expect_revision=7)]
    yield from refused(calls.store_many(batch), Conflict)
    same((yield from t.listed()), ["held"], "what is stored after a batch that failed")
    if t.capabilities.history:
        past = yield from calls.history(t.ref("held"))
        same(len(past.revisions), 1, "the states of the record that the batch would have changed")


@check("U-12")
def an_unkeyed_record_is_patched_by_its_id(t: World) -> Plan[None]:
    first = yield from t.save("one")
    receipt = yield from t.save("two", mode="update", id=first.id)
    same((receipt.outcome, receipt.id, receipt.revision_count), ("updated", first.id, 2), "the receipt")
    same((yield from t.listed()), ["two"], "what is stored")
