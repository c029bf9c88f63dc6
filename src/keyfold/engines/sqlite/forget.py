"""Forgetting: logical in one transaction, then physical by a named step.

Deleted rows leave their bytes in free pages, page gaps, old index segments and the write-ahead log. Merging
the index into one segment, VACUUM and truncating the log, in this order, leave none (decision 0007).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import apsw

from keyfold.clock import to_micros
from keyfold.contract.filters import matches
from keyfold.contract.intents import Ref, Selector
from keyfold.engines.sqlite.connect import BUSY, MEMORY
from keyfold.engines.sqlite.narrow import Narrowing, places
from keyfold.engines.sqlite.rows import (
    EXPIRES,
    FOREVER,
    RECORD,
    SESSION_SPACE,
    SLOT,
    Rows,
    id_number,
    is_session,
    namespace_slots,
    record_of,
    space_of,
)
from keyfold.engines.sqlite.write import FORGETS, remove
from keyfold.errors import InvalidRequest, KeyfoldError
from keyfold.model import READABLE_KINDS, SESSION

INLINE: Final = 64 << 20  # bytes: up to here a forget erases before it answers
PATIENCE: Final = 500  # milliseconds to wait for readers and writers before erasure is put off

TOO_LARGE: Final = "waiting: the store is larger than 64 MiB; erased on close or by keyfold doctor --erase"
READER: Final = "waiting: a reader holds the store open"
WRITER: Final = "waiting: another process is writing"
FULL: Final = "waiting: the disk is full, and the store is rewritten to erase; erased on close or by keyfold doctor --erase"
GONE: Final = "waiting: the store was closed, moved or replaced meanwhile"
FAILED: Final = "waiting: the store could not be rewritten; erased on close or by keyfold doctor --erase"

_ROW: Final = f"SELECT {RECORD}, r.slot FROM records r WHERE "
_PENDING: Final = (
    "SELECT (SELECT value FROM meta WHERE name = 'forgets'), (SELECT value FROM meta WHERE name = 'erased')"
)

_SESSIONS: Final = f"ns = ?1 AND space >= {SESSION_SPACE}"
_STRIP: Final = (
    "UPDATE {} SET metadata = json_remove(metadata, '$.summary_of') "
    "WHERE instr(metadata, '\"summary_of\":[[') AND json_valid(metadata)"
)

Gone = list[tuple[int, int]]  # (slot, id)


class Chosen(NamedTuple):
    """What goes: live records, expired ones (which count as absent, but their bytes go too), whole namespaces.

    `ids` are those that the answer names: with everything, sessions go along unnamed.
    """

    live: Gone
    dead: Gone
    numbers: list[int]
    ids: tuple[str, ...]


def select(conn: apsw.Connection, selector: Selector, now: Any) -> Chosen:
    """What a selector names."""
    micros = to_micros(now)
    given = (selector.ref is not None, selector.where is not None, selector.everything)
    if sum(given) != 1:
        raise InvalidRequest(
            "selector", "say what to forget in exactly one way: a record, a filter or everything"
        )
    live: Gone = []
    dead: Gone = []
    numbers: list[int] = []
    unnamed: set[int] = set()
    ref = selector.ref
    named = ref.namespace if ref is not None else selector.namespace
    for name, num, *_ in places(conn, named, "exact" if ref is not None else selector.reach):
        if selector.everything:
            numbers.append(num)
            rows: Any = conn.execute(f"{_ROW} r.slot BETWEEN ? AND ?", namespace_slots(num))
        elif ref is not None:
            rows = _named(conn, ref, num)
        else:
            rows = _filtered(conn, selector, num)
        for row in rows:
            if selector.where is not None and not matches(record_of(row, name), selector.where):
                continue
            expires: int | None = row[EXPIRES]
            gone = live if expires is None or expires > micros else dead
            gone.append((row[SLOT], row[0]))
            if selector.everything and is_session(row):
                unnamed.add(row[0])
    live.sort(key=lambda pair: pair[1])
    return Chosen(live, dead, numbers, tuple(str(number) for _, number in live if number not in unnamed))


def _named(conn: apsw.Connection, ref: Ref, num: int) -> list[Any]:
    if ref.id is not None:
        found = conn.execute(f"{_ROW} r.id = ? AND r.ns = ?", (id_number(ref.id), num)).fetchall()
        return [row for row in found if ref.kind == SESSION or not is_session(row)]
    address = (num, space_of(ref.kind, ref.minted), ref.key)
    return conn.execute(f"{_ROW} r.ns = ? AND r.space = ? AND r.key = ?", address).fetchall()


def _filtered(conn: apsw.Connection, selector: Selector, num: int) -> apsw.Cursor:
    assert selector.where is not None, "a selector names one of a record, a filter or everything"
    narrowing = Narrowing(READABLE_KINDS, selector.where, -FOREVER)
    return conn.execute(f"{_ROW} r.ns = ? AND {narrowing.sql}", (num, *narrowing.values))


def forgotten(conn: apsw.Connection, gone: Gone) -> None:
    """Remove records, and from their users' sessions the addresses that early versions of Keyfold wrote there."""
    remove(conn, gone)
    for num in {slot >> 32 for slot, _ in gone}:
        conn.execute(f"{_STRIP.format('records')} AND {_SESSIONS}", (num,))
        within = f"slot IN (SELECT slot FROM records WHERE {_SESSIONS})"
        conn.execute(f"{_STRIP.format('revisions')} AND {within}", (num,))


