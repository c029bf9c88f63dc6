"""Ctrl-C in the middle of every call: the same handle goes on, and nothing that was answered is lost."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import keyfold
from keyfold import Config, Memory, NotFound
from tests.engines.common import check_agreement
from tests.torture.common import Run, Say, open_store, spawn, word
from tests.torture.kills import USER, Book, Round, perform

SIGNALS = 300
MOST_POINTS = 250  # of one call; a save has about 100
SOURCES = str(Path(keyfold.__file__).parent)
NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}


class Gate:
    """Lets SIGINT through as KeyboardInterrupt while it is open."""

    def __init__(self) -> None:
        self.open = False
        self.struck = self.missed = 0
        signal.signal(signal.SIGINT, self)

    def __call__(self, *_: object) -> None:
        if not self.open:
            self.missed += 1
            return
        self.open = False
        self.struck += 1
        raise KeyboardInterrupt


def _reads(memory: Memory, book: Book, random: Random) -> Callable[[], object]:
    key = random.choice(list(book.held) or ["none"])
    return random.choice(
        [
            lambda: memory.mem_search(USER, "note same words", limit=5),
            lambda: memory.mem_list(USER, limit=5),
            lambda: memory.mem_history(USER, topic_key=key),
            lambda: memory.mem_context(USER, budget=500),
            lambda: memory.mem_stats(USER),
            lambda: memory.mem_session_start(USER),
        ]
    )


def _go_on(run: Run, folder: Path, wanted: int, say: Say) -> None:
    """Calls of all kinds on one handle, under signals from outside."""
    gate, book = Gate(), Book(0)
    memory = open_store(folder, durability="process")
    played = Round(run, folder, "process")
    played.books[0] = book
    say(ready=True)
    calls = 0
    while gate.struck < wanted:
        calls += 1
        reading = run.random.random() < 0.4
        work = _reads(memory, book, run.random) if reading else None
        call = None if reading else book.next_call(run.random)
        try:
            gate.open = True
            answer = work() if work is not None else perform(memory, call or {}, 0)
            gate.open = False
        except KeyboardInterrupt:
            if call is not None:
                played._settle(memory, book, call)
                if call["call"] == "share":
                    played.shared_answered.update(_shared(memory))
            continue
        if call is not None:
            assert isinstance(answer, dict)
            played._answered(book, call, answer)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    played._check(memory, book)
    played._check_shared(memory, set())
    memory.close()
    check_agreement(folder)
    say(calls=calls, struck=gate.struck, between=gate.missed)


def _shared(memory: Memory) -> list[str]:
    history = memory.mem_history(USER, topic_key="shared")
    return [state.content.split(" ", 1)[0] for state in history]


def signals(run: Run) -> None:
    """Real signals, at random moments."""
    folder = run.place("store")
    wanted = run.times(SIGNALS, 30)
    child = spawn(lambda say: _go_on(run, folder, wanted, say))
    said = child.said()
    next(said)
    seen: list[dict[str, Any]] = []
    while not (done := os.waitpid(child.pid, os.WNOHANG))[0]:
        time.sleep(run.random.random() * 0.006)
        os.kill(child.pid, signal.SIGINT)
    seen = list(said)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert seen, "it ended without a word"
    run.counts.update(seen[-1])


Call = Callable[[Memory, int], object]


def _mark(number: int) -> str:
    return word(number)


def _save(memory: Memory, number: int) -> object:
    return memory.mem_save("u", _mark(number), **NOTE, topic_key=f"key {number}")


def _delete_all(memory: Memory, number: int) -> object:
    memory.mem_save(f"u{number}", _mark(number), **NOTE)
    return memory.mem_delete(f"u{number}", all=True)


def _end(memory: Memory, number: int) -> object:
    memory.mem_session_start("v", session_id=f"s{number}")
    try:
        return memory.mem_session_end("v", session_id=f"s{number}", summary=_mark(number))
    except NotFound:
        return None  # the struck one ended it


def _restore(memory: Memory, number: int) -> object:
    return memory.mem_restore("u", topic_key="fixed", revision=1 + number % 2)


# Each can be repeated; those in WRITES leave one record that its word finds.
WRITES: dict[str, Call] = {
    "save": _save,
    "save once": lambda m, n: m.mem_save("u", _mark(n), **NOTE, idempotency_key=f"i{n}"),
    "save long": lambda m, n: m.mem_save("u", _mark(n) + " filler" * 700, **NOTE, topic_key=f"key {n}"),
    "save many": lambda m, n: m.mem_save_many(
        "u", [{"content": _mark(n), "topic_key": f"key {n}", **NOTE}, {"content": "same", **NOTE}]
    ),
    "log turn": lambda m, n: m.mem_log_turn("u", thread_id="t", index=n, role="user", text=_mark(n)),
    "document": lambda m, n: m.mem_add_document("u", source=f"doc {n}", text=_mark(n)),
    "summary": lambda m, n: m.mem_session_summary("u", _mark(n), session_id=f"summed {n}"),
    "end": _end,
}
OTHERS: dict[str, Call] = {
    "update": lambda m, n: m.mem_update("u", topic_key="fixed", content=f"text {n}"),
    "restore": _restore,
    "delete": lambda m, n: (_save(m, n), m.mem_delete("u", topic_key=f"key {n}")),
    "delete none": lambda m, n: (_save(m, n), m.mem_delete("u", filter={"none": 1})),
    "delete all": _delete_all,
    "start": lambda m, n: m.mem_session_start("u"),
    "search": lambda m, n: m.mem_search("u", "text", limit=3, explain=True),
    "list": lambda m, n: m.mem_list("u", types=["decision"], limit=3),
    "get": lambda m, n: m.mem_get_observation("u", topic_key="fixed"),
    "timeline": lambda m, n: m.mem_timeline("u", topic_key="fixed", before=2, after=2),
    "history": lambda m, n: m.mem_history("u", topic_key="fixed"),
    "revision": lambda m, n: m.mem_revision("u", topic_key="fixed", revision=1),
    "topics": lambda m, n: m.mem_topics("u", "fix"),
    "suggest": lambda m, n: m.mem_suggest_topic_key("u", type="decision", title="fixed"),
    "sessions": lambda m, n: m.mem_session_list("v", limit=3),
    "context": lambda m, n: m.mem_context("u", budget=300),
    "stats": lambda m, n: m.mem_stats("u"),
}


def struck_at(call: Callable[[], object], place: int) -> bool:
    """Run a call that is interrupted at the place-th point of Keyfold's code where CPython heeds a signal.

    Those are the entry of a function and the return of a call into C. False when it has fewer.
    """
    points = 0

    def strike(frame: Any, event: str, _: object) -> None:
        nonlocal points
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(SOURCES):
            points += 1
            if points == place:
                sys.setprofile(None)
                raise KeyboardInterrupt

    told = sys.unraisablehook
    sys.unraisablehook = lambda _: None  # an interrupt while a generator is let go of is lost, and says so
    try:
        sys.setprofile(strike)
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        sys.unraisablehook = told
    return False


def points_of(call: Callable[[], object]) -> int:
    """How many points a call has."""
    points = 0

    def look(frame: Any, event: str, _: object) -> None:
        nonlocal points
        points += event in ("call", "c_return") and frame.f_code.co_filename.startswith(SOURCES)

    try:
        sys.setprofile(look)
        call()
    finally:
        sys.setprofile(None)
    return points


def every_point(run: Run) -> None:
    """An interrupt at every point of every call (at a small scale at some of them), in a file and in memory."""
    folder = run.place("store")
    number = 0
    for url in (str(folder / "store.db"), ":memory:"):
        with Memory.open(url, config=Config(durability="process")) as memory:
            memory.mem_save("u", "text one", **NOTE, topic_key="fixed")
            memory.mem_save("u", "text two", **NOTE, topic_key="fixed")
            for name, call in {**WRITES, **OTHERS}.items():
                number += 1
                points = points_of(lambda c=call, n=number: c(memory, n))  # type: ignore[misc]
                places = run.random.sample(range(1, points + 1), min(points, run.times(MOST_POINTS, 10)))
                for place in sorted(places):
                    number += 1
                    struck = struck_at(lambda c=call, n=number: c(memory, n), place)  # type: ignore[misc]
                    run.count("struck", int(struck))
                    run.count("went through", int(not struck))
                    call(memory, number)  # the same handle goes on, and the call can be repeated
                    if name in WRITES:
                        found = memory.mem_search("v" if name == "end" else "u", _mark(number))
                        assert found.total == 1, f"{name}, struck at point {place}, then repeated"
                    else:
                        left = memory.mem_search("u", _mark(number), reach="subtree").total
                        assert left == (1 if name == "delete none" else 0), f"{name}, struck at point {place}"
            held = memory.mem_history("u", topic_key="fixed")
            assert [state.revision for state in held] == list(range(len(held), 0, -1))
    run.counts["calls"] = len(WRITES) + len(OTHERS)
    check_agreement(folder)
