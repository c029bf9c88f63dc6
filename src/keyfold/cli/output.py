"""What a command prints: data on stdout, everything else on stderr, in whatever encoding there is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from keyfold.text.line import one_line
from keyfold.text.redact import REDACTED, redact

# Escape sequences in a memory must not reach the terminal that shows it; line ends and tabs may.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# A tag in a literal: a line end or a tab in it is spelt out, and the tag would not be known for one.
_SPACE: Final = r"(?:\s|\\[abfnrtv]|\\x[0-9a-f]{2}|\\u[0-9a-f]{4})"
_SPELT: Final = re.compile(rf"<{_SPACE}*(/?){_SPACE}*private(?![\w-])(?:{_SPACE}*(>))?", re.IGNORECASE)
_CLOSER: Final = re.compile(r"</\s*private(?![\w-])[^<>]*>?", re.IGNORECASE)
_UTF: Final = ("utf-8", "utf8", "utf-16", "utf-32")


class CannotWrite(Exception):
    """Standard output takes nothing: a full disk, or it is closed."""


class Output:
    """The two streams, and whether the answer is to be JSON."""

    def __init__(self) -> None:
        self.json = False
        self.changed = False  # whether the command has changed a store
        self._aside: str | None = None
        self._utf = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith(_UTF)
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:  # what the terminal cannot show is spelt out; it never ends a command
                reconfigure(errors="backslashreplace")

    def line(self, text: str = "") -> None:
        """One line of data for people: a name in it that has a line end makes no second one."""
        self._write(one_line(text) + "\n")

    def body(self, text: str) -> None:
        """A text with lines of its own."""
        self._write(visible(text) + "\n")

    def document(self, value: Any) -> None:
        """The one JSON document of a command."""
        import json

        form = json.dumps(value, ensure_ascii=not self._utf, indent=None, separators=(", ", ": "))
        # JSON lets these stand as they are; a terminal takes some of them for the start of a command
        self._write(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", form) + "\n")

    def raw(self, text: str) -> None:
        """Data for programs, as UTF-8 bytes and untranslated, whatever the terminal speaks."""
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            self._write(text)
            return
        with writing():
            sys.stdout.flush()
            buffer.write(text.encode())

    @staticmethod
    def _write(text: str) -> None:
        with writing():
            sys.stdout.write(text)

    def note(self, text: str) -> None:
        """A word on the side, on stderr."""
        _tell(one_line(without_private(text)) + "\n")

    def aside(self, text: str) -> None:
        """A note that, with --json, an error takes in, so that stderr stays one document."""
        if self.json:
            self._aside = text
        else:
            self.note(f"keyfold: {text}")

    def error(self, kind: str, message: str, **more: str) -> None:
        """What went wrong, on stderr: a line, or with --json an object."""
        if self.json:
            import json

            if self._aside is not None:
                more["note"], self._aside = self._aside, None
            told = {name: without_private(text) for name, text in {"message": message, **more}.items()}
            _tell(json.dumps({"error": {"type": kind, **told}}) + "\n")
        else:
            self.note(f"keyfold: {message}")

    def progress(self, text: str) -> None:
        """A line that replaces itself; only where somebody watches."""
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def table(self, rows: Sequence[Sequence[Any]], indent: str = "") -> None:
        """Rows in columns: all but the last as wide as their widest cell, which is cut at 60 characters."""
        cells = [[inline(str(cell)) for cell in row] for row in rows]
        count = max(map(len, cells), default=0)
        widths = [
            min(60, max((len(row[at]) for row in cells if at < len(row)), default=0)) for at in range(count)
        ]
        for row in cells:
            padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
            self.line((indent + "  ".join([*padded, row[-1]])).rstrip())

    def flush(self) -> None:
        """Let everything out, so that a closed pipe or a full disk is noticed here."""
        if self._aside is not None:
            self.note(f"keyfold: {self._aside}")
        if sys.stdout is not None:
            with writing():
                sys.stdout.flush()

    def abandon(self) -> None:
        """Stdout takes nothing any more: what is left in it goes nowhere, and closing it raises nothing."""
        if sys.stdout is None:
            return
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):
            return


@contextmanager
def writing() -> Iterator[None]:
    """Writing to stdout: CannotWrite where it is closed or full; a pipe that nobody reads stays what it is."""
    if sys.stdout is None:
        raise CannotWrite("it is closed")
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(error.strerror or type(error).__name__) from None


def _tell(text: str) -> None:
    """Write to stderr, if there is one that takes it."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(text)


def without_private(text: str) -> str:
    """A message without private text, whatever of the command line it quotes, as it was typed or as a literal.

    Of a word that was taken apart only the end may be quoted: then all before a closing tag counts as private.
    """
    if "<" not in text:
        return text
    kept = redact(_SPELT.sub(lambda found: f"<{found[1] or ''}private{'>' if found[2] else ''}", text))
    *_, stray = [0, *(found.end() for found in _CLOSER.finditer(kept))]
    return REDACTED + kept[stray:] if stray else kept


def visible(text: str) -> str:
    """Text with control characters spelt out, but for line ends and tabs."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def inline(text: str) -> str:
    """Text on one line."""
    return one_line(" ".join(text.split()))


def when(moment: datetime | None, *, seconds: bool = False) -> str:
    """A time for people: to the minute or second, in UTC."""
    form = "%Y-%m-%d %H:%M:%SZ" if seconds else "%Y-%m-%d %H:%MZ"
    return "-" if moment is None else moment.astimezone(UTC).strftime(form)
