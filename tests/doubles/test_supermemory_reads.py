"""The double of Supermemory answers as the service is documented to: lists, filters, searches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import SteppedClock
from tests.doubles.supermemory import Supermemory
from tests.doubles.supermemory_client import TAG, Service, reached


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory], clock: SteppedClock) -> Supermemory:
    double = running(Supermemory(key="sm_k"))
    double.clock = clock
    return double


@pytest.fixture
def service(double: Supermemory) -> Iterator[Service]:
    with reached(double) as service:
        yield service


def condition(key: str, value: str, **how: Any) -> dict[str, Any]:
    return {"AND": [{"key": key, "value": value} | how]}


def test_a_list_is_paged_newest_first_with_every_version_counted(
    service: Service, double: Supermemory, clock: SteppedClock
) -> None:
    clock.step = timedelta(seconds=1)
    ids = [row.id for row in double.seed(TAG, 25)]
    service.patch(ids[0], "seed 0 again")
    pages = [service.ok("POST", "/v4/memories/list", containerTags=[TAG], page=page) for page in (1, 2, 3, 4)]
    assert [len(page["memoryEntries"]) for page in pages] == [10, 10, 6, 0]
    assert pages[0]["pagination"] == {"currentPage": 1, "limit": 10, "totalItems": 26, "totalPages": 3}
    assert pages[0]["memoryEntries"][0]["memory"] == "seed 0 again"
    assert pages[2]["memoryEntries"][-1]["id"] == ids[0]
    by_change = service.rows(sort="updatedAt", order="desc")
    assert {row["id"] for row in by_change[:2]} == {by_change[0]["id"], ids[0]}


@pytest.mark.parametrize("how", [{"limit": 201}, {"limit": 0}, {"page": 0}, {"sort": "id"}, {"order": "up"}])
def test_a_list_refuses_more_than_200_rows_and_odd_orders(service: Service, how: dict[str, Any]) -> None:
    assert service.call("POST", "/v4/memories/list", containerTags=[TAG], **how).status_code == 400


def test_a_list_needs_the_plural_and_takes_any_of_the_tags(service: Service) -> None:
    service.add("one", tag="t1")
    service.add("two", tag="t2")
    assert service.call("POST", "/v4/memories/list", containerTag="t1").status_code == 400
    assert service.call("POST", "/v4/memories/list", containerTags=[]).status_code == 400
    both = service.ok("POST", "/v4/memories/list", containerTags=["t1", "t2", "t3"])
    assert both["pagination"]["totalItems"] == 2


def test_pages_shift_when_another_client_writes_between_them(
    service: Service, double: Supermemory, clock: SteppedClock
) -> None:
    clock.step = timedelta(seconds=1)
    double.seed(TAG, 4)
    double.page_shift(rows=1, times=1)
    first, second = (service.rows(limit=2, page=page, order="desc") for page in (1, 2))
    assert first[-1]["id"] == second[0]["id"]  # a row is seen twice, and the new one not at all
    assert len(service.rows()) == 5


def test_five_thousand_memories_are_seeded_and_listed_in_a_moment(
    service: Service, double: Supermemory
) -> None:
    started = time.perf_counter()
    double.seed(TAG, 5_000, lambda i: (f"text {i}", {"key": f"k{i}"}))
    pages = [service.rows(page=page) for page in range(1, 26)]
    assert len({row["id"] for page in pages for row in page}) == 5_000
    assert time.perf_counter() - started < 5  # 0.2 s; the rest is for a busy machine


def test_a_search_ranks_by_shared_words_and_cuts_at_its_threshold(service: Service) -> None:
    service.add("red apples", "red green apples", "red", "blue")
    assert service.find("red green apples") == ["red green apples", "red apples"]
    assert service.find("red green apples", threshold=0.3)[-1] == "red"
    assert len(service.find("red green apples", threshold=0)) == 4
    answer = service.ok("POST", "/v4/search", q="red apples", containerTag=TAG)
    names = {"id", "memory", "similarity", "metadata", "updatedAt", "version", "rootMemoryId"}
    assert set(answer["results"][0]) == names
    assert (answer["total"], answer["results"][0]["similarity"]) == (3, 1.0)  # a half is enough


def test_a_search_answers_ten_unless_told_and_a_hundred_at_most(
    service: Service, double: Supermemory
) -> None:
    double.seed(TAG, 120)
    assert len(service.find("seed")) == 10
    assert len(service.find("seed", limit=100)) == 100
    for how in ({"limit": 101}, {"threshold": 2}, {"searchMode": "all"}, {"q": ""}):
        body = {"q": "seed", "containerTag": TAG} | how
        assert service.call("POST", "/v4/search", **body).status_code == 400


def test_a_search_stays_within_its_tag_and_without_one_sees_all(service: Service) -> None:
    service.add("shared words", tag="t1")
    service.add("shared words", tag="t2")
    assert service.find("shared words") == []
    assert service.ok("POST", "/v4/search", q="shared words")["total"] == 2


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (condition("team", "red"), {"a"}),
        (condition("team", "RED"), set()),
        (condition("team", "RED", ignoreCase=True), {"a"}),
        (condition("team", "red", negate=True), {"b"}),  # not c, which has no team
        (condition("team", "red", negate="true"), {"b"}),
        (condition("done", "true"), {"a"}),
        (condition("size", "5", filterType="numeric", numericOperator=">="), {"a", "b"}),
        (condition("size", "5", filterType="numeric", numericOperator=">=", negate=True), {"c"}),
        (condition("size", "5", filterType="numeric"), {"a"}),
        (condition("tags", "x", filterType="array_contains"), {"a"}),
        (condition("tags", "x"), set()),
        (condition("team", "e", filterType="string_contains"), {"a", "b"}),
        ({"OR": [{"key": "team", "value": "red"}, {"key": "size", "value": "1"}]}, {"a", "c"}),
        ({"AND": [{"OR": [{"key": "team", "value": "red"}]}, {"key": "size", "value": "7"}]}, set()),
        ('{"AND": [{"key": "team", "value": "red"}]}', {"a"}),
    ],
)
def test_metadata_filters_follow_their_grammar(service: Service, filters: Any, found: set[str]) -> None:
    service.add("a", metadata={"team": "red", "size": 5, "done": True, "tags": ["x", "y"]})
    service.add("b", metadata={"team": "blue", "size": 7.5})
    service.add("c", metadata={"size": 1})
    service.add("d")
    assert set(service.find("a b c d", threshold=0, filters=filters)) == found
    assert {row["memory"] for row in service.rows(filters=filters)} == found


def nested(levels: int) -> dict[str, Any]:
    filters = condition("k", "v")
    for _ in range(levels - 1):
        filters = {"AND": [filters]}
    return filters


@pytest.mark.parametrize(
    "filters",
    [
        {"key": "k", "value": "v"},
        {"AND": {"key": "k", "value": "v"}},
        {"AND": [], "OR": []},
        {"AND": [{"key": "k", "value": 5}]},
        {"AND": [{"value": "v"}]},
        condition("k", "v", filterType="exact"),
        condition("k", "v", filterType="numeric"),
        condition("k", "5", filterType="numeric", numericOperator="!="),
        condition("k", "v", negate="maybe"),
        {"OR": [{"key": "k", "value": "v"}] * 201},
        nested(9),
    ],
)
def test_a_filter_outside_the_grammar_or_the_limits_is_refused(service: Service, filters: Any) -> None:
    assert service.call("POST", "/v4/search", q="x", containerTag=TAG, filters=filters).status_code == 400


def test_a_filter_at_its_limits_is_taken(service: Service) -> None:
    service.add("x", metadata={"k": "v"})
    assert service.find("x", filters=nested(8)) == ["x"]
    assert service.find("x", filters={"OR": [{"key": "k", "value": "v"}] * 200}) == ["x"]


def test_a_search_can_be_made_to_ignore_its_filters(service: Service, double: Supermemory) -> None:
    service.add("x", metadata={"k": "other"})
    assert service.find("x", filters=condition("k", "v")) == []
    double.ignore_filters = True
    assert service.find("x", filters=condition("k", "v")) == ["x"]


def test_a_new_version_can_be_made_to_lag_behind_in_searches(service: Service, double: Supermemory) -> None:
    (made,) = service.add("first text")
    double.search_lag(2)
    second = service.patch(made, "second text")
    assert [service.find("text") for _ in range(3)] == [[], [], ["second text"]]
    assert service.rows()[-1]["id"] == second["id"]


def test_forget_matching_previews_and_then_forgets(service: Service) -> None:
    service.add("project titan ships", "titan is late", "apples")
    how = {"query": "forget everything about titan", "containerTag": TAG}
    preview = service.ok("POST", "/v4/memories/forget-matching", **how, dryRun=True)
    assert (preview["dryRun"], preview["count"], preview["forgetBatchId"]) == (True, 2, None)
    assert len(preview["candidates"]) == 2
    assert not any(row["isForgotten"] for row in service.rows())
    done = service.ok("POST", "/v4/memories/forget-matching", **how)  # without a word it is not a preview
    assert (done["count"], len(done["forgotten"])) == (2, 2)
    assert [row["isForgotten"] for row in service.rows()] == [True, True, False]


def test_forget_matching_takes_ids_up_to_500_and_nothing_empty(service: Service) -> None:
    first, second = service.add("one", "two")
    service.add("three", tag="t2")
    path = "/v4/memories/forget-matching"
    assert service.ok("POST", path, ids=[first, second, "nobody"], containerTag=TAG)["count"] == 2
    few: list[dict[str, Any]] = [{}, {"ids": []}, {"query": ""}]
    many: list[dict[str, Any]] = [{"ids": ["x"] * 501}, {"query": "x", "maxForget": 501}]
    for how in few + many:
        assert service.call("POST", path, containerTag=TAG, **how).status_code == 400


def test_a_profile_tells_static_and_dynamic_memories_apart(service: Service) -> None:
    service.add("born in Oslo", isStatic=True)
    service.add("likes tea")
    answer = service.ok("POST", "/v4/profile", containerTag=TAG)
    assert answer == {"profile": {"static": ["born in Oslo"], "dynamic": ["likes tea"]}}
    answer = service.ok("POST", "/v4/profile", containerTag=TAG, q="tea")
    assert [result["memory"] for result in answer["searchResults"]["results"]] == ["likes tea"]
    assert service.call("POST", "/v4/profile").status_code == 400
