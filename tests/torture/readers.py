"""A reader that is held open for minutes while others write, forget and erase."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import apsw

from keyfold import Memory
from tests.engines.common import check_agreement
from tests.torture.common import Run, Say, open_store, spawn, until, wal_size, word, words_in

USER = "ana"
HELD = 120.0  # seconds
WRITERS = 2
NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}
FILLER = " some more words that every note has" * 10
FIRST = 3_000  # records that are there before
PAGES_A_SAVE = 24  # of 2,048 bytes: what a save, its share of the index included, may put into the log


def _write(folder: Path, writer: int, seed: int, seconds: float, say: Say) -> None:
    random = Random(seed)
    held: list[str] = []
    number = saves = forgets = 0
    waits: set[str] = set()
    doomed: list[str] = []
    slowest = 0.0
    deadline = time.monotonic() + seconds
    memory = open_store(folder)
    while time.monotonic() < deadline:
        began = time.monotonic()
        if len(held) > 20 and random.random() < 0.1:
            mark = held.pop(random.randrange(len(held)))
            done = memory.mem_delete(USER, topic_key=f"k/{mark}")
            assert done.deleted == 1
            assert memory.mem_search(USER, mark).total == 0, "forgotten, and found"
            assert done.erased is not True, "erased, while a reader holds what it was"
            waits.add(str(done.erased))
            doomed.append(mark)
            forgets += 1
        else:
            number += 1
            mark = word(number, writer)
            memory.mem_save(USER, mark + FILLER, **NOTE, topic_key=f"k/{mark}")
            held.append(mark)
            saves += 1
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.002)
    say(
        saves=saves, forgets=forgets, waits=sorted(waits), doomed=doomed, held=held, slowest=round(slowest, 2)
    )
    memory.close()


def _fill(memory: Memory, records: int) -> None:
    for start in range(0, records, 500):
        memory.mem_save_many(
            USER,
            [
                {"content": word(number, 9) + FILLER, "topic_key": f"old/{number}", **NOTE}
                for number in range(start, min(start + 500, records))
            ],
        )


def held_open(run: Run) -> None:
    folder = run.place("store")
    seconds = max(5.0, HELD * run.scale)
    with open_store(folder) as memory:
        _fill(memory, run.times(FIRST, 1_000))
    seeds = [run.random.randrange(10**9) for _ in range(WRITERS)]

    def hold(say: Say) -> None:
        reader = apsw.Connection(str(folder / "store.db"))
        reader.execute("BEGIN")
        count = reader.execute("SELECT count(*) FROM records").fetchall()
        say(count=count[0][0])
        time.sleep(seconds + 60)

    holder = spawn(hold)
    before = next(holder.said())["count"]
    children = [
        spawn(lambda say, n=number: _write(folder, n, seeds[n], seconds, say))  # type: ignore[misc]
        for number in range(WRITERS)
    ]
    told = [child.finish()[0] for child in children]
    peak = wal_size(folder)
    saves, forgets = (sum(line[name] for line in told) for name in ("saves", "forgets"))
    run.counts.update(
        held=f"{seconds:.0f} s",
        saves=saves,
        forgets=forgets,
        slowest_call=max(line["slowest"] for line in told),
        log_at_peak_kb=peak >> 10,
        store_kb=(folder / "store.db").stat().st_size >> 10,
    )
    assert saves > 20
    assert forgets > 3
    waits = {wait for line in told for wait in line["waits"]}
    assert all(wait.startswith("waiting: ") for wait in waits), waits
    assert any("reader" in wait for wait in waits), waits
    # The log cannot be reused while the reader looks at its beginning, but it grows by what is written only: an
    # erasure that has to wait does not rewrite the whole store into it.
    allowed = (saves + forgets) * PAGES_A_SAVE * 2_048 + (8 << 20)
    assert peak < allowed, f"the log grew to {peak >> 10} KB where {allowed >> 10} were expected"
    holder.kill()
    holder.wait()
    _after(run, folder, told, before)


def _after(run: Run, folder: Path, told: list[dict[str, Any]], before: int) -> None:
    """The reader is gone: what waited is done, the log is small again, and everything answered is there."""
    with open_store(folder) as memory:
        assert until(lambda: memory.engine.erase() is True)  # type: ignore[attr-defined]  # the embedded engine's own step
        left = {mark for line in told for mark in line["doomed"]} & words_in(folder)
        assert not left, "erased, and found in a file"
        run.counts["log_after_kb"] = wal_size(folder) >> 10
        assert wal_size(folder) < 1 << 20
        for line in told:
            for mark in line["held"]:
                assert memory.mem_get_observation(USER, topic_key=f"k/{mark}") is not None, "a save is lost"
        kept = sum(len(line["held"]) for line in told)
        assert memory.mem_stats(USER)["by_kind"]["observation"] == kept + run.times(FIRST, 1_000)
        assert before == run.times(FIRST, 1_000) + 1
    check_agreement(folder)
