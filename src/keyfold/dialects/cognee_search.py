"""Searching on Cognee: what its own search finds, and what it cannot know yet.

The server finds a file only once it was cognified, which a write does not do (it calls a model, and every write
waits meanwhile), and without access control others' chunks take up places of its answer. The listing is read anyway,
to tell which chunks are this shelf's. So what the server left out is looked for there by its words: in title, key,
tags, and in contents short enough to ride along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from keyfold.dialects.base import Hit, Row
from keyfold.dialects.cognee_rows import excerpt
from keyfold.dialects.payload import ranks
from keyfold.dialects.wire import Http, Statuses, ask
from keyfold.errors import StoreError
from keyfold.flow import Plan

# 404: nothing was cognified yet. 422: the server has no model to search with.
NOTHING: Final = Statuses(absent=(404, 422))


def nearest(home: str, rows: Sequence[Row], text: str, limit: int) -> Plan[tuple[list[Hit], int | None]]:
    """The rows that the server finds nearest, best first; and how many chunks it found, of whatever, or None when it
    cannot search there.
    """
    body = {"searchType": "CHUNKS", "query": text, "topK": limit, "datasetIds": [home]}
    answer = yield from ask(Http("POST", "/api/v1/recall", json=body, reads=True), NOTHING)
    if answer.status in NOTHING.absent:
        return [], None
    entries = answer.json()
    if not isinstance(entries, list):
        raise StoreError(f"{answer.host} answered a search in a form that is not Cognee's")
    by_id = {row.remote: row for row in rows}
    best: dict[str, Hit] = {}
    for entry, score in zip(entries, ranks(list(map(_score, entries))), strict=True):
        row = by_id.get(_data_id(entry))
        if (
            row is None or row.remote in best
        ):  # another's (the store is shared without access control), or known
            continue
        if row.bare:
            record = replace(row.record, content=excerpt(str(entry.get("text") or "")))
            row = replace(row, payload=replace(row.payload, record=record))
        best[row.remote] = Hit(row, score, excerpt=row.bare)
    return sorted(best.values(), key=lambda hit: hit.score, reverse=True), len(entries)


def _data_id(entry: Any) -> str:
    metadata = entry.get("metadata") if isinstance(entry, dict) else None
    return str(metadata.get("data_id")) if isinstance(metadata, dict) else ""


def _score(entry: Any) -> Any:
    """A cosine distance turned round; servers before 1.6 give none, but an order."""
    distance = entry.get("score") if isinstance(entry, dict) else None
    return 1 - distance if isinstance(distance, (int, float)) and type(distance) is not bool else None
