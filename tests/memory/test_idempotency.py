"""An idempotency key stands for one call: with anything else that the call may say, it is another call."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold import IdempotencyConflict, InvalidRequest, Memory

LATER = datetime(2099, 1, 1, tzinfo=UTC)
SAVE: dict[str, Any] = {"content": "text", "type": "decision", "title": "Title"}
# a call, what it is given first, and for each of its other parameters something else
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mem_save": (
        {**SAVE, "topic_key": "k"},
        {
            "content": "other", "type": "pattern", "title": "Other", "topic_key": "l", "metadata": {"a": 1},
            "tags": ["a"], "session_id": "s", "expires_at": LATER, "pinned": True, "observed_at": LATER,
            "expect_revision": 0, "derive": False,
        },
    ),
    "mem_update": (
        {"topic_key": "held", "content": "text"},
        {
            "content": "other", "type": "pattern", "title": "Other", "topic_key": "also", "metadata": None,
            "tags": None, "session_id": "s", "expires_at": None, "pinned": None, "expect_revision": 1,
        },
    ),
    "mem_restore": (
        {"topic_key": "held", "revision": 1}, {"topic_key": "also", "revision": 2, "session_id": "s"},
    ),
    "mem_delete": ({"topic_key": "held"}, {"topic_key": "also"}),
    "mem_log_turn": (
        {"thread_id": "t", "index": 0, "role": "user", "text": "text"},
        {
            "thread_id": "u", "index": 1, "role": "tool", "text": "other", "at": LATER, "tool_calls": ["a"],
            "derive": False, "session_id": "s",
        },
    ),
    "mem_add_document": (
        {"source": "a.md", "text": "text"},
        {
            "source": "b.md", "text": "other", "title": "Other", "mime": "text/plain", "metadata": {"a": 1},
            "derive": False, "session_id": "s",
        },
    ),
    "mem_session_start": ({}, {"session_id": "s", "budget": 7}),
    "mem_session_summary": ({"summary": "text"}, {"summary": "other", "session_id": "s"}),
    "mem_session_end": ({}, {"summary": "other", "session_id": "s"}),
}  # fmt: skip
# an id names what topic_key names here; a filter and `all` are other forms of a delete; `wait` is about returning
NOT_SAID = {"user_id", "observation_id", "idempotency_key", "filter", "all", "dry_run", "reach", "wait"}


@pytest.fixture
def held(memory: Memory) -> Memory:
    for key in ("held", "also"):
        for text in ("one", "two", "three"):
            memory.mem_save("alice", text, type="decision", title="T", topic_key=key)
    memory.mem_session_start("alice", session_id="s")
    return memory


def test_the_table_names_every_write_and_every_parameter_of_it() -> None:
    writes = {
        name for name in dir(Memory)
        if name.startswith("mem_") and "idempotency_key" in inspect.signature(getattr(Memory, name)).parameters
    }  # fmt: skip
    assert writes == set(CALLS)
    for name, (given, others) in CALLS.items():
        parameters = set(inspect.signature(getattr(Memory, name)).parameters) - {"self"} - NOT_SAID
        assert parameters == set(others) | set(given), name


@pytest.mark.parametrize(("name", "parameter"), [(name, other) for name in CALLS for other in CALLS[name][1]])
def test_a_key_with_anything_else_said_is_a_conflict(held: Memory, name: str, parameter: str) -> None:
    given, others = CALLS[name]
    call = getattr(held, name)
    call("alice", **given, idempotency_key="once")
    call("alice", **given, idempotency_key="once")
    with pytest.raises(IdempotencyConflict):
        call("alice", **{**given, parameter: others[parameter]}, idempotency_key="once")


def test_clearing_metadata_is_not_the_same_as_leaving_it_or_taking_a_key_out(held: Memory) -> None:
    for number, patch in enumerate([{}, {"metadata": None}, {"metadata": {"a": None}}, {"metadata": {}}]):
        held.mem_update("alice", topic_key="held", title="New", **patch, idempotency_key=f"k{number}")
        for other in ({}, {"metadata": None}, {"metadata": {"a": None}}, {"metadata": {"b": None}}):
            if other != patch:
                with pytest.raises(IdempotencyConflict):
                    held.mem_update(
                        "alice", topic_key="held", title="New", **other, idempotency_key=f"k{number}"
                    )


def test_keys_that_are_taken_out_are_redacted_before_they_are_digested(held: Memory) -> None:
    first = held.mem_update(
        "alice", topic_key="held", metadata={"<private>a</private>": None, "b": 1}, idempotency_key="once"
    )
    again = held.mem_update(
        "alice", topic_key="held", metadata={"<private>other</private>": None, "b": 1}, idempotency_key="once"
    )
    assert (again.replayed, again.id) == (True, first.id)


def test_an_item_sent_again_for_another_session_is_a_conflict(held: Memory) -> None:
    item = {**SAVE, "idempotency_key": "once"}
    held.mem_save_many("alice", [item], session_id="s")
    assert held.mem_save_many("alice", [{**item, "session_id": "s"}])[0].replayed
    with pytest.raises(IdempotencyConflict):
        held.mem_save_many("alice", [item], session_id="other")


@pytest.mark.parametrize("bad", ["\ud800", "a\0b", 7, b"s", {"a"}, "", "<private>s</private>"])
@pytest.mark.parametrize("key", [None, "once"])
@pytest.mark.parametrize("name", [name for name, (_, others) in CALLS.items() if "session_id" in others])
def test_a_session_that_is_no_name_is_refused_by_every_write(
    held: Memory, name: str, key: str | None, bad: Any
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        getattr(held, name)("alice", **CALLS[name][0], session_id=bad, idempotency_key=key)
    assert raised.value.field == "session_id"
