"""A copy of the files taken while somebody writes: it opens or is refused clearly, and what opens is consistent."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import apsw

from keyfold import KeyfoldError, StoreError, Unavailable
from keyfold.engines.sqlite.doctor import examine
from tests.engines.common import check_agreement
from tests.torture.common import Child, Run, open_store, spawn
from tests.torture.kills import USER, Book, Round, write

COPIES = 90


class Heard:
    """What a writer said up to now."""

    def __init__(self, child: Child, played: Round, book: Book) -> None:
        self.child, self.played, self.book = child, played, book
        self.pending: dict[str, Any] | None = None
        self.rest = b""
        os.set_blocking(child.lines.fileno(), False)

    def listen(self) -> None:
        while True:
            try:
                data = os.read(self.child.lines.fileno(), 1 << 16)
            except BlockingIOError:
                break
            assert data, "the writer ended"
            self.rest += data
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            told = json.loads(line)
            assert "fault" not in told, told
            if "call" in told:
                self.pending = told["call"]
                self.book.last = told["call"]["last"]
            elif "answer" in told:
                assert self.pending is not None
                self.played._answered(self.book, self.pending, told["answer"])
                self.pending = None


def _copy(run: Run, source: Path, target: Path, names: tuple[str, ...], *, torn: bool) -> None:
    """Copy files; a torn copy takes its time, while the writer goes on."""
    for name in names:
        if not (source / name).exists():
            continue
        with (source / name).open("rb") as old, (target / name).open("wb") as new:
            while data := old.read(32_768 if torn else 1 << 30):
                new.write(data)
                if torn:
                    time.sleep(run.random.random() * 0.004)


def _opens(folder: Path, *, sound: bool) -> bool:
    """Whether a copy opens and can be used. If not, the error is one of ours; of a sound file there is none."""
    try:
        with open_store(folder) as memory:
            memory.mem_list(USER, limit=1000)
            memory.mem_search(USER, "note words")
            memory.mem_stats(USER)
            memory.mem_save(USER, "goes on", type="decision", title="After the copy", topic_key="after")
    except KeyfoldError as error:
        _refused(error, sound=sound)
        return False
    return True


def _refused(error: KeyfoldError, *, sound: bool) -> None:
    assert not sound, f"a sound copy was refused: {error}"
    assert isinstance(error, StoreError | Unavailable), repr(error)


def _sound(folder: Path) -> bool:
    """Whether SQLite and the index find no fault; what they find they say by an error of theirs, not by a crash."""
    try:
        check_agreement(folder)
    except (AssertionError, apsw.Error):
        return False
    return True


def mid_write(run: Run) -> None:
    folder = run.place("store")
    book = Book(0)
    played = Round(run, folder, "process")
    played.books[0] = book
    child = spawn(lambda say: write(folder / "store.db", "process", copy.deepcopy(book), run.seed, say))
    heard = Heard(child, played, book)
    try:
        for number in range(run.times(COPIES, 9)):
            time.sleep(0.01 + run.random.random() * 0.03)
            target = run.place(f"copy{number}")
            kind = ("whole", "no log", "torn")[number % 3]
            if kind != "torn":
                os.kill(child.pid, signal.SIGSTOP)
                os.waitpid(child.pid, os.WUNTRACED)
            try:
                heard.listen()
                names = ("store.db",) if kind == "no log" else ("store.db", "store.db-wal")
                _copy(run, folder, target, names, torn=kind == "torn")
                if kind == "whole":
                    _whole(run, heard, target)
                else:
                    _partial(run, kind, target)
            finally:
                if kind != "torn":
                    os.kill(child.pid, signal.SIGCONT)
            shutil.rmtree(target)
    finally:
        child.kill()
        child.wait()


def _whole(run: Run, heard: Heard, target: Path) -> None:
    """The file and its log as they were at one moment: all that was answered is there."""
    played = Round(run, target, "process")
    book = copy.deepcopy(heard.book)
    played.books[0] = book
    played.shared, played.shared_answered = [], set(heard.played.shared_answered)
    with open_store(target) as memory:
        struck = set()
        if heard.pending is not None:
            played._settle(memory, book, heard.pending)
            struck = set(heard.pending["words"])
        played._check(memory, book)
        played._check_shared(memory, struck)
    check_agreement(target)
    run.count("whole")


def _partial(run: Run, kind: str, target: Path) -> None:
    """Without its log, or read while it changed: not the store at any moment, and perhaps no store at all."""
    told = examine(str(target / "store.db"))
    sound = _sound(target)
    assert told.ok <= sound, "the doctor finds nothing in a copy that is not sound"
    opens = _opens(target, sound=sound)
    run.count(f"{kind}: {'sound' if sound else 'unsound and found so'}, {'opens' if opens else 'refused'}")
