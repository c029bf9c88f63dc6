"""A copy of a store, made while others write, that is whole, holds nothing forgotten and was read back.

The pages are copied by SQLite's backup in one step, within a read transaction, so that they are those of one
state, and writers go on. Gaps in pages and old index segments can hold forgotten text that waits to be erased,
so the copy is erased the way a store is (decision 0007) before anybody gets it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import apsw

import keyfold.engines.sqlite.schema as schema
from keyfold.clock import EPOCH
from keyfold.contract.intents import Ref
from keyfold.engines.sqlite.connect import shown, translated
from keyfold.engines.sqlite.copying import Counts, copy_pages, counts_of, make_private, sync
from keyfold.engines.sqlite.forget import INLINE
from keyfold.engines.sqlite.read import history
from keyfold.engines.sqlite.rows import Rows
from keyfold.errors import InvalidRequest, StoreError
from keyfold.model import Model
from keyfold.text.sides import side_of

COMPARED: Final = 100

_SAMPLE: Final = (
    "SELECT r.id, n.name FROM records r JOIN namespaces n ON n.num = r.ns WHERE r.id IN "
    f"(SELECT id FROM records ORDER BY id % 97, id LIMIT {COMPARED})"
)


@dataclass(frozen=True, slots=True)
class Backup(Model):
    """What a backup holds. `compared` is how many records were read from it and from the store, and were the same."""

    path: str
    records: int
    sessions: int
    revisions: int
    namespaces: int
    bytes: int
    compared: int


def write(source: apsw.Connection, store: str, target: str, *, force: bool) -> Backup:
    """Back up the store behind `source`, which is in a read transaction of the caller's, to the file `target`."""
    place = Path(target)
    partial = place.with_name(f".{place.name}.{uuid4().hex[:12]}.partial") if place.name else place
    made = False
    try:
        _check(store, place, force=force)
        make_private(str(partial))
        made = True
        counts = counts_of(source)  # it is this first look that fixes the state that is copied
        copy_pages(source, str(partial))
        _clean(str(partial))
        compared = _verify(source, str(partial), counts)
        sync(partial)
        size = partial.stat().st_size
        _put_in_place(partial, place, force=force)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"the backup {target:.300} could not be written: {reason}") from None
    except (apsw.FullError, apsw.IOError, apsw.CantOpenError) as error:
        raise translated(error, target) from None
    finally:
        for left in (partial, Path(f"{partial}-journal")) if made else ():
            with suppress(OSError):
                left.unlink(missing_ok=True)
    return Backup(target, *counts, bytes=size, compared=compared)


def _check(store: str, place: Path, *, force: bool) -> None:
    if "\0" in str(place) or not place.name:
        raise InvalidRequest("FILE", "is no name of a file")
    try:
        str(place).encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "FILE", f"{shown(str(place))} holds a byte that is no UTF-8: choose another path"
        ) from None
    if not place.parent.is_dir():
        raise StoreError(f"the folder {str(place.parent)!r:.300} does not exist: create it first")
    if place.is_dir():
        raise StoreError(f"{str(place)!r:.300} is a folder: give the path of a file in it")
    if (place.exists() or place.is_symlink()) and not place.is_file():
        # a rename would put a file in the place of a device, a pipe or a dangling link
        raise InvalidRequest("FILE", "is there and is no ordinary file: choose another path")
    if side_of(place):
        raise InvalidRequest(
            "FILE",
            f"ends in {side_of(place)}, as files do that are kept beside a store and removed: choose another name",
        )
    if place.exists():
        if Path(store).exists() and place.samefile(store):
            raise InvalidRequest("FILE", "is the store itself: choose another path")
        if not force:
            raise StoreError(f"{str(place)!r:.300} is there already: choose another path, or say --force")
    for side in ("-wal", "-journal"):
        # SQLite would play it into the new file
        if Path(f"{place}{side}").exists() and Path(f"{place}{side}").stat().st_size:
            raise StoreError(
                f"a store at {str(place)!r:.300} is open, or was not closed ({place.name}{side}): "
                "close it, or move it away with the files beside it"
            )


def _clean(path: str) -> None:
    """Take out of a copy what was forgotten and waits to be erased."""
    copy = apsw.Connection(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        copy.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
        large = Path(path).stat().st_size > INLINE
        copy.execute(f"PRAGMA temp_store = {'FILE' if large else 'MEMORY'}")  # as in forget.erase
        copy.execute("INSERT INTO words (words) VALUES ('optimize')")
        copy.execute(
            "UPDATE meta SET value = (SELECT value FROM meta WHERE name = 'forgets') WHERE name = 'erased'"
        )
        copy.execute("VACUUM")
    finally:
        copy.close()


def _verify(source: apsw.Connection, path: str, counts: Counts) -> int:
    """Read the copy back: its structure, its counts, and a sample of records with their past."""
    copy = apsw.Connection(path, apsw.SQLITE_OPEN_READONLY)
    try:
        problems: Rows = copy.execute("PRAGMA integrity_check(1)").fetchall()
        if problems != [("ok",)]:
            raise StoreError(
                f"the copy is not whole ({problems[0][0]:.100}): run keyfold doctor on the store"
            )
        if counts_of(copy) != counts or not schema.stands(copy, path):
            raise StoreError("the copy does not hold what the store holds: no backup was made")
        rows: Rows = source.execute(_SAMPLE).fetchall()
        for number, name in rows:
            ref = Ref(name, id=str(number), kind="")
            # at the beginning of time nothing has expired yet
            if history(source, ref, lambda: EPOCH) != history(copy, ref, lambda: EPOCH):
                raise StoreError(f"record {number} of the copy is not that of the store: no backup was made")
        return len(rows)
    finally:
        copy.close()


def _put_in_place(partial: Path, place: Path, *, force: bool) -> None:
    if force:
        partial.replace(place)
    else:
        try:
            os.link(partial, place)  # fails where another program made the file meanwhile; a rename would not
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if place.exists():
                raise FileExistsError(17, "it is there already") from None
            partial.rename(place)
    sync(place.parent)
