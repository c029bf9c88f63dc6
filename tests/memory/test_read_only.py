"""A memory on a store that cannot be written: it answers everything that is asked of it, and says why it saves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keyfold import AsyncMemory, Config, InvalidRequest, Memory, StoreError
from tests.conftest import SteppedClock
from tests.modes import sealed

NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}

READS: dict[str, Callable[[Any], Any]] = {
    "mem_search": lambda memory: memory.mem_search("ana", "apple"),
    "mem_suggest_topic_key": lambda memory: memory.mem_suggest_topic_key("ana", type="decision", title="a"),
    "mem_list": lambda memory: memory.mem_list("ana"),
    "mem_get_observation": lambda memory: memory.mem_get_observation("ana", topic_key="k"),
    "mem_timeline": lambda memory: memory.mem_timeline("ana", "1"),
    "mem_history": lambda memory: memory.mem_history("ana", topic_key="k"),
    "mem_revision": lambda memory: memory.mem_revision("ana", topic_key="k", revision=1),
    "mem_topics": lambda memory: memory.mem_topics("ana"),
    "mem_stats": lambda memory: memory.mem_stats("ana"),
    "mem_context": lambda memory: memory.mem_context("ana", query="apple"),
    "mem_session_list": lambda memory: memory.mem_session_list("ana"),
    "mem_session_start": lambda memory: memory.mem_session_start("ana"),
    "mem_delete": lambda memory: memory.mem_delete("ana", all=True, dry_run=True),
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "mem_save": lambda memory: memory.mem_save("ana", "a pear", **NOTE),
    "mem_save_many": lambda memory: memory.mem_save_many("ana", [{"content": "a pear", **NOTE}]),
    "mem_update": lambda memory: memory.mem_update("ana", topic_key="k", content="a pear"),
    "mem_restore": lambda memory: memory.mem_restore("ana", topic_key="k", revision=1),
    "mem_log_turn": lambda memory: memory.mem_log_turn("ana", thread_id="t", index=0, role="user", text="a"),
    "mem_add_document": lambda memory: memory.mem_add_document("ana", source="a.md", text="a"),
    "mem_delete": lambda memory: memory.mem_delete("ana", topic_key="k"),
    "mem_session_summary": lambda memory: memory.mem_session_summary("ana", "said"),
    "mem_session_end": lambda memory: memory.mem_session_end("ana"),
    "mem_session_start of another": lambda memory: memory.mem_session_start("ana", session_id="another"),
}


@pytest.fixture
def folder(tmp_path: Path, clock: SteppedClock) -> Iterator[Path]:
    """A sealed folder with a store: a memory with a past, a live session, a stale one, and an expired memory."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    with Memory.open(folder / "memory.db", config=Config(clock=clock)) as memory:
        memory.mem_save("ana", "an apple", **NOTE, topic_key="k", session_id="stale")
        memory.mem_save(
            "ana", "gone", **NOTE, topic_key="e", session_id="stale", expires_at="2026-01-02T00:00:00Z"
        )
        clock.forward(days=3)
        memory.mem_save("ana", "an apple, red", **NOTE, topic_key="k", session_id="live")
    with sealed(folder):
        yield folder


def test_every_read_answers_and_every_write_says_why_it_cannot_be(folder: Path, clock: SteppedClock) -> None:
    with Memory.open(folder / "memory.db", config=Config(clock=clock)) as memory:
        for read in READS.values():
            assert read(memory)
        assert [hit.topic_key for hit in memory.mem_search("ana", "apple")] == ["k"]
        assert memory.mem_get_observation("ana", topic_key="e") is None
        for write in WRITES.values():
            with pytest.raises(StoreError, match=r"read-only \(.*\): make the file and its folder writable"):
                write(memory)
        with pytest.raises(InvalidRequest):
            memory.mem_save("ana", "", **NOTE)


def test_a_session_goes_on_though_a_stale_one_cannot_be_closed(folder: Path, clock: SteppedClock) -> None:
    with Memory.open(f"sqlite:///{folder}/memory.db", config=Config(clock=clock)) as memory:
        started = memory.mem_session_start("ana")
        assert (started.session_id, started.is_new) == ("live", False)
        assert "an apple, red" in str(started.context)
        assert {session.id: session.status for session in memory.mem_session_list("ana")} == {
            "live": "active",
            "stale": "active",
        }


def test_no_session_is_opened_where_none_goes_on(folder: Path, clock: SteppedClock) -> None:
    clock.forward(days=3)
    with Memory.open(folder / "memory.db", config=Config(clock=clock)) as memory:
        with pytest.raises(StoreError, match="read-only"):
            memory.mem_session_start("ana")
        assert memory.mem_context("ana")


def test_the_awaited_face_reads_and_refuses_the_same(folder: Path, clock: SteppedClock) -> None:
    async def work() -> None:
        async with AsyncMemory.open(folder / "memory.db", config=Config(clock=clock)) as memory:
            for read in READS.values():
                assert await read(memory)
            for write in WRITES.values():
                with pytest.raises(StoreError, match="read-only"):
                    await write(memory)

    asyncio.run(work())
