"""The double of the Mem0 platform: its filters and its search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.doubles.mem0_platform import Mem0Platform

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
U = {"user_id": "u"}


@pytest.fixture
def double(running: Callable[[Mem0Platform], Mem0Platform]) -> Mem0Platform:
    double = Mem0Platform(key="k")
    double.clock = lambda: NOW
    return running(double)


@pytest.fixture
def client(double: Mem0Platform) -> Iterator[httpx2.Client]:
    headers = {"Authorization": "Token k"}
    with httpx2.Client(base_url=double.url, headers=headers, verify=False) as client:
        yield client


def searched(client: httpx2.Client, query: str = "tea", **body: Any) -> httpx2.Response:
    return client.post("/v3/memories/search/", json={"query": query, "filters": U} | body)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (U | {"k": "v"}, "Top-level key must be a logical operator or an allowed field"),
        ({"AND": [U, {"k": "v"}]}, "Top-level key must be a logical operator or an allowed field"),
        (U | {"metadata": {"k": {"in": ["v"]}}}, "Unsupported operator 'in' for field 'metadata'"),
        (U | {"metadata": {"k": {"gt": 1}}}, "Unsupported operator 'gt' for field 'metadata'"),
        (U | {"metadata": "v"}, "metadata must be an object"),
        ({"user_id": {"nin": ["v"]}}, "Unsupported operator 'nin' for field 'user_id'"),
        (U | {"created_at": {"eq": "2026-01-01"}}, "Unsupported operator 'eq' for field 'created_at'"),
        (U | {"created_at": {">=": "2026-01-01"}}, "Unsupported operator '>=' for field 'created_at'"),
        (U | {"created_at": {"gte": "then"}}, "Invalid datetime"),
        ({"AND": U}, "AND must be a list"),
        ({"created_at": {"gte": "2026-01-01"}}, "At least one entity ID"),
        ({"user_id": {"ne": "v"}}, "At least one entity ID"),
        ({"NOT": [U]}, "At least one entity ID"),
        ({}, "filters is required"),
        (None, "filters is required"),
    ],
)
@pytest.mark.parametrize("path", ["/v3/memories/", "/v3/memories/search/"])
def test_a_bad_filter_is_refused_on_both_routes(
    double: Mem0Platform, client: httpx2.Client, path: str, filters: Any, words: str
) -> None:
    double.seed("tea", user_id="u")
    answer = client.post(path, json={"query": "tea", "filters": filters})
    assert answer.status_code == 400
    assert words in answer.json()["details"]["message"]


def test_ids_belong_inside_the_filters(client: httpx2.Client) -> None:
    for path in ["/v3/memories/", "/v3/memories/search/"]:
        answer = client.post(path, json={"query": "tea", "filters": U, "user_id": "u"})
        assert answer.status_code == 400
        assert "inside filters" in answer.text


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (U, "123"),
        ({"user_id": {"in": ["u", "v"]}}, "1234"),
        ({"user_id": "*"}, "1234"),
        ({"agent_id": "*"}, "2"),
        (U | {"agent_id": {"ne": "a"}}, "13"),  # what has none is not equal
        ({"AND": [U, {"metadata": {"k": "a"}}]}, "1"),
        (U | {"metadata": {"k": {"ne": "a"}}}, "23"),
        (U | {"metadata": {"k": {"contains": "b"}}}, "2"),
        (U | {"metadata": {"n": "1"}}, ""),  # a number is no text
        (U | {"metadata": {"n": 1}}, "1"),
        (U | {"OR": [{"metadata": {"k": "a"}}, {"metadata": {"k": "ab"}}]}, "12"),
        ({"AND": [U], "OR": [{"metadata": {"k": "a"}}]}, "123"),  # the OR is dropped in silence
        ({"AND": [U, {"OR": [{"metadata": {"k": "a"}}]}]}, "1"),
        ({"AND": [U, {"NOT": [{"metadata": {"k": "a"}}]}]}, "23"),
        ({"AND": [U, {"NOT": {"agent_id": "a"}}]}, "13"),
        (U | {"created_at": {"gte": "2026-03-01T12:00:00Z", "lt": "2026-03-02"}}, "123"),
        (U | {"created_at": {"gt": "2026-03-01T12:00:00Z"}}, ""),
        (U | {"keywords": {"icontains": "TEA 2"}}, "2"),
        (U | {"categories": {"in": ["food"]}}, ""),
    ],
)
def test_filters_mean_what_the_documents_say(
    double: Mem0Platform, client: httpx2.Client, filters: dict[str, Any], found: str
) -> None:
    double.seed("tea 1", user_id="u", metadata={"k": "a", "n": 1})
    double.seed("tea 2", user_id="u", agent_id="a", metadata={"k": "ab"})
    double.seed("tea 3", user_id="u")
    double.seed("tea 4", user_id="v")
    answer = client.post("/v3/memories/", json={"filters": filters})
    assert answer.status_code == 200
    assert "".join(sorted(item["memory"][-1] for item in answer.json()["results"])) == found


def test_memories_are_found_by_a_list_of_ids(double: Mem0Platform, client: httpx2.Client) -> None:
    one, two, _ = double.seed("tea", times=3, user_id="u")
    for wanted in [[one, two], {"in": [one, two]}]:
        answer = client.post("/v3/memories/", json={"filters": U | {"memory_ids": wanted}})
        assert {item["id"] for item in answer.json()["results"]} == {one, two}


def test_with_null_scoping_an_id_that_is_not_named_must_be_null(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    double.seed("tea", user_id="u", run_id="r")
    double.null_scoping = True
    counts = [
        client.post("/v3/memories/", json={"filters": filters}).json()["count"]
        for filters in [
            U,
            U | {"run_id": "*"},
            {"AND": [U, {"run_id": "r"}]},
            {"AND": [U, {"run_id": {"ne": "s"}}]},
        ]
    ]
    assert counts == [0, 1, 1, 1]


def test_with_filters_ignored_every_scope_comes_back(double: Mem0Platform, client: httpx2.Client) -> None:
    double.seed("tea", user_id="v")
    double.ignore_filters = double.null_scoping = True
    assert client.post("/v3/memories/", json={"filters": U}).json()["count"] == 1
    assert len(searched(client).json()["results"]) == 1
    assert searched(client, filters={"k": "v"}).status_code == 400


def test_a_found_memory_calls_its_run_a_run_and_explains_its_score(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    double.seed("likes green tea", user_id="u", run_id="r")
    double.seed("tea", user_id="u")
    double.seed("coffee", user_id="u")
    best, second = searched(client, "green tea").json()["results"]
    assert (best["memory"], best["run_id"], second["memory"]) == ("likes green tea", "r", "tea")
    assert "session_id" not in best
    assert 1 >= best["score"] > second["score"] > 0.1
    assert set(best["score_breakdown"]) == {"semantic", "bm25", "entity"}
    assert len(searched(client, "green tea", threshold=0).json()["results"]) == 3


def test_a_search_answers_10_unless_asked_and_1000_at_most(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    double.seed("tea", times=1200, user_id="u")
    assert len(searched(client).json()["results"]) == 10
    assert len(searched(client, top_k=1000).json()["results"]) == 1000


@pytest.mark.parametrize(
    "change",
    [{"query": ""}, {"top_k": 0}, {"top_k": 1001}, {"threshold": None}, {"threshold": 1.5}, {"filters": {}}],
)
def test_a_bad_search_is_refused(client: httpx2.Client, change: dict[str, Any]) -> None:
    assert searched(client, **change).status_code == 400


def test_a_search_falls_over_keywords_that_a_list_takes(client: httpx2.Client) -> None:
    assert searched(client, filters=U | {"keywords": {"contains": "tea"}}).status_code == 500


def test_5000_memories_are_quick_to_seed_and_to_list(double: Mem0Platform, client: httpx2.Client) -> None:
    for n in range(5000):
        double.seed(f"fact {n}", user_id="u", run_id=str(n), metadata={"k": str(n)})
    pages = [
        client.post(f"/v3/memories/?page={n}&page_size=200", json={"filters": U}).json()["results"]
        for n in range(1, 26)
    ]
    assert len({item["id"] for page in pages for item in page}) == 5000
    one = client.post("/v3/memories/", json={"filters": {"AND": [U, {"run_id": "77"}]}}).json()
    assert [item["memory"] for item in one["results"]] == ["fact 77"]
