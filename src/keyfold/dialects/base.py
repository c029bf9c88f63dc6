"""What a dialect offers: rows on shelves. `keyed` makes the storage contract of it, the same for every service.

A shelf is where a service keeps one namespace's memories, or its sessions. A row is one thing that a service
lists there: a record as it was written once, under an id of the service's own. Several rows may hold states of
one record (a race, a rewrite under way); which one counts is decided in one place, `newest_first`.

Only `rows`, `insert`, `remove`, `shelves` and `probe` must be written; a dialect without a keyed read of its own
is served from its listing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from keyfold.contract.intents import Capabilities, Idempotency
from keyfold.dialects.names import SESSIONS_TAG, TAG, tagged
from keyfold.dialects.payload import Payload
from keyfold.flow import Plan
from keyfold.model import SESSION, TURN, Record


class Shelf(NamedTuple):
    """One namespace's memories, or with `sessions` its sessions."""

    namespace: str
    sessions: bool = False

    @property
    def wire_name(self) -> str:
        """What it is called on services that take any name."""
        return tagged(self.namespace, SESSIONS_TAG if self.sessions else TAG)

    def holds(self, record: Record) -> bool:
        """Whether a record belongs here; what a service returns is asked this before it is believed."""
        return record.namespace == self.namespace and (record.kind == SESSION) == self.sessions


@dataclass(frozen=True, slots=True)
class Row:
    """A state of a record as a service holds it. `born` orders rows of one revision: the service's creation time.

    On services that hold a long text in pieces, `parts` are the ids of all of them, and `missing` says which are
    lost: then the content is not whole, and is never shown.
    """

    remote: str
    payload: Payload
    born: str = ""
    home: str = ""  # where the service holds it, if that is not the shelf's own name (a dataset's id)
    earlier: tuple[Row, ...] = ()  # states of it that the service keeps, newest first, where they came along
    bare: bool = False  # its content was not read: `Dialect.texts` reads it
    parts: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    proof: str = ""  # what a content that is read later is held against (a sum), where the service gives any
    lifted: bool = False  # its revision is another than is written there: see `in_order`

    @property
    def record(self) -> Record:
        return self.payload.record


Wanted = Callable[[Record], bool]  # whether a search is after a record
RowT = TypeVar("RowT", bound=Row)


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that the service found for some words, and how good it says the match is, in [0, 1].

    `excerpt`: the row's content is only the part that matched.
    """

    row: Row
    score: float
    excerpt: bool = False


@dataclass(frozen=True, slots=True)
class Searched:
    """What a service found, best first.

    `more`: as much came as was asked for, or as there was room for, so there may be more. `came`: how much it was, all
    that does not count included. `listed`: the listing was looked through too, so reading it again would find no more.
    """

    hits: Sequence[Hit]
    more: bool = False
    came: int = 0
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look-up by digest returned. `sure`: nothing else can be at that address, whatever it returned."""

    rows: tuple[Row, ...]
    sure: bool = True
    strayed: bool = False  # others came along that the dialect left out: what was asked for may be anywhere
    others: tuple[Row, ...] = ()  # of other addresses, found by a caller's idempotency key


Replays = (
    Collection[str] | None
)  # the digests of what a service said that it had already; None when it does not say


@dataclass(frozen=True, slots=True)
class Recalled:
    """A service's answer to a question, and the rows that it cites, each with how much it weighed, in [0, 1]."""

    text: str
    cited: tuple[tuple[Row, float], ...]


