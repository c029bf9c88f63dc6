"""ChatGPT's export as a stream of conversations: a conversations.json, the folder or the zip that holds it.

The file is one list, often of hundreds of megabytes. It is read a conversation at a time: what is held in memory
is the longest conversation and some more.
"""

from __future__ import annotations

import codecs
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from keyfold.errors import InvalidRequest
from keyfold.portability.foreign import ODD_NUMBERS, Lenient, check_there, open_regular, open_source
from keyfold.portability.report import Report
from keyfold.portability.strict_json import BadInput

NAME: Final = re.compile(r"conversations(?:[-_ ]?\d+)?\.json")
CHUNK: Final = 1 << 20
# A conversation longer than this is not read: far above any that was seen, and what it takes to read it is
# some times as much.
LONGEST: Final = 64 << 20
_BLANK: Final = re.compile(r"[ \t\r\n,]*")
# How near to the end of what was read a fault may stand and still be a matter of reading on.
_NEAR: Final = 16


def conversations(path: Path, report: Report) -> Iterator[tuple[str, Any]]:
    """Where each conversation stands, and the conversation. What is wrong is reported, the rest comes."""
    check_there(path)
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir() if NAME.fullmatch(entry.name))
        if not names:
            raise InvalidRequest("path", "the folder holds no conversations.json")
        for name in names:
            try:
                file = open_regular(path / name, follow=False)
            except BadInput as error:
                report.skip(name, str(error))
                continue
            with file:
                yield from _read(file, f"{name}: ", report)
        return
    with open_source(path) as file:
        if file.peek(4)[:4] == b"PK\x03\x04":  # type: ignore[attr-defined]  # a buffered reader
            yield from _unzipped(file, report)
        else:
            yield from _read(file, "", report)


def zip_names(archive: zipfile.ZipFile) -> list[str]:
    """The members of an archive that hold conversations; nothing is ever unpacked to a path."""
    return sorted(name for name in archive.namelist() if NAME.fullmatch(name.rpartition("/")[2]))


def _unzipped(file: IO[bytes], report: Report) -> Iterator[tuple[str, Any]]:
    try:
        with zipfile.ZipFile(file) as archive:
            names = zip_names(archive)
            if not names:
                raise InvalidRequest("path", "the archive holds no conversations.json")
            for name in names:
                with archive.open(name) as member:
                    yield from _read(member, f"{name.rpartition('/')[2]}: ", report)
    except (
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
        EOFError,
        OSError,
        lzma.LZMAError,
        zlib.error,
    ):
        report.skip("archive", "it is broken, cut off or locked with a password")


def _read(file: IO[bytes], prefix: str, report: Report) -> Iterator[tuple[str, Any]]:
    """The items of a JSON list (or the one object) in a file, one at a time."""
    stream = _Stream(file)
    number = 0
    try:
        listed = stream.opens_list()
        while True:
            value, there = stream.following()
            if not there:
                if listed and not stream.closed:
                    raise BadInput("the file is cut off")
                return
            number += 1
            if stream.odd:
                report.note(f"{prefix}conversation {number}", ODD_NUMBERS)
            yield f"{prefix}conversation {number}", value
    except BadInput as error:
        report.skip(f"{prefix}conversation {number + 1}", f"{error}: from here on nothing can be read")


class _Stream:
    """A file's text as far as it is read, and a position in it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._json = Lenient()
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text = ""
        self._at = 0
        self._whole = False
        self.closed = False

    @property
    def odd(self) -> bool:
        """Whether the last value holds numbers that are kept as text."""
        return self._json.odd > 0

    def opens_list(self) -> bool:
        """Step into the list that the file is; False when it is no list."""
        self._more()
        self._text = self._text.removeprefix("\ufeff")
        self._skip()
        if self._text.startswith("[", self._at):
            self._at += 1
            return True
        return False

    def following(self) -> tuple[Any, bool]:
        """The next value and True; None and False at the end. BadInput when the text is no JSON."""
        self._skip()
        if self._text.startswith("]", self._at) or (self._whole and self._at >= len(self._text)):
            self.closed = self._text.startswith("]", self._at)
            return None, False
        while True:
            self._json.odd = 0
            try:
                value, self._at = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR
                if not cut:
                    raise BadInput("not JSON") from None
                if self._whole:
                    raise BadInput("the file is cut off") from None
                if len(self._text) - self._at > LONGEST:
                    raise BadInput(f"it is longer than {LONGEST:,} characters") from None
                self._more()
            except RecursionError:
                raise BadInput("nested too deeply") from None
            else:
                return value, True

    def _skip(self) -> None:
        """Pass white space and commas, reading on as it takes."""
        while True:
            found = _BLANK.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or self._whole:
                return
            self._more()

    def _more(self) -> None:
        """Read as much again as is waiting, so that a long conversation is parsed a few times and not many."""
        waiting = self._text[self._at :]
        try:
            # no further than it takes to tell that it is too long
            data = self._file.read(max(CHUNK, min(len(waiting), LONGEST + 1 - len(waiting))))
            more = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise BadInput("not UTF-8") from None
        except (zlib.error, lzma.LZMAError):
            raise BadInput("the archive is broken") from None
        self._whole = not data
        self._text = waiting + more
        self._at = 0
