"""The double of the open-source Mem0 server: its search, its filters, and what can be turned wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.doubles.mem0_oss import Mem0Oss

NOW = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
UNKNOWN = {"detail": "Upstream provider error.", "code": "unknown"}


@pytest.fixture
def double(running: Callable[[Mem0Oss], Mem0Oss]) -> Mem0Oss:
    double = Mem0Oss(key="k")
    double.clock = lambda: NOW
    return running(double)


@pytest.fixture
def client(double: Mem0Oss) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=double.url, headers={"X-API-Key": "k"}, verify=False) as client:
        yield client


def listed(client: httpx2.Client, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/memories", params={"user_id": "u"} | params).json()["results"]
    return found


def searched(client: httpx2.Client, query: str = "tea", **body: Any) -> httpx2.Response:
    return client.post("/search", json={"query": query, "filters": {"user_id": "u"}} | body)


def upstream(answer: httpx2.Response) -> dict[str, Any]:
    """The body of a 502 without the id of the request, which is that of the header."""
    assert answer.status_code == 502
    body: dict[str, Any] = answer.json()
    assert body.pop("request_id") == answer.headers["x-request-id"]
    return body


def test_a_search_puts_what_shares_most_words_first_and_drops_what_shares_none(
    double: Mem0Oss, client: httpx2.Client
) -> None:
    for text in ["coffee only", "likes green tea", "tea"]:
        double.seed(text, user_id="u")
    found = searched(client, "green tea").json()["results"]
    assert [item["memory"] for item in found] == ["likes green tea", "tea"]
    assert 1 >= found[0]["score"] > found[1]["score"] > 0.1
    assert len(searched(client, "green tea", threshold=0).json()["results"]) == 3


def test_a_search_has_no_greatest_top_k(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("likes tea", times=5000, user_id="u")
    assert len(searched(client, "anything", top_k=5000, threshold=0).json()["results"]) == 5000
    assert len(searched(client, limit=50).json()["results"]) == 20
    assert searched(client, top_k=0).json() == {"results": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": " "}, "Invalid query: cannot be empty or whitespace-only."),
        ({"top_k": -1}, "Invalid top_k: -1. Must be a non-negative integer."),
        ({"threshold": 2}, "Invalid threshold: 2.0. Must be between 0 and 1 (inclusive)."),
        ({"filters": {"user_id": "u", "n": {"between": [1, 2]}}}, "Unsupported filter operator: between"),
        ({"filters": {"user_id": "u", "metadata": {"k": "v"}}}, "Unsupported filter operator: k"),
        (
            {"filters": {"user_id": "u", "AND": [{"metadata": {"k": "v"}}]}},
            "Unsupported metadata filter operator: k",
        ),
        ({"filters": {"user_id": "u", "OR": []}}, "OR operator requires a non-empty list of conditions"),
        ({"filters": {"user_id": "u", "n": {"gt": "x"}}}, "could not convert string to float: 'x'"),
        (
            {"filters": {"AND": [{"user_id": "u"}]}},
            "filters must contain at least one of: user_id, agent_id, run_id. Example: filters={'user_id': 'u1'}",
        ),
        (
            {"filters": {"user_id": {"eq": "u"}}},
            "Invalid user_id: cannot contain whitespace. Provide a valid identifier without spaces.",
        ),
    ],
)
def test_a_bad_search_is_refused_in_the_server_s_words(
    client: httpx2.Client, change: dict[str, Any], words: str
) -> None:
    answer = searched(client, **change)
    assert (answer.status_code, answer.json()) == (400, {"detail": words})


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"k": "a"}, "1"),
        ({"k": ["a", "b"]}, "12"),
        ({"n": 2}, "2"),
        ({"f": True}, "1"),
        ({"f": {"eq": True}}, ""),  # an operator compares with Python's "True"
        ({"k": None}, ""),
        ({"k": {"ne": "a"}}, "2"),  # the row without the key is left out
        ({"k": {"nin": ["a"]}}, "2"),
        ({"k": "*"}, "12"),
        ({"n": {"gte": 1, "lt": 2}}, "1"),
        ({"k": {"icontains": "A"}}, "1"),
        ({"k": {"contains": "A"}}, ""),
        ({"NOT": [{"k": "a"}]}, "2"),
        ({"OR": [{"k": "a"}, {"n": 2}]}, "12"),
        ({"OR": [{"AND": [{"k": "a"}]}, {"AND": [{"k": "b"}]}]}, ""),
        ({"AND": [{"k": "a"}, {"k": "b"}]}, "2"),  # the last one wins
        ({"AND": [{"user_id": "v"}]}, "4"),  # another tenant's
        ({"o.p": 1}, ""),  # the key is literal
    ],
)
def test_filters_mean_what_postgres_makes_of_them(
    double: Mem0Oss, client: httpx2.Client, filters: dict[str, Any], found: str
) -> None:
    double.seed("tea 1", user_id="u", metadata={"k": "a", "n": 1, "f": True})
    double.seed("tea 2", user_id="u", metadata={"k": "b", "n": 2})
    double.seed("tea 3", user_id="u", metadata={"o": {"p": 1}})
    double.seed("tea 4", user_id="v")
    answer = searched(client, filters={"user_id": "u"} | filters)
    assert answer.status_code == 200
    assert "".join(sorted(item["memory"][-1] for item in answer.json()["results"])) == found


def test_a_number_asked_of_a_stored_word_is_an_upstream_error(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("tea", user_id="u", metadata={"n": "many"})
    assert upstream(searched(client, filters={"user_id": "u", "n": {"gt": 1}})) == UNKNOWN


# -- knobs --------------------------------------------------------------------------------------------------------


def test_with_filters_ignored_every_scope_comes_back(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("tea", user_id="v")
    double.ignore_filters = True
    assert len(listed(client)) == 1
    assert len(searched(client, filters={"user_id": "u", "k": "x"}).json()["results"]) == 1


def test_without_its_embedder_the_server_still_lists(double: Mem0Oss, client: httpx2.Client) -> None:
    (one,) = double.seed("tea", user_id="u")
    double.embedder_down = True
    body = {"messages": [{"role": "user", "content": "tea"}], "user_id": "u", "infer": False}
    for answer in [
        client.post("/memories", json=body),
        searched(client),
        client.put(f"/memories/{one}", json={"metadata": {}}),
    ]:
        assert upstream(answer)["code"] == "provider_unavailable"
    assert len(listed(client)) == 1


def test_5000_rows_are_quick_to_seed_and_to_look_up_in(double: Mem0Oss, client: httpx2.Client) -> None:
    for n in range(5000):
        double.seed(f"fact {n}", user_id="u", run_id=str(n))
    for n in range(0, 5000, 100):
        (item,) = listed(client, run_id=str(n))
        assert item["memory"] == f"fact {n}"
