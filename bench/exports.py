"""Exports to import: keyfold JSON Lines of generated memories, as `keyfold export` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from common import texts
from keyfold.clock import to_text

START = datetime(2026, 1, 1, tzinfo=UTC)
EACH = 1_000  # records a user


def memories(count: int, each: int = EACH) -> Iterator[tuple[str, dict[str, Any]]]:
    """Users and the records of each, in the order of an export: by user, then by key."""
    body = texts(count)
    for number in range(count):
        user, place = divmod(number, each)
        moment = to_text(START + timedelta(seconds=number))
        yield (
            f"user-{user:06d}",
            {
                "type": "discovery",
                "title": f"Note {place} of what was found",
                "content": next(body),
                "key": f"notes/{place:07d}",
                "created_at": moment,
                "updated_at": moment,
            },
        )


def write(path: Path, count: int, each: int = EACH) -> int:
    """Write an export of `count` records; the bytes of its texts (title, content and key as UTF-8)."""
    size = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write('{"format":"keyfold","version":1}\n')
        for user, memory in memories(count, each):
            size += sum(len(memory[name].encode()) for name in ("title", "content", "key"))
            record = {
                "namespace": user,
                "kind": "observation",
                "minted": False,
                "metadata": {},
                "tags": [],
                "session_id": None,
                "revision": 1,
                "expires_at": None,
                "observed_at": None,
                "pinned": False,
                "taint": "internal",
                "history": [],
                **memory,
            }
            out.write(json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n")
        out.write(f'{{"end":"keyfold","records":{count}}}\n')
    return size
