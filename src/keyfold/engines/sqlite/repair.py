"""Making again what can be made again: indexes, the word index, notes, counters; and removing what hangs on nothing.

All in one transaction. A step that the state of the file does not allow is undone by itself and told; the
others stand. (SQLite commits nothing after it met a page that cannot be read: then all is undone and done again
without that step.) Nothing that only the store knows is invented: a text that is gone, or a user's name, stays gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

import apsw

import keyfold.engines.sqlite.connect as connect
import keyfold.engines.sqlite.doctor_checks as checks
import keyfold.engines.sqlite.doctor_pages as pages
import keyfold.engines.sqlite.forget as forget
import keyfold.engines.sqlite.index as index
from keyfold.clock import Clock, system_clock, to_micros
from keyfold.engines.sqlite.rows import RECORD, SESSION_SPACE, Row, Rows, folded_hash, folded_of, record_of
from keyfold.engines.sqlite.write import FORGETS
from keyfold.model import Model
from keyfold.text.counted import counted

Told = list[str]
Hurt = dict[str, str]

_RAISE_REVISION: Final = (
    "UPDATE records SET revision = 1 + max(revision, 0, ifnull((SELECT max(v.revision) FROM revisions v "
    "WHERE v.slot = records.slot), 0)) WHERE revision < 1 OR revision <= "
    "ifnull((SELECT max(v.revision) FROM revisions v WHERE v.slot = records.slot), 0)"
)


class _Spoilt(Exception):
    """A step met a page that cannot be read, so that nothing of the transaction can be committed any more."""

    def __init__(self, step: str) -> None:
        self.step = step


def repair(conn: apsw.Connection, wanted: Collection[str], hurt: Hurt) -> tuple[Told, Told]:
    """Carry out the steps that findings asked for, in the caller's transaction: what was done, and what could not be.

    `hurt` are the tables and indexes with pages that cannot be read.
    """
    done: Told = []
    failed: Told = []
    for name, (step, what) in STEPS.items():
        if name not in wanted:
            continue
        conn.execute("SAVEPOINT step")
        try:
            said = list(step(conn, hurt))
        except apsw.CorruptError:
            raise _Spoilt(name) from None
        except connect.FAULTS as error:  # a value is not what it must be
            if not conn.in_transaction:
                raise
            conn.execute("ROLLBACK TO step")
            conn.execute("PRAGMA writable_schema = RESET")  # or what was taken out of it would stay unknown
            failed.append(_could_not(what, error))
        else:
            done += said
        conn.execute("RELEASE step")
    return done, failed


def _could_not(what: str, error: Exception) -> str:
    return f"{what} could not be repaired: the file is damaged ({type(error).__name__})"


def _all_that_can(conn: apsw.Connection, remedies: Collection[str], hurt: Hurt) -> tuple[Told, Told]:
    """Carry out as many of the steps as the file allows, in a transaction that is left open."""
    wanted = set(remedies)
    spoilt: Told = []
    while True:
        try:
            done, failed = repair(conn, wanted, hurt)
        except _Spoilt as fault:
            conn.execute("ROLLBACK")
            conn.execute("PRAGMA writable_schema = RESET")
            conn.execute("BEGIN IMMEDIATE")
            wanted.remove(fault.step)
            spoilt.append(_could_not(STEPS[fault.step][1], apsw.CorruptError()))
        else:
            return done, spoilt + failed


@dataclass(frozen=True, slots=True)
class Treatment(Model):
    """What was done to a store, what could not be, how many expired records went, and whether bytes are erased."""

    repaired: tuple[str, ...]
    failed: tuple[str, ...]
    purged: int | None
    erased: bool | str | None


def treat(
    path: str,
    *,
    remedies: Collection[str] = (),
    purges: bool = False,
    erases: bool = False,
    clock: Clock = system_clock,
) -> Treatment:
    """Repair, purge and erase, as asked. The file must be there. StoreError and Unavailable when nothing was done."""
    conn = connect.open_writer(path, "full")
    purged: int | None = None
    erased: bool | str | None = None
    done: Told = []
    failed: Told = []
    try:
        hurt = _hurt(path) if remedies else {}
        conn.execute("BEGIN IMMEDIATE")
        if remedies:
            done, failed = _all_that_can(conn, remedies, hurt)
        if purges:
            purged = purge(conn, to_micros(clock()))
        conn.execute("COMMIT")
        if erases or (done and _waits(conn)) or purged:
            erased = _erase(conn, path)
    except connect.FAULTS as error:
        raise connect.translated(error, path) from None
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        conn.close()
    return Treatment(tuple(done), tuple(failed), purged, erased)


def _hurt(path: str) -> Hurt:
    """What has pages that cannot be read. Looked for on a connection of its own, which may well meet them."""
    conn = connect.open_reader(path)
    try:
        lines, whole = pages.verdict(conn)
        return pages.damaged(conn, lines, whole=whole)
    finally:
        conn.close()


def _waits(conn: apsw.Connection) -> bool:
    """Whether bytes wait to be erased, as far as can be told."""
    try:
        return forget.pending(conn)
    except TypeError:
        return True


def _erase(conn: apsw.Connection, path: str) -> bool | str:
    """Erase; what was done before stands, whatever becomes of it."""
    try:
        return forget.erase(conn, path)
    except (*connect.FAULTS, OSError) as error:
        return forget.why_not(error)


def purge(conn: apsw.Connection, now: int) -> int:
    """Remove what expired, with all that hangs on it, in the caller's transaction: how many records."""
    rows: Rows = conn.execute("SELECT slot, id FROM records WHERE expires_at <= ?", (now,)).fetchall()
    forget.forgotten(conn, rows)
    return len(rows)


