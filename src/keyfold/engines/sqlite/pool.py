"""Connections to read with: a few for a file, made on demand, or the one there is for a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

import apsw

from keyfold.errors import Unavailable

SIZE: Final = 4
PATIENCE: Final = 30.0  # seconds until a read gives up on getting a connection
CLOSED: Final = "the store is closed: open it again"


class Readers(Protocol):
    """Lends a connection to one thread at a time."""

    def take(self) -> apsw.Connection: ...
    def give(self, conn: apsw.Connection) -> None: ...
    def close(self) -> None: ...
    def handles(self) -> list[apsw.Connection]: ...


class Pool:
    """Up to SIZE connections. The ordinary take and give are one list operation each, which is atomic."""

    def __init__(self, make: Callable[[], apsw.Connection]) -> None:
        self._make = make
        self._free: list[apsw.Connection] = []
        self._all: list[apsw.Connection] = []
        self._change = threading.Condition()
        self._waiting = 0
        self._closed = False

    def take(self) -> apsw.Connection:
        try:
            return self._free.pop()
        except IndexError:
            return self._more()

    def give(self, conn: apsw.Connection) -> None:
        if conn.in_transaction:  # the read was interrupted
            conn.execute("ROLLBACK")
        self._free.append(conn)
        if self._waiting or self._closed:
            self._tell()

    def _more(self) -> apsw.Connection:
        with self._change:
            if self._closed:
                raise Unavailable(CLOSED)
            if len(self._all) < SIZE:
                conn = self._make()
                self._all.append(conn)
                return conn
            self._waiting += 1
            try:
                # The waiter counts itself before it looks, the giver looks after it gave: none is missed.
                if not self._change.wait_for(lambda: self._free or self._closed, PATIENCE):
                    raise Unavailable("too many reads at once: try again")
                if self._closed:
                    raise Unavailable(CLOSED)
                return self._free.pop()
            except IndexError:  # taken by one that did not wait
                raise Unavailable("too many reads at once: try again") from None
            finally:
                self._waiting -= 1

    def _tell(self) -> None:
        with self._change:
            if self._closed:
                self._drain()
            self._change.notify()

    def _drain(self) -> None:
        while self._free:
            self._free.pop().close()

    def close(self) -> None:
        """Close what is not in use now, and the rest as it comes back."""
        with self._change:
            self._closed = True
            self._drain()
            self._change.notify_all()

    def handles(self) -> list[apsw.Connection]:
        return list(self._all)


class Shared:
    """The one connection of a store in memory, under the writer's lock."""

    def __init__(self, conn: apsw.Connection, lock: threading.Lock) -> None:
        self._conn: apsw.Connection | None = conn
        self._lock = lock

    def take(self) -> apsw.Connection:
        self._lock.acquire()
        if self._conn is None:
            self._lock.release()
            raise Unavailable(CLOSED)
        return self._conn

    def give(self, conn: apsw.Connection) -> None:
        try:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
        finally:
            self._lock.release()

    def close(self) -> None:
        self._conn = None

    def handles(self) -> list[apsw.Connection]:
        return []
