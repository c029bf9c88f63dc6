"""Keyfold on a real Mem0 library and PostgreSQL: the clauses that the double is held to, and two writers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from keyfold import Memory, conformance
from keyfold.conformance.world import SteppedClock
from keyfold.contract.intents import Query
from keyfold.registry import open_async_engine, open_engine
from tests.live import mem0_server, rewriting
from tests.remote.common import contents, intent

TIMES = 100


@pytest.fixture
def url(live_mem0_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("KEYFOLD_API_KEY", mem0_server.API_KEY)
    return live_mem0_url.replace("http://", "mem0+http://")


def failures(outcomes: list[conformance.Outcome]) -> list[str]:
    assert sum(outcome.status == "passed" for outcome in outcomes) > 130
    return [str(outcome) for outcome in outcomes if outcome.status == "failed"]


@pytest.mark.timeout(600)
def test_every_clause_holds_blocking(url: str) -> None:
    outcomes = conformance.run(lambda config: open_engine(url, config=config), clock=SteppedClock())
    assert failures(outcomes) == []


@pytest.mark.timeout(600)
def test_every_clause_holds_awaited(url: str) -> None:
    opened = conformance.arun(lambda config: open_async_engine(url, config=config), clock=SteppedClock())
    assert failures(asyncio.run(opened)) == []


@pytest.mark.timeout(300)
def test_two_processes_rewriting_one_key_end_with_one_record_and_the_last_text(url: str) -> None:
    told = rewriting.race(url, TIMES)
    with Memory.open(url) as memory:
        held = memory.mem_list(rewriting.USER).items
        memory.mem_delete(rewriting.USER, all=True)
    assert [record.topic_key for record in held] == [rewriting.KEY]
    # Two that end within one request of each other are answered in no order that a caller could know.
    assert held[0].content in told["either"]
    assert held[0].revision_count >= TIMES


def test_a_namespace_longer_than_the_server_lists_is_read_whole(url: str) -> None:
    engine = open_engine(url)
    try:
        intents = [intent("long", f"key/{number}", f"content {number}") for number in range(1003)]
        engine.store_many(intents)
        for _ in range(2):
            found = contents(engine.page(Query("long", limit=2000)).items)
            assert found == sorted(f"content {number}" for number in range(1003))
            assert engine.count("long").total == 1003
    finally:
        engine.close()
