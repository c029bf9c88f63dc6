"""The engine on Supermemory conforms, at the number of requests that is promised."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from keyfold.portability import export, import_keyfold
from tests.doubles.supermemory import Supermemory
from tests.remote.common import KEY, SUPERMEMORY
from tests.remote.supermemory_service import USER, alive, counting, reach, read, save


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory], monkeypatch: pytest.MonkeyPatch) -> Supermemory:
    monkeypatch.delenv("KEYFOLD_API_KEY", raising=False)
    return running(Supermemory(key=KEY))


def fill(double: Supermemory, user: str, n: int) -> None:
    SUPERMEMORY.fill(double, user, n)


def pages(n: int) -> int:
    return max(1, -(-n // 200))


@pytest.mark.parametrize("n", [10, 1000, 5000])
@pytest.mark.parametrize("others", [0, 1500])
def test_a_record_is_read_and_rewritten_at_the_same_cost_at_any_size(
    double: Supermemory, n: int, others: int
) -> None:
    fill(double, USER, n)
    fill(double, "another", others)
    with reach(double) as memory:
        for _ in ("cold", "warm"):
            with counting(double) as made:
                assert read(memory, USER, "key/7") == "content 7"
            assert made.requests == 1
        with counting(double) as made:
            assert save(memory, USER, "key/7", "content 7").outcome == "deduped"
        assert made.requests == 1
        with counting(double) as made:
            assert save(memory, USER, "key/7", "new").outcome == "updated"
        assert made.requests == 2
        with counting(double) as made:
            assert memory.mem_delete(USER, topic_key="key/7").deleted == 1
        assert made.requests == 2
    with reach(double) as cold:
        with counting(double) as made:
            assert save(cold, USER, "key/8", "new").outcome == "updated"
        assert made.requests == 2
        with counting(double) as made:
            assert cold.mem_delete(USER, topic_key="key/8").deleted == 1
        assert made.requests == 2


@pytest.mark.parametrize("n", [10, 1000, 5000])
def test_absence_is_proved_by_the_pages_of_one_namespace(double: Supermemory, n: int) -> None:
    fill(double, USER, n)
    fill(double, "another", 1000)
    with reach(double) as memory:
        for _ in ("cold", "warm"):
            with counting(double) as made:
                assert read(memory, USER, "none") is None
            assert made.requests == 1 + pages(n)
            with counting(double) as made:
                assert memory.mem_delete(USER, topic_key="none").deleted == 0
            assert made.requests == 1 + pages(n)
        with counting(double) as made:
            assert save(memory, USER, "none").outcome == "created"
        assert made.requests == 2 + pages(n)


@pytest.mark.parametrize("n", [10, 1000])
def test_lists_and_counts_cost_their_pages(double: Supermemory, n: int) -> None:
    fill(double, USER, n)
    fill(double, "another", 1000)
    with reach(double) as memory:
        for _ in ("cold", "warm"):
            with counting(double) as made:
                assert memory.mem_list(USER).total == n
            assert made.requests == pages(n)
            with counting(double) as made:
                assert memory.mem_stats(USER)["by_kind"] == {"observation": n}
            assert made.requests <= pages(n) + 1  # and a look at the sessions
            with counting(double) as made:
                assert len(memory.mem_topics(USER)) == n
            assert made.requests == pages(n)
            with counting(double) as made:
                assert len(memory.mem_search(USER, "content 7")) == 10
            assert made.requests == 1


def test_forgetting_everything_costs_a_request_for_each_five_hundred(double: Supermemory) -> None:
    fill(double, USER, 600)
    with reach(double) as memory, counting(double) as made:
        assert memory.mem_delete(USER, all=True).deleted == 600
    assert made.requests == pages(600) + 1 + 2  # the memories, the sessions, and two times forgetting
    assert alive(double) == []


def test_namespaces_cost_a_look_at_each(double: Supermemory) -> None:
    for number in range(12):
        fill(double, f"user {number}", 300)
    double.seed("somebody_elses", 3)
    with closing(SUPERMEMORY.engine(double)) as engine:
        with counting(double) as made:
            assert engine.namespaces() == sorted(f"user {number}" for number in range(12))
        assert made.requests == 1 + 12


def test_an_export_of_a_thousand_reads_each_page_once_and_an_import_writes_hundreds(
    double: Supermemory, running: Callable[[Supermemory], Supermemory]
) -> None:
    fill(double, USER, 1000)
    with reach(double) as memory:
        for number in range(20):
            save(memory, USER, f"key/{number}", f"second {number}")
    with closing(SUPERMEMORY.engine(double)) as engine, counting(double) as made:
        lines = list(export(engine))
    assert len(lines) == 1002
    assert made.requests == 1 + pages(1020)  # with the earlier states of those that have some
    assert sum('"revision":2' in line and '"content ' in line for line in lines) == 20

    other = running(Supermemory(key=KEY))
    with closing(SUPERMEMORY.engine(other)) as engine:
        with counting(other) as made:
            report = import_keyfold(engine, lines)
        assert report.created == 1000
        assert made.requests <= 1000 / 100 + 4 + 20 * 3  # 20 have a past, whose states are written one by one
        with counting(other) as made:
            assert import_keyfold(engine, lines).deduped == 1000
        assert made.requests <= pages(1020) + 4
        assert list(export(engine)) == lines
    assert len(alive(other, USER)) == 1000
