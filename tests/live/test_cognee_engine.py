"""Keyfold on a real Cognee: the clauses that the double is held to, long listings, and two writers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from keyfold import Config, Memory, conformance
from keyfold.conformance.world import SteppedClock
from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.registry import open_async_engine, open_engine
from tests.live import cognee_server, rewriting
from tests.remote.common import intent, ref

TIMES = 100
PARTS = 4
# With access control each new dataset is a database of its own, so there it is these that keep users apart.
APART = ("R-01", "R-02", "W-01", "W-02", "F-01", "N-01", "P-01")


@pytest.fixture
def url(live_cognee_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("KEYFOLD_API_KEY", raising=False)
    monkeypatch.delenv("COGNEE_API_KEY", raising=False)
    return live_cognee_url.replace("http://", "cognee+http://")


@pytest.fixture
def key(live_cognee_tenants_url: str) -> Iterator[str]:
    """An API key of the default user's."""
    with httpx2.Client(base_url=live_cognee_tenants_url + "/api/v1", timeout=60, trust_env=False) as client:
        form = {"username": cognee_server.USER, "password": cognee_server.PASSWORD}
        token = client.post("/auth/login", data=form).json()["access_token"]
        client.cookies.clear()
        bearer = {"Authorization": f"Bearer {token}"}
        made = client.post("/auth/api-keys", json={"name": "keyfold-tests"}, headers=bearer)
        assert made.status_code == 200, made.text
        yield made.json()["key"]


def failures(outcomes: list[conformance.Outcome]) -> list[str]:
    return [str(outcome) for outcome in outcomes if outcome.status == "failed"]


# In parts, so that processes with a server each share them: one request to Cognee takes a tenth of a second.
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(900)
def test_every_clause_holds_blocking(url: str, part: int) -> None:
    ids = [clause.id for clause in conformance.CLAUSES][part::PARTS]
    outcomes = conformance.run(lambda config: open_engine(url, config=config), clock=SteppedClock(), only=ids)
    assert failures(outcomes) == []
    assert sum(outcome.status == "passed" for outcome in outcomes) > 130 / PARTS - 8


@pytest.mark.timeout(600)
def test_the_clauses_on_keeping_users_apart_hold_awaited_and_with_access_control(
    live_cognee_tenants_url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COGNEE_API_KEY", key)
    monkeypatch.delenv("KEYFOLD_API_KEY", raising=False)
    url = live_cognee_tenants_url.replace("http://", "cognee+http://")
    opened = conformance.arun(
        lambda config: open_async_engine(url, config=config), clock=SteppedClock(), only=APART
    )
    outcomes = asyncio.run(opened)
    assert failures(outcomes) == []
    assert sum(outcome.status == "passed" for outcome in outcomes) == len(APART)


@pytest.mark.timeout(300)
def test_two_processes_rewriting_one_key_end_with_one_record_and_the_last_text(url: str) -> None:
    told = rewriting.race(url, TIMES // 2)
    with Memory.open(url) as memory:
        held = memory.mem_list(rewriting.USER).items
        memory.mem_delete(rewriting.USER, all=True)
    assert [record.topic_key for record in held] == [rewriting.KEY]
    # Two that end within one request of each other are answered in no order that a caller could know.
    assert held[0].content in told["either"]
    assert held[0].revision_count >= TIMES // 2
    assert told["refused"] == 0


@pytest.mark.timeout(300)
def test_more_rows_than_a_page_are_read_whole_and_short_texts_without_a_request_each(url: str) -> None:
    engine = open_engine(url, config=Config(timeout=120))
    try:
        engine.store_many([intent("pages", f"key/{number}", f"text {number}") for number in range(1005)])
        assert engine.store(intent("pages", "key/0", "new")).revision_count == 2
        found = engine.page(Query("pages", order="key", limit=2000)).items
        assert {record.key for record in found} == {f"key/{number}" for number in range(1005)}
        assert engine.count("pages").total == 1005
        record = engine.get(ref("pages", "key/0"))
        assert record is not None
        assert record.content == "new"
    finally:
        engine.close()
    with httpx2.Client(
        base_url=url.removeprefix("cognee+") + "/api/v1", timeout=120, trust_env=False
    ) as client:
        homes = [item["id"] for item in client.get("/datasets").json() if item["name"] == "kf-pages"]
        assert [client.delete(f"/datasets/{home}").status_code for home in homes] == [200]


@pytest.mark.timeout(300)
def test_what_was_cognified_is_found_by_the_server_and_what_was_not_by_its_words(url: str) -> None:
    engine = open_engine(url, config=Config(timeout=120))
    long = "The heron waits in the reeds. " * 150
    try:
        engine.store(intent("search", "bird", long))
        engine.store(intent("search", "fish", "The trout swims upstream."))
        assert [hit.record.key for hit in engine.search(SearchQuery("search", "trout")).items] == ["fish"]
        with httpx2.Client(
            base_url=url.removeprefix("cognee+") + "/api/v1", timeout=120, trust_env=False
        ) as client:
            assert client.post("/cognify", json={"datasets": ["kf-search"]}).status_code == 200
        hits = {
            hit.record.key: hit.record.content for hit in engine.search(SearchQuery("search", "reeds")).items
        }
        assert set(hits) == {"bird", "fish"}
        assert "heron" in hits["bird"]
        assert '"kf"' not in hits["bird"]
        engine.forget(Selector("search", everything=True))
        assert engine.search(SearchQuery("search", "reeds")).items == ()
    finally:
        engine.close()