class Dialect(Protocol):
    """A service's wire. Every method is a plan; none keeps a socket, a thread or a clock."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def bares(self) -> bool:
        """Whether a content costs a request of its own. Then look-ups, and listings without texts, mark the rows
        whose content they did not read as bare; else every row comes with its content."""
        ...

    @property
    def erases(self) -> bool | str:
        """Whether a removed row is gone for good: True, or what the service keeps of it."""
        ...

    @property
    def appends(self) -> bool:
        """Whether it is a log: an older state stays, as a row of its own, when a newer one is written."""
        ...

    @property
    def finds_calls(self) -> bool:
        """Whether `lookup_called` is offered."""
        ...

    @property
    def bare_turns(self) -> bool:
        """Whether a logged turn is written as the caller passed it and no more, so that a repeat has equal bytes."""
        ...

    @property
    def appends_blindly(self) -> bool:
        """Whether a logged turn is safe to send without a look-up: the service itself knows a repeat."""
        ...

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        """The rows of one address. May return others', which are then ignored and looked for in the listing."""
        ...

    def lookup_every(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        """The same, with every row of that address, where `lookup` may leave out older ones: for forgetting."""
        ...

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:
        """Every row of a shelf, or an error: never a part of them. Without `texts` contents may be empty."""
        ...

    def texts(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[list[Row]]:
        """The rows with their contents. Those that are gone, or are another's by now, are left out."""
        ...

    def lookup_called(self, shelf: Shelf, digest: str, call: Idempotency) -> Plan[Looked]:
        """As `lookup`, and in the same request what other records a caller's idempotency key wrote."""
        ...

    def lookup_many(self, shelf: Shelf, digests: Sequence[str]) -> Plan[list[Row] | None]:
        """All rows at many addresses in a few requests; None where that is not offered, or others' came along."""
        ...

    def check(self, shelf: Shelf, payload: Payload) -> None:
        """Raise InvalidRequest when a row cannot be held there."""
        ...

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[Replays]:
        """Add rows, in order."""
        ...

    def append(self, shelf: Shelf, payload: Payload) -> Plan[bool]:
        """Add a logged turn, of which nothing was looked up; whether the service had it already."""
        ...

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[Replays]:
        """Put a new state in the place of the rows that hold a record (newest first): one row is left, but on a log."""
        ...

    def mend(self, shelf: Shelf, row: Row, payload: Payload) -> Plan[None]:
        """Write those pieces of a row that are lost; the payload is the row's, whole."""
        ...

    def erase(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        """Remove a shelf with all it holds, which are these rows."""
        ...

    def recall(self, shelves: Sequence[Shelf], question: str) -> Plan[Recalled]:
        """Answer a question from what the shelves hold."""
        ...

    def grow(self, shelf: Shelf, rows: Sequence[Row], payloads: Sequence[Payload]) -> Plan[Replays]:
        """As `rewrite`, with the states that an import brings along, oldest first; `rows` is empty for a new record.

        Only where there is a history are any but the last of them kept.
        """
        ...

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        """Remove rows. One that is gone already is no error."""
        ...

    @property
    def most_hits(self) -> int:
        """How many hits a search may be asked for at most."""
        ...

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:
        """The service's own search. What is not `wanted` is left out by whoever asks, and need not be looked up."""
        ...

    def shelves(self) -> Plan[list[Shelf]]:
        """Every shelf that holds anything of ours."""
        ...

    def shelves_within(self, namespace: str) -> Plan[list[Shelf]]:
        """At least those of the shelves that are this namespace's or lie below it."""
        ...

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        """Every row of every shelf, with its earlier states where there is a history: what an export reads."""
        ...

    def total(self, shelf: Shelf) -> Plan[tuple[int, list[Row] | None]]:
        """How many rows a shelf holds, and the rows where they came along."""
        ...

    def versions(self, shelf: Shelf, digest: str) -> Plan[list[Row]]:
        """The earlier states of a record that the service keeps itself, newest first."""
        ...

    def probe(self) -> Plan[dict[str, Any]]:
        """Whether the service answers, and to us: a few facts, or the error."""
        ...


class BaseDialect:
    """What a dialect need not write itself. See Dialect."""

    capabilities = Capabilities(
        "remote",
        history=False,
        transactions=False,
        dedup_window=False,
        keyed_reads=False,
        session_activity=False,
        delete_idempotency=False,
        word_search=False,
        similar_keys=False,
        fresh_ids=False,
        names_expire=False,
    )
    erases: bool | str = True
    bares = False
    appends: bool = False
    finds_calls: bool = False
    bare_turns: bool = False
    appends_blindly: bool = False
    most_hits: int = 1000

    # NotImplementedError stands where every dialect writes the plan itself (rows, insert, remove, shelves, probe), and
    # where it is asked for only of one that says so: by the flags above, or by its capabilities (search, answers).

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        rows = yield from self.rows(shelf)
        return Looked(tuple(row for row in rows if row.payload.digest == digest))

    def lookup_every(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        return self.lookup(shelf, digest)

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:
        raise NotImplementedError

    def texts(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[list[Row]]:  # noqa: ARG002  # they have them
        yield from ()
        return list(rows)

    def check(self, shelf: Shelf, payload: Payload) -> None:
        """Most services hold whatever a record may be."""

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[Replays]:
        raise NotImplementedError

    def append(self, shelf: Shelf, payload: Payload) -> Plan[bool]:
        raise NotImplementedError

    def mend(self, shelf: Shelf, row: Row, payload: Payload) -> Plan[None]:
        raise NotImplementedError

    def recall(self, shelves: Sequence[Shelf], question: str) -> Plan[Recalled]:
        raise NotImplementedError

    def lookup_called(self, shelf: Shelf, digest: str, call: Idempotency) -> Plan[Looked]:
        raise NotImplementedError

    def lookup_many(self, shelf: Shelf, digests: Sequence[str]) -> Plan[list[Row] | None]:  # noqa: ARG002  # it cannot
        yield from ()
        return None

    def erase(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        if rows:
            yield from self.remove(shelf, rows)

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        raise NotImplementedError

    def shelves(self) -> Plan[list[Shelf]]:
        raise NotImplementedError

    def probe(self) -> Plan[dict[str, Any]]:
        raise NotImplementedError

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:
        raise NotImplementedError

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[Replays]:
        # In this order there is never a moment without the record, and the newest wins meanwhile.
        replays = yield from self.insert(shelf, [payload])
        yield from self.remove(shelf, rows)
        return replays

    def shelves_within(self, namespace: str) -> Plan[list[Shelf]]:  # noqa: ARG002  # most list them all at once
        return self.shelves()

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        found: list[tuple[Shelf, Row]] = []
        for shelf in (yield from self.shelves()):
            found += [(shelf, row) for row in (yield from self.rows(shelf))]
        return found

    def grow(self, shelf: Shelf, rows: Sequence[Row], payloads: Sequence[Payload]) -> Plan[Replays]:
        if rows:
            return (yield from self.rewrite(shelf, rows, payloads[-1]))
        return (yield from self.insert(shelf, [payloads[-1]]))

    def total(self, shelf: Shelf) -> Plan[tuple[int, list[Row] | None]]:
        rows = yield from self.rows(shelf, texts=False)
        return len(rows), rows

    def versions(self, shelf: Shelf, digest: str) -> Plan[list[Row]]:  # noqa: ARG002  # it keeps none
        yield from ()
        return []


def newest_first(rows: Sequence[Row]) -> list[Row]:
    """Rows of one record, the one that counts first: highest revision, then youngest on the service, then by id.

    A service's time of update is often not the time of a modification, so it has no say. A logged turn never
    changes, so of two at one place the first counts.
    """
    found = sorted(rows, key=lambda row: (row.record.revision_count, row.born, row.remote), reverse=True)
    if len(found) > 1 and found[0].record.kind == TURN and found[0].record.revision_count == 1:
        return sorted(found, key=lambda row: (row.born, row.remote))
    return found


def in_order(rows: Iterable[RowT]) -> list[RowT]:
    """Rows whose revisions follow the order in which the service took them.

    A writer that was slow between its look and its write may have written a revision that others had passed
    meanwhile. It was acknowledged last, so it counts as the one after the highest before it.
    """
    highest: dict[str, int] = {}
    found: list[RowT] = []
    for row in sorted(rows, key=lambda row: (row.born, row.record.revision_count, row.remote)):
        record, before = row.record, highest.get(row.payload.digest, 0)
        if record.revision_count < before:
            payload = replace(row.payload, record=replace(record, revision_count=before + 1))
            found.append(replace(row, payload=payload, lifted=True))
        else:
            found.append(row)
        highest[row.payload.digest] = found[-1].record.revision_count
    return found


def under(row: Row, **changes: Any) -> Row:
    """A row with some of its fields changed."""
    return replace(row, **changes)
