"""The rows behind events of CortexDB, and a memory that forgets what is oldest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from keyfold.dialects.base import Hit, Row, Wanted, in_order, newest_first
from keyfold.dialects.cortexdb_envelope import Piece, assembled, piece_of
from keyfold.dialects.payload import Payload, read

T = TypeVar("T")
K = TypeVar("K")

REMEMBERED: Final = 1_024
PASSED: Final = "passed"  # the proof of a row that does not bear the revision it was written with


def earlier(row: Row, payload: Payload) -> bool:
    """Whether a row is an earlier state of the life of a record that a payload goes on with."""
    held, new = row.record, payload.record
    return held.revision_count < new.revision_count and held.created_at == new.created_at


def damaged(rows: Sequence[Row]) -> bool:
    """Whether a record's newest state lacks a piece."""
    newest: dict[str, Row] = {}
    for row in rows:
        known = newest.get(row.payload.digest)
        if known is None or known.record.revision_count < row.record.revision_count:
            newest[row.payload.digest] = row
    return any(row.missing for row in newest.values())


def events_of(items: Sequence[dict[str, Any]]) -> set[str]:
    """The ids of listed events that say anything."""
    return {piece.event for piece in map(piece_of, items) if piece is not None}


Ranks = dict[str, tuple[int, set[str]]]  # by digest: the place of its best event, and all of its events


def ranked(items: Sequence[dict[str, Any]], wanted: Wanted) -> Ranks:
    """The records that found events, best first, may be of."""
    ranks: Ranks = {}
    pieces = [piece for piece in map(piece_of, items) if piece is not None]
    for rank, piece in enumerate(piece for piece in pieces if _may_count(piece, wanted)):
        ranks.setdefault(piece.digest, (rank, set()))[1].add(piece.event)
    return ranks


def hits_of(ranks: Ranks, rows: Sequence[Row]) -> list[Hit]:
    """Those of the found that are of what a record says now."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        held.setdefault(row.payload.digest, []).append(row)
    hits: list[Hit] = []
    for digest, (rank, events) in ranks.items():
        current = next(iter(newest_first(held.get(digest, []))), None)
        if current is not None and not current.missing and events & set(current.parts):
            hits.append(Hit(current, 1 / (1 + rank)))
    return hits


def _may_count(piece: Piece, wanted: Wanted) -> bool:
    """Whether a piece may be of a record that is wanted: what it says of it is so, if it is of the present state."""
    payload = read(piece.header, "")
    return payload is None or piece.header != piece.mark or wanted(payload.record)


def rows_of(items: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows behind a listing, newest first: the pieces of each state put together, foreign events left out."""
    states: dict[tuple[str, str, int], list[tuple[int, Piece]]] = {}
    for place, item in enumerate(items):
        piece = piece_of(item)
        if piece is not None:
            states.setdefault(piece.state, []).append((place, piece))
    rows: list[Row] = []
    for found in states.values():
        whole = assembled([piece for _, piece in found])
        if whole is None:
            continue
        payload, missing = whole
        born = f"{len(items) - found[-1][0]:09}"  # the listing's own order: recorded times may be equal
        ids = tuple(piece.event for _, piece in found)
        rows.append(Row(ids[0], payload, born, parts=ids, missing=missing))
    return rows


def as_taken(rows: Sequence[Row]) -> list[Row]:
    """The rows of a listing, newest first, whose revisions follow the order in which the service took them.

    A logged turn has no say here: of two at one place the first counts.
    """
    written = {row.remote: row for row in rows}
    turns = [row for row in rows if row.payload.bare]
    others = in_order(row for row in rows if not row.payload.bare)
    told = [row if row is written[row.remote] else replace(row, proof=PASSED) for row in others]
    return sorted([*turns, *told], key=lambda row: row.born, reverse=True)


def remember(memory: OrderedDict[K, T], key: K, value: T, most: int = REMEMBERED) -> None:
    """Put into a memory that forgets what is oldest. Several threads may: whoever comes second finds nothing to drop."""
    memory[key] = value
    with suppress(KeyError, RuntimeError):
        while len(memory) > most:
            memory.popitem(last=False)
