"""Reading a store that this process may not write: nothing is made, locked for writing or changed beside it.

SQLite reads a store in write-ahead mode through two files beside it, and makes them if it may. Which of three ways
of reading is right follows from which of the two are there (decision 0019):

- both: somebody has the store open, or was killed. An ordinary connection that may only read; locks hold. It is
  opened under a lock that keeps both there: else it makes them when the last writer takes them away meanwhile, and
  they are this process's then, and no writer's any more.
- a log alone: a copy of a store that was not closed. What it commits is read, with SQLite's index of the log in
  this process's memory.
- neither, or an empty log: a store that was closed. The file is read as one that does not change.

The last two hold no lock. So what they read counts only if the files were the same before and after: a writer
with more rights than ours may come at any time, and then it is read again, in the way that is right by then.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

import keyfold.engines.sqlite.connect as connect
import keyfold.engines.sqlite.forks as forks
import keyfold.engines.sqlite.schema as schema
from keyfold.engines.sqlite.pool import CLOSED, Pool
from keyfold.errors import KeyfoldError, StoreError, Unavailable

SHARED: Final = "shared"
ALONE: Final = "alone"
STILL: Final = "still"
TRIES: Final = 10  # of a read that a writer disturbs; a store that somebody keeps open is read under locks
# What SQLite says of a log or an index of it that a writer takes away, or has not finished making.
PASSING: Final = (apsw.ReadOnlyError, apsw.CantOpenError)

# How the store is read, and what is compared before and after.
Look = tuple[Any, ...]


def look(path: str) -> Look:
    """How a store can be read now, with what tells that it was changed. `path` leads through no link."""
    if (_facts(f"{path}-journal") or (0, 0, 0))[2]:
        raise StoreError(
            f"a change of {connect.shown(path)} was cut short, or goes on ({Path(path).name}-journal), and it cannot "
            "be written here: try again, or open it once where it can be written"
        )
    file, log, shared = _facts(path), _facts(f"{path}-wal"), _facts(f"{path}-shm")
    if log is not None and shared is not None:
        return SHARED, (file or ())[:2], log[:2], shared[:2]
    if log is not None and log[2]:
        return ALONE, file, log
    return STILL, file


def _facts(path: str) -> tuple[int, ...] | None:
    """What tells a file and a state of it: device, number, size, time. (Opening it as root changes its other time.)"""
    try:
        found = os.stat(path)  # noqa: PTH116  # several for each read: a Path would take longer than the look
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _NoNewFiles(apsw.VFS):
    """One of SQLite's ways to the files, but for those that are not there: they are not made."""

    def __init__(self, name: str, base: str) -> None:
        self._base = base
        super().__init__(name, base)

    def xOpen(  # noqa: N802  # as SQLite calls it
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> apsw.VFSFile:
        """A file that is there."""
        flags[0] &= ~apsw.SQLITE_OPEN_CREATE
        return apsw.VFSFile(self._base, name, flags)


_TAKES_A_LOCK: Final = (
    "PRAGMA user_version"  # as every read; in write-ahead mode it is held until the closing
)
_WITH_LOCKS: Final = _NoNewFiles("keyfold-reads", "")
_WITHOUT: Final = _NoNewFiles("keyfold-reads-alone", "unix-none") if "unix-none" in apsw.vfs_names() else None


def open_in(manner: str, path: str) -> apsw.Connection:
    """A connection that reads in one of the ways above. It makes no file and leaves those that are there."""
    if manner == SHARED:
        with _kept(path):
            return _tuned(apsw.Connection(path, apsw.SQLITE_OPEN_READONLY), _TAKES_A_LOCK)
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    uri = Path(path).as_uri()
    if manner == STILL:
        return _tuned(apsw.Connection(f"{uri}?mode=ro&immutable=1", flags))
    # the index of the log is kept in memory; without locks nobody is kept out
    conn = apsw.Connection(f"{uri}?mode=ro", flags, vfs="keyfold-reads-alone")
    return _tuned(conn, "PRAGMA locking_mode = EXCLUSIVE")


@contextmanager
def _kept(path: str) -> Iterator[None]:
    """While the log and the index of it stay. CantOpenError when they are gone already.

    Whoever removes them locks the store's file against all readers first. (A connection through Python is slow:
    this one only reads what locks the file. The URI's word is for the index, which no VFS is asked to open.)
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    uri = f"{Path(path).as_uri()}?mode=ro&readonly_shm=1"
    with closing(_tuned(apsw.Connection(uri, flags, vfs="keyfold-reads"), _TAKES_A_LOCK)):
        yield


def _tuned(conn: apsw.Connection, *more: str) -> apsw.Connection:
    try:
        conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        conn.set_busy_timeout(connect.BUSY)
        for statement in ("PRAGMA temp_store = MEMORY", *more):
            conn.execute(statement).fetchall()
    except BaseException:
        conn.close()
        raise
    return conn


def pause(turn: int) -> None:
    """Give a writer the time to come or go."""
    time.sleep(0.002 * turn)


def check(conn: apsw.Connection, name: str) -> None:
    """StoreError unless there is a store in the file that can be read without being taken forward."""
    if not schema.stands(conn, name):
        raise StoreError(f"{name} is empty and read-only: there is no store in it")
    version = schema.number(conn, "user_version")
    if version < schema.VERSION:
        raise StoreError(
            f"{name} is read-only, and of an earlier version of Keyfold (schema {version}; this one reads "
            f"{schema.VERSION}): open it once where it can be written, which takes it forward. Nothing was changed"
        )


def may_read(path: str) -> bool:
    """Whether this process may read the file and what lies beside it."""
    by_whom = os.access in os.supports_effective_ids
    places = [Path(f"{path}{side}") for side in ("", "-wal", "-shm")]
    return all(
        os.access(place, os.R_OK, effective_ids=by_whom) or not os.path.lexists(place) for place in places
    )


def _unreadable(name: str) -> StoreError:
    return StoreError(
        f"{name} is read-only, and this process may not read it whole: let it read the file and, where they lie beside "
        f"it, {Path(name).name}-wal and -shm"
    )


class Watched:
    """Connections to a store that cannot be written, in the way that is right for its files as they are."""

    def __init__(self, path: str, name: str, equip: Callable[[apsw.Connection], object]) -> None:
        self._path = os.path.realpath(path)  # SQLite puts its files beside what a link leads to
        self._name = name
        self._equip = equip
        self._lock = threading.Lock()
        self._quiet: list[bool] = []
        self._look: Look = ()
        self._pool = Pool(self._new)
        self._closed = False

    def _new(self) -> apsw.Connection:
        conn = open_in(self._look[0], self._path)
        try:
            check(conn, self._name)
            self._equip(conn)
        except BaseException:
            conn.close()
            raise
        return conn

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What work returns of a connection, and of one state of the files. Unavailable when they never rest."""
        for turn in range(1, TRIES + 1):
            before = look(self._path)
            pool = self._pool_for(before)
            try:
                result = pool.run(work, *arguments)
            except (*connect.FAULTS, KeyfoldError) as error:
                if before[0] == SHARED and isinstance(error, PASSING) and may_read(self._path):
                    # a writer that goes and comes leaves an equal look: the system gives a number again at once
                    pause(turn)
                # of files that changed under it, a read may say anything
                elif pool is self._pool and look(self._path) == before:
                    if isinstance(error, apsw.CantOpenError):
                        raise _unreadable(self._name) from None
                    raise
            else:
                if look(self._path) == before:
                    return result
        raise Unavailable(
            f"{connect.shown(self._name)} is changed all the time by another process: try again"
        )

    def _pool_for(self, seen: Look) -> Pool:
        with self._lock:
            if self._closed:
                raise Unavailable(CLOSED)
            if seen != self._look:
                self._pool.close()  # first: closing a connection without locks drops those of the process
                self._look, self._pool = seen, Pool(self._new)
            return self._pool

    def close(self) -> None:
        """Lend no more."""
        with self._lock:
            self._closed = True
            self._pool.close()

    def handles(self) -> list[apsw.Connection]:
        """All connections, in use or not."""
        return self._pool.handles()

    def hold(self, until: float) -> None:
        """Let no read begin, and wait until none is at work or the time has come."""
        forks.take(self._lock, until, self._quiet)
        self._pool.hold(until)

    def release(self) -> None:
        """Let reads begin again."""
        self._pool.release()
        forks.give_back(self._lock, self._quiet)
