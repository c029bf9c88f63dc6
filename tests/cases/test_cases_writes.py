"""Concurrency, retries, duplicates: C013 to C028."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import AsyncMemory, Memory, Unavailable
from keyfold.engines.sqlite import connect, schema
from keyfold.portability import export, import_keyfold
from tests.cases.common import NOTE, USER, found, save
from tests.conftest import SteppedClock


def test_c013_calls_of_one_reply_all_land(tmp_path: Path) -> None:
    async def reply() -> list[str]:
        async with AsyncMemory.open(tmp_path / "memory.db") as memory:
            await asyncio.gather(
                memory.mem_save(USER, "entity", **NOTE, topic_key="entity"),
                memory.mem_save(USER, "observation", **NOTE, topic_key="observation"),
                memory.mem_save_many(USER, [{"content": "relation", **NOTE, "topic_key": "relation"}]),
            )
            return [topic.key for topic in await memory.mem_topics(USER)]

    assert asyncio.run(reply()) == ["entity", "observation", "relation"]


def test_c014_a_line_without_an_end_does_not_take_the_next_with_it(
    open_memory: Callable[..., Memory],
) -> None:
    source = open_memory("source")
    save(source, "one", topic_key="a")
    save(source, "two", topic_key="b")
    lines = list(export(source.engine))
    assert all(line.endswith("\n") for line in lines)
    target = open_memory("target")
    report = import_keyfold(target.engine, [*lines[:-1], "a line that was cut", lines[-1]])
    assert report.skipped[0].where == f"line {len(lines)}"
    assert [topic.key for topic in target.mem_topics(USER)] == ["a", "b"]


def test_c015_opening_waits_while_another_makes_the_store(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")  # a lock that ends the switch to WAL at once, whatever the time-out
    waited = threading.Event()

    def let_go() -> None:
        waited.wait(0.3)
        other.execute("ROLLBACK")

    thread = threading.Thread(target=let_go)
    thread.start()
    with Memory.open(path) as memory:
        assert save(memory, "text").outcome == "created"
    thread.join()
    other.close()


def test_c016_who_cannot_write_in_time_is_told_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "BUSY", 50)
    with Memory.open(tmp_path / "memory.db") as memory:
        holder = apsw.Connection(str(tmp_path / "memory.db"))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="locked by another process for too long: try again"):
            save(memory, "text")
        holder.execute("ROLLBACK")
        holder.close()
        assert save(memory, "text").outcome == "created"


def test_c017_a_save_waits_for_another_process_that_writes(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        holder = apsw.Connection(str(tmp_path / "memory.db"))
        holder.execute("BEGIN IMMEDIATE")
        waited = threading.Event()

        def let_go() -> None:
            waited.wait(0.5)
            holder.execute("ROLLBACK")

        thread = threading.Thread(target=let_go)
        thread.start()
        assert save(memory, "text").outcome == "created"
        thread.join()
        holder.close()


def test_c018_ten_tasks_write_to_one_new_session(tmp_path: Path) -> None:
    async def burst() -> tuple[int, int]:
        async with AsyncMemory.open(tmp_path / "memory.db") as memory:
            saves = [memory.mem_save(USER, f"item {n}", **NOTE, session_id="new") for n in range(10)]
            await asyncio.gather(*saves)
            return (await memory.mem_list(USER)).total, (await memory.mem_session_list(USER)).total

    assert asyncio.run(burst()) == (10, 1)


def test_c019_tables_are_made_once_whoever_comes_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.db"
    stands = schema.stands

    def interrupted(conn: Any, name: str) -> bool:
        there = stands(conn, name)
        monkeypatch.undo()
        Memory.open(path).close()  # another client makes the store after this one looked
        return there

    monkeypatch.setattr(schema, "stands", interrupted)
    with Memory.open(path) as memory:
        assert save(memory, "text").outcome == "created"


def test_c020_a_repeated_request_is_one_record(memory: Memory, clock: SteppedClock) -> None:
    first = save(memory, "text", idempotency_key="once")
    clock.forward(hours=2)
    again = save(memory, "text", idempotency_key="once")
    assert (again.id, again.replayed, memory.mem_list(USER).total) == (first.id, True, 1)


def test_c021_every_write_can_be_repeated_by_key(keyfold: Any) -> None:
    writes = [
        Memory.mem_save,
        Memory.mem_update,
        Memory.mem_restore,
        Memory.mem_log_turn,
        Memory.mem_add_document,
        Memory.mem_delete,
        Memory.mem_session_start,
        Memory.mem_session_summary,
        Memory.mem_session_end,
    ]
    assert [call for call in writes if "idempotency_key" not in inspect.signature(call).parameters] == []
    words = ("save", "--type", "decision", "--title", "t", "--topic", "a", "--json")
    first = keyfold(*words, "--idempotency-key", "k", "one").document
    keyfold(*words, "two")
    again = keyfold(*words, "--idempotency-key", "k", "one").document
    assert (again["id"], again["replayed"]) == (first["id"], True)
    assert keyfold("get", "--topic", "a", "--json").document["content"] == "two"


def test_c022_a_document_that_grew_is_a_new_revision(memory: Memory) -> None:
    first = memory.mem_add_document(USER, source="s1", text="A")
    grown = memory.mem_add_document(USER, source="s1", text="A+B")
    assert (grown.id, grown.outcome, grown.revision_count) == (first.id, "updated", 2)


def test_c023_one_fact_in_three_sessions_is_one_record(memory: Memory) -> None:
    told = [save(memory, "same fact", topic_key="fact", session_id=name) for name in ("s1", "s2", "s3")]
    assert [receipt.outcome for receipt in told] == ["created", "deduped", "deduped"]
    assert memory.mem_list(USER).total == 1


@pytest.mark.parametrize("dedup_on", ["material", "content"])
def test_c024_two_prompts_within_a_minute_are_two(open_memory: Callable[..., Memory], dedup_on: str) -> None:
    memory = open_memory(dedup_on=dedup_on)
    save(memory, "first prompt")
    assert save(memory, "second prompt").outcome == "created"
    memory.mem_log_turn(USER, thread_id="t", index=0, role="user", text="first prompt")
    turn = memory.mem_log_turn(USER, thread_id="t", index=1, role="user", text="second prompt")
    memory.mem_add_document(USER, source="a", text="first prompt")
    document = memory.mem_add_document(USER, source="b", text="first prompt")
    assert (turn.outcome, document.outcome, memory.mem_list(USER).total) == ("created", "created", 6)


def test_c025_one_value_under_two_keys_is_two_records(memory: Memory) -> None:
    one, two = save(memory, "yes", topic_key="a"), save(memory, "yes", topic_key="b")
    assert (one.topic_key, two.topic_key, two.outcome) == ("a", "b", "created")
    assert [topic.key for topic in memory.mem_topics(USER)] == ["a", "b"]


def test_c026_texts_are_compared_as_they_stand(memory: Memory) -> None:
    told = [save(memory, text).outcome for text in ("abc", "abc ", "caf\u00e9", "cafe\u0301")]
    assert told == ["created"] * 4
    assert save(memory, "abc ").outcome == "deduped"
    keyed = [save(memory, text, topic_key="k").outcome for text in ("abc", "abc ", "abc ")]
    assert keyed == ["created", "updated", "deduped"]


def test_c027_what_was_imported_is_a_duplicate_when_saved(open_memory: Callable[..., Memory]) -> None:
    source, target = open_memory("source"), open_memory("target")
    save(source, "keyed", topic_key="k")
    save(source, "unkeyed")
    import_keyfold(target.engine, export(source.engine))
    assert save(target, "keyed", topic_key="k").outcome == "deduped"
    assert save(target, "unkeyed").outcome == "deduped"


@pytest.mark.parametrize("dedup_on", ["material", "content"])
def test_c028_texts_without_a_letter_are_told_apart(
    open_memory: Callable[..., Memory], dedup_on: str
) -> None:
    memory = open_memory(dedup_on=dedup_on)
    told = [save(memory, text).outcome for text in ("!!!", "???", "🙂", "🚀")]
    assert told == ["created"] * 4
    assert len(found(memory, "🚀")) == 1
