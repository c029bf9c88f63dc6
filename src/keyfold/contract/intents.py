"""What the calls of the storage contract carry: a reference, an intent to write, a query, a selector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from keyfold.clock import to_micros
from keyfold.contract.filters import EVERYTHING, Filter
from keyfold.errors import InvalidRequest
from keyfold.frozen import quick
from keyfold.model import KINDS, OBSERVATION, READABLE_KINDS, UNSET, Reach, Record, Revision, Taint, Unset

Mode = Literal["upsert", "append", "update", "load"]
Wait = Literal["accepted", "listed", "settled"]
IDEMPOTENCY_LIFE: Final = timedelta(hours=24)  # then the same key is a call of its own


@quick
@dataclass(frozen=True, slots=True)
class Ref:
    """Names one record of a namespace: by kind, key and key space, or by id.

    An id names a record of any kind but a session, which is found by id only when `kind` says so: whoever
    mistypes the id of a memory must not hit a session. The same holds of an Intent with an id.
    """

    namespace: str
    id: str | None = None
    key: str | None = None
    kind: str = OBSERVATION
    minted: bool = False

    def describe(self) -> str:
        """The record in the words of an error message."""
        if self.id is not None:
            hint = " (a topic key goes by topic_key)" if "/" in self.id else ""
            return f"record {self.id!r:.200}{hint}"
        return f"{self.kind} with key {self.key!r:.200}"


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's idempotency key: the operation it belongs to and digests of the key and of the body."""

    operation: str
    key: bytes
    body: bytes


@quick
@dataclass(frozen=True, slots=True)
class SessionUse:
    """Which session a write belongs to, and what to do with it if (and only if) something is written.

    `explicit`: the caller named it; it is touched, or opened when absent. Otherwise it must be active and
    touched since `alive_since`, or the engine raises SessionLapsed and nothing is written; with `opens` it
    is a new one, to be inserted. With both, the user had none: when another process opened one meanwhile,
    the engine raises SessionLapsed too, so that the two join in one.
    """

    id: str
    explicit: bool = False
    opens: bool = False
    alive_since: datetime | None = None


class SessionLapsed(Exception):
    """An implicit session is no longer active, or no longer the user's only one: the caller resolves one again. Never reaches the user."""


@quick
@dataclass(frozen=True, slots=True)
class Load:
    """An import: the times and earlier states that the record brings along. `past` is oldest first.

    `current`: the source says what holds now, however it is dated, and this is when it last changed. Where that
    is not what is held it becomes the next revision: if its date is not later than the held one's, then with
    this one or just behind the held one's. Such a source knows nothing of pins and expiry: they stay.
    `mark`, of such a source alone: up to 64 bytes that stand for what it said. See `Marked`.
    """

    created_at: datetime
    updated_at: datetime
    past: tuple[Revision, ...] = ()
    revision: int = 1
    current: datetime | None = None
    mark: bytes | None = None


@quick
@dataclass(frozen=True, slots=True)
class Intent:
    """One write, as the engine gets it: already validated, redacted and hashed.

    mode `upsert` saves (keyed, or unkeyed when `key` is None or `minted`); `append` writes what may never
    change (the same again is a replay, another text is Conflict); `update` patches an existing record (by
    `id` or key) and merges metadata; `load` imports. Fields left UNSET keep what the record has.
    `expires_in`: `expires_at` is this span from now, so a retry of the same save gives another instant; where what is
    held ends within the dedup window of it, they are the same. `expect_type`: the record must be of this type now, else NotFound. `new_title`: the title of a new record
    where `title` is UNSET. `keeps`: metadata keys that a rewrite keeps unless `metadata` has them (None: all).

    For services where what was accepted cannot be read at once, `wait` says when the call returns: at once, when
    it is listed, or when it is found too. `derive`: whether the service may draw facts from it; None is its habit.
    """

    namespace: str
    kind: str = OBSERVATION
    mode: Mode = "upsert"
    key: str | None = None
    minted: bool = False
    id: str | None = None
    type: str | Unset = UNSET
    title: str | Unset = UNSET
    content: str | Unset = UNSET
    normalized_hash: str | None = None
    metadata: dict[str, Any] | Unset | None = UNSET
    tags: tuple[str, ...] | Unset | None = UNSET
    pinned: bool | Unset | None = UNSET
    expires_at: datetime | Unset | None = UNSET
    observed_at: datetime | None = None
    taint: Taint = "internal"
    session: SessionUse | None = None
    dedup_window: float | None = 60.0
    dedup_on: Literal["material", "content"] = "material"
    expect_revision: int | None = None
    expect_type: str | None = None
    idempotency: Idempotency | None = None
    load: Load | None = None
    new_title: str | None = None
    keeps: tuple[str, ...] | None = ()
    wait: Wait = "listed"
    derive: bool | None = None
    expires_in: timedelta | None = None

    def describe(self) -> str:
        """The record in the words of an error message."""
        return Ref(self.namespace, self.id, self.key, self.kind).describe()