def _tables(conn: apsw.Connection, hurt: Hurt) -> Iterator[str]:
    held = checks.objects(conn)
    index_gone = False
    for name, (kind, sql) in checks.expected_objects().items():
        if name not in held and (kind == "index" or name.startswith(pages.REMADE)):
            conn.execute(sql)
            index_gone |= name.startswith(("unindexed", "words"))
            yield f"made the {kind} {name} again"
    if index_gone:
        yield from _words(conn, hurt)


def _pages(conn: apsw.Connection, hurt: Hurt) -> Iterator[str]:
    made = pages.make_again(
        conn, [name for name, kind in hurt.items() if pages.remedy(name, kind) == "pages"]
    )
    for name in made:
        yield f"made the {hurt[name]} {name} again"
    if "idempotency" in made:
        yield "the idempotency keys of the last 24 hours are gone: a call that is repeated may be carried out again"
    if "unindexed" in made:
        yield from _words(conn, hurt)
    conn.execute(FORGETS)  # the pages that cannot be read still hold what they held


def _reindex(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    conn.execute("REINDEX")
    yield "made all indexes again from their tables"


def _history(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    conn.execute(f"DELETE {checks.ORPHANED_STATES}")
    if conn.changes():
        yield f"removed {counted(conn.changes(), 'past state')} of records that are not there"
        conn.execute(FORGETS)
    conn.execute(_RAISE_REVISION)
    if conn.changes():
        yield f"put the revision number of {counted(conn.changes(), 'record')} above those of the past"


def _keys(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    conn.execute(f"DELETE {checks.ORPHANED_KEYS}")
    yield f"removed {counted(conn.changes(), 'idempotency key')} that belonged to nothing"


def _marks(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    conn.execute(f"DELETE {checks.ORPHANED_MARKS}")
    yield f"removed {counted(conn.changes(), 'mark')} of imports that belonged to nothing"
    conn.execute(FORGETS)


def _folded(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    rows: Rows = conn.execute(
        "SELECT r.slot, r.key, r.space, n.name, r.folded FROM records r JOIN namespaces n ON n.num = r.ns"
    ).fetchall()
    changed = [
        (right, slot)
        for slot, key, space, name, folded in rows
        if (right := folded_hash(name, folded_of(key)) if space == 0 else None) != folded
    ]
    conn.executemany("UPDATE records SET folded = ? WHERE slot = ?", changed)
    yield f"made {counted(len(changed), 'folded key')} again"


def _counters(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    for name, value in checks.lost_counters(conn):
        right = {"last_id": _last_id, "forgets": _one, "erased": _none}.get(name)
        number = right(conn) if right is not None else value
        conn.execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (name, number))
        yield f"set the counter {name} to {number:,}"
        if name == "last_id":
            yield "what it was is not known: an id of a record that was forgotten could be issued again"
    yield from _numbers(conn)


def _numbers(conn: apsw.Connection) -> Iterator[str]:
    """The counter of users' numbers, which SQLite keeps."""
    conn.execute(
        "UPDATE sqlite_sequence SET seq = (SELECT max(num) FROM namespaces) "
        "WHERE name = 'namespaces' AND seq < (SELECT max(num) FROM namespaces)"
    )
    changed = conn.changes()
    conn.execute(
        "INSERT INTO sqlite_sequence SELECT 'namespaces', max(num) FROM namespaces "
        "WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'namespaces') HAVING max(num) > 0"
    )
    if changed or conn.changes():
        yield "set the counter of users' numbers above those that are there"


def _last_id(conn: apsw.Connection) -> int:
    """The highest id that is known of: of records, and of those that receipts name."""
    rows: Rows = conn.execute("SELECT ifnull(max(id), 0) FROM records").fetchall()
    highest = int(rows[0][0])
    for (text,) in conn.execute("SELECT receipt FROM idempotency"):
        receipt = json.loads(text)
        named = [receipt.get("id"), *receipt.get("ids", ())]
        highest = max([highest, *(int(one) for one in named if str(one).isdecimal())])
    return highest


def _one(_: apsw.Connection) -> int:
    return 1  # with no erasure counted: bytes may wait


def _none(_: apsw.Connection) -> int:
    return 0


def _words(conn: apsw.Connection, hurt: Hurt) -> Iterator[str]:
    if any(name.startswith("words") for name in hurt):  # then it cannot even be emptied
        pages.make_again(conn, ["words"])
    conn.execute(f"DELETE {checks.ORPHANED_NOTES}")
    unreadable = [slot for slot in _slots(conn, f"space < {SESSION_SPACE}") if not _readable(conn, slot)]
    index.rebuild(conn, without=unreadable)
    conn.execute(FORGETS)  # the old index may have held words of what is not there
    rows: Rows = conn.execute("SELECT count(*) FROM words_docsize").fetchall()
    yield f"made the word index again from {counted(rows[0][0], 'record')}"
    if unreadable:
        yield f"left {counted(len(unreadable), 'record')} out of it that cannot be read"


def _notes(conn: apsw.Connection, _: Hurt) -> Iterator[str]:
    conn.execute(f"DELETE {checks.ORPHANED_NOTES}")
    yield f"removed {counted(conn.changes(), 'note')} of what is not there"


def _slots(conn: apsw.Connection, where: str) -> list[int]:
    rows: Rows = conn.execute(f"SELECT slot FROM records WHERE {where}").fetchall()
    return [slot for (slot,) in rows]


def _readable(conn: apsw.Connection, slot: int) -> bool:
    try:
        rows: list[Row] = conn.execute(f"SELECT {RECORD} FROM records r WHERE r.slot = ?", (slot,)).fetchall()
        index.text_of(record_of(rows[0], ""))
    except (ValueError, TypeError, OverflowError, IndexError, AttributeError):
        return False
    return True


# In the order in which they rely on one another: pages and tables first, the word index last.
STEPS: Final[dict[str, tuple[Callable[[apsw.Connection, Hurt], Iterator[str]], str]]] = {
    "pages": (_pages, "damaged pages of indexes"),
    "tables": (_tables, "missing tables and indexes"),
    "reindex": (_reindex, "indexes"),
    "history": (_history, "the history"),
    "keys": (_keys, "idempotency keys"),
    "marks": (_marks, "marks of imports"),
    "folded": (_folded, "folded keys"),
    "counters": (_counters, "counters"),
    "notes": (_notes, "notes of what is not indexed"),
    "words": (_words, "the word index"),
}
