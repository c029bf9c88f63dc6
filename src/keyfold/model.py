"""What Keyfold speaks in: records, their revisions, receipts, pages and hits.

Frozen, slotted dataclasses. Every surface (Python, command line, MCP, HTTP) uses these, and `to_dict`
gives each its one JSON form. In the agent-facing calls a namespace is called `user_id` and a key
`topic_key`: records answer to both names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Any, Final, Generic, Literal, Self, TypeVar, overload

from keyfold.clock import to_text
from keyfold.config import RESERVED_TYPES as RESERVED_TYPES
from keyfold.config import Config as Config
from keyfold.errors import InvalidRequest
from keyfold.frozen import quick

T = TypeVar("T")

Outcome = Literal["created", "updated", "deduped"]
Reach = Literal["exact", "inherit", "subtree"]
Taint = Literal["internal", "external"]


class Unset(Enum):
    """The type of `UNSET`: an argument that was not passed (a rewrite keeps what the record has)."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset.UNSET

# The kinds of record. Their order is the order in which exports list them.
OBSERVATION: Final = "observation"
DOCUMENT: Final = "document"
TURN: Final = "turn"
SUMMARY: Final = "summary"
SESSION: Final = "session"
KINDS: Final = (OBSERVATION, DOCUMENT, TURN, SUMMARY, SESSION)
READABLE_KINDS: Final = (OBSERVATION, DOCUMENT, TURN, SUMMARY)  # what searches and lists look at by default

ACTIVE: Final = "active"
COMPLETED: Final = "completed"


def plain(value: Any) -> Any:
    """A JSON-ready copy of a model's value: times as RFC 3339 text, models and tuples unfolded."""
    if isinstance(value, datetime):
        return to_text(value)
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Model:
    """What all models share: their JSON form."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The model as JSON-ready values, one entry a field."""
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}  # type: ignore[arg-type]  # every subclass is a dataclass


@quick
@dataclass(frozen=True, slots=True)
class Observation(Model):
    """One stored memory in its current state. (The storage contract calls it a record: `Record`.)

    `id` is opaque text, stable over rewrites. `key` is the caller's name for it, or, when `minted`, a
    ULID of Keyfold's in a key space of its own. `normalized_hash` is the SHA-256 (hex) of the redacted
    content. Times are aware and in UTC; `observed_at` says when the fact was true and is no part of
    identity; `taint` says whether the text came from outside.
    """

    id: str
    namespace: str
    kind: str
    key: str
    minted: bool
    type: str
    title: str
    content: str
    metadata: dict[str, Any]
    tags: tuple[str, ...]
    session_id: str | None
    revision_count: int
    normalized_hash: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    pinned: bool
    taint: Taint
    observed_at: datetime | None

    @property
    def user_id(self) -> str:
        """The namespace, in the words of the agent-facing calls."""
        return self.namespace

    @property
    def topic_key(self) -> str | None:
        """The caller's key of an observation; None for unkeyed ones and for other kinds."""
        return self.key if self.kind == OBSERVATION and not self.minted else None

    def to_dict(self) -> dict[str, Any]:
        """The record's public form, in the words of the agent-facing calls."""
        return {
            "id": self.id,
            "user_id": self.namespace,
            "kind": self.kind,
            "topic_key": self.topic_key,
            "type": self.type,
            "title": self.title,
            "content": self.content,
            "metadata": plain(self.metadata),
            "tags": list(self.tags),
            "session_id": self.session_id,
            "revision_count": self.revision_count,
            "normalized_hash": self.normalized_hash,
            "created_at": to_text(self.created_at),
            "updated_at": to_text(self.updated_at),
            "expires_at": plain(self.expires_at),
            "pinned": self.pinned,
            "taint": self.taint,
            "observed_at": plain(self.observed_at),
        }


Record = Observation  # the storage contract's word


@quick
@dataclass(frozen=True, slots=True)
class Revision(Model):
    """One state of a record, past or current. `written_at` is when that state was written."""

    revision: int
    content: str
    title: str
    type: str
    metadata: dict[str, Any]
    tags: tuple[str, ...]
    session_id: str | None
    written_at: datetime
    is_current: bool
    normalized_hash: str
    pinned: bool = False
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Entry(Observation):
    """One place in a timeline: a record, or an earlier revision of the anchor's topic (`is_past`).

    A past entry is the record as it was: its title, content, type and revision, with `updated_at` saying
    when that state was written. `is_anchor` marks the current state of the record asked about.
    """

    is_past: bool = False
    is_anchor: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The record's form, with the two marks."""
        # a slotted dataclass is a new class, which the zero-argument super() would not find
        return {**Record.to_dict(self), "is_past": self.is_past, "is_anchor": self.is_anchor}