def remove_namespaces(conn: apsw.Connection, numbers: list[int]) -> None:
    """Remove what is left of namespaces whose records are gone: name, statistics, keys. No number comes again."""
    for num in numbers:
        conn.execute("DELETE FROM idempotency WHERE ns = ?", (num,))
        conn.execute("DELETE FROM namespaces WHERE num = ?", (num,))
    if numbers:
        conn.execute(FORGETS)


def pending(conn: apsw.Connection) -> bool:
    """Whether bytes of removed records may still be in the store's files. TypeError where the counters are damaged."""
    forgets, erased = _counters(conn)
    return bool(forgets > erased)


def _counters(conn: apsw.Connection) -> tuple[Any, Any]:
    rows: Rows = conn.execute(_PENDING).fetchall()
    forgets, erased = rows[0]
    return forgets, erased


def why_not(error: Exception) -> str:
    """What an erasure waits for that failed."""
    match error:
        case apsw.FullError():
            return FULL
        case apsw.BusyError() | apsw.LockedError():
            return WRITER
        case KeyfoldError():
            return GONE
        case _:
            return FAILED


def size(path: str) -> int:
    """The size of the store's file."""
    return Path(path).stat().st_size


def _held_back(conn: apsw.Connection) -> bool:
    """Whether a reader keeps the log from being emptied, after some patience.

    VACUUM would put the whole store into the log then, again with every forget, and erase nothing. The log is
    emptied as far as it goes, over and over, because waiting within one checkpoint would keep all writers out.
    """
    give_up = time.monotonic() + PATIENCE / 1000
    while True:
        busy, logged, moved = conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()[0]
        if not busy and logged == moved:  # busy: another connection is at it
            return False
        if time.monotonic() >= give_up:
            return True
        time.sleep(0.01)


def erase(conn: apsw.Connection, path: str) -> bool | str:
    """Take the bytes of removed records out of every file of the store: True, or what that waits for."""
    if path == MEMORY:
        return True
    forgets, erased = _counters(conn)
    if not (isinstance(forgets, int) and isinstance(erased, int)):  # damaged: bytes may wait
        forgets, erased = 1, 0
    if forgets <= erased:
        return True
    conn.set_busy_timeout(PATIENCE)
    large = size(path) > INLINE
    try:
        if large:  # more than memory should hold; the file that VACUUM works in then has no name
            conn.execute("PRAGMA temp_store = FILE")
        if _held_back(conn):
            return READER
        conn.execute("INSERT INTO words (words) VALUES ('optimize')")
        conn.execute("VACUUM")
        busy, _, _ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
        if busy:
            return READER
        # Forgets that came meanwhile stay pending: the count is set to what it was before the rewrite.
        conn.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'erased'", (forgets,))
    except (apsw.BusyError, apsw.LockedError):
        return WRITER
    finally:
        if large:
            conn.execute("PRAGMA temp_store = MEMORY")
        conn.set_busy_timeout(BUSY)
    return True
