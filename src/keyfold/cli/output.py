"""What a command prints: data on stdout, everything else on stderr, in whatever encoding there is."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

# Escape sequences in a memory must not reach the terminal that shows it; line ends and tabs may.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UTF: Final = ("utf-8", "utf8", "utf-16", "utf-32")


class Output:
    """The two streams, and whether the answer is to be JSON."""

    def __init__(self) -> None:
        self.json = False
        self._utf = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith(_UTF)
        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:  # what the terminal cannot show is spelt out; it never ends a command
                reconfigure(errors="backslashreplace")

    def line(self, text: str = "") -> None:
        """A line of data for people."""
        sys.stdout.write(visible(text) + "\n")

    def document(self, value: Any) -> None:
        """The one JSON document of a command."""
        import json

        form = json.dumps(value, ensure_ascii=not self._utf, indent=None, separators=(", ", ": "))
        sys.stdout.write(form + "\n")

    def raw(self, text: str) -> None:
        """Data for programs, as UTF-8 bytes and untranslated, whatever the terminal speaks."""
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(text)
            return
        sys.stdout.flush()
        buffer.write(text.encode())

    def note(self, text: str) -> None:
        """A word on the side, on stderr."""
        sys.stderr.write(visible(text) + "\n")

    def error(self, kind: str, message: str) -> None:
        """What went wrong, on stderr: a line, or with --json an object."""
        if self.json:
            import json

            sys.stderr.write(json.dumps({"error": {"type": kind, "message": message}}) + "\n")
        else:
            self.note(f"keyfold: {message}")

    def progress(self, text: str) -> None:
        """A line that replaces itself; only where somebody watches."""
        if sys.stderr.isatty():
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
        """Let everything out, so that a closed pipe is noticed here."""
        sys.stdout.flush()

    def abandon(self) -> None:
        """Nobody reads stdout any more: what is left in it goes nowhere, and closing it raises nothing."""
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, ValueError):
            return


def visible(text: str) -> str:
    """Text with control characters spelt out, but for line ends and tabs."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def inline(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())


def when(moment: datetime | None) -> str:
    """A time for people: to the minute, in UTC."""
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 record`, `2 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
