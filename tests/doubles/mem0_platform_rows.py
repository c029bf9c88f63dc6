"""What the double of the Mem0 platform keeps: memories, their past, and the events of what was asked."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import Any

from tests.doubles.mem0_platform_filters import ENTITIES, matches, mentioned, required

#: Its times are of no zone in particular: they must be read, not compared as text.
ZONE = timezone(timedelta(hours=-7))
SEARCHED = ("categories", "expiration_date", "created_at", "updated_at")
LISTED = ("structured_attributes", "replaced_by", "synthesized", *SEARCHED)


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A memory as the list and the routes by id show it: the run is called a session."""
    ids = {key: row[key] for key in ("id", "memory", "user_id", "agent_id", "app_id")}
    return (
        ids | {"session_id": row["run_id"], "metadata": row["metadata"]} | {key: row[key] for key in LISTED}
    )


def found(row: dict[str, Any], semantic: float, keyword: float) -> dict[str, Any]:
    """A memory as a search shows it: the run is called a run."""
    return {key: row[key] for key in ("id", "memory", *ENTITIES, "metadata", *SEARCHED)} | {
        "score": min((semantic + keyword) / (2.0 if keyword else 1.0), 1.0),
        "score_breakdown": {"semantic": semantic, "bm25": keyword, "entity": 0.0},
    }


@dataclass
class Shelf:
    """The memories, in the order in which they came."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    _scopes: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    _words: dict[str, frozenset[str]] = field(default_factory=dict)

    def insert(self, text: str, ids: dict[str, str], now: datetime, **values: Any) -> dict[str, Any]:
        time = now.astimezone(ZONE).isoformat(timespec="microseconds")
        row = {
            "id": str(uuid.uuid4()),
            "memory": text,
            **dict.fromkeys(ENTITIES),
            **ids,
            "metadata": None,
            "categories": [],
            "structured_attributes": None,
            "replaced_by": None,
            "synthesized": False,
            "expiration_date": None,
            "immutable": False,
            "created_at": time,
            "updated_at": time,
            **values,
        }
        self.rows[row["id"]] = row
        self._words[row["id"]] = words(text)
        for scope in ids.items():
            self._scopes.setdefault(scope, {})[row["id"]] = None
        self._log(row, "ADD", None, text, time)
        return row

    def change(self, row: dict[str, Any], now: datetime, **values: Any) -> None:
        time = now.astimezone(ZONE).isoformat(timespec="microseconds")
        self._log(row, "UPDATE", row["memory"], values.get("memory", row["memory"]), time)
        row |= values | {"updated_at": time}
        self._words[row["id"]] = words(row["memory"])

    def remove(self, row: dict[str, Any], now: datetime) -> None:
        if self.rows.pop(row["id"], None) is not None:
            for key in ENTITIES:
                self._scopes.get((key, row[key]), {}).pop(row["id"], None)
            time = now.astimezone(ZONE).isoformat(timespec="microseconds")
            self._log(row, "DELETE", row["memory"], None, time)

    def has(self, text: str, ids: dict[str, str]) -> bool:
        """Whether the very text is there in the very scope."""
        scope = dict.fromkeys(ENTITIES) | ids
        held = (self.rows[row_id] for row_id in self._scopes.get(next(iter(ids.items())), {}))
        return any(row["memory"] == text and all(row[key] == scope[key] for key in ENTITIES) for row in held)

    def where(
        self, filters: dict[str, Any], *, null_scoping: bool, today: date | None
    ) -> list[dict[str, Any]]:
        """The memories a filter is true of, newest first."""
        sure = [self._scopes.get(scope, {}) for scope in required(filters)]
        ids = min(sure, key=len) if sure else self.rows
        absent = [key for key in ENTITIES if null_scoping and key not in mentioned(filters)]
        held = [
            row
            for row in map(self.rows.__getitem__, ids)
            if matches(row, filters) and not expired(row, today) and not any(row[key] for key in absent)
        ]
        held.reverse()  # first, so that of one moment too the newest comes first
        return sorted(held, key=lambda row: str(row["created_at"]), reverse=True)

    def ranked(self, rows: Iterable[dict[str, Any]], query: str) -> list[dict[str, Any]]:
        """All of the rows, best first, by the words they share with the query."""
        asked = words(query)
        scored = []
        for row in rows:
            has = self._words[row["id"]]
            shared = len(asked & has)
            semantic = shared / math.sqrt(len(asked) * len(has)) if shared else 0.0
            scored.append(found(row, semantic, 1.0 if asked and asked <= has else 0.0))
        return sorted(scored, key=lambda item: -item["score"])

    def event(self, kind: str, now: datetime, *, status: str, payload: Any, results: Any) -> str:
        event_id, time = str(uuid.uuid4()), now.astimezone(ZONE).isoformat()
        self.events[event_id] = {
            "id": event_id,
            "event_type": kind,
            "status": status,
            "payload": payload,
            "metadata": {},
            "results": results,
            "created_at": time,
            "updated_at": time,
            "latency": None,
            "error": None,
        }
        return event_id

    def entities(self) -> list[dict[str, Any]]:
        listed = []
        for (key, name), ids in self._scopes.items():
            if ids:
                times = sorted(self.rows[row_id]["created_at"] for row_id in ids)
                entity: dict[str, Any] = {
                    "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{key}={name}")),
                    "name": name,
                }
                entity |= {"type": key.removesuffix("_id"), "total_memories": len(ids), "metadata": None}
                listed.append(entity | {"created_at": times[0], "updated_at": times[-1]})
        return listed

    def _log(self, row: dict[str, Any], event: str, old: str | None, new: str | None, at: str) -> None:
        entry = {"id": str(uuid.uuid4()), "memory_id": row["id"], "event": event, "created_at": at}
        entry |= {
            "old_memory": old,
            "new_memory": new,
            "user_id": row["user_id"],
            "metadata": row["metadata"],
        }
        self.history.append(entry | {"updated_at": at})


def expired(row: dict[str, Any], today: date | None) -> bool:
    ends = row["expiration_date"]
    return today is not None and ends is not None and date.fromisoformat(ends) < today
