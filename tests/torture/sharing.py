"""Sixteen processes on one store and the same keys: the revisions add up, and nobody's text is lost."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from keyfold import Conflict, Memory
from tests.engines.common import check_agreement
from tests.torture.common import Run, Say, open_store, spawn, word

PROCESSES = 16
KEYS = 12
SAVES = 40
ADDITIONS = 8
NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}
COUNTER: dict[str, Any] = {"type": "config", "title": "Counter", "topic_key": "counter"}


def _add_one(memory: Memory) -> int:
    """Read, add, and write on condition that nobody wrote in between; how many were."""
    lost = 0
    while True:
        held = memory.mem_get_observation("team", topic_key="counter")
        value = int(held.content) if held is not None else 0
        try:
            revision = held.revision_count if held is not None else 0
            memory.mem_save("team", str(value + 1), **COUNTER, expect_revision=revision)
            return lost
        except Conflict:
            lost += 1


def _work(folder: Path, number: int, saves: int, additions: int, seed: int, say: Say) -> None:
    random = Random(seed)
    with open_store(folder) as memory:  # all open at once, and the first makes the store
        same = memory.mem_save("team", "all say this once", **NOTE)
        say(same=same.id)
        for turn in range(saves):
            mark = word(turn, number) + f" of {number}"
            saved = memory.mem_save("team", mark, **NOTE, topic_key=f"key {random.randrange(KEYS)}")
            say(key=saved.topic_key, revision=saved.revision_count, mark=mark)
        say(lost=sum(_add_one(memory) for _ in range(additions)))


def sixteen_processes(run: Run) -> None:
    folder = run.place("store")
    saves, additions = run.times(SAVES, 5), run.times(ADDITIONS, 2)
    seeds = [run.random.randrange(10**9) for _ in range(PROCESSES)]
    children = [
        spawn(lambda say, n=number: _work(folder, n, saves, additions, seeds[n], say))  # type: ignore[misc]
        for number in range(PROCESSES)
    ]
    told = [line for child in children for line in child.finish()]
    answered = {(line["key"], line["revision"]): line["mark"] for line in told if "key" in line}
    assert len(answered) == PROCESSES * saves, "two saves were given the same revision of a key"
    assert len({line["same"] for line in told if "same" in line}) == 1, "a repeat became a second record"
    with open_store(folder) as memory:
        for topic in memory.mem_topics("team", "key "):
            history = memory.mem_history("team", topic_key=topic.key)
            for state in history:
                assert answered.pop((topic.key, state.revision)) == state.content
            assert len(history) == topic.revision_count
        assert not answered, "answered saves are in no history"
        held = memory.mem_get_observation("team", topic_key="counter")
        assert held is not None
        assert int(held.content) == held.revision_count == PROCESSES * additions
        run.counts["sessions"] = memory.mem_session_list("team").total
    check_agreement(folder)
    run.counts.update(
        processes=PROCESSES,
        saves=PROCESSES * saves,
        additions=PROCESSES * additions,
        conflicts=sum(line.get("lost", 0) for line in told),
    )
