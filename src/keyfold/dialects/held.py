"""Which row holds a record: resolve, verify, fall back. The rule that no other record is ever surfaced is here."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keyfold.contract.intents import Idempotency, Ref
from keyfold.dialects.base import Dialect, Row, Shelf, newest_first
from keyfold.dialects.names import digest_of, is_digest
from keyfold.errors import StoreError
from keyfold.flow import Plan
from keyfold.model import SESSION, Record
from keyfold.text.counted import counted

LOOKS: Final = 5  # at something that is rewritten while it is read

log = logging.getLogger("keyfold")


def expired(record: Record, now: datetime) -> bool:
    """Whether a record's time is over; it counts as absent from that very moment on."""
    return record.expires_at is not None and record.expires_at <= now


@dataclass(frozen=True, slots=True)
class Held:
    """The rows of one address, the one that counts first; and rows of others that the same call wrote."""

    rows: tuple[Row, ...] = ()
    others: tuple[Row, ...] = ()

    def row(self, now: datetime) -> Row | None:
        """The row that counts: the newest, unless it has expired.

        An older state that was left over does not come back then; a record made at that address since does.
        """
        if not self.rows:
            return None
        first, *rest = self.rows
        over = first.record.expires_at
        if over is None or over > now:
            return first
        return Held(tuple(row for row in rest if row.record.created_at >= over)).row(now)


def address(ref: Ref) -> tuple[Shelf, str] | None:
    """Where a reference points: a shelf and a digest. None when its id is none of ours."""
    shelf = Shelf(ref.namespace, ref.kind == SESSION)
    if ref.id is None:
        return shelf, digest_of(ref.namespace, ref.key or "", ref.kind, minted=ref.minted)
    return (shelf, ref.id) if is_digest(ref.id) else None


def held_at(
    dialect: Dialect, shelf: Shelf, digest: str, *, every: bool = False, call: Idempotency | None = None
) -> Plan[Held]:
    """What is held at an address.

    Whatever the service returns is compared with what was asked. When it returned something else (it ignored
    the filter, a remembered id now names another), the shelf's listing decides. `every`: older rows too, which do not count
    but would, were the newer ones removed.
    """
    if call is not None and dialect.finds_calls:
        looked = yield from dialect.lookup_called(shelf, digest, call)
    else:
        looked = yield from (dialect.lookup_every if every else dialect.lookup)(shelf, digest)
    fit = [row for row in looked.rows if fits(row, shelf, digest)]
    strayed = looked.strayed or len(fit) < len(looked.rows)
    if strayed:
        log.warning(
            "the %s service returned other records than it was asked for", dialect.capabilities.engine
        )
    if strayed or not (fit or looked.sure):
        rows = yield from dialect.rows(shelf)
        fit = [row for row in rows if fits(row, shelf, digest)]
    if len(fit) > 1 and not dialect.appends:
        log.warning(
            "%d rows hold record %s; the newest counts, and the next write removes the rest", len(fit), digest
        )
    return Held(tuple(newest_first(fit)), tuple(row for row in looked.others if shelf.holds(row.record)))


def whole(row: Row, shelf: Shelf) -> Record:
    """A row's record. StoreError when the service lost a piece of it: what is left is not shown for the whole."""
    if row.missing:
        lost = ", ".join(str(number + 1) for number in row.missing[:10])
        raise StoreError(
            f"{row.record.kind} {row.record.key!r:.200} of namespace {shelf.namespace!r:.200} is incomplete: the "
            f"service has lost piece {lost} of it; save it again, which writes what is missing, or forget it"
        )
    return row.record


def current(dialect: Dialect, shelf: Shelf, digest: str, now: datetime) -> Plan[Row | None]:
    """The row that counts at an address, with its content. When it goes between the two, it is looked for again."""
    for _ in range(LOOKS):
        row = (yield from held_at(dialect, shelf, digest)).row(now)
        if row is None or not row.bare:
            return row
        for read in (yield from dialect.texts(shelf, [row])):
            return read
    raise moving(shelf)


def moving(shelf: Shelf) -> StoreError:
    """The error of a read that could not keep up with the writes."""
    return StoreError(
        f"namespace {shelf.namespace!r:.200} changed each of the {LOOKS} times that it was read: "
        "read it again when fewer write to it"
    )


def fits(row: Row, shelf: Shelf, digest: str) -> bool:
    """Whether a row is the record at an address, by what is written in it."""
    return row.payload.digest == digest and shelf.holds(row.record)


def grouped(rows: Iterable[Row], shelf: Shelf) -> dict[str, Held]:
    """The rows of a listing by digest; those of other shelves are left out."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if shelf.holds(row.record):
            found.setdefault(row.payload.digest, []).append(row)
    return {digest: Held(tuple(newest_first(same))) for digest, same in found.items()}


def of_this_user(rows: Sequence[Row], shelf: Shelf) -> Sequence[Row]:
    """A listing, if it can be the one that was asked for.

    Others' rows beside this user's are left out by whoever reads them (a service that ignores a filter hides nothing).
    Others' alone mean that the service answered for somebody else: StoreError, for that this user has nothing is not
    what it said.
    """
    if rows and all(row.record.namespace != shelf.namespace for row in rows):
        raise StoreError(
            f"the service was asked for namespace {shelf.namespace!r:.200} and listed {counted(len(rows), 'memory', 'memories')} of other "
            "users, and none of its own: it ignored the filter, or took one user for another, so it cannot be told "
            "what this one has; nothing of theirs is shown or changed"
        )
    return rows


def living(rows: Sequence[Row], shelf: Shelf, now: datetime) -> list[Record]:
    """The records of a listing: one each, what has expired left out."""
    return [row.record for row in living_rows(rows, shelf, now)]


def living_rows(rows: Sequence[Row], shelf: Shelf, now: datetime) -> list[Row]:
    """The rows of a listing that count: one a record, what has expired left out."""
    counting = (held.row(now) for held in grouped(rows, shelf).values())
    return [row for row in counting if row is not None]
