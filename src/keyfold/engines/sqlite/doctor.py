"""Looking a store over: what is in it, what is wrong with it, and what can be done about that.

Looking changes nothing: it works on a connection of its own that may not write, in one read transaction, so
that all checks see one state while others go on writing. It opens the file without the engine, because a
file that the engine refuses (a damaged one, above all) is what it is for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw

import keyfold.engines.sqlite.doctor_checks as checks
import keyfold.engines.sqlite.doctor_pages as pages
import keyfold.engines.sqlite.doctor_texts as texts
import keyfold.engines.sqlite.forget as forget
import keyfold.engines.sqlite.readonly as readonly
import keyfold.engines.sqlite.schema as schema
from keyfold.clock import Clock, system_clock, to_micros
from keyfold.engines.sqlite.connect import BUSY, absolute, translated, unwritable
from keyfold.engines.sqlite.findings import Finding, Look, fault, note
from keyfold.engines.sqlite.rows import SESSION_SPACE, Rows
from keyfold.errors import NotFound, StoreError, Unavailable
from keyfold.model import Model

SHOWN: Final = 20  # lines of SQLite's own
LOG_LIMIT: Final = 64 << 20  # bytes of write-ahead log, above which it is worth a word


@dataclass(frozen=True, slots=True)
class Diagnosis(Model):
    """What was found. `facts` are sizes and versions; a store without faults is healthy, whatever the notes say."""

    facts: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not any(finding.fault for finding in self.findings)


def examine(path: str, *, quick: bool = False, clock: Clock = system_clock) -> Diagnosis:
    """Look a store's file over. `quick` reads a sample of the texts, and SQLite's quick_check for integrity_check.

    NotFound when there is no file, StoreError for one that is none of ours or of a newer version.
    """
    _check_file(path)
    why = unwritable(path)
    if not why:
        return _examined(path, opened, quick, clock)
    file = os.path.realpath(absolute(path))
    seen: list[readonly.Look] = []
    found = _examined(path, lambda _: _sealed(seen, file, path), quick, clock)
    if readonly.look(file) != seen[-1]:
        raise Unavailable(f"{path:.300} was changed by another process while it was looked over: try again")
    return Diagnosis(found.facts, (*found.findings, note("file", f"it is read-only: {why}")))


def _examined(path: str, open_it: Callable[[str], apsw.Connection], quick: bool, clock: Clock) -> Diagnosis:
    try:
        conn = open_it(path)
    except apsw.NotADBError:
        return Diagnosis(
            {"bytes": _size(path)},
            (fault("file", "it is no SQLite database any more, or it is encrypted: restore a backup"),),
        )
    except apsw.CorruptError:
        return Diagnosis({"bytes": _size(path)}, (fault("file", "it cannot be read: restore a backup"),))
    except apsw.Error as error:
        raise translated(error, path) from None
    try:
        look = Look(conn, quick, to_micros(clock()))
        facts = _facts(look, path)
        if facts["schema"] < schema.VERSION:
            older = f"its schema is {facts['schema']}: opening it brings it forward to {schema.VERSION}"
            return Diagnosis(facts, (note("file", older),))
        findings = [found for check in CHECKS for found in _attempt(check, look)]
        return Diagnosis(facts, (*findings, *_log(path)))
    finally:
        conn.close()


def opened(path: str) -> apsw.Connection:
    """A connection to look with. It makes no file, and leaves the log that is there as it is."""
    log = Path(f"{path}-wal")
    waiting = log.exists() and log.stat().st_size > 0
    conn = apsw.Connection(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        # An empty log is not left behind: where there was none, the last to close takes its own away.
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(waiting))
        conn.set_busy_timeout(BUSY)
        _begin(conn, path)
    except BaseException:
        conn.close()
        raise
    return conn


def _sealed(seen: list[readonly.Look], file: str, path: str) -> apsw.Connection:
    """The same of a store that cannot be written. What it looked like then is added to what was seen."""
    for turn in range(1, readonly.TRIES + 1):
        seen.append(readonly.look(file))
        try:
            conn = readonly.open_in(seen[-1][0], file)
            try:
                _begin(conn, path)
            except BaseException:
                conn.close()
                raise
            return conn
        except readonly.PASSING:
            if turn == readonly.TRIES or not readonly.may_read(file):
                raise
            readonly.pause(turn)
    raise AssertionError  # the last turn returns or raises


def _check_file(path: str) -> None:
    absolute(path)  # which refuses a name that SQLite cannot be given
    place = Path(path)
    if not place.exists():
        raise NotFound(f"there is no store at {path!r:.300}")
    if not place.is_file():
        raise StoreError(f"{path:.300} is no file: give the path of a store")


def _begin(conn: apsw.Connection, path: str) -> None:
    if not schema.stands(conn, path):
        raise StoreError(f"{path:.300} is empty: there is no store in it")
    texts.prepare(conn)
    conn.execute("PRAGMA query_only = 1")
    conn.execute("BEGIN")


def _attempt(check: Callable[[Look], Iterator[Finding]], look: Look) -> Iterator[Finding]:
    """A check's findings; where the file is too damaged for it, that."""
    try:
        yield from check(look)
    except (apsw.Error, ValueError, TypeError, OverflowError) as error:  # or a value is not what it must be
        area = check.__name__.removeprefix("check_")
        yield fault(area, f"this could not be looked at: the file is damaged there ({type(error).__name__})")


