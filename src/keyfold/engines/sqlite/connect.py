"""Opening the file, and what SQLite's errors mean to a user.

The file is never opened by anything but SQLite once it exists: closing any other handle on it would drop the
locks that this process holds on it (POSIX advisory locks; https://sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

import keyfold.engines.sqlite.schema as schema
from keyfold.errors import KeyfoldError, StoreError, Unavailable
from keyfold.text.sides import SIDES, side_of

BUSY: Final = 30_000  # milliseconds
MEMORY: Final = ":memory:"
# What reading a damaged file may raise: SQLite checks the form of a file, not what stands in it.
FAULTS: Final = (apsw.Error, ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
_FLAGS: Final = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
_SYNCHRONOUS: Final = {"full": 2, "process": 1}

# Held while a missing file is made and first opened, so that no handle of ours is closed on it meanwhile.
_making = threading.Lock()


class NotWritable(StoreError):
    """The store can be read at the most. Its message is what every write is answered with."""


def renew_lock() -> None:
    """A new lock in a forked child: the old one may have been held at the fork."""
    global _making
    _making = threading.Lock()


def translated(error: Exception, path: str, name: str | None = None) -> KeyfoldError:
    """The error of this library that stands for another's. It holds no SQL and no text.

    `name` is what to call the file; its path, where that is not said.
    """
    if isinstance(error, KeyfoldError):
        return error
    name = shown(path if name is None else name)
    if isinstance(error, apsw.Error):
        return _of_sqlite(error, path, name)
    # SQLite looks at the form of a file and not at the values in it: those are doubted where they are read.
    return StoreError(
        f"{name} holds what cannot be read ({type(error).__name__}), so it is damaged: "
        "run keyfold doctor, or restore a backup"
    )


def _of_sqlite(error: apsw.Error, path: str, name: str) -> KeyfoldError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Unavailable(f"{name} was locked by another process for too long: try again")
        case apsw.InterruptError():
            return Unavailable(f"the call on {name} was interrupted: try again")
        case apsw.ConnectionClosedError():
            return Unavailable(f"{name} is closed: open it again")
        case apsw.FullError():
            return StoreError(f"the disk that holds {name} is full: free some space. Nothing was changed")
        case apsw.NotADBError():
            return StoreError(
                f"{name} is not a SQLite database, or it is encrypted: choose another path. Nothing was changed"
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return StoreError(
                _locked_out(path)
                or f"{name} or its folder is read-only: make both writable or choose another path"
            )
        case apsw.CantOpenError():
            return StoreError(_locked_out(path) or _why_not(path))
        case apsw.CorruptError():
            return StoreError(f"{name} is damaged: run keyfold doctor, or restore a backup")
        case apsw.IOError():
            return StoreError(f"reading or writing {name} failed: check the disk and its mount")
        case apsw.SQLError():  # our statements are right: the tables are not those they were made for
            return StoreError(
                f"{name} has other tables than when it was opened. If a newer Keyfold took it forward meanwhile, restart "
                "this program with that; else run keyfold doctor. Nothing was changed"
            )
        case apsw.TooBigError():
            return StoreError(f"a text is larger than {name} can hold")
        case _:
            return StoreError(
                f"{name} could not carry out the call ({type(error).__name__}). Nothing was changed"
            )


def absolute(path: str) -> str:
    """A path that means the same file wherever the process goes. (Nothing else of it changes: `..` after a
    link is the system's to understand.)"""
    if path == MEMORY:
        return path
    try:
        whole = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118  # pathlib would take parts of it away
        whole.encode()
    except UnicodeEncodeError:
        raise StoreError(
            f"the path of the store, {shown(path)}, holds a byte that is no UTF-8: choose another path"
        ) from None
    except OSError as error:
        raise StoreError(
            f"the folder that {shown(path)} starts from cannot be told ({error.strerror}): give a full path"
        ) from None
    return whole


def identity(path: str) -> tuple[int, int] | None:
    """What tells a file from any other, whatever their names; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # on every write: a Path would take longer than the look
    except OSError:
        return None
    return found.st_dev, found.st_ino


def moved(name: str) -> StoreError:
    """The error when the path leads to another file than the one that is open."""
    return StoreError(
        f"{shown(name)} was moved, removed or replaced while it was open, so what is saved here would be lost: "
        "open it again"
    )


def open_writer(path: str, durability: str, name: str | None = None) -> apsw.Connection:
    """A connection that may write, to a store that is made when it is missing. StoreError says what is wrong.

    `name` is what to call the file in it.
    """
    name = shown(path if name is None else name)
    if path == MEMORY:
        conn = apsw.Connection(path)
        _tune(conn, durability)
        schema.create(conn, path)
        return conn
    try:
        with _making:
            _make(path, name)
            conn = apsw.Connection(path, _FLAGS)
        try:
            _take_up(conn, path, durability, name)
        except BaseException:
            conn.close()
            raise
    except (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError) as error:
        why = unwritable(path)
        raise (read_only(name, why) if why else translated(error, path, name)) from None
    except FAULTS as error:
        raise translated(error, path, name) from None
    return conn


def unwritable(path: str) -> str:
    """Why the file of a store, or the folder of its log, cannot be written; empty where the system sees no reason."""
    file = os.path.realpath(path)
    by_whom = os.access in os.supports_effective_ids
    for what, where in (("the file", file), ("the folder", str(Path(file).parent))):
        if Path(where).exists() and not os.access(where, os.W_OK, effective_ids=by_whom):
            with suppress(OSError, AttributeError):  # not every system has it
                if os.statvfs(where).f_flag & os.ST_RDONLY:
                    return "its file system is mounted read-only"
            return f"this process may not write {what}"
    return ""


def read_only(name: str, why: str) -> NotWritable:
    """The refusal of every write to a store that can only be read."""
    return NotWritable(
        f"{name} is read-only ({why}): make the file and its folder writable and open it again, or write to a "
        "copy (keyfold backup FILE). Nothing was changed"
    )


def open_reader(path: str) -> apsw.Connection:
    """A connection that can only read."""
    conn = apsw.Connection(path, apsw.SQLITE_OPEN_READWRITE)
    conn.set_busy_timeout(BUSY)
    conn.execute("PRAGMA query_only = 1")
    return conn


def _take_up(conn: apsw.Connection, path: str, durability: str, name: str) -> None:
    # What is not ours stays as it is, to the byte: no checkpoint of the log that it came with when we close it.
    conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(Path(f"{path}-wal").exists()))
    conn.set_busy_timeout(BUSY)
    if conn.readonly("main"):
        raise read_only(name, unwritable(path) or "the system does not let it be written")
    stands = _stands(conn, name)
    if not stands:
        conn.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")  # of a file without pages; no other takes it
    conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    _use_wal(conn)
    _tune(conn, durability)
    if not stands:
        schema.create(conn, name)
    elif schema.VERSION > 1:
        import keyfold.engines.sqlite.migrate as migrate  # here: an ordinary opening needs none of it

        migrate.forward(conn, path)


def _stands(conn: apsw.Connection, name: str) -> bool:
    with suppress(StoreError):
        return schema.stands(conn, name)
    # It reads one fact after another, and of a store that another process makes meanwhile it saw but some.
    # Before anything is refused, all are read of one state.
    conn.execute("BEGIN")
    try:
        return schema.stands(conn, name)
    finally:
        conn.execute("ROLLBACK")


def _tune(conn: apsw.Connection, durability: str) -> None:
    conn.set_busy_timeout(BUSY)
    conn.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    # What VACUUM and sorts put aside must not reach a temporary folder.
    conn.execute("PRAGMA temp_store = MEMORY")


def _use_wal(conn: apsw.Connection) -> None:
    """Switch to write-ahead logging. The switch of a new file ignores the busy time-out, so it is repeated."""
    deadline, pause = time.monotonic() + BUSY / 1000, 0.001
    while True:
        try:
            mode = conn.execute("PRAGMA journal_mode = WAL").fetchall()[0][0]
        except apsw.BusyError:
            mode = ""
        if mode == "wal":
            return
        if mode and mode != "delete":
            raise StoreError(f"this file system does not allow write-ahead logging (journal mode {mode})")
        if time.monotonic() > deadline:
            raise apsw.BusyError
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _make(path: str, name: str) -> None:
    """An empty file, if there is none, that only its owner can read; SQLite gives its side files the same mode."""
    if "\0" in path:
        raise StoreError("the path of the store holds a NUL character: choose another path")
    place = Path(os.path.realpath(path))  # SQLite makes the file that a link leads to, for all to read
    side = side_of(path) or side_of(place)
    if side:
        raise StoreError(
            f"{name} ends in {side}, or leads to a name that does, as files do that are kept beside a store "
            "and removed: choose another name (a store that is there already can be renamed)"
        )
    try:
        if place.is_dir():
            raise StoreError(f"{name} is a folder: give the path of a file in it")
        if not place.parent.is_dir():
            raise StoreError(f"the folder {shown(str(place.parent))} does not exist: create it first")
        if place.exists():
            if not place.is_file():
                raise StoreError(f"{name} is no ordinary file: choose another path")
            if place.stat().st_size == 1:  # SQLite takes a single byte for nothing, and would write over it
                raise apsw.NotADBError
            return
        os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass  # another process was first
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"{name} could not be made: {reason}. Choose another path") from None


def _locked_out(path: str) -> str:
    """What lies beside the store, is SQLite's and may not be written by this process; empty when nothing does."""
    place, by_whom = os.path.realpath(path), os.access in os.supports_effective_ids
    theirs = [
        shown(side)
        for side in (f"{place}{end}" for end in SIDES)
        if os.path.lexists(side) and not os.access(side, os.W_OK, effective_ids=by_whom)
    ]
    if not theirs:
        return ""
    return (
        f"this process may not write {' and '.join(theirs)}: make it writable, or give it to the owner of the store "
        "(do not remove it: what was saved last may be in it). Nothing was changed"
    )


def _why_not(path: str) -> str:
    folder = Path(path).parent
    if not folder.is_dir():
        return f"the folder {shown(str(folder))} does not exist (any more)"
    if not os.access(folder, os.W_OK):
        return f"the folder {shown(str(folder))} is read-only: a store needs to write beside its file"
    return f"{shown(path)} cannot be opened: check that it is a file that you may read and write"


def shown(path: str) -> str:
    """A path in a message: not without end, and in characters that can be printed."""
    text = path if len(path) <= 300 else f"...{path[-300:]}"
    return text.encode(errors="backslashreplace").decode()
