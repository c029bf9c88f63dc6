"""Leaving nothing behind: a bound on how long an end may take, and logs that say nothing of memories."""

from __future__ import annotations

import logging
import os
import threading
import time
from types import TracebackType

_Failure = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class Deadline:
    """From its start, the process has so many seconds left. A transaction that is cut off rolls back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> None:
        """Begin to count, once; from any thread."""
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name="keyfold-deadline", daemon=True).start()

    def _run(self) -> None:
        time.sleep(self._seconds)
        os._exit(0)


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