@quick
@dataclass(frozen=True, slots=True)
class SaveResult(Model):
    """What a write did. (The storage contract calls it a receipt: `Receipt`.)

    `replayed` is true when nothing was written because it was already there. `similar_keys` names
    existing keys that differ from a new one only in case, spaces, `-` or `_`.
    """

    id: str
    topic_key: str | None
    outcome: Outcome
    revision_count: int
    replayed: bool
    session_id: str | None
    normalized_hash: str
    similar_keys: tuple[str, ...] = ()


Receipt = SaveResult  # the storage contract's word


@dataclass(frozen=True, slots=True)
class DeleteResult(Model):
    """What a forget did: how many records went (or would go, with `dry_run`), and whether their bytes did too.

    `erased` is True when no file of the store holds the forgotten texts any more, False on a dry run or
    when nothing was forgotten, else a word on what erasure waits for.
    """

    deleted: int
    ids: tuple[str, ...] = ()
    erased: bool | str = False
    dry_run: bool = False
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Hit(Model):
    """One search result: a preview. `score` lies in [0, 1]; `explain` holds its parts when asked for."""

    id: str
    type: str
    title: str
    topic_key: str | None
    snippet: str
    score: float
    updated_at: datetime
    user_id: str
    kind: str
    explain: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Items(Sequence[T], Generic[T]):
    """A read-only sequence that also says how many there are in all and whether this is all of them."""

    items: tuple[T, ...]
    total: int
    truncated: bool

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.items[index]

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def to_dict(self) -> dict[str, Any]:
        """`items`, `total` and `truncated`, and whatever else the page carries."""
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}


@dataclass(frozen=True, slots=True)
class SearchResults(Items[Hit]):
    """Hits, best first."""


@dataclass(frozen=True, slots=True)
class RecordPage(Items[Record]):
    """A page of records. `next_cursor` is None on the last one."""

    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Topic(Model):
    """One keyed observation, by name."""

    key: str
    title: str
    type: str
    revision_count: int
    updated_at: datetime
    id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class History(Items[Revision]):
    """The revisions of one record, newest first. `gaps` lists revision numbers that are no longer kept."""

    id: str | None = None
    topic_key: str | None = None
    gaps: tuple[tuple[int, int], ...] = ()

    def diff(self, old: int | None = None, new: int | None = None) -> str:
        """A readable diff between two kept revisions (default: the last two). InvalidRequest for
        one that is not kept."""
        from keyfold.text.diff import diff_lines

        for number in (old, new):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
                raise InvalidRequest("revision", f"must be a whole number, not {type(number).__name__}")
        kept = {revision.revision: revision for revision in self.items}
        numbers = sorted(kept)
        new = numbers[-1] if new is None and numbers else new
        earlier = [number for number in numbers if new is not None and number < new]
        old = earlier[-1] if old is None and earlier else old
        if new is None or old is None or new not in kept or old not in kept:
            kept_ones = ", ".join(map(str, numbers)) or "none"
            raise InvalidRequest("revision", f"two kept revisions are needed for a diff; kept: {kept_ones}")
        return diff_lines(kept[old].content, kept[new].content, f"revision {old}", f"revision {new}")


@dataclass(frozen=True, slots=True)
class Session(Model):
    """A stretch of work of one user. `summary` is the last one given, or rendered from what the session holds."""

    id: str
    user_id: str
    started_at: datetime
    last_activity_at: datetime
    ended_at: datetime | None
    summary: str | None
    status: Literal["active", "completed"]
    is_auto_generated: bool


class ContextText(str):
    """Memories rendered for a prompt. `truncated` says that more would have come but for the budget."""

    __slots__ = ("truncated",)
    truncated: bool

    def __new__(cls, text: str, *, truncated: bool) -> Self:
        self = super().__new__(cls, text)
        self.truncated = truncated
        return self


@dataclass(frozen=True, slots=True)
class SessionStart(Model):
    """What an agent gets on starting work: its session, past summaries (newest first), what matters most."""

    session_id: str
    is_new: bool
    summaries: tuple[Session, ...]
    context: ContextText
    session: Session
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Citation(Model):
    """A memory that an answer rests on. `is_current` is false when it was rewritten since."""

    id: str
    user_id: str
    topic_key: str | None
    type: str
    title: str
    snippet: str
    revision: int
    is_current: bool
    score: float

    @classmethod
    def of(cls, record: Record, snippet: str, score: float, *, current: bool) -> Self:
        """The citation of a record as it was when the answer was made."""
        return cls(
            record.id,
            record.namespace,
            record.topic_key,
            record.type,
            record.title,
            snippet,
            record.revision_count,
            current,
            score,
        )


@dataclass(frozen=True, slots=True)
class Answer(Model):
    """An engine's own answer to a question, and the memories that it rests on, most important first."""

    text: str
    citations: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Suggestion(Model):
    """A topic key to use: an existing one that is near (`exists`), or a new one by convention."""

    key: str
    exists: bool
    title: str | None = None
    score: float = 0.0