def _size(path: str) -> int:
    return Path(path).stat().st_size


def _facts(look: Look, path: str) -> dict[str, Any]:
    log = Path(f"{path}-wal")
    facts: dict[str, Any] = {
        "schema": schema.number(look.conn, "user_version"),
        "sqlite": apsw.sqlite_lib_version(),
        "bytes": _size(path),
        "log_bytes": log.stat().st_size if log.exists() else 0,
    }
    for name, sql in _COUNTED.items():
        try:
            rows: Rows = look.conn.execute(sql).fetchall()
            facts[name] = rows[0][0]
        except apsw.Error:
            facts[name] = None
    return facts


def _log(path: str) -> Iterator[Finding]:
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > LOG_LIMIT:
        yield note(
            "file",
            f"its write-ahead log holds {size >> 20} MiB: a reader keeps it from being emptied, or a writer was "
            "killed; it shrinks when the last program closes the store",
        )


def check_file(look: Look) -> Iterator[Finding]:
    """SQLite's own look at pages, tables, indexes and the structure of the word index."""
    lines, whole = pages.verdict(look.conn, quick=look.quick)
    for line in [line for line in lines if not pages.names_page(line)][:SHOWN]:
        remedy = "reindex" if "index" in line.lower() and "words" not in line else ""
        if "fts5" in line:
            remedy = "words"
        yield fault("file", f"SQLite says: {line:.200}", remedy=remedy)
    hurt = pages.damaged(look.conn, lines, whole=whole)
    for name, kind in hurt.items():
        problem = f"a page of the {kind} {name} cannot be read"
        yield fault("file", problem, remedy=pages.remedy(name, kind))
    if not whole and not hurt:
        yield fault("file", "SQLite could not look at all of it: it is damaged")


def check_waiting(look: Look) -> Iterator[Finding]:
    """What is not wrong, but waits for somebody."""
    rows: Rows = look.conn.execute(
        "SELECT count(*) FROM records WHERE expires_at <= ?", (look.now,)
    ).fetchall()
    if rows[0][0]:
        yield note(
            "rows",
            f"{rows[0][0]:,} expired, no longer shown and still in the file: --purge removes them",
            count=rows[0][0],
        )
    if forget.pending(look.conn):
        yield note("file", "bytes of forgotten records wait to be erased: --erase does it")


_COUNTED: Final = {
    "users": "SELECT count(*) FROM namespaces",
    "records": f"SELECT count(*) FROM records WHERE space < {SESSION_SPACE}",
    "sessions": f"SELECT count(*) FROM records WHERE space >= {SESSION_SPACE}",
    "revisions": "SELECT count(*) FROM revisions",
    "waiting_for_index": f"SELECT (SELECT count(*) FROM unindexed) + (SELECT count(*) {checks.NEW})",
}

CHECKS: Final[tuple[Callable[[Look], Iterator[Finding]], ...]] = (
    check_file,
    checks.check_tables,
    checks.check_rows,
    checks.check_history,
    checks.check_counters,
    checks.check_keys,
    checks.check_marks,
    checks.check_notes,
    checks.check_index,
    texts.check_texts,
    check_waiting,
)