Order = Literal["newest", "oldest", "key"]


@dataclass(frozen=True, slots=True)
class Query:
    """A listing. `position` is where the last page ended (see `position_of`), exclusive."""

    namespace: str
    reach: Reach = "exact"
    kinds: tuple[str, ...] = READABLE_KINDS
    where: Filter = EVERYTHING
    order: Order = "newest"
    keyed_only: bool = False
    position: str | None = None
    limit: int = 50
    want_total: bool = True
    texts: bool = True  # False: whoever asks does not look at contents, so an engine may leave them out


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search for words. `text` has at least one character that is not white space."""

    namespace: str
    text: str
    reach: Reach = "exact"
    kinds: tuple[str, ...] = READABLE_KINDS
    where: Filter = EVERYTHING
    limit: int = 10
    explain: bool = False
    enough: int | None = None  # matches that will do, where more would cost another request; None: `limit`


@dataclass(frozen=True, slots=True)
class Found:
    """One match of a search: the record, its score in [0, 1] and, when explained, the parts of it.

    `excerpt`: its content is only the piece that a service found.
    """

    record: Record
    score: float
    parts: Mapping[str, float] | None = None
    excerpt: bool = False


@dataclass(frozen=True, slots=True)
class FoundPage:
    """The best matches and how many there were in all; with `more`, how many were seen, and there may be others."""

    items: tuple[Found, ...]
    total: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A page of records; `position` is where the next one starts, None when this was the last."""

    items: tuple[Record, ...]
    total: int
    position: str | None


@dataclass(frozen=True, slots=True)
class Selector:
    """What to forget: one record by `ref`, those a filter matches, or with `everything` all of the namespace.

    Exactly one of the three is given. `everything` takes sessions, statistics and the name itself along.
    """

    namespace: str
    ref: Ref | None = None
    where: Filter | None = None
    everything: bool = False
    reach: Reach = "exact"
    dry_run: bool = False
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True)
class Past:
    """A record's states, newest first (the current one included); `complete` is false where some are gone."""

    record: Record | None
    revisions: tuple[Revision, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a namespace holds, in one look. Expired records are not counted.

    A service that tells a number and no more leaves the rest None (`partial`); then expired ones may be among them.
    """

    total: int
    by_kind: dict[str, int]
    by_type: dict[str, int]
    keyed: int | None
    pinned: int | None
    revisions: int | None
    oldest: datetime | None
    newest: datetime | None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Health:
    """Whether an engine can serve, and a few facts (never secrets)."""

    ok: bool
    engine: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can and cannot do; asked before a call, so that nothing is dropped in silence."""

    engine: str
    history: bool = True
    transactions: bool = True
    expect_revision: bool = True
    idempotency: bool = True
    dedup_window: bool = True  # False: unkeyed duplicates are found whatever their age
    search: bool = True
    erasure: bool = True
    reach: bool = True
    load: bool = True
    answers: bool = False  # whether mem_recall is served
    derives: bool = False  # whether a save may say if facts are drawn from it
    keyed_reads: bool = True  # False: a record is found by reading its namespace's listing
    session_activity: bool = True  # False: a save neither opens nor touches a session, it only names it
    delete_idempotency: bool = True  # False: a forget takes no idempotency key
    word_search: bool = True  # False: what matches, and how well, is for the service to say
    similar_keys: bool = True  # False: a new key is not compared with those that are there
    fresh_ids: bool = True  # False: an id stands for an address, and comes again when that is saved to again
    names_expire: bool = True  # False: a namespace is named as long as anything lies there, expired or not


def position_of(record: Record, order: Order) -> str:
    """The place of a record in a listing, as text: what a cursor wraps and a timeline starts from."""
    if order == "key":
        return key_position(record.namespace, record.kind, record.key, minted=record.minted)
    return f"{to_micros(record.updated_at)}.{record.id}"


def key_position(namespace: str, kind: str, key: str, *, minted: bool = False) -> str:
    """The place of an address in a listing by key, whether or not there is a record at it."""
    return json.dumps([namespace, KINDS.index(kind), int(minted), key])


def read_position(position: str, order: Order) -> tuple[Any, ...]:
    """The sort key behind a position: (namespace, kind number, minted, key), or (microseconds, id)."""
    try:
        if order == "key":
            namespace, kind, minted, key = json.loads(position)
            return str(namespace), _number(kind), _number(minted), str(key)
        micros, _, identity = position.partition(".")
        return _number(micros), identity
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise InvalidRequest("cursor", "it is not one that a listing of this order gave") from None


def _number(value: Any) -> int:
    """A whole number of at most 64 bits, which is what stores hold."""
    number = int(value)
    if number.bit_length() > 63:
        raise OverflowError
    return number
