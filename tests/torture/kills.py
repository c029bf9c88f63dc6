"""kill -9 in the middle of saves, rewrites, forgets and erasures, with one writer and with several.

A writer says what it is about to do and what was answered. What was answered must be there after reopening,
with its whole history; a call that was struck is there wholly or not at all; what was answered as erased is in
no byte of any file.
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

from keyfold import Config, Memory
from keyfold.engines.sqlite import forget
from keyfold.engines.sqlite.doctor import examine
from tests.engines.common import check_agreement
from tests.torture.common import Child, Run, Say, open_store, spawn, word, words_in

USER = "ana"
SHARED = "shared"
TARGETS = ("save", "rewrite", "forget", "erase")
AIMED = ("save", "save", "save", "rewrite", "rewrite", "rewrite", "forget", "forget", "erase")
KILLS = 50  # in each of the four scenarios
FILLER = " with the same words behind it as every other note, so that searches have something to weigh"
LONG = " filler" * 700  # beyond what is noted for the index: indexed at once


def text_of(mark: str) -> str:
    """The text behind a unique word."""
    return mark + (LONG if mark[-2] == "b" else FILLER)


class Book:
    """What one writer wrote, as far as it was answered: key -> the words of its revisions, oldest first."""

    def __init__(self, writer: int) -> None:
        self.writer = writer
        self.held: dict[str, list[str]] = {}
        self.loose: dict[str, str] = {}  # word of an unkeyed save -> its idempotency key
        self.last = 0  # the number of the last word that was made

    def apply(self, call: dict[str, Any]) -> list[str]:
        """Carry a call out; the words that it made go."""
        if call["call"] == "loose":
            self.loose[call["words"][0]] = call["idempotency"]
        elif call["call"] in ("forget", "filter"):
            return [gone for key in call["keys"] for gone in self.held.pop(key, [])]
        elif call["call"] == "scratch":
            return list(call["words"])
        elif call["call"] != "share":
            for key, mark in zip(call["keys"], call["words"], strict=True):
                self.held.setdefault(key, []).append(mark)
        return []

    def next_call(self, random: Random) -> dict[str, Any]:
        """A call of a random kind, in words that were never used."""
        kinds = ["save", "save", "many", "loose", "share", "scratch"]
        if self.held:
            kinds += ["rewrite", "rewrite", "update", "forget"]
        if len(self.held) > 40:
            kinds = ["rewrite", "update", "forget", "forget", "filter"]
        kind = random.choice(kinds)
        number = (
            random.choice((3, 3, 20)) if kind == "many" else 1
        )  # the longer are written statement by statement
        first, self.last = self.last + 1, self.last + number
        numbers = range(first, self.last + 1)
        marks = [word(number, self.writer) for number in numbers]
        keys = [f"k{self.writer}/{number}" for number in numbers]
        if kind in ("rewrite", "update", "forget"):
            keys = [random.choice(list(self.held))]
        elif kind == "filter":
            keys = random.sample(list(self.held), 3)
        call: dict[str, Any] = {"call": kind, "keys": keys, "words": marks, "last": self.last}
        if kind == "loose":
            call["idempotency"] = f"once-{marks[0]}"
        return call


def perform(memory: Memory, call: dict[str, Any], writer: int) -> dict[str, Any]:
    """Carry out a call, and what was answered."""
    kind, keys, marks = call["call"], call["keys"], call["words"]
    note: dict[str, Any] = {"type": "decision", "title": "Note"}
    if kind == "loose":
        saved = memory.mem_save(USER, text_of(marks[0]), **note, idempotency_key=call["idempotency"])
    elif kind == "many":
        items = [
            {"content": text_of(mark), "topic_key": key, **note}
            for key, mark in zip(keys, marks, strict=True)
        ]
        return {"ids": [receipt.id for receipt in memory.mem_save_many(USER, items)]}
    elif kind == "update":
        saved = memory.mem_update(USER, topic_key=keys[0], content=text_of(marks[0]))
    elif kind == "forget":
        done = memory.mem_delete(USER, topic_key=keys[0])
        return {"deleted": done.deleted, "erased": done.erased}
    elif kind == "filter":
        for key in keys:
            memory.mem_update(USER, topic_key=key, metadata={"doomed": marks[0]})
        done = memory.mem_delete(USER, filter={"doomed": marks[0]})
        return {"deleted": done.deleted, "erased": done.erased}
    elif kind == "scratch":
        other = f"{USER}/scratch{writer}"
        memory.mem_save(other, text_of(marks[0]), **note)
        done = memory.mem_delete(other, all=True)
        return {"deleted": done.deleted, "erased": done.erased}
    else:
        key = SHARED if kind == "share" else keys[0]
        saved = memory.mem_save(USER, text_of(marks[0]), **note, topic_key=key)
    return {"ids": [saved.id] if saved.outcome == "created" else []}


def write(path: Path, durability: Any, book: Book, seed: int, say: Say) -> None:
    """A writer: it goes on until it is killed."""
    random = Random(seed)
    erase = forget.erase

    def telling(conn: Any, path: str) -> bool | str:
        say(erasing=True)
        return erase(conn, path)

    forget.erase = telling  # to know when an erasure is struck
    memory = Memory.open(str(path), config=Config(durability=durability))
    while True:
        call = book.next_call(random)
        say(call=call)
        answer = perform(memory, call, book.writer)
        book.apply(call)
        say(answer=answer)


class Round:
    """Writers on one store, killed one by one; then the store is looked at."""

    def __init__(self, run: Run, folder: Path, durability: str) -> None:
        self.run, self.folder, self.durability = run, folder, durability
        self.books: dict[int, Book] = {}
        self.shared: list[str] = []  # the shared key's history as it was last seen
        self.shared_answered: set[str] = set()
        self.ids: set[str] = set()
        self.gone: set[str] = set()  # answered as erased, or erased since
        self.doomed: set[str] = set()  # forgotten; their bytes wait
        self.usual = dict.fromkeys(TARGETS, 0.003)

    def play(self, writers: int) -> None:
        """Start the writers, kill them one by one, look."""
        children: list[tuple[Book, Child]] = []
        for number in range(writers):
            book = self.books.setdefault(number, Book(number))
            seed = self.run.random.randrange(10**9)
            children.append((book, self._start(book, seed)))
        struck = [
            (book, self._strike(book, child, self.run.random.choice(AIMED))) for book, child in children
        ]
        erased = self.gone & words_in(self.folder)
        assert not erased, f"answered as erased and found in a file: {sorted(erased)[:3]}"
        self._look([(book, call) for book, call in struck if call is not None])

    def _start(self, book: Book, seed: int) -> Child:
        path, durability = self.folder / "store.db", self.durability
        return spawn(lambda say: write(path, durability, book, seed, say))

    def _strike(self, book: Book, child: Child, target: str) -> dict[str, Any] | None:
        """Kill a writer in the middle of a call of a kind; the call that was not answered, if any."""
        skip = self.run.random.randrange(2, 60)
        call: dict[str, Any] | None = None
        now_at, killed, erasing = "", False, False
        began = time.monotonic()
        for told in child.said():
            if "call" in told:
                call, erasing = told["call"], False
                book.last = call["last"]
                now_at = {"update": "rewrite", "share": "rewrite", "filter": "forget"}.get(
                    call["call"], call["call"]
                )
                began = time.monotonic()
            elif "erasing" in told:
                now_at, erasing, began = "erase", True, time.monotonic()
            else:
                if now_at in self.usual and not killed:
                    spent = time.monotonic() - began
                    self.usual[now_at] += (spent - self.usual[now_at]) / 5
                assert call is not None
                self._answered(book, call, told["answer"])
                call = None
            skip -= 1
            if not killed and skip <= 0 and call is not None and now_at == target:
                pause = self.run.random.random() * 1.2 * self.usual[target]
                time.sleep(pause)
                child.kill()
                killed = True
        assert killed, "a writer ended by itself"
        assert child.wait() == -9
        self.run.count("kills")
        if call is None:
            self.run.count("between calls")
        elif erasing:
            self.run.count("in erasures")
        elif now_at in ("rewrite", "forget"):
            self.run.count(f"in {now_at}s")
        else:
            self.run.count("in saves")
        return call

    def _answered(self, book: Book, call: dict[str, Any], answer: dict[str, Any]) -> None:
        self.run.count("answered")
        if call["call"] == "share":
            self.shared_answered.update(call["words"])
        for identity in answer.get("ids", ()):
            assert identity not in self.ids, f"id {identity} was issued twice"
            self.ids.add(identity)
        words = book.apply(call)
        if "deleted" in answer:
            assert answer["deleted"] == (1 if call["call"] == "scratch" else len(call["keys"]))
            (self.gone if answer["erased"] is True else self.doomed).update(words)

    def _look(self, struck: list[tuple[Book, dict[str, Any]]]) -> None:
        memory = open_store(self.folder)
        for book, call in struck:
            self._settle(memory, book, call)
        for book in self.books.values():
            self._check(memory, book)
        self._check_shared(memory, {mark for _, call in struck for mark in call["words"]})
        expected = sum(len(book.held) + len(book.loose) for book in self.books.values()) + bool(self.shared)
        assert memory.mem_stats(USER)["by_kind"].get("observation", 0) == expected
        forgotten = self.gone | self.doomed
        for mark in self.run.random.sample(sorted(forgotten), min(20, len(forgotten))):
            assert memory.mem_search(USER, mark, reach="subtree").total == 0, "a forgotten text was found"
        memory.close()
        assert {path.name for path in self.folder.iterdir()} == {"store.db"}, "files are left behind"
        self.gone |= self.doomed
        self.doomed.clear()
        erased = self.gone & words_in(self.folder)
        assert not erased, f"forgotten, closed, and found in the file: {sorted(erased)[:3]}"
        check_agreement(self.folder)
        told = examine(str(self.folder / "store.db"))
        assert told.ok, told.findings

    def _settle(self, memory: Memory, book: Book, call: dict[str, Any]) -> None:
        """What a struck call did: all of it or nothing."""
        kind, keys, marks = call["call"], call["keys"], call["words"]
        if (
            kind == "loose"
        ):  # the caller repeats it, with its key: one record, whether the first got through or not
            perform(memory, call, book.writer)
            assert memory.mem_search(USER, marks[0]).total == 1, "a retry made a second record"
            book.apply(call)
        elif kind == "scratch":
            done = memory.mem_delete(f"{USER}/scratch{book.writer}", all=True)
            assert done.deleted in (0, 1)
            self.doomed.update(marks)
        elif kind in ("forget", "filter"):
            there = [memory.mem_get_observation(USER, topic_key=key) is not None for key in keys]
            assert len(set(there)) == 1, "half a forget"
            if kind == "filter":  # the marking that goes before a forget is rewrites of their own
                for key in keys:
                    if there[0]:
                        self._remember_marks(memory, book, key)
            if not there[0]:
                self.doomed.update(book.apply(call))
        elif kind != "share":
            texts = [memory.mem_get_observation(USER, topic_key=key) for key in keys]
            new = [
                held is not None and held.content == text_of(mark)
                for held, mark in zip(texts, marks, strict=True)
            ]
            assert len(set(new)) == 1, "half a batch"
            if new[0]:
                book.apply(call)

    def _remember_marks(self, memory: Memory, book: Book, key: str) -> None:
        history = memory.mem_history(USER, topic_key=key)
        if len(history) == len(book.held[key]) + 1:
            book.held[key].append(book.held[key][-1])

    def _check(self, memory: Memory, book: Book) -> None:
        """All that was answered is there, with its history, and is found."""
        for key, marks in book.held.items():
            history = memory.mem_history(USER, topic_key=key)
            assert [state.content for state in reversed(history)] == [text_of(mark) for mark in marks], key
            assert [state.revision for state in reversed(history)] == list(range(1, len(marks) + 1))
            times = [state.written_at for state in history]
            assert times == sorted(set(times), reverse=True)
            found = memory.mem_search(USER, marks[-1])
            assert [hit.id for hit in found] == [history.id], f"{key} is not found by its word"
            for mark in set(marks[:-1]) - {marks[-1]}:
                assert memory.mem_search(USER, mark).total == 0, "a text that was rewritten is found"
        loose = list(book.loose)
        for mark in self.run.random.sample(loose, min(20, len(loose))):
            assert memory.mem_search(USER, mark).total == 1, "an unkeyed save is not found"
        self.run.count("looked up", len(book.held) + len(loose))

    def _check_shared(self, memory: Memory, struck: set[str]) -> None:
        history = memory.mem_history(USER, topic_key=SHARED)
        marks = [state.content.split(" ", 1)[0] for state in reversed(history)]
        assert len(set(marks)) == len(marks), "one save became two revisions"
        assert marks[: len(self.shared)] == self.shared, "the past was changed"
        assert self.shared_answered <= set(marks), "an answered rewrite is lost"
        assert set(marks) <= self.shared_answered | struck
        self.shared, self.shared_answered = marks, set(marks)


def _play(run: Run, durability: str, writers: int) -> None:
    played = Round(run, run.place("store"), durability)
    while run.counts.get("kills", 0) < run.times(KILLS, 4):
        played.play(writers)


def one_writer_full(run: Run) -> None:
    _play(run, "full", 1)


def one_writer_process(run: Run) -> None:
    _play(run, "process", 1)


def several_writers_full(run: Run) -> None:
    _play(run, "full", 3)


def several_writers_process(run: Run) -> None:
    _play(run, "process", 3)
