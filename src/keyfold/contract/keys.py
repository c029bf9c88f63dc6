"""The keys of records that the caller does not name by a topic key."""

from __future__ import annotations

from typing import Any, Final

from keyfold.model import SESSION

# Where a closed session keeps the ids of what it contained. Ids are one store's: no export or import has them.
SUMMARY_OF: Final = "summary_of"


def turn_key(thread_id: str, index: int) -> str:
    """The key of one turn of a conversation, unambiguous for any thread id: the last `#` ends the thread id."""
    return f"{thread_id}#{index:010d}"


def read_turn_key(key: str) -> tuple[str, int]:
    """The thread id and index behind `turn_key`. ValueError for another kind of key."""
    thread_id, mark, index = key.rpartition("#")
    if not mark or not index.isdecimal():
        raise ValueError("not the key of a turn")
    return thread_id, int(index)


def portable(kind: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """A record's metadata without what means something in its own store only."""
    if kind != SESSION or SUMMARY_OF not in metadata:
        return metadata
    return {key: value for key, value in metadata.items() if key != SUMMARY_OF}
