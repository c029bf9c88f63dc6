"""Short ways to say what most cases say."""

from __future__ import annotations

from typing import Any

from keyfold import Memory

NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}
USER = "ana"


def save(memory: Memory, content: str, user: str = USER, **more: Any) -> Any:
    return memory.mem_save(user, content, **{**NOTE, **more})


def found(memory: Memory, query: str, user: str = USER, **more: Any) -> list[str]:
    """The ids that a search finds, best first."""
    return [hit.id for hit in memory.mem_search(user, query, **more)]
