"""How much there is, is said by one look at the records, whatever their number (C116)."""

from __future__ import annotations

import time
from pathlib import Path

from keyfold import Memory
from tests.engines.common import USER, note, opened, session


def test_c116_stats_look_at_the_records_once_however_many_there_are(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    memory = Memory(engine)
    looks: list[int] = []
    for number in (10, 300):
        engine.store_many([note(f"k{at}", f"text {at}", session=session()) for at in range(number)])
        memory.mem_stats(USER)  # has a reader made
        said: list[str] = []

        def trace(_: object, statement: str, __: object, said: list[str] = said) -> bool:
            said.append(statement)
            return True

        readers = engine._readers.handles()
        for reader in readers:
            reader.exec_trace = trace
        found = memory.mem_stats(USER)
        for reader in readers:
            reader.exec_trace = None
        assert (found["total"], found["sessions"], found["topics"]) == (number, 1, number)
        looks.append(sum("FROM records" in statement for statement in said))
        assert len(said) == 4, "a transaction, the user's number, and one aggregate"
    assert looks == [1, 1]
    memory.close()


def test_c116_stats_of_20000_records_take_a_fraction_of_a_second(tmp_path: Path) -> None:
    engine = opened(tmp_path, durability="process")
    for start in range(0, 20_000, 1_000):
        engine.store_many([note(f"k{at}", "short text") for at in range(start, start + 1_000)])
    memory = Memory(engine)
    times = []
    for _ in range(3):
        before = time.perf_counter()
        assert memory.mem_stats(USER)["total"] == 20_000
        times.append(time.perf_counter() - before)
    assert min(times) < 0.5
    memory.close()
