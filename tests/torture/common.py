"""What the torture scenarios share: a run with its seed and scale, child processes that talk, words that are unique."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keyfold import Config, Memory

DIGITS = "bcdfghjklm"  # consonants only: no stemming, and no word is part of another
WORD = re.compile(rb"zq[b-df-hj-m]{9}x")

Say = Callable[..., None]


@dataclass
class Run:
    """One scenario under way."""

    seed: int
    scale: float
    folder: Path
    counts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def times(self, full: int, least: int = 1) -> int:
        """How often, at this scale."""
        return max(least, round(full * self.scale))

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def place(self, name: str) -> Path:
        """A folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        return folder


def word(number: int, writer: int = 0) -> str:
    """A word that occurs nowhere else."""
    return f"zq{DIGITS[writer % 10]}{''.join(DIGITS[int(digit)] for digit in f'{number:08}')}x"


def words_in(folder: Path) -> set[str]:
    """The unique words that any file of a folder holds in any byte."""
    found: set[str] = set()
    for path in folder.iterdir():
        if path.is_file():
            found.update(match.decode() for match in WORD.findall(path.read_bytes()))
    return found


def open_store(folder: Path, **settings: Any) -> Memory:
    return Memory.open(str(folder / "store.db"), config=Config(**settings))


def wal_size(folder: Path) -> int:
    path = folder / "store.db-wal"
    return path.stat().st_size if path.exists() else 0


@dataclass
class Child:
    """A process of ours, and what it says, a JSON object a line."""

    pid: int
    lines: Any
    ended: bool = False

    def said(self) -> Iterator[dict[str, Any]]:
        """What it says until it ends; a fault of its own is raised here. A line that was cut is left out."""
        for line in self.lines:
            if line.endswith("\n"):
                told: dict[str, Any] = json.loads(line)
                if "fault" in told:
                    raise AssertionError(f"a process failed: {told['fault']}")
                yield told

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit status, or minus the signal that ended it."""
        _, status = os.waitpid(self.pid, 0)
        self.ended = True
        return os.waitstatus_to_exitcode(status)

    def finish(self) -> list[dict[str, Any]]:
        """All that it says; it must end well."""
        told = list(self.said())
        status = self.wait()
        assert status == 0, f"a process ended with {status}"
        return told


def spawn(work: Callable[[Say], None]) -> Child:
    """Fork a process that does the work. The caller has no store open and no threads."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, os.fdopen(reading, encoding="utf-8"))
    status = 1
    try:
        os.close(reading)

        def say(**told: Any) -> None:
            os.write(writing, json.dumps(told).encode() + b"\n")

        try:
            work(say)
            status = 0
        except BaseException:  # noqa: BLE001  # told to the parent, which fails with it
            say(fault=traceback.format_exc()[-1500:])
    finally:
        os._exit(status)


def until(what: Callable[[], Any], seconds: float = 30.0) -> Any:
    """What the look finds, as soon as it finds anything."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)
    return found
