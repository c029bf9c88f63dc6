"""The two pipes to the client: kept from everybody else in the process, read and written on threads of their own.

The threads are daemons and use bare descriptors. One that is stuck in a read or a write, because the client is
gone or does not listen, can thus never keep the process alive, and holds no lock that the interpreter wants at its end.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from keyfold.errors import StoreError

LONGEST_LINE: Final = 32 * 1024 * 1024
_CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Pipes:
    """The descriptors of the protocol, in and out, and the process that started this one."""

    source: int
    sink: int
    parent: int


def claim_pipes() -> Pipes:
    """Take stdin and stdout for the protocol. From then on, whatever is printed in this process goes to stderr."""
    for number, name in ((0, "input"), (1, "output")):
        try:
            os.fstat(number)
        except OSError:
            raise StoreError(f"standard {name} is closed; an MCP server speaks through it") from None
    _open_missing_stderr()
    if sys.stdout is not None:
        sys.stdout.flush()
    pipes = Pipes(os.dup(0), os.dup(1), os.getppid())
    if sys.platform == "win32":
        import msvcrt

        for descriptor in (pipes.source, pipes.sink):
            msvcrt.setmode(descriptor, os.O_BINARY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # what would read stdin finds its end
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return pipes


def _open_missing_stderr() -> None:
    try:
        os.fstat(2)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        if nothing != 2:
            os.dup2(nothing, 2)
            os.close(nothing)


class Reader:
    """Reads lines on a thread: `on_line` gets each, None for one that was too long, and `on_end` is called once."""

    def __init__(
        self, source: int, on_line: Callable[[bytes | None], None], on_end: Callable[[], None]
    ) -> None:
        self._source = source
        self._on_line = on_line
        self._on_end = on_end

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._run, name="keyfold-stdin", daemon=True).start()

    def _run(self) -> None:
        try:
            self._read()
        except (OSError, RuntimeError):  # the pipe broke, or the loop has ended
            pass
        finally:
            self._on_end()

    def _read(self) -> None:
        parts: list[bytes] = []  # of the line that is not complete yet
        size = 0
        while chunk := os.read(self._source, _CHUNK):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                parts.append(end)
                self._on_line(b"".join(parts) if size + len(end) <= LONGEST_LINE else None)
                parts, size = [], 0
            size += len(rest)
            if size <= LONGEST_LINE:
                parts.append(rest)
            else:
                parts = []  # too long already: the rest of it is passed over
        if size:
            self._on_line(b"".join(parts) if size <= LONGEST_LINE else None)


class Writer:
    """Writes lines on a thread, in order. When nobody reads any more, `on_broken` is called and the rest is dropped."""

    def __init__(self, sink: int, on_broken: Callable[[], None]) -> None:
        self._sink = sink
        self._on_broken = on_broken
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="keyfold-stdout", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Hand in a line, from any thread."""
        self._lines.put(line)

    def finish(self, seconds: float) -> None:
        """Wait until everything is written, but not longer."""
        self._lines.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._sink, left) :]
            except OSError:
                self._on_broken()
                return
