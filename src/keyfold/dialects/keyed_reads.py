"""Reading through a dialect: get, page, search, count, namespaces and history, the same for every service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keyfold.clock import to_micros
from keyfold.contract.decide import revision_of
from keyfold.contract.filters import matches
from keyfold.contract.intents import (
    Counts,
    Health,
    Order,
    Page,
    Past,
    Query,
    Ref,
    position_of,
    read_position,
)
from keyfold.contract.reach import above, within
from keyfold.dialects.base import Dialect, Row, Shelf
from keyfold.dialects.held import (
    LOOKS,
    Held,
    address,
    current,
    grouped,
    living,
    living_rows,
    moving,
    of_this_user,
    whole,
)
from keyfold.dialects.names import is_digest
from keyfold.errors import InvalidRequest
from keyfold.flow import Plan
from keyfold.model import KINDS, READABLE_KINDS, SESSION, Answer, Citation, Reach, Record, Revision
from keyfold.text.check import clean
from keyfold.text.snippet import snippet


def get(dialect: Dialect, ref: Ref, now: datetime) -> Plan[Record | None]:
    """One record. An id names a record of any kind but a session."""
    where = address(ref)
    if where is None:
        return None
    row = yield from current(dialect, *where, now)
    return whole(row, where[0]) if row is not None else None


def shelves_of(dialect: Dialect, namespace: str, reach: Reach, kinds: Sequence[str]) -> Plan[list[Shelf]]:
    """The shelves that a read looks at."""
    if reach == "subtree":
        every = yield from dialect.shelves_within(namespace)
        names = sorted({shelf.namespace for shelf in every if within(shelf.namespace, namespace, reach)})
    elif reach == "inherit":
        names = [*above(namespace), namespace]
    else:
        names = [namespace]
    sides = [False] * any(kind != SESSION for kind in kinds) + [True] * (SESSION in kinds)
    return [Shelf(name, sessions) for name in names for sessions in sides]


def page(dialect: Dialect, query: Query, now: datetime) -> Plan[Page]:
    """A page of a listing. The service has no order of ours, so what is within reach is read whole."""
    shelves = yield from shelves_of(dialect, query.namespace, query.reach, query.kinds)
    for _ in range(LOOKS):
        found: list[tuple[Row, Shelf]] = []
        for shelf in shelves:
            listed = yield from dialect.rows(shelf, texts=query.texts and not dialect.bares)
            rows = of_this_user(listed, shelf)
            found += [(row, shelf) for row in living_rows(rows, shelf, now) if _wanted(row.record, query)]
        found.sort(key=lambda item: _place(item[0].record, query.order), reverse=query.order == "newest")
        rest = found
        if query.position is not None:
            start = _read_place(query.position, query.order)
            rest = [item for item in found if _after(_place(item[0].record, query.order), start, query.order)]
        chosen = rest[: query.limit]
        items = (
            (yield from _with_texts(dialect, chosen)) if query.texts else [row.record for row, _ in chosen]
        )
        if items is not None:
            more = len(rest) > len(items) > 0
            return Page(tuple(items), len(found), position_of(items[-1], query.order) if more else None)
    raise moving(shelves[0])


def _with_texts(dialect: Dialect, chosen: Sequence[tuple[Row, Shelf]]) -> Plan[list[Record] | None]:
    """The records with the contents that a listing left out; None when one is gone meanwhile (or has moved)."""
    read: dict[str, Row] = {}
    for shelf in dict.fromkeys(shelf for row, shelf in chosen if row.bare):
        bare = [row for row, home in chosen if row.bare and home == shelf]
        read.update((row.remote, row) for row in (yield from dialect.texts(shelf, bare)))
    rows = [read.get(row.remote) if row.bare else row for row, _ in chosen]
    if None in rows:
        return None
    return [whole(row, shelf) for row, (_, shelf) in zip(rows, chosen, strict=True) if row is not None]


def _wanted(record: Record, query: Query) -> bool:
    keyed = record.topic_key is not None or not query.keyed_only
    return keyed and record.kind in query.kinds and matches(record, query.where)


def _place(record: Record, order: Order) -> tuple[Any, ...]:
    """Where a record stands in an order, as `read_position` gives it."""
    if order == "key":
        return record.namespace, KINDS.index(record.kind), int(record.minted), record.key
    return to_micros(record.updated_at), record.id


def _read_place(position: str, order: Order) -> tuple[Any, ...]:
    place = read_position(position, order)
    if order != "key" and not is_digest(place[1]):
        raise InvalidRequest("cursor", "it is not one that a listing of this order gave")
    return place


def _after(place: tuple[Any, ...], start: tuple[Any, ...], order: Order) -> bool:
    return place < start if order == "newest" else place > start


def count(dialect: Dialect, namespace: str, reach: Reach, now: datetime) -> Plan[Counts]:
    """How much there is, in as few requests as the service allows."""
    shelves = yield from shelves_of(dialect, namespace, reach, READABLE_KINDS)
    number, records, partial = 0, [], False
    for shelf in shelves:
        told, rows = yield from dialect.total(shelf)
        if rows is None:
            number, partial = number + told, True
        else:
            alive = living(of_this_user(rows, shelf), shelf, now)
            number += len(alive)
            records += alive
    if partial:
        return Counts(number, {}, {}, None, None, None, None, None, partial=True)
    return Counts(
        total=number,
        by_kind=dict(Counter(record.kind for record in records)),
        by_type=dict(Counter(record.type for record in records)),
        keyed=sum(record.topic_key is not None for record in records),
        pinned=sum(record.pinned for record in records),
        revisions=sum(r.revision_count for r in records) if dialect.capabilities.history else len(records),
        oldest=min((record.created_at for record in records), default=None),
        newest=max((record.updated_at for record in records), default=None),
    )


def everything(dialect: Dialect, now: datetime, keep: int | None = None) -> Plan[list[Past]]:
    """All records of all namespaces, sessions too, with their states, in the order of an export.

    It is one reading of the whole service.
    """
    shelves: dict[Shelf, list[Row]] = {}
    for shelf, row in (yield from dialect.everything()):
        shelves.setdefault(shelf, []).append(row)
    pasts: list[tuple[Record, Past]] = []
    for shelf, rows in shelves.items():
        counting = (held.row(now) for held in grouped(of_this_user(rows, shelf), shelf).values())
        pasts += [(whole(row, shelf), _past(row, row.earlier, keep)) for row in counting if row is not None]
    return [past for _, past in sorted(pasts, key=lambda found: _place(found[0], "key"))]


def namespaces(dialect: Dialect, prefix: str) -> Plan[list[str]]:
    """The names that hold anything."""
    shelves = yield from (dialect.shelves_within(prefix) if prefix else dialect.shelves())
    names = {shelf.namespace for shelf in shelves}
    return sorted(name for name in names if not prefix or within(name, prefix, "subtree"))


def history(dialect: Dialect, ref: Ref, now: datetime, keep: int | None = None) -> Plan[Past]:
    """The states of a record: its present one, and what the service keeps of the earlier ones; the newest `keep`."""
    where = address(ref)
    if where is None:
        return Past(None, ())
    row = yield from current(dialect, *where, now)
    if row is None:
        return Past(None, ())
    kept = (yield from dialect.versions(*where)) if dialect.capabilities.history else ()
    whole(row, where[0])
    return _past(row, kept, keep)


def _past(row: Row, earlier: Sequence[Row], keep: int | None) -> Past:
    """A record with its states; of two that bear one revision the first of `earlier` counts."""
    states = {row.record.revision_count: revision_of(row.record)}
    for version in earlier:
        known = version.record.revision_count
        fresh = known < row.record.revision_count and known not in states
        if fresh and not version.missing and _same(version, row):
            states[known] = revision_of(version.record, is_current=False)
    ordered: tuple[Revision, ...] = tuple(states[number] for number in sorted(states, reverse=True)[:keep])
    return Past(row.record, ordered)


def _same(version: Row, row: Row) -> bool:
    """Whether a row is a state of the same record, not of one that was forgotten and saved anew."""
    return (
        version.payload.digest == row.payload.digest
        and version.record.namespace == row.record.namespace
        and version.record.created_at == row.record.created_at
    )


def recall(dialect: Dialect, namespace: str, question: str, reach: Reach, now: datetime) -> Plan[Answer]:
    """The service's own answer to a question. Of what it cites, states that no longer count are marked."""
    shelves = yield from shelves_of(dialect, namespace, reach, READABLE_KINDS)
    told = yield from dialect.recall(shelves, question)
    held: dict[str, Held] = {}
    for shelf in shelves:
        digests = list(dict.fromkeys(row.payload.digest for row, _ in told.cited if shelf.holds(row.record)))
        rows = (yield from dialect.lookup_many(shelf, digests)) if digests else []
        held.update(grouped(rows if rows is not None else (yield from dialect.rows(shelf)), shelf))
    citations: list[Citation] = []
    for row, weight in told.cited:
        counts = held.get(row.payload.digest, Held()).row(now)
        if counts is not None:  # else it was forgotten or has expired meanwhile, or is another's
            record = row.record
            current = counts.record.revision_count == record.revision_count
            citations.append(Citation.of(record, snippet(record.content, question), weight, current=current))
    return Answer(clean(told.text), tuple(citations))


def health(dialect: Dialect) -> Plan[Health]:
    """Whether the service answers, and to us."""
    facts = yield from dialect.probe()
    facts = {name: clean(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
    return Health(True, dialect.capabilities.engine, facts)
