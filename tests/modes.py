"""Having the modes of files hold for root as well, who may otherwise write anywhere."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_VERSION = 0x20080522
_PAST_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


class _Head(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inherited", ctypes.c_uint32),
    )


@contextmanager
def modes_hold() -> Iterator[None]:
    """In this thread, and in those that it starts, a file is written by whom its mode lets write it."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root may write anywhere")
    system = ctypes.CDLL(None, use_errno=True)
    head, rights = _Head(_VERSION, 0), (_Rights * 2)()

    def change(effective: int) -> None:
        rights[0].effective = effective
        if system.capset(ctypes.byref(head), rights):
            pytest.skip("root may write anywhere")

    assert system.capget(ctypes.byref(head), rights) == 0
    held = rights[0].effective
    change(held & ~_PAST_MODES)
    try:
        yield
    finally:
        change(held)


@contextmanager
def sealed(folder: Path, *, files: int = 0o400, itself: int = 0o500) -> Iterator[None]:
    """Nothing can be written in a folder, and what is there may be read; nothing may come or change."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for name in before:
        (folder / name).chmod(files)
    folder.chmod(itself)
    try:
        with modes_hold():
            yield
    finally:
        folder.chmod(0o700)
        after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        for name in after:
            (folder / name).chmod(0o600)
    assert sorted(after) == sorted(before)
    assert {name for name in before if after[name] != before[name]} <= {
        name for name in before if name.endswith("-shm")
    }
