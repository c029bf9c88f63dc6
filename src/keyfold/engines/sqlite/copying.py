"""Copying a store's pages to another file, and counting what is in both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import apsw

from keyfold.engines.sqlite.rows import SESSION_SPACE, Rows

_COUNTS: Final = (
    f"SELECT (SELECT count(*) FROM records WHERE space < {SESSION_SPACE}), "
    f"(SELECT count(*) FROM records WHERE space >= {SESSION_SPACE}), "
    "(SELECT count(*) FROM revisions), (SELECT count(*) FROM namespaces)"
)

Counts = tuple[int, int, int, int]


def counts_of(conn: apsw.Connection) -> Counts:
    """How many records, sessions, past states and namespaces there are."""
    rows: Rows = conn.execute(_COUNTS).fetchall()
    records, sessions, revisions, namespaces = rows[0]
    return records, sessions, revisions, namespaces


def copy_pages(source: apsw.Connection, target: str) -> None:
    """Copy a store's pages to an empty file. In the caller's read transaction, if it has one: those of its state."""
    copy = apsw.Connection(target, apsw.SQLITE_OPEN_READWRITE)
    try:
        # a copy that is cut short is thrown away: neither a journal nor a wait for the disk is needed
        copy.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
        with copy.backup("main", source, "main") as work:
            work.step(-1)
    finally:
        copy.close()


def make_private(path: str) -> None:
    """An empty file that only its owner can read; what is there is refused."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk. No connection may be open on it."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
