"""What Mem0 is sent, to the letter: each of the two refuses what the other wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest

from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.dialects.names import digest_of
from keyfold.errors import KeyfoldError, StoreError, Unavailable
from keyfold.faces.planned import PlannedEngine
from tests.doubles.faults import Seen
from tests.remote.common import KEY, MEM0_OSS, MEM0_PLATFORM, Service, intent, ref

Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]

NS, K = "team:acme/agent", "architecture/auth"
USER, RUN = "kf:team:acme/agent", digest_of(NS, K)
BOTH = pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)


def line(seen: Seen) -> tuple[str, str, dict[str, str]]:
    return seen.method, seen.path, dict(parse_qsl(seen.query))


def header_in(metadata: dict[str, Any]) -> dict[str, Any]:
    assert list(metadata) == ["kf"], "one field, because a service merges, flattens and reorders"
    said = json.loads(metadata["kf"])
    return {name: said[name] for name in ("v", "ns", "key", "kind", "rev")}


def test_the_open_source_server_is_sent_ids_in_the_query_and_never_asked_to_infer(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    engine = opened(MEM0_OSS, double)
    engine.store(intent(NS, K, "JWT, one hour."))
    look, add = double.recent
    asked = {"user_id": USER, "agent_id": "keyfold", "run_id": RUN, "top_k": "1000", "show_expired": "true"}
    assert line(look) == ("GET", "/memories", asked)
    body = add.json()
    metadata = body.pop("metadata")
    assert (add.method, add.path) == ("POST", "/memories")
    assert body == {
        "messages": [{"role": "user", "content": "JWT, one hour."}],
        "user_id": USER,
        "agent_id": "keyfold",
        "run_id": RUN,
        "infer": False,
    }
    assert header_in(metadata) == {"v": 1, "ns": NS, "key": K, "kind": "observation", "rev": 1}
    assert add.headers["x-api-key"] == KEY
    assert "authorization" not in add.headers


def test_the_open_source_server_rewrites_in_place_and_searches_with_bare_filters(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    engine = opened(MEM0_OSS, double)
    engine.store(intent(NS, K, "JWT, one hour."))
    [item] = double.items()
    double.reset_counts()
    engine.store(intent(NS, K, "JWT, two hours."))
    put = double.recent[-1]
    assert (put.method, put.path, put.query) == ("PUT", f"/memories/{item['id']}", "")
    assert set(put.json()) == {"text", "metadata"}
    assert header_in(put.json()["metadata"])["rev"] == 2
    double.reset_counts()
    [found] = engine.search(SearchQuery(NS, "two hours", limit=5)).items
    assert found.record.content == "JWT, two hours."
    [search] = double.recent
    assert search.json() == {
        "query": "two hours",
        "filters": {"user_id": USER, "agent_id": "keyfold"},
        "top_k": 50,
        "threshold": 0.0,
        "show_expired": True,
    }
    double.reset_counts()
    engine.forget(Selector(NS, ref(NS, K)))
    assert line(double.recent[-1]) == ("DELETE", f"/memories/{item['id']}", {})
    assert double.inferred == []


def test_the_platform_is_sent_ids_in_filters_and_never_asked_to_infer(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    engine = opened(MEM0_PLATFORM, double)
    engine.store(intent(NS, K, "JWT, one hour."))
    look, add = double.recent
    assert line(look) == ("POST", "/v3/memories/", {"page": "1", "page_size": "200"})
    scope = [{"user_id": USER}, {"agent_id": "keyfold"}, {"run_id": RUN}]
    assert look.json() == {"filters": {"AND": scope}, "show_expired": True}
    body = add.json()
    metadata = body.pop("metadata")
    assert line(add) == ("POST", "/v3/memories/add/", {})
    assert body == {
        "messages": [{"role": "user", "content": "JWT, one hour."}],
        "user_id": USER,
        "agent_id": "keyfold",
        "run_id": RUN,
        "infer": False,
    }
    assert header_in(metadata) == {"v": 1, "ns": NS, "key": K, "kind": "observation", "rev": 1}
    assert add.headers["authorization"] == f"Token {KEY}"


def test_the_platform_names_every_entity_in_a_filter_and_rewrites_in_place(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    engine = opened(MEM0_PLATFORM, double)
    engine.store(intent(NS, K, "JWT, one hour."))
    [item] = double.items()
    double.reset_counts()
    engine.store(intent(NS, K, "JWT, two hours."))
    put = double.recent[-1]
    assert line(put) == ("PUT", f"/v1/memories/{item['id']}/", {})
    assert set(put.json()) == {"text", "metadata"}
    double.reset_counts()
    engine.page(Query(NS))
    engine.search(SearchQuery(NS, "hours", limit=5))
    engine.namespaces()
    any_run = {"run_id": "*"}
    ours = {"AND": [{"user_id": USER}, {"agent_id": "keyfold"}, any_run]}
    listed, searched, everything = [seen.json() for seen in double.recent]
    assert listed == {"filters": ours, "show_expired": True}
    assert searched == {
        "query": "hours",
        "filters": ours,
        "top_k": 50,
        "threshold": 0.0,
        "show_expired": True,
    }
    whole = {"AND": [{"user_id": "*"}, {"agent_id": "keyfold"}, any_run]}
    assert everything == {"filters": whole, "show_expired": True}
    double.reset_counts()
    engine.forget(Selector(NS, ref(NS, K)))
    assert line(double.recent[-1]) == ("DELETE", f"/v1/memories/{item['id']}/", {})
    assert double.inferred == []


@BOTH
def test_what_mem0_holds_and_keyfold_did_not_write_is_left_alone(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    foreign = {"user_id": USER, "agent_id": "keyfold", "run_id": RUN}
    double.seed("another program's", metadata={"key": K}, **foreign)
    double.seed("nobody's", metadata={"kf": "{half"}, **foreign)
    double.seed("a newer version's", metadata={"kf": '{"v":2}'}, **foreign)
    engine = opened(service, double)
    assert engine.get(ref(NS, K)) is None
    assert engine.page(Query(NS)).items == ()
    assert engine.search(SearchQuery(NS, "another program")).items == ()
    engine.store(intent(NS, K, "ours"))
    engine.forget(Selector(NS, everything=True))
    assert sorted(item["memory"] for item in double.items()) == [
        "a newer version's",
        "another program's",
        "nobody's",
    ]


@BOTH
def test_an_address_that_is_another_programs_is_refused_in_words(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    engine = opened(service, double)
    double.faults.add("content_type", times=9)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1.* not JSON .*check that the address"):
        engine.get(ref(NS, K))
    double.faults.clear()
    for body in ({"memories": []}, [], None, "text", {"results": {}}):
        double.faults.add("status", code=200, body=json.dumps(body))
        with pytest.raises(KeyfoldError, match=r"127\.0\.0\.1.*answered"):
            engine.get(ref(NS, K))


def test_an_add_that_the_open_source_server_took_and_did_not_store_is_an_error(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    double.faults.add("status", method="POST", code=200, body={"results": []})
    with pytest.raises(StoreError, match="stored nothing"):
        opened(MEM0_OSS, double).store(intent(NS, K, "text"))


def test_an_answer_in_time_is_not_taken_for_a_dead_service(running: Running, opened: Opened) -> None:
    double = running(MEM0_OSS.double())
    double.faults.add("status", times=3, code=502, body={"detail": "Upstream provider error.", "code": "x"})
    with pytest.raises(Unavailable, match=r"failed \(502\), 3 times.*Upstream provider error"):
        opened(MEM0_OSS, double).get(ref(NS, K))
