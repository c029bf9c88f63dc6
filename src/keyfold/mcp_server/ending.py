"""Leaving nothing behind: a bound on how long an end may take, and logs that say nothing of memories."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from types import TracebackType
from typing import NoReturn

_Failure = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Deadline:
    """From its start, the process has so many seconds left. A transaction that is cut off rolls back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.RLock()  # a signal may come while it is held
        self._started = False
        self._code = 0

    def start(self, code: int = 0) -> None:
        """Begin to count, once; from any thread, or a handler of signals. `code` is what the process exits with."""
        with self._lock:
            self._code = self._code or code
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name="keyfold-deadline", daemon=True).start()

    def _run(self) -> None:
        time.sleep(self._seconds)
        os._exit(self._code)


def leave(code: int) -> NoReturn:
    """Exit at once. The interpreter would first free a long queue piece by piece, and no deadline ends that."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)


class _Quiet(logging.Formatter):
    """A failure is logged by its kind: its message and its traceback may hold text of a memory."""

    def formatException(self, ei: _Failure) -> str:  # noqa: N802  # logging's own name
        return f"({ei[0].__name__})" if ei[0] is not None else ""


def log_to_stderr() -> None:
    """Send warnings and worse of every library to stderr; everything, failures in full, with KEYFOLD_DEBUG."""
    handler = logging.StreamHandler()
    debug = bool(os.environ.get("KEYFOLD_DEBUG"))
    form = "keyfold: %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(form) if debug else _Quiet(form))
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, handlers=[handler])
