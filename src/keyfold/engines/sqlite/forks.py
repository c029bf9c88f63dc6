"""Forks of the process while other threads use its stores.

A child has the forking thread only. A lock that another thread held at that moment, one of SQLite's own among
them, is never released there. So a fork waits until no thread is at work in a store, for QUIET seconds at the
most; the child then leaves the connections it inherited alone, because closing them would disturb the parent.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Final, Protocol
from weakref import WeakSet

import apsw

import keyfold.engines.sqlite.connect as connect

QUIET: Final = 5.0  # seconds


class Forked(Protocol):
    """What a store does around a fork."""

    def before_fork(self, until: float) -> None: ...
    def after_fork(self) -> None: ...
    def in_child(self) -> None: ...


_stores: WeakSet[Forked] = WeakSet()
_lock = threading.Lock()
_quiet: list[Forked] = []
_fork: list[int] = []  # the thread that forks
_inherited: list[apsw.Connection] = []


def watch(store: Forked) -> None:
    """Have a store told of forks, as long as it lives; from before its first connection is made."""
    with _lock:
        _stores.add(store)


def keep_for_ever(handles: list[apsw.Connection]) -> None:
    """Keep connections from being closed, even at the end of the process, when modules let go of what they hold."""
    import ctypes

    _inherited.extend(handles)
    for handle in handles:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def take(lock: threading.Lock, until: float, took: list[bool]) -> None:
    """Take a lock, if it can be had until then, and note whether: in one step, which no interrupt divides."""
    took.clear()
    took.extend(map(lock.acquire, (True,), (max(0.0, until - time.monotonic()),)))


def give_back(lock: threading.Lock, took: list[bool]) -> None:
    """Release a lock that `take` took."""
    if any(took):
        lock.release()
        took.clear()


def _before() -> None:
    until = time.monotonic() + QUIET
    took: list[bool] = []
    take(_lock, until, took)  # no store is added until the fork is over
    if any(took):
        _fork.append(threading.get_ident())
        _quiet[:] = list(_stores)
        for store in _quiet:
            store.before_fork(until)


def _in_parent() -> None:
    if _fork[-1:] == [threading.get_ident()]:  # not the fork of another thread
        for store in _quiet:
            store.after_fork()
        _quiet.clear()
        _fork.clear()
        _lock.release()


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()
    connect.renew_lock()
    _quiet.clear()
    _fork.clear()
    for store in list(_stores):
        store.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
