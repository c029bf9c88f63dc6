"""What the double of Supermemory holds: versions of memories, documents, and the tags they lie in."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from tests.doubles.supermemory_rules import Match, Refused

# An irrecoverably failed document is deleted by the service itself.
FAILED_STAYS = timedelta(minutes=2)


def new_id() -> str:
    return str(uuid.uuid4())


def stamp(when: datetime | None) -> str | None:
    """Times are told in milliseconds: two writes of one millisecond are equally old."""
    return None if when is None else when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


def words(value: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", value.casefold()))


def similarity(query: frozenset[str], row: frozenset[str]) -> float:
    """The share of the query's words that a text has: a stand-in for the service's vectors."""
    return len(query & row) / len(query) if query else 0.0


@dataclass(eq=False)
class Memory:
    """One version of one memory. A rewrite makes another of these."""

    tag: str
    memory: str
    created_at: datetime
    metadata: dict[str, Any] | None = None
    document_id: str | None = None
    is_static: bool = False
    is_latest: bool = True
    version: int = 1
    parent_id: str | None = None
    root_id: str | None = None
    forget_after: datetime | None = None
    forget_reason: str | None = None
    forgotten: bool = False
    found_from: int = 0  # the number of searches made before this version can be found
    id: str = field(default_factory=new_id)
    updated_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.updated_at = self.created_at

    @cached_property
    def words(self) -> frozenset[str]:
        return words(self.memory)

    def is_forgotten(self, now: datetime) -> bool:
        return self.forgotten or (self.forget_after is not None and self.forget_after <= now)

    def entry(self, now: datetime) -> dict[str, Any]:
        """A row of the list."""
        return {
            "id": self.id,
            "memory": self.memory,
            "metadata": self.metadata,
            "isStatic": self.is_static,
            "isInference": False,
            "isLatest": self.is_latest,
            "isForgotten": self.is_forgotten(now),
            "forgetAfter": stamp(self.forget_after),
            "forgetReason": self.forget_reason,
            "version": self.version,
            "parentMemoryId": self.parent_id,
            "rootMemoryId": self.root_id,
            "documentIds": [self.document_id] if self.document_id else [],
            "createdAt": stamp(self.created_at),
            "updatedAt": stamp(self.updated_at),
        }


@dataclass(eq=False)
class Document:
    """A text that is read and cut up in the background, at the pace of `polls` looks at it."""

    tags: list[str]
    content: str
    created_at: datetime
    custom_id: str | None = None
    metadata: dict[str, Any] | None = None
    filepath: str | None = None
    task_type: str = "memory"
    status: str = "queued"
    polls: int = 0
    fails: bool = False
    failed_at: datetime | None = None
    revision: int = 1
    id: str = field(default_factory=new_id)
    updated_at: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.updated_at = self.created_at

    def look(self, now: datetime) -> None:
        """A look at the status: the document gets on with it once it was looked at often enough."""
        if self.status == "queued":
            if self.polls:
                self.polls -= 1
            else:
                self.status = "failed" if self.fails else "done"
                self.failed_at = now if self.fails else None

    def row(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "customId": self.custom_id,
            "connectionId": None,
            "containerTags": self.tags,
            "metadata": self.metadata,
            "filepath": self.filepath,
            "status": self.status,
            "summary": None,
            "title": self.content[:60],
            "type": "text",
            "url": None,
            "createdAt": stamp(self.created_at),
            "updatedAt": stamp(self.updated_at),
        }


class State:
    """Everything held, without a word of HTTP."""

    def __init__(self) -> None:
        self.memories: dict[str, list[Memory]] = {}  # by tag, oldest first
        self.by_id: dict[str, Memory] = {}
        self.documents: dict[str, Document] = {}
        self.spaces: dict[str, dict[str, Any]] = {}
        self.searches = 0

    def space(self, tag: str, now: datetime) -> None:
        """The first write to a tag makes its space."""
        if tag not in self.spaces:
            self.spaces[tag] = {
                "id": new_id(),
                "name": tag,
                "containerTag": tag,
                "entityContext": None,
                "createdAt": stamp(now),
                "updatedAt": stamp(now),
            }

    def hold(self, memory: Memory) -> Memory:
        self.space(memory.tag, memory.created_at)
        self.memories.setdefault(memory.tag, []).append(memory)
        self.by_id[memory.id] = memory
        return memory

    def rows(self, tags: Iterable[str] | None) -> list[Memory]:
        return [
            row for tag in (self.memories if tags is None else tags) for row in self.memories.get(tag, ())
        ]

    def live(self, tags: Iterable[str] | None, now: datetime) -> list[Memory]:
        return [row for row in self.rows(tags) if row.is_latest and not row.is_forgotten(now)]

    def find(self, tag: str, id: str | None, content: str | None, now: datetime) -> Memory:
        """The version meant by an id, superseded or not, or by its exact text. What is forgotten is not found."""
        if id is not None:
            row = self.by_id.get(id)
            if row is not None and row.tag == tag and not row.is_forgotten(now):
                return row
        else:
            for row in reversed(self.live([tag], now)):
                if row.memory == content:
                    return row
        raise Refused(404, "Memory not found")

    def nearest(
        self,
        query: str,
        rows: Iterable[Memory],
        match: Match | None,
        threshold: float,
    ) -> list[tuple[float, Memory]]:
        """Rows by their similarity, the newest of equals first."""
        asked = words(query)
        scored = [
            (similarity(asked, row.words), row)
            for row in rows
            if self.searches >= row.found_from and (match is None or match(row.metadata or {}))
        ]
        scored = [(score, row) for score, row in reversed(scored) if score >= threshold]
        return sorted(scored, key=lambda hit: -hit[0])

    def document(self, id: str, now: datetime) -> Document:
        """A document by its id or its customId."""
        self.sweep(now)
        found = self.documents.get(id) or next(
            (one for one in self.documents.values() if one.custom_id == id), None
        )
        if found is None:
            raise Refused(404, "Document not found")
        return found

    def sweep(self, now: datetime) -> None:
        for document in list(self.documents.values()):
            if document.failed_at is not None and now - document.failed_at >= FAILED_STAYS:
                del self.documents[document.id]

    def in_tags(self, tags: Iterable[str] | None, now: datetime) -> list[Document]:
        """Documents with any of the tags, oldest first."""
        self.sweep(now)
        wanted = None if tags is None else set(tags)
        return [one for one in self.documents.values() if wanted is None or wanted & set(one.tags)]
