"""Slips that everybody makes once are told with the way out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyfold import AsyncMemory, Config, Memory
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest, NotFound, Unsupported

NOW = datetime(2026, 5, 5, 12, tzinfo=UTC)


@pytest.fixture
def memory() -> Memory:
    memory = Memory.open("inmemory:", config=Config(clock=lambda: NOW))
    memory.mem_save("ana", "v1", type="decision", title="t", topic_key="k")
    return memory


def test_an_update_takes_a_span_as_a_save_does(memory: Memory) -> None:
    first = memory.mem_update("ana", topic_key="k", expires_at=timedelta(days=1), idempotency_key="i")
    again = memory.mem_update("ana", topic_key="k", expires_at=timedelta(days=1), idempotency_key="i")
    assert (first.outcome, first, again.replayed) == ("updated", first, True)
    found = memory.mem_get_observation("ana", topic_key="k")
    assert found is not None
    assert found.expires_at == NOW + timedelta(days=1)


@pytest.mark.parametrize("end", [3600, 1.5, [], True])
def test_an_end_of_another_type_is_told_what_an_end_may_be(memory: Memory, end: Any) -> None:
    with pytest.raises(InvalidRequest, match="timedelta from now, an aware datetime"):
        memory.mem_save("ana", "v2", type="decision", title="t", expires_at=end)


@pytest.mark.parametrize(
    "open_with",
    [
        lambda config: Memory.open("inmemory:", config=config),
        lambda config: Memory(InMemoryEngine(), config=config),
    ],
)
def test_settings_that_are_no_config_are_refused(open_with: Callable[[Any], Memory]) -> None:
    with pytest.raises(InvalidRequest, match=r"keyfold\.Config, not dict"):
        open_with({"keep_revisions": 3})


def test_a_memory_that_was_not_awaited_says_so() -> None:
    opening: Any = AsyncMemory.open("inmemory:")
    with pytest.raises(AttributeError, match=r"await AsyncMemory\.open"):
        opening.mem_save("ana", "text", type="decision", title="t")


def test_a_topic_key_given_as_an_id_is_pointed_at(memory: Memory) -> None:
    with pytest.raises(NotFound, match="goes by topic_key"):
        memory.mem_update("ana", "architecture/auth", content="x")


def test_a_sqlite_url_takes_no_options_and_makes_no_file_of_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="takes no options"):
        Memory.open(f"sqlite:///{tmp_path}/x.db?mode=ro")
    assert list(tmp_path.iterdir()) == []
    Memory.open(str(tmp_path / "x.db?mode=ro")).close()
    assert (tmp_path / "x.db?mode=ro").exists()


def test_an_engine_that_is_planned_names_those_that_there_are() -> None:
    with pytest.raises(Unsupported, match="or a service: mem0"):
        Memory.open("postgresql://localhost/x")
