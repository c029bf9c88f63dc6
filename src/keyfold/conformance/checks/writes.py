"""Checks of writes under a key: what is new, what is a change, and what changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, digest, refused, same, true
from keyfold.contract import calls
from keyfold.contract.intents import SessionUse
from keyfold.errors import Conflict, InvalidRequest, NotFound
from keyfold.flow import Plan
from keyfold.model import DOCUMENT, UNSET


@check("W-01")
def a_new_key(t: World) -> Plan[None]:
    receipt = yield from t.save("text", "key")
    same((receipt.outcome, receipt.revision_count, receipt.replayed), ("created", 1, False), "the receipt")
    same((receipt.topic_key, receipt.normalized_hash), ("key", digest("text")), "key and hash in the receipt")


@check("W-02")
def every_field(t: World) -> Plan[None]:
    later = t.now() + timedelta(days=1)
    given: dict[str, Any] = {
        "type": "preference",
        "title": "A title",
        "metadata": {"deep": {"list": [1, 2.5, None, True]}},
        "tags": ("one", "two"),
        "pinned": True,
        "expires_at": later.replace(microsecond=123457),
        "observed_at": later - timedelta(days=900, microseconds=1),
        "taint": "external",
    }
    receipt = yield from t.save("text", "key", session=SessionUse("s", explicit=True), **given)
    record = yield from t.read("key")
    for name, value in given.items():
        same(getattr(record, name), value, name)
    same((record.id, record.content, record.session_id), (receipt.id, "text", "s"), "id, content, session")
    same((record.namespace, record.kind, record.key), (t.space(), "observation", "key"), "the address")
    same((record.normalized_hash, record.minted), (digest("text"), False), "hash and minted")
    same(record.created_at, record.updated_at, "the times of a new record")


@check("W-03")
def the_same_again(t: World) -> Plan[None]:
    fields: dict[str, Any] = {"metadata": {"a": 1}, "tags": ("x",), "pinned": True}
    first = yield from t.save("text", "key", **fields)
    again = yield from t.save("text", "key", **fields)
    same((again.outcome, again.replayed), ("deduped", True), "the receipt of a repeat")
    same((again.id, again.revision_count), (first.id, 1), "id and revision of a repeat")
    same((yield from t.listed()), ["text"], "what is stored")


@check("W-04")
def a_repeat_moves_nothing(t: World) -> Plan[None]:
    yield from t.save("text", "key", session=SessionUse("first", explicit=True))
    before = yield from t.read("key")
    t.tick()
    receipt = yield from t.save("text", "key", session=SessionUse("second", explicit=True))
    same((yield from t.read("key")), before, "the record after a repeat")
    same(receipt.session_id, "first", "the session in the receipt of a repeat")


@check("W-05")
def another_text(t: World) -> Plan[None]:
    first = yield from t.save("one", "key")
    before = yield from t.read("key")
    t.tick()
    second = yield from t.save("two", "key", session=SessionUse("s", explicit=True))
    same(
        (second.outcome, second.id, second.revision_count),
        ("updated", first.id, 2),
        "the receipt of a rewrite",
    )
    record = yield from t.read("key")
    same((record.content, record.normalized_hash), ("two", digest("two")), "content and hash")
    same(record.created_at, before.created_at, "created_at after a rewrite")
    same((record.session_id, second.session_id), ("s", "s"), "the session of the last material change")
    true(record.updated_at > before.updated_at, "a rewrite has a later time")
    same((yield from t.listed()), ["two"], "what is stored")


def _material(t: World, **change: Any) -> Plan[None]:
    """A save that changes one field alone is a revision, and says so in that field."""
    yield from t.save("text", "key")
    receipt = yield from t.save("text", "key", **change)
    same((receipt.outcome, receipt.revision_count), ("updated", 2), "the receipt")
    record = yield from t.read("key")
    for name, value in change.items():
        same(getattr(record, name), value, name)
    same(record.normalized_hash, digest("text"), "the hash of the same content")


@check("W-06")
def a_title_is_material(t: World) -> Plan[None]:
    yield from _material(t, title="Another")


@check("W-07")
def a_type_is_material(t: World) -> Plan[None]:
    yield from _material(t, type="preference")


@check("W-08")
def metadata_is_material(t: World) -> Plan[None]:
    yield from _material(t, metadata={"a": 1})


@check("W-09")
def tags_are_material(t: World) -> Plan[None]:
    yield from _material(t, tags=("x",))


@check("W-10")
def a_pin_is_material(t: World) -> Plan[None]:
    yield from _material(t, pinned=True)


@check("W-11")
def an_expiry_is_material(t: World) -> Plan[None]:
    yield from _material(t, expires_at=t.now().replace(microsecond=5) + timedelta(days=1))


@check("W-12")
def the_order_of_tags(t: World) -> Plan[None]:
    yield from t.save("text", "key", tags=("a", "b"))
    receipt = yield from t.save("text", "key", tags=("b", "a"))
    same(receipt.outcome, "deduped", "the outcome of the same tags in another order")


@check("W-13")
def what_is_not_passed_is_kept(t: World) -> Plan[None]:
    later = (t.now() + timedelta(days=1)).replace(microsecond=0)
    yield from t.save("one", "key", metadata={"a": 1}, tags=("x",), pinned=True, expires_at=later)
    yield from t.save("two", "key")
    record = yield from t.read("key")
    kept = (record.metadata, record.tags, record.pinned, record.expires_at)
    same(kept, ({"a": 1}, ("x",), True, later), "metadata, tags, pin and expiry")


@check("W-14")
def none_clears(t: World) -> Plan[None]:
    later = t.now() + timedelta(days=1)
    yield from t.save("text", "key", metadata={"a": 1}, tags=("x",), pinned=True, expires_at=later)
    receipt = yield from t.save("text", "key", metadata=None, tags=None, pinned=None, expires_at=None)
    same(receipt.outcome, "updated", "the outcome of clearing")
    record = yield from t.read("key")
    left = (record.metadata, record.tags, record.pinned, record.expires_at)
    same(left, ({}, (), False, None), "metadata, tags, pin and expiry")


@check("W-15")
def another_writer_came_first(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    yield from t.save("two", "key", expect_revision=1)
    error = yield from refused(t.save("three", "key", expect_revision=1), Conflict)
    same(error.current_revision, 2, "the current revision in the Conflict")
    same((yield from t.read("key")).content, "two", "the content after a Conflict")


@check("W-16")
def only_if_absent(t: World) -> Plan[None]:
    yield from t.save("one", "key", expect_revision=0)
    yield from refused(t.save("two", "key", expect_revision=0), Conflict)
    yield from refused(t.save("one", "absent", expect_revision=1), Conflict)
    same((yield from t.listed()), ["one"], "what is stored")


@check("W-17")
def keys_are_kept_exactly(t: World) -> Plan[None]:
    keys = ["key", "Key", "key ", " key", "ke y", "ké", "ke\u0301", "../..", "%", "k" * 512, "🔑"]
    for number, key in enumerate(keys):
        receipt = yield from t.save(f"text {number}", key)
        same((receipt.outcome, receipt.topic_key), ("created", key), "the receipt")
    for number, key in enumerate(keys):
        record = yield from t.read(key)
        same((record.key, record.content), (key, f"text {number}"), "the record with the key")


@check("W-18")
def one_text_under_two_keys(t: World) -> Plan[None]:
    first = yield from t.save("yes", "a")
    second = yield from t.save("yes", "b")
    unkeyed = yield from t.save("yes")
    same(
        [second.outcome, unkeyed.outcome],
        ["created", "created"],
        "the outcomes under another key and under none",
    )
    same(len({first.id, second.id, unkeyed.id}), 3, "the number of ids")


@check("W-19")
def a_kind_is_part_of_the_address(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    receipt = yield from t.save("two", "key", kind=DOCUMENT, type="document")
    same(
        (receipt.outcome, receipt.topic_key), ("created", None), "the receipt of a document with the same key"
    )
    same((yield from t.read("key")).content, "one", "the observation")
    same((yield from t.read("key", kind=DOCUMENT)).content, "two", "the document")


@check("W-20")
def near_keys_are_named(t: World) -> Plan[None]:
    yield from t.save_each(["Auth Model", "auth_model", "auth/model", "other"])
    yield from t.save("elsewhere", "AUTHMODEL", of="b")
    created = yield from t.save("text", "auth-model")
    same(created.similar_keys, ("Auth Model", "auth_model"), "the similar keys of a new one")
    updated = yield from t.save("another text", "auth-model")
    same(updated.similar_keys, (), "the similar keys of a rewrite")


@check("W-21")
def a_patch(t: World) -> Plan[None]:
    first = yield from t.save("text", "key", metadata={"keep": 1, "drop": 2, "set": 3}, tags=("x",))
    patch = t.intent(mode="update", id=first.id, metadata={"set": 4, "drop": UNSET, "none": None})
    receipt = yield from calls.store(patch)
    same(
        (receipt.id, receipt.outcome, receipt.topic_key),
        (first.id, "updated", "key"),
        "the receipt of a patch",
    )
    record = yield from t.read("key")
    same(record.metadata, {"keep": 1, "set": 4, "none": None}, "the metadata after a patch")
    same((record.content, record.tags), ("text", ("x",)), "content and tags")


@check("W-22")
def a_patch_of_nothing(t: World) -> Plan[None]:
    other = yield from t.save("theirs", "key", of="b")
    yield from refused(t.save("text", "key", mode="update"), NotFound)
    yield from refused(t.save("text", mode="update", id=other.id), NotFound)
    same((yield from t.listed()), [], "what is stored")
    same((yield from t.read("key", of="b")).content, "theirs", "the record of the other namespace")


@check("W-23")
def a_type_that_is_expected(t: World) -> Plan[None]:
    yield from t.save("text", "key", type="decision")
    yield from refused(t.save("new", "key", mode="update", expect_type="profile"), NotFound)
    receipt = yield from t.save("new", "key", mode="update", expect_type="decision")
    same(receipt.outcome, "updated", "the outcome with the right type")


@check("W-24")
def what_is_appended_stays(t: World) -> Plan[None]:
    turn: dict[str, Any] = {"kind": "turn", "type": "turn", "mode": "append", "metadata": {"role": "user"}}
    first = yield from t.save("hello", "thread#1", **turn)
    again = yield from t.save("hello", "thread#1", **turn)
    same((first.outcome, again.outcome, again.id), ("created", "deduped", first.id), "the receipts")
    yield from refused(t.save("good bye", "thread#1", **turn), Conflict)
    yield from refused(t.save("hello", "thread#1", **{**turn, "metadata": {"role": "tool"}}), Conflict)
    same((yield from t.read("thread#1", kind="turn")).content, "hello", "the turn")


@check("W-25")
def a_taint_is_not_washed_off(t: World) -> Plan[None]:
    yield from t.save("one", "key", taint="external")
    yield from t.save("two", "key", taint="internal")
    same((yield from t.read("key")).taint, "external", "the taint after an internal rewrite")


@check("W-26")
def dicts_are_not_shared(t: World) -> Plan[None]:
    mine = {"list": [1]}
    yield from t.save("text", "key", metadata=mine)
    mine["list"].append(2)
    same((yield from t.read("key")).metadata, {"list": [1]}, "the metadata after the caller changed its own")
    read = yield from t.read("key")
    read.metadata["list"].append(3)
    same((yield from t.read("key")).metadata, {"list": [1]}, "the metadata after a reader changed its own")


@check("W-27")
def a_clock_that_jumps_back(t: World) -> Plan[None]:
    yield from t.save("one", "key")
    first = yield from t.read("key")
    t.step(-3600)
    yield from t.save("two", "key")
    second = yield from t.read("key")
    yield from t.save("three", "key")
    third = yield from t.read("key")
    times = [first.updated_at, second.updated_at, third.updated_at]
    same(times, sorted(set(times)), "the times of three states, which must grow")


@check("W-28")
def a_merge_beyond_the_limit(t: World) -> Plan[None]:
    yield from t.save("text", "key", metadata={"a": "x" * 40_000})
    before = yield from t.read("key")
    yield from refused(t.save("new", "key", mode="update", metadata={"b": "y" * 40_000}), InvalidRequest)
    same((yield from t.read("key")), before, "the record after a patch that does not fit")
    receipt = yield from t.save("text", "key", mode="update", metadata={"a": UNSET, "b": "y" * 40_000})
    same(receipt.outcome, "updated", "the outcome of a patch that makes room for itself")
