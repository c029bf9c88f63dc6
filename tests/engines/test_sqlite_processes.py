"""Processes and threads that share a store: nothing acknowledged is lost, and nothing half-written stays."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from keyfold.contract.intents import Query, Ref, SearchQuery, SessionLapsed, SessionUse
from keyfold.engines.sqlite import SqliteEngine
from keyfold.errors import NotFound
from tests.engines.common import USER, check_agreement, finish, note, opened, session, sql, start

SAVES = """
import sys
from tests.engines.common import note, opened, session
from pathlib import Path
engine = opened(Path(sys.argv[1]), durability="process")
for number in range(100):
    engine.store(note(f"key {number % 10}", f"text {number} of process {sys.argv[2]}", session=session()))
engine.close()
"""

ENDLESS = """
import sys
from itertools import count
from tests.engines.common import note, opened, session
from pathlib import Path
engine = opened(Path(sys.argv[1]))
for number in count():
    receipt = engine.store(
        note(f"key {number % 7} {sys.argv[2]}", f"word{number} of round {sys.argv[2]}", session=session())
    )
    print(receipt.id, receipt.revision_count, f"word{number}", flush=True)
"""


def test_four_processes_with_ten_shared_keys_lose_no_revision(tmp_path: Path) -> None:
    for process in [start(SAVES, tmp_path, number) for number in range(4)]:
        finish(process)
    assert sql(tmp_path, "SELECT sum(revision) FROM records WHERE space = 0") == [(400,)]
    assert sql(tmp_path, "SELECT count(*) FROM revisions") == [(390,)]
    assert sql(tmp_path, "SELECT count(*) FROM records WHERE space = 8") == [(1,)]
    check_agreement(tmp_path)


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    for turn in range(4):
        process = start(ENDLESS, tmp_path, turn)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(40 + 13 * turn)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.communicate()
        engine = opened(tmp_path)
        for identity, revision, word in (line.split() for line in lines if line.endswith("\n")):
            record = engine.get(Ref(USER, id=identity))
            assert record is not None
            assert record.revision_count >= int(revision)
            found = engine.search(SearchQuery(USER, f"{word} round {turn}", limit=5)).items
            assert record.revision_count > int(revision) or found[0].record.id == identity
        engine.close()
        check_agreement(tmp_path)


def test_a_forked_child_reopens_and_the_parent_goes_on(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("before", "text"))
    assert engine.get(Ref(USER, key="before")) is not None
    child = os.fork()
    if child == 0:
        try:
            seen = engine.get(Ref(USER, key="before")) is not None
            saved = engine.store(note("child", "text of the child")).outcome == "created"
            engine.close()
            os._exit(0 if seen and saved else 1)
        except BaseException:  # noqa: BLE001  # a child must not run on into the test session
            os._exit(2)
    for number in range(50):
        engine.store(note(f"parent {number}", "text of the parent"))
    assert os.waitpid(child, 0)[1] == 0
    assert engine.get(Ref(USER, key="child")) is not None
    assert engine.page(Query(USER)).total == 52
    engine.close()
    check_agreement(tmp_path)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_threads_share_an_engine(tmp_path: Path, place: str) -> None:
    engine = opened(tmp_path) if place == "file" else SqliteEngine.open(":memory:")
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(25):
                engine.store(note(f"key {turn % 5}", f"text {turn} of thread {number}", session=session()))
                assert engine.get(Ref(USER, key="key 0")) is not None
                assert engine.search(SearchQuery(USER, "text thread")).total >= 1
                assert engine.page(Query(USER)).total <= 5
        except BaseException as error:  # noqa: BLE001  # told to the main thread
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sum(record.revision_count for record in engine.page(Query(USER)).items) == 200
    engine.close()


def test_an_interrupt_between_statements_leaves_no_transaction_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("keyfold.engines.sqlite.write.use_session", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.store(note("k", "text", session=session()))
    monkeypatch.undo()
    assert engine._writer is not None
    assert not engine._writer.in_transaction
    engine._writer.execute("BEGIN IMMEDIATE")  # as if the interrupt had struck the clean-up itself
    assert engine.store(note("k", "text")).outcome == "created"
    engine._writer.execute("BEGIN IMMEDIATE")
    engine.store_many([note("k2", "text")])
    assert engine.page(Query(USER)).total == 2
    engine.close()
    check_agreement(tmp_path)


def test_a_lapsed_session_leaves_everything_as_it_was(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    before = sql(tmp_path, "SELECT count(*) FROM records")
    with pytest.raises(SessionLapsed):
        engine.store_many([note("a", "text"), note("b", "text", session=SessionUse("gone"))])
    with pytest.raises(NotFound):
        engine.store_many([note("a", "text"), note("b", "text", mode="update")])
    assert sql(tmp_path, "SELECT count(*) FROM records") == before
    assert engine.search(SearchQuery(USER, "text")).total == 0
    engine.close()
    check_agreement(tmp_path)
