"""The double of Supermemory answers as the service is documented to, awkward facts first: writing memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
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


@pytest.mark.parametrize("authorization", [None, "Bearer sm_other", "Token sm_k", "sm_k"])
def test_only_the_bearer_of_the_key_is_answered(double: Supermemory, authorization: str | None) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    answer = httpx2.get(f"{double.url}/v3/container-tags/list", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (401, "Unauthorized")


def test_the_root_page_answers_anyone_so_it_proves_no_key(double: Supermemory) -> None:
    assert httpx2.get(double.url).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v4/memories"), ("PUT", "/v3/documents"), ("GET", "/ns")]
)
def test_what_has_no_route_is_404_in_plain_text(service: Service, method: str, path: str) -> None:
    answer = service.client.request(method, path)
    assert (answer.status_code, answer.text) == (404, "404 Not Found")


def test_memories_are_kept_word_for_word_and_found_at_once(service: Service) -> None:
    text = "  Tabs, \u00e9t\u00e9 \U0001f600\n\nnot spaces "
    answer = service.ok("POST", "/v4/memories", memories=[{"content": text}], containerTag=TAG)
    (made,) = answer["memories"]
    assert set(made) == {"id", "memory", "isStatic", "createdAt"}
    assert (made["memory"], made["isStatic"], made["createdAt"]) == (text, False, "2026-01-01T12:00:00.000Z")
    assert [row["memory"] for row in service.rows()] == [text]
    assert service.find("tabs spaces") == [text]


def test_the_same_text_twice_is_two_memories(service: Service) -> None:
    first, second = service.add("same")[0], service.add("same")[0]
    assert first != second
    assert len(service.rows()) == 2


@pytest.mark.parametrize(
    ("memories", "where"),
    [
        ([], "memories"),
        ([{"content": "x"}] * 101, "memories"),
        ([{"content": ""}], "content"),
        ([{"content": "x" * 10_001}], "content"),
        ([{"content": "\U0001f600" * 5_001}], "content"),  # an emoji counts twice
        ([{"metadata": {}}], "content"),
        ([{"content": "x", "isStatic": "yes"}], "isStatic"),
        ([{"content": "x", "metadata": {"deep": {"a": 1}}}], "deep"),
        ([{"content": "x", "metadata": {"none": None}}], "none"),
        ([{"content": "x", "metadata": {"mixed": ["a", 1]}}], "mixed"),
        ([{"content": "x", "metadata": {"a key": 1}}], "a key"),
        ([{"content": "x", "metadata": {"k" * 65: 1}}], "kkk"),
        ([{"content": "x", "forgetAfter": "soon"}], "forgetAfter"),
    ],
)
def test_a_batch_with_one_bad_memory_is_refused_as_a_whole(
    service: Service, memories: list[Any], where: str
) -> None:
    good = [] if where == "memories" else [{"content": "good"}]
    answer = service.call("POST", "/v4/memories", memories=good + memories, containerTag=TAG)
    assert answer.status_code == 400
    assert where in answer.json()["details"]
    assert service.rows() == []


def test_the_longest_content_and_the_largest_batch_are_taken(service: Service) -> None:
    metadata = {"s": "a", "n": 1.5, "b": True, "list": ["x", "y"], "k" * 64: ""}
    service.add(*["x" * 10_000] * 100, metadata=metadata)
    rows = service.rows()
    assert len(rows) == 100
    assert rows[0]["metadata"] == metadata


@pytest.mark.parametrize("tag", [None, "", "a b", "a/b", "a.b", "t\u00e9", "a" * 101, 7])
def test_a_container_tag_is_up_to_100_safe_characters(service: Service, tag: Any) -> None:
    fields = {} if tag is None else {"containerTag": tag}
    answer = service.call("POST", "/v4/memories", memories=[{"content": "x"}], **fields)
    assert (answer.status_code, answer.json()["details"].split(":")[0]) == (400, "containerTag")
    service.add("x", tag="Az09_:-" + "a" * 93)


def test_both_kinds_of_error_body_can_be_had(service: Service, double: Supermemory) -> None:
    plain = service.call("POST", "/v4/memories", memories=[{}], containerTag=TAG).json()
    assert plain == {"error": "Required", "details": "memories.0.content: Required"}
    double.error_style = "validator"
    validator = service.call("POST", "/v4/memories", memories=[{}], containerTag=TAG).json()
    expected = [{"message": "Required", "path": ["memories", 0, "content"]}]
    assert validator == {"success": False, "error": expected}
    assert service.forget("nobody").json() == {"error": "Memory not found"}  # only 400s are the validator's


def test_a_body_that_is_not_json_is_refused(service: Service) -> None:
    for body in (b"", b"{", b"[]", b'{"memories": NaN}'):
        assert service.client.request("POST", "/v4/memories", content=body).status_code == 400


def test_a_rewrite_needs_the_container_tag_though_the_docs_leave_it_out(service: Service) -> None:
    (made,) = service.add("old")
    answer = service.call("PATCH", "/v4/memories", id=made, newContent="new")
    assert (answer.status_code, answer.json()["details"]) == (400, "containerTag: Required")


def test_a_rewrite_has_a_new_id_and_the_old_version_is_still_listed(
    service: Service, clock: SteppedClock
) -> None:
    (first,) = service.add("old", metadata={"key": "a"}, isStatic=True)
    clock.forward(seconds=1)
    second = service.patch(first, "new")
    third = service.patch(second["id"], "newest")
    assert len({first, second["id"], third["id"]}) == 3
    assert (third["version"], third["parentMemoryId"], third["rootMemoryId"]) == (3, second["id"], first)
    assert second["createdAt"] == "2026-01-01T12:00:01.000Z"
    rows = service.rows()
    assert [row["memory"] for row in rows] == ["old", "new", "newest"]
    assert [row["isLatest"] for row in rows] == [False, False, True]
    assert [row["rootMemoryId"] for row in rows] == [None, first, first]
    assert {row["isStatic"] for row in rows} == {True}
    assert service.find("old new newest", threshold=0) == ["newest"]


def test_metadata_is_inherited_when_left_out_and_replaced_whole_when_given(service: Service) -> None:
    (made,) = service.add("one", metadata={"a": 1, "b": 2})
    second = service.patch(made, "two")
    assert second["metadata"] == {"a": 1, "b": 2}
    third = service.patch(second["id"], "three", metadata={"a": 3})
    assert third["metadata"] == {"a": 3}
    answer = service.call(
        "PATCH", "/v4/memories", id=third["id"], newContent="x", containerTag=TAG, metadata=None
    )
    assert answer.status_code == 400


def test_a_rewrite_by_exact_text_takes_the_newest_live_row(service: Service) -> None:
    _, newer = service.add("same", "same")
    answer = service.ok("PATCH", "/v4/memories", content="same", newContent="other", containerTag=TAG)
    assert answer["parentMemoryId"] == newer


def test_a_superseded_version_rewritten_again_forks_into_two_latest_ones(
    service: Service, double: Supermemory
) -> None:
    (made,) = service.add("base")
    service.patch(made, "mine")
    service.patch(made, "yours")
    assert [row["memory"] for row in service.rows() if row["isLatest"]] == ["mine", "yours"]
    assert [row["version"] for row in service.rows()] == [1, 2, 2]
    double.superseded_patch = "refuse"
    refused = service.call("PATCH", "/v4/memories", id=made, newContent="third", containerTag=TAG)
    assert refused.status_code == 404


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_memory_is_not_reached_through_another_tag(service: Service, method: str) -> None:
    (made,) = service.add("mine")
    answer = service.call(method, "/v4/memories", id=made, newContent="x", containerTag="user:eve")
    assert (answer.status_code, answer.json()) == (404, {"error": "Memory not found"})
    assert service.call(method, "/v4/memories", newContent="x", containerTag=TAG).status_code == 400


def test_what_is_forgotten_is_still_listed_and_never_found(service: Service) -> None:
    kept, gone = service.add("kept words", "gone words")
    answer = service.call("DELETE", "/v4/memories", id=gone, containerTag=TAG, reason="private")
    assert answer.json() == {"id": gone, "forgotten": True}
    rows = {row["id"]: row for row in service.rows()}
    assert (rows[gone]["isForgotten"], rows[gone]["isLatest"], rows[gone]["memory"]) == (
        True,
        True,
        "gone words",
    )
    assert rows[gone]["forgetReason"] == "private"
    assert rows[kept]["isForgotten"] is False
    assert service.find("words") == ["kept words"]
    included = service.find("words", include={"forgottenMemories": True})
    assert sorted(included) == ["gone words", "kept words"]
    assert service.forget(gone).status_code == 404
    again = service.call("PATCH", "/v4/memories", id=gone, newContent="x", containerTag=TAG)
    assert again.status_code == 404


def test_forgetting_a_superseded_version_leaves_the_latest_one(service: Service) -> None:
    (old,) = service.add("old")
    service.patch(old, "new")
    assert service.forget(old).json() == {"id": old, "forgotten": True}
    assert service.find("new") == ["new"]


def test_a_memory_with_a_term_is_forgotten_when_it_comes(service: Service, clock: SteppedClock) -> None:
    later = (clock.moment + timedelta(hours=1)).isoformat()
    (made,) = service.add("brief", forgetAfter=later)
    second = service.patch(made, "brief too")
    assert second["forgetAfter"] == "2026-01-01T13:00:00.000Z"  # inherited
    assert service.find("brief") == ["brief too"]
    clock.forward(hours=2)
    assert service.find("brief") == []
    assert [row["isForgotten"] for row in service.rows()] == [True, True]


def test_the_term_of_a_memory_is_cleared_by_null(service: Service, clock: SteppedClock) -> None:
    later = (clock.moment + timedelta(hours=1)).isoformat()
    (made,) = service.add("brief", forgetAfter=later)
    service.patch(made, "for good", forgetAfter=None)
    clock.forward(hours=2)
    assert service.find("for good") == ["for good"]


def test_a_key_may_be_held_to_some_tags(service: Service, double: Supermemory) -> None:
    service.add("theirs", tag="t2")
    double.scope = {TAG}
    refused = service.call("POST", "/v4/memories", memories=[{"content": "x"}], containerTag="t2")
    assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden")
    assert service.call("POST", "/v4/memories/list", containerTags=[TAG, "t2"]).status_code == 403
    assert service.ok("POST", "/v4/search", q="theirs")["total"] == 0  # without a tag it is held to its own
    assert service.client.get("/v3/container-tags/list").json() == []


def test_without_quota_writes_are_402_and_reads_go_on(service: Service, double: Supermemory) -> None:
    (made,) = service.add("before")
    double.out_of_quota = True
    for method, body in (
        ("POST", {"memories": [{"content": "x"}]}),
        ("PATCH", {"id": made, "newContent": "x"}),
        ("DELETE", {"id": made}),
    ):
        answer = service.call(method, "/v4/memories", containerTag=TAG, **body)
        assert (answer.status_code, answer.json()["error"]) == (402, "Quota exceeded")
    assert service.find("before") == ["before"]


def test_a_rate_limit_says_when_to_come_back(service: Service, double: Supermemory) -> None:
    double.faults.add("rate_limit", after=7)
    answer = service.call("POST", "/v4/memories", memories=[{"content": "x"}], containerTag=TAG)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert "error" in answer.json()
    assert service.rows() == []


def test_times_are_told_in_milliseconds(service: Service, clock: SteppedClock) -> None:
    clock.moment = datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC)
    service.add("x")
    assert service.rows()[0]["createdAt"] == "2026-01-02T03:04:05.678Z"
