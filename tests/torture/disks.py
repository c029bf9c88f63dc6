"""A disk that fills up: a clear error, nothing answered is lost, a failed call changes nothing, and it goes on after."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from keyfold import StoreError
from tests.engines.common import check_agreement
from tests.torture.common import Run, open_store, wal_size, word, words_in
from tests.torture.digest import state_of

USER = "ana"
EPISODES = 60
NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}


class CannotPlay(Exception):
    """This machine does not let the scenario be played, and why."""


class Quota(apsw.VFS):
    """The file system of the machine, with room for only so many bytes below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.room: int | None = None
        self.refused = 0
        super().__init__("quota", "unix", makedefault=True)

    def used(self) -> int:
        return sum(path.stat().st_size for path in self.folder.iterdir() if not path.name.endswith("-shm"))

    def leave(self, room: int | None) -> None:
        """Room for so many bytes more; None: for all."""
        self.room = None if room is None else self.used() + room

    def xOpen(self, name: Any, flags: list[int]) -> QuotaFile:  # noqa: N802  # apsw's name
        return QuotaFile(self, name, flags)


class QuotaFile(apsw.VFSFile):
    def __init__(self, quota: Quota, name: Any, flags: list[int]) -> None:
        self.quota = quota
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # apsw's name
        room = self.quota.room
        if room is not None:
            growth = max(0, offset + len(data) - self.xFileSize())
            if growth and self.quota.used() + growth > room:
                self.quota.refused += 1
                raise apsw.FullError("database or disk is full")
        super().xWrite(data, offset)


class Filling:
    """Calls of every kind on a store whose disk fills, and what was answered to them."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.memory = open_store(folder)
        self.held: dict[str, list[str]] = {}
        self.gone: set[str] = set()
        self.doomed: set[str] = set()
        self.last = 0

    def mark(self) -> str:
        self.last += 1
        return word(self.last)

    def call(self) -> Callable[[], None]:
        """A call of a random kind. Done again it is the same call, so that it can be tried on a full disk first."""
        random, memory = self.run.random, self.memory
        kinds = ["save", "many", "long"] + (["rewrite", "forget", "rewrite"] if self.held else [])
        kind = random.choice(kinds)
        self.kind = kind
        marks = [self.mark() for _ in range(20 if kind == "many" else 1)]
        if kind == "forget":
            key = random.choice(list(self.held))
            return lambda: self.forget(key)
        keys = [f"k{self.last}.{number}" for number in range(len(marks))]
        if kind == "rewrite":
            keys = [random.choice(list(self.held))]
        filler = " filler" * (random.randrange(2_000) if kind == "long" else 20)
        items = [
            {"content": mark + filler, "topic_key": key, **NOTE}
            for key, mark in zip(keys, marks, strict=True)
        ]

        def save() -> None:
            receipts = memory.mem_save_many(USER, items)
            assert all(receipt.outcome != "deduped" for receipt in receipts)
            for item in items:
                self.held.setdefault(item["topic_key"], []).append(item["content"])

        return save

    def forget(self, key: str) -> None:
        done = self.memory.mem_delete(USER, topic_key=key)
        assert done.deleted == 1
        words = [text.split(" ", 1)[0] for text in self.held.pop(key)]
        if done.erased is True:
            self.gone.update(words)
        else:
            assert isinstance(done.erased, str)
            assert "full" in done.erased, f"erased does not say what it waits for: {done.erased}"
            self.doomed.update(words)
            self.run.count("forgets that wait for space")

    def attempt(self) -> bool:
        """One call on a disk that may be full; whether it went through. If not it is clear, and nothing changed."""
        call = self.call()
        before = state_of(self.memory, USER)
        try:
            call()
        except StoreError as error:
            _clear(error)
            assert state_of(self.memory, USER) == before, f"a failed {self.kind} changed something"
            self.again = call
            self.run.count("refused")
            self.run.count(f"refused {self.kind}")
            return False
        self.run.count("went through")
        return True

    def check(self) -> None:
        for key, texts in self.held.items():
            history = self.memory.mem_history(USER, topic_key=key)
            assert [state.content for state in reversed(history)] == texts, "what was answered is lost"
            mark = texts[-1].split(" ", 1)[0]
            assert self.memory.mem_search(USER, mark).total == 1, "what was answered is not found"
        assert self.memory.mem_stats(USER)["by_kind"].get("observation", 0) == len(self.held)
        erased = self.gone & words_in(self.folder)
        assert not erased, f"answered as erased and found in a file: {sorted(erased)[:3]}"

    def episode(self, fill: Callable[[], None], free: Callable[[], None], most: int) -> None:
        """Fill the disk, write until it is refused, free it, and go on with the same handle."""
        fill()
        for _ in range(most):
            if not self.attempt():
                break
        self.check()
        free()
        if hasattr(self, "again"):
            self.again()
            del self.again
        self.check()

    def end(self) -> None:
        assert self.memory.engine.erase() is True  # type: ignore[attr-defined]  # the embedded engine's own step
        self.memory.close()
        left = (self.gone | self.doomed) & words_in(self.folder)
        assert not left, "forgotten texts are left after space was freed"
        check_agreement(self.folder)
        assert wal_size(self.folder) == 0


def _clear(error: StoreError) -> None:
    """It says what is the matter and what to do."""
    assert "full: free some space" in str(error), f"not a clear word: {error}"


def quota(run: Run) -> None:
    """The disk is full after any number of bytes: within a save's pages, an index merge, a VACUUM, a checkpoint."""
    folder = run.place("store")
    shim = Quota(folder)
    filling = Filling(run, folder)
    for _ in range(run.times(EPISODES, 6)):
        room = run.random.choice((0, 3_000, 20_000, 60_000, 300_000))
        filling.episode(
            lambda room=room: shim.leave(run.random.randrange(room + 1)),  # type: ignore[misc]
            lambda: shim.leave(None),
            40,
        )
        # a store that is opened when the disk is full can be read
        if run.random.random() < 0.3:
            filling.memory.close()
            shim.leave(0)
            try:
                filling.memory = open_store(folder)
            except StoreError as error:
                _clear(error)
                run.count("opening refused")
                shim.leave(None)
                filling.memory = open_store(folder)
            filling.check()
            shim.leave(None)
    run.counts["writes refused"] = shim.refused
    assert shim.refused, "the disk was never full"
    shim.leave(None)
    filling.end()


def tmpfs(run: Run) -> None:
    """The same on a real file system of three megabytes."""
    place = run.place("disk")
    if os.geteuid() != 0 or shutil.which("mount") is None:
        raise CannotPlay("only root may mount a small file system; full-disk-quota stands for it")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        raise CannotPlay("a small file system cannot be mounted here; full-disk-quota stands for it")
    try:
        folder = place / "store"
        folder.mkdir()
        _on_small_disk(run, folder, place / "filler")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def _on_small_disk(run: Run, folder: Path, filler: Path) -> None:
    filling = Filling(run, folder)

    def fill() -> None:
        free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
        filler.write_bytes(b"x" * max(0, free - run.random.randrange(120_000)))

    for _ in range(run.times(EPISODES // 3, 3)):
        filling.episode(fill, lambda: filler.unlink(missing_ok=True), 40)
    assert run.counts.get("refused"), "the disk was never full"
    filling.end()
