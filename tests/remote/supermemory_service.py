"""Memories on a double of Supermemory, and what lies there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from keyfold import Memory
from keyfold.dialects.base import Shelf
from keyfold.dialects.supermemory_rows import tag_of
from tests.doubles.serving import Double
from tests.doubles.supermemory import Supermemory
from tests.doubles.supermemory_state import Memory as Row
from tests.remote.common import SUPERMEMORY

USER = "team:acme/agent:writer"


def reach(double: Supermemory, **settings: Any) -> Memory:
    """A memory on the double: another process, as far as the service can tell."""
    return SUPERMEMORY.memory(double, **settings)


def save(memory: Memory, user: str, key: str | None, content: str = "text", **fields: Any) -> Any:
    """Save with the title and the type that `payload` gives too."""
    given = {"type": "decision", "title": "Title", **fields}
    return memory.mem_save(user, content, topic_key=key, **given)


def read(memory: Memory, user: str, key: str) -> str | None:
    """The content under a key."""
    found = memory.mem_get_observation(user, topic_key=key)
    return None if found is None else found.content


def listed(double: Supermemory, user: str = USER) -> list[Row]:
    """All memories of a user."""
    return double.state.memories.get(tag_of(Shelf(user)), [])


def alive(double: Supermemory, user: str = USER) -> list[Row]:
    """Those that are neither superseded nor forgotten."""
    return [row for row in listed(double, user) if row.is_latest and not row.is_forgotten(double.now())]


class Counted:
    """How many requests a block made."""

    requests = -1


@contextmanager
def counting(double: Double) -> Iterator[Counted]:
    """`with counting(double) as made: ...`, then `made.requests`."""
    before = len(double.seen)
    made = Counted()
    yield made
    made.requests = len(double.seen) - before
