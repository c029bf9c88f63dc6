"""Ctrl-C at any point, and forks at any time: no connection and no lock is lost for it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from keyfold.contract.intents import Query, Ref, SearchQuery
from keyfold.engines.sqlite import SqliteEngine, forks, pool
from tests.engines.common import USER, check_agreement, finish, note, opened, start


class Interrupting(list):  # type: ignore[type-arg]
    """Free connections; the interrupt strikes when one was just taken out."""

    def pop(self, *_: object) -> object:
        super().pop()
        raise KeyboardInterrupt


def test_a_reader_that_an_interrupt_took_away_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PATIENCE", 0.2)
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    for _ in range(3 * pool.SIZE):
        assert engine.get(Ref(USER, key="k")) is not None
        readers = engine._readers
        readers._free = Interrupting(readers._free)
        with pytest.raises(KeyboardInterrupt):
            engine.get(Ref(USER, key="k"))
        readers._free = []
    assert engine.get(Ref(USER, key="k")) is not None
    assert len(readers._all) <= pool.SIZE
    engine.close()


class Shy:
    """A lock whose plain `acquire` is interrupted after it took it. `with` cannot be: that is one step of C."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.release = lock.release
        self.locked = lock.locked

    def acquire(self, *arguments: object) -> bool:
        self._lock.acquire()
        raise KeyboardInterrupt

    def __enter__(self) -> object:
        return self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.__exit__(*error)


def test_an_interrupt_leaves_the_lock_of_a_store_in_memory_free() -> None:
    engine = SqliteEngine.open(":memory:")
    engine.store(note("k", "text"))
    engine._readers._lock = Shy(engine._lock)
    with contextlib.suppress(KeyboardInterrupt):
        engine.get(Ref(USER, key="k"))
    assert not engine._lock.locked()
    engine.close()


STORM = """
import os, signal, sys, threading, time
from pathlib import Path
from keyfold.contract.intents import Query, Ref, SearchQuery
from keyfold.engines.sqlite import SqliteEngine
from tests.engines.common import USER, note
from keyfold.model import Config

engine = SqliteEngine.open(sys.argv[1], config=Config(durability="process"))
engine.store(note("k", "text"))
over = inside = False

def interrupted(*_):
    global inside
    if inside:  # nowhere else would the script catch it
        inside = False
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupted)

def strike():
    while not over:
        time.sleep(0.0007)
        os.kill(os.getpid(), signal.SIGINT)

number = struck = 0
until = time.monotonic() + 3
thread = threading.Thread(target=strike, daemon=True)
thread.start()
while time.monotonic() < until:
    try:
        inside = True
        while time.monotonic() < until:
            number += 1
            engine.get(Ref(USER, key="k"))
            engine.page(Query(USER, limit=2))
            if number % 4 == 0:
                engine.store(note(f"k{number % 9}", f"text {number}"))
                engine.search(SearchQuery(USER, "text"))
        inside = False
    except KeyboardInterrupt:
        struck += 1
over = True
thread.join()

done = []
def look():
    engine.store(note(None, "after"))
    done.append(engine.page(Query(USER, limit=2)).total > 0 and engine.get(Ref(USER, key="k")) is not None)
threads = [threading.Thread(target=look, daemon=True) for _ in range(8)]
began = time.monotonic()
for thread in threads: thread.start()
for thread in threads: thread.join(20)
assert struck > 20, struck
assert done == [True] * 8, done
assert time.monotonic() - began < 15
engine.close()
"""


@pytest.mark.parametrize("place", ["store.db", ":memory:"])
def test_a_handle_lives_through_a_storm_of_interrupts(tmp_path: Path, place: str) -> None:
    finish(start(STORM, place if place == ":memory:" else tmp_path / place))


def child_works(engine: SqliteEngine, number: int) -> int:
    """Fork; the exit code of a child that writes and reads. 14 (the alarm) when it hangs."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        try:
            engine.store(note(f"child {number}", f"text of child {number}"))
            engine.search(SearchQuery(USER, "child"))
            record = engine.get(Ref(USER, key=f"child {number}"))
            if number % 2:
                engine.close()
            os._exit(0 if record is not None else 1)
        except BaseException:  # noqa: BLE001  # a child must not run on into the test session
            os._exit(2)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_other_threads_are_at_work_gives_a_child_that_works(tmp_path: Path) -> None:
    engine = opened(tmp_path, durability="process")
    engine.store(note("k", "text"))
    over = False
    faults: list[BaseException] = []

    def busy(name: int) -> None:
        try:
            number = 0
            while not over:
                number += 1
                engine.store(note(f"{name} {number % 10}", f"text {number}"))
                engine.page(Query(USER, limit=2))
                engine.search(SearchQuery(USER, "text", limit=2))
                if number % 20 == 0:
                    SqliteEngine.open(str(tmp_path / f"other {name}.db")).close()
        except BaseException as error:  # noqa: BLE001  # told to the main thread
            faults.append(error)

    threads = [threading.Thread(target=busy, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    try:
        codes = [child_works(engine, number) for number in range(30)]
    finally:
        over = True
        for thread in threads:
            thread.join()
    assert codes == [0] * 30
    assert faults == []
    assert all(engine.get(Ref(USER, key=f"child {number}")) is not None for number in range(30))
    engine.close()
    check_agreement(tmp_path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_a_read_at_work_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(forks, "QUIET", 0.3)
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    began, leave = threading.Event(), threading.Event()

    def work(*_: object) -> None:
        began.set()
        leave.wait(30)

    reader = threading.Thread(target=lambda: engine._read(work))
    reader.start()
    began.wait(10)
    start_of_fork = time.monotonic()
    code = child_works(engine, 0)
    assert 0.2 < time.monotonic() - start_of_fork < 15
    leave.set()
    reader.join()
    assert code == 0
    assert engine.store(note("k", "text")).outcome == "deduped"
    assert engine.get(Ref(USER, key="k")) is not None
    engine.close()
