"""Where an export may be written: to a new file, or over an earlier export. Whatever else lies there stays."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from keyfold.errors import InvalidRequest, StoreError
from keyfold.text.sides import SIDES, side_of

STORE: Final = b"SQLite format 3\0"
_ELSE: Final = "choose another path"


def check_place(place: Path, header: str) -> None:
    """Refuse a place where an export would cost something: InvalidRequest, StoreError for a folder.

    An ordinary file may be replaced when it is empty or begins like an export (`header`, the first line): that
    spares the store, its log, and every file that nobody meant. So does this for a log that is not there just now.
    """
    if "\0" in str(place) or not place.name:
        raise InvalidRequest("path", "is no name of a file")
    if place.is_dir():
        raise StoreError(f"{str(place)!r:.300} is a folder: give the path of a file in it")
    if side_of(place.name):  # also where no store is there yet: the first one would remove it
        raise InvalidRequest("path", f"ends as files beside a store do, which are removed: {_ELSE}")
    if place.is_symlink() and not place.exists():
        raise InvalidRequest("path", f"is a link to nothing: {_ELSE}")
    if not place.exists():
        return
    if not place.is_file():
        raise InvalidRequest("path", f"is there and is no ordinary file: {_ELSE}")
    if has_log(place) or _begin(place, STORE):
        raise InvalidRequest("path", f"is a store: {_ELSE}")
    if _size(place) and not _begin(place, header.encode()):
        raise InvalidRequest("path", f"is there already and is no export: {_ELSE}, or move it away")


def has_log(place: Path) -> bool:
    """Whether what SQLite keeps beside a store lies there, so that the store may be open.

    To be asked before such a file is looked into: this process may have it open itself, and loses its locks on a file
    that it opens and closes by another way than SQLite's.
    """
    return any(_size(place.with_name(place.name + side)) for side in SIDES)


def _begin(place: Path, words: bytes) -> bool:
    """Whether a file is there and begins with these bytes; StoreError when it cannot be read."""
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(words)) == words
    except OSError as error:
        raise StoreError(
            f"cannot look at {str(place)!r:.300} before it is replaced: {error.strerror}"
        ) from None


def _size(place: Path) -> int:
    return place.stat().st_size if place.is_file() else 0
