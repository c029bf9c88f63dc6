"""What Mem0 should never say: it ends in words, touches no other record, and never goes on without end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.dialects.payload import FIELD, header, ranks, share
from keyfold.errors import StoreError
from keyfold.faces.planned import PlannedEngine
from tests.remote.common import MEM0_OSS, MEM0_PLATFORM, Service, payload, ref

BOTH = pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)
Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]


def item(remote: Any, **more: Any) -> dict[str, Any]:
    held = payload("ns", "k", "text")
    ids = {"user_id": "kf:ns", "agent_id": "keyfold", "run_id": held.digest, "session_id": held.digest}
    return {"id": remote, "memory": "text", "metadata": {FIELD: header(held)}, **ids, **more}


def say(double: Any, body: Any, **where: Any) -> None:
    double.faults.add("status", code=200, body=body, times=99, **where)


@BOTH
@pytest.mark.parametrize("remote", ["..", "", "../../x?y", "a/b", 7, ["x"], None])
def test_an_id_that_is_none_is_never_put_into_a_path(
    service: Service, remote: Any, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    listing = {"method": "POST"} if service is MEM0_PLATFORM else {"method": "GET"}
    say(double, {"count": 1, "next": None, "results": [item(remote)]}, **listing)
    engine = opened(service, double)
    assert engine.get(ref("ns", "k")) is None
    assert engine.forget(Selector("ns", ref("ns", "k"))).deleted == 0
    assert not any(seen.method == "DELETE" for seen in double.seen)


@BOTH
@pytest.mark.parametrize("score", ["high", {}, [], None, True, float("nan")])
def test_a_hit_without_a_score_that_is_a_number_is_found_at_its_place(
    service: Service, score: Any, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    body = {"results": [item("one", score="@")]}
    say(double, json.dumps(body).replace('"@"', json.dumps(score)), method="POST")
    assert opened(service, double).search(SearchQuery("ns", "text")).items[0].score == 1.0


def test_a_hit_without_a_score_among_others_with_one_comes_last_and_is_not_lost() -> None:
    assert ranks([0.5, None, 0.25, 0.0]) == [0.5, 0.0625, 0.25, 0.0]
    assert ranks(["high", None, [], True]) == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert ranks([None, -1]) == [0.5, 0.0]
    assert ranks([]) == []


def test_a_score_lies_between_nothing_and_all() -> None:
    assert [share(value) for value in (0.5, 1, 7, -1, float("inf"), 10**400)] == [
        0.5,
        1.0,
        1.0,
        0.0,
        1.0,
        1.0,
    ]


def test_a_count_that_is_no_number_is_an_error_in_words(running: Running, opened: Opened) -> None:
    double = running(MEM0_OSS.double())
    say(double, [{"type": "user", "id": "kf:ns", "total_memories": "many"}], path="/entities")
    with pytest.raises(StoreError, match="not Mem0's"):
        opened(MEM0_OSS, double).namespaces()


@pytest.mark.parametrize("count", [1, 10**9])
def test_a_listing_that_always_names_a_next_page_ends(count: int, running: Running, opened: Opened) -> None:
    double = running(MEM0_PLATFORM.double())
    body = {"count": count, "next": "http://more", "results": [item("one")]}
    say(double, body, method="POST")
    with pytest.raises(StoreError, match="namespace 'ns'"):
        opened(MEM0_PLATFORM, double).page(Query("ns"))
    assert double.count < 10
