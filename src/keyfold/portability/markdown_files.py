"""The notes of a folder: which files they are, and their bytes. Nothing outside the folder is read."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from keyfold.errors import InvalidRequest
from keyfold.memory.checks import MAX_NAME_BYTES
from keyfold.portability.drafts import RAISE
from keyfold.portability.foreign import BOM, check_there, read_regular
from keyfold.portability.report import Report
from keyfold.portability.strict_json import BadInput

ENDINGS: Final = (".md", ".markdown")
OUTSIDE: Final = "a link that leads outside the folder is not followed"


@dataclass(frozen=True, slots=True)
class Note:
    """A file to read: its key, where it is, and whether it may be reached through a link."""

    key: str
    path: str
    linked: bool


def is_note(name: str) -> bool:
    """Whether a file's name is that of a note."""
    return name.lower().endswith(ENDINGS)


def notes_in(path: Path, report: Report) -> list[Note]:
    """The notes of a folder (or the one note at a path) in the order of their keys. NotFound, InvalidRequest."""
    check_there(path)
    if path.is_file():
        if not is_note(path.name):
            raise InvalidRequest("path", f"a note's name ends in {' or '.join(ENDINGS)}")
        return [Note(unicodedata.normalize("NFC", path.name), str(path), True)]
    if not path.is_dir():
        raise InvalidRequest("path", "it is no regular file and no folder")
    found: dict[str, Note] = {}
    for note in _walk(path, report):
        problem = _problem(note.key)
        if problem is not None:
            report.skip(_shown(note.key), problem)
        elif note.key in found:
            report.skip(note.key, "another file's name is the same but for the form of its accents")
        else:
            found[note.key] = note
    return [found[key] for key in sorted(found)]


def _walk(root: Path, report: Report) -> Iterator[Note]:
    inside = os.path.realpath(root)
    waiting: list[tuple[str, str]] = [(str(root), "")]
    while waiting:
        folder, prefix = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            report.skip(_shown(prefix or "."), f"the folder cannot be read: {error.strerror}")
            continue
        for entry in listed:
            name = unicodedata.normalize("NFC", entry.name)
            key = prefix + name
            linked = entry.is_symlink()
            if linked and not _leads_inside(entry.path, inside):
                if is_note(name) or _is_folder(entry):
                    report.skip(_shown(key), OUTSIDE)
            elif _is_folder(entry):
                if linked:
                    report.leave_out("links to folders that are read where they are")
                elif name.startswith("."):
                    report.leave_out("hidden folders")
                    report.note(_shown(key), "a hidden folder is left out")
                else:
                    waiting.append((entry.path, key + "/"))
            elif name.startswith("."):
                report.leave_out("hidden files")
                if is_note(name) and not name.startswith("._"):  # which macOS puts beside a file
                    report.note(_shown(key), "a hidden note is left out")
            elif is_note(name):
                yield Note(key, entry.path, linked)
            else:
                report.leave_out("files that are no notes")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _leads_inside(path: str, root: str) -> bool:
    """Whether a link ends within the folder, and in no hidden part of it."""
    target = os.path.realpath(path)
    if target != root and not target.startswith(root.rstrip(os.sep) + os.sep):
        return False
    return not any(part.startswith(".") for part in Path(target[len(root) :]).parts)


def _problem(key: str) -> str | None:
    """Why a path cannot be a key."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if size > MAX_NAME_BYTES:
        return f"its path takes {size:,} bytes; a document's source may take {MAX_NAME_BYTES}"
    return None


def _shown(key: str) -> str:
    """A path that can be printed."""
    return key.encode("utf-8", "backslashreplace").decode()


def read(note: Note, limit: int) -> tuple[str, bytes, datetime]:
    """A note's text, as bytes too, and when its file was last written. BadInput when it is no text or above the limit."""
    path = os.path.realpath(note.path) if note.linked else note.path
    data, changed = read_regular(path, limit + len(BOM) + 1)
    data = data.removeprefix(BOM)
    if len(data) > limit:
        raise BadInput(f"it is longer than {limit:,} bytes. {RAISE}")
    if b"\0" in data:
        raise BadInput("it holds a NUL: it is no text")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"it is not UTF-8 (byte {error.start + 1})") from None
    if not text or text.isspace():
        raise BadInput("it is empty")
    return text, data, changed
