"""Connections to read with: a few for a file, made on demand, or the one there is for a store in memory.

Ctrl-C may strike between any two steps of Python, so nothing here depends on a step being reached. A connection
that an interrupt took out of a thread's hands is let go of and counts no more; a lock is only taken by `with`,
which no interrupt divides.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol
from weakref import WeakSet

import apsw

from keyfold.errors import Unavailable

SIZE: Final = 4
PATIENCE: Final = 30.0  # seconds until a read gives up on getting a connection
GLANCE: Final = 0.05  # seconds after which one that waits looks by itself: nobody tells of what was lost
CLOSED: Final = "the store is closed: open it again"


class Readers(Protocol):
    """Lends a connection to one piece of work at a time."""

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any: ...
    def close(self) -> None: ...
    def handles(self) -> list[apsw.Connection]: ...
    def hold(self, until: float) -> None: ...
    def release(self) -> None: ...


class Pool:
    """Up to SIZE connections. Ordinarily taking and giving are one list operation each, which is atomic."""

    def __init__(self, make: Callable[[], apsw.Connection]) -> None:
        self._make = make
        self._free: list[apsw.Connection] = []
        self._all: WeakSet[apsw.Connection] = WeakSet()
        self._lock = threading.Lock()
        self._told: SimpleQueue[None] = SimpleQueue()
        self._waiting = 0
        self._closed = False
        self._held: list[apsw.Connection] | None = None  # what is free, while nothing may begin

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What work returns of a connection of its own. Unavailable when there are too many reads at once."""
        try:
            conn = self._free.pop()
        except IndexError:
            conn = self._more()
        try:
            return work(conn, *arguments)
        finally:
            if conn.in_transaction:  # the read was interrupted
                conn.execute("ROLLBACK")
            self._free.append(conn)
            if self._waiting or self._closed:
                self._tell()

    def _more(self) -> apsw.Connection:
        give_up = time.monotonic() + PATIENCE
        with self._lock:
            self._waiting += 1
        try:
            # The waiter counts itself before it looks, the giver looks after it gave: none is missed.
            while True:
                with self._lock:
                    conn = self._free_or_new()
                if conn is not None:
                    return conn
                if time.monotonic() >= give_up:
                    raise Unavailable("too many reads at once: try again")
                with suppress(Empty):
                    self._told.get(timeout=GLANCE)
        finally:
            with self._lock:
                self._waiting -= 1

    def _free_or_new(self) -> apsw.Connection | None:
        if self._closed:
            raise Unavailable(CLOSED)
        if self._held is not None:
            return None
        try:
            return self._free.pop()
        except IndexError:
            if len(self._all) >= SIZE:
                return None
        conn = self._make()
        self._all.add(conn)
        return conn

    def _tell(self) -> None:
        if self._closed:
            self._drain()
        if self._waiting > self._told.qsize():
            self._told.put(None)

    def _drain(self) -> None:
        while self._free:
            try:
                self._free.pop().close()
            except IndexError:
                return

    def close(self) -> None:
        """Close what is not in use now, and the rest as it comes back."""
        self._closed = True
        self._drain()
        for _ in range(self._waiting):
            self._told.put(None)

    def handles(self) -> list[apsw.Connection]:
        """All connections, in use or not."""
        return list(self._all)

    def hold(self, until: float) -> None:
        """Let no read begin, and wait until none is at work or the time has come."""
        held: list[apsw.Connection] = []
        self._held = held
        while True:
            with self._lock:
                while self._free:
                    held.append(self._free.pop())
                if len(held) >= len(self._all):
                    return
            if time.monotonic() >= until:
                return
            time.sleep(0.0005)

    def release(self) -> None:
        """Let reads begin again."""
        held, self._held = self._held or [], None
        self._free += held
        self._tell()
        for _ in range(self._waiting):
            self._told.put(None)


class Shared:
    """The one connection of a store in memory, under the writer's lock."""

    def __init__(self, conn: apsw.Connection, lock: threading.Lock) -> None:
        self._conn: apsw.Connection | None = conn
        self._lock = lock

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What work returns of the connection."""
        with self._lock:
            conn = self._conn
            if conn is None:
                raise Unavailable(CLOSED)
            try:
                return work(conn, *arguments)
            finally:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")

    def close(self) -> None:
        """Lend no more. The lock is held."""
        self._conn = None

    def handles(self) -> list[apsw.Connection]:
        """None but the writer."""
        return []

    def hold(self, until: float) -> None:
        """Whoever holds the writer's lock holds this too."""

    def release(self) -> None:
        """See `hold`."""
