"""The keys of records that the caller does not name by a topic key."""

from __future__ import annotations


def turn_key(thread_id: str, index: int) -> str:
    """The key of one turn of a conversation, unambiguous for any thread id: the last `#` ends the thread id."""
    return f"{thread_id}#{index:010d}"


def read_turn_key(key: str) -> tuple[str, int]:
    """The thread id and index behind `turn_key`. ValueError for another kind of key."""
    thread_id, mark, index = key.rpartition("#")
    if not mark or not index.isdecimal():
        raise ValueError("not the key of a turn")
    return thread_id, int(index)
