"""The double of the Mem0 platform is as awkward as its documentation and its SDK say the platform is."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from tests.doubles.mem0_platform import Mem0Platform

NOW = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)


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


def add(client: httpx2.Client, text: Any = "likes tea", **body: Any) -> httpx2.Response:
    said = {"messages": [{"role": "user", "content": text}], "infer": False, "user_id": "u"}
    return client.post("/v3/memories/add/", json=said | body)


def listed(client: httpx2.Client, query: str = "", **body: Any) -> httpx2.Response:
    return client.post(f"/v3/memories/{query}", json={"filters": {"user_id": "u"}} | body)


def message(answer: httpx2.Response) -> str:
    """What a 400 says, in the envelope in which the platform says it."""
    assert answer.status_code == 400
    body = answer.json()
    assert body["error"] == "400 Bad Request"
    return str(body["details"]["message"])


# -- who may ask, and where ---------------------------------------------------------------------------------------


def test_a_key_is_a_token_and_a_bearer_is_taken_for_something_else(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    assert client.get("/v1/ping/").json()["status"] == "ok"
    for value, part in [
        ("Bearer k", "token_not_valid"),
        ("Token other", "Invalid API key."),
        ("", "not provided"),
    ]:
        answer = client.get("/v1/ping/", headers={"Authorization": value})
        assert answer.status_code == 401
        assert part in answer.text


def test_a_missing_slash_is_a_page_of_html(client: httpx2.Client) -> None:
    answer = client.post("/v3/memories/add", json={})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert client.get("/v3/memories/add/").json() == {"detail": 'Method "GET" not allowed.'}


def test_a_notice_may_ride_along_with_any_answer(double: Mem0Platform, client: httpx2.Client) -> None:
    double.notice = "Claim this account"
    answer = add(client)
    assert answer.json()["mem0_notice"] == answer.headers["x-mem0-notice-message"] == "Claim this account"


def test_too_many_requests_say_how_long_to_wait(double: Mem0Platform, client: httpx2.Client) -> None:
    double.faults.add("rate_limit", after=3, headers={"X-RateLimit-Remaining": "0"})
    answer = add(client)
    assert (answer.status_code, answer.headers["retry-after"], answer.headers["x-ratelimit-remaining"]) == (
        429,
        "3",
        "0",
    )
    assert double.items() == []


# -- add ----------------------------------------------------------------------------------------------------------


def test_an_add_without_infer_answers_with_what_it_stored(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    answer = add(client, agent_id="a", run_id="r", metadata={"k": [1]}).json()
    (made,) = answer.pop("results")
    assert uuid.UUID(answer.pop("event_id")).version == 4
    assert answer == {"message": "Memories stored successfully", "status": "SUCCEEDED"}
    assert made == {"id": made["id"], "data": {"memory": "likes tea"}, "event": "ADD"}
    (item,) = double.items()
    assert (item["user_id"], item["agent_id"], item["run_id"], item["metadata"]) == (
        "u",
        "a",
        "r",
        {"k": [1]},
    )


def test_the_status_of_an_add_may_mislead(double: Mem0Platform, client: httpx2.Client) -> None:
    double.misleading_status = "PENDING"
    answer = add(client).json()
    assert answer["status"] == "PENDING"
    assert len(answer["results"]) == len(double.items()) == 1


@pytest.mark.parametrize("infer", [True, None])
def test_unless_infer_is_false_an_add_is_queued_and_keeps_nothing_verbatim(
    double: Mem0Platform, client: httpx2.Client, infer: bool | None
) -> None:
    body = {"messages": [{"role": "user", "content": "t"}], "user_id": "u"} | (
        {} if infer is None else {"infer": infer}
    )
    answer = client.post("/v3/memories/add/", json=body).json()
    assert answer["status"] == "PENDING"
    assert "results" not in answer
    states = [client.get(f"/v1/event/{answer['event_id']}/").json()["status"] for _ in range(3)]
    assert states == ["PENDING", "RUNNING", "SUCCEEDED"]
    assert double.items() == []
    assert double.inferred == [body]
    missing = client.get(f"/v1/event/{uuid.uuid4()}/")
    assert (missing.status_code, missing.json()["error"][:15]) == (404, "Event not found")
    assert client.get("/v1/events/").json()["count"] == 1


@pytest.mark.parametrize(("drop", "kept"), [(False, 3), (True, 2)])
def test_an_exact_repeat_in_one_scope_is_kept_or_dropped_as_turned(
    double: Mem0Platform, client: httpx2.Client, drop: bool, kept: int
) -> None:
    double.drop_repeats = drop
    add(client, run_id="r")
    add(client, run_id="s")
    repeat = add(client, run_id="r", metadata={"other": True})
    assert (repeat.status_code, repeat.json()["status"]) == (200, "SUCCEEDED")
    assert len(repeat.json()["results"]) == (0 if drop else 1)
    assert len(double.items()) == kept
    assert len(add(client, "Likes tea", run_id="r").json()["results"]) == 1


def test_system_messages_and_pictures_are_passed_over_in_silence(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "image_url"}]}]
    assert add(client, messages=[*said, {"role": "assistant", "content": "a"}]).status_code == 200
    assert [item["memory"] for item in double.items()] == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        {"user_id": None},
        {"user_id": 7},
        {"messages": "t"},
        {"messages": []},
        {"metadata": "m"},
        {"timestamp": "now"},
        {"expiration_date": "soon"},
        {"messages": [{"role": "narrator", "content": "t"}]},
    ],
)
def test_a_bad_add_is_refused(double: Mem0Platform, client: httpx2.Client, change: dict[str, Any]) -> None:
    assert message(add(client, **change))
    assert double.items() == []


def test_an_add_can_be_dated_back_and_times_are_not_in_utc(client: httpx2.Client) -> None:
    add(client, timestamp=0)
    add(client)
    times = [item["created_at"] for item in listed(client).json()["results"]]
    assert times == ["2026-03-01T05:00:00.000005-07:00", "1969-12-31T17:00:00.000000-07:00"]


# -- list ---------------------------------------------------------------------------------------------------------


def test_a_listed_memory_calls_its_run_a_session(double: Mem0Platform, client: httpx2.Client) -> None:
    double.seed("likes tea", user_id="u", run_id="r", metadata={"k": 1})
    (item,) = listed(client).json()["results"]
    keys = (
        "id memory user_id agent_id app_id session_id metadata categories structured_attributes replaced_by"
    )
    assert set(item) == {*keys.split(), "synthesized", "expiration_date", "created_at", "updated_at"}
    assert (item["session_id"], item["agent_id"], item["metadata"]) == ("r", None, {"k": 1})


def test_a_list_comes_in_pages_of_100_and_never_of_more_than_200(
    double: Mem0Platform, client: httpx2.Client
) -> None:
    double.seed("likes tea", times=450, user_id="u")
    double.seed("likes tea", times=7, user_id="v")
    assert len(listed(client).json()["results"]) == 100
    page = listed(client, "?page=1&page_size=1000", page=3, page_size=5).json()
    seen, sizes = [], []
    while True:
        sizes.append(len(page["results"]))
        seen += [item["id"] for item in page["results"]]
        assert page["count"] == 450
        if not page["next"]:
            break
        page = client.post(page["next"], json={"filters": {"user_id": "u"}}).json()
    assert sizes == [200, 200, 50]
    assert len(set(seen)) == 450
    assert page["previous"] == f"{double.url}/v3/memories/?page=2&page_size=200"
    assert listed(client, "?page=6").status_code == 404
    assert len(listed(client, page=2, page_size=20).json()["results"]) == 20


def test_a_page_can_shift_while_it_is_read(double: Mem0Platform, client: httpx2.Client) -> None:
    double.seed("likes tea", times=300, user_id="u")
    double.page_shift.append(lambda: double.seed("new", user_id="u"))
    first = listed(client, "?page_size=200").json()
    second = listed(client, "?page=2&page_size=200").json()
    assert (first["count"], second["count"]) == (300, 301)
    assert second["results"][0]["id"] == first["results"][-1]["id"]


def test_the_count_and_the_links_of_a_list_can_be_wrong(double: Mem0Platform, client: httpx2.Client) -> None:
    double.seed("likes tea", times=3, user_id="u")
    double.count_off, double.next_base = -1, "https://elsewhere.example"
    page = listed(client, "?page_size=2").json()
    assert page["count"] == 2
    assert page["next"] == "https://elsewhere.example/v3/memories/?page=2&page_size=2"


def test_what_has_expired_is_hidden_from_lists_but_not_by_id(client: httpx2.Client) -> None:
    made = add(client, expiration_date="2026-02-28").json()["results"][0]
    assert listed(client).json()["count"] == 0
    assert listed(client, show_expired=True).json()["count"] == 1
    assert client.get(f"/v1/memories/{made['id']}/").json()["expiration_date"] == "2026-02-28"


# -- by id, in batches, in bulk -----------------------------------------------------------------------------------


def test_a_memory_is_read_changed_and_deleted_by_its_id(double: Mem0Platform, client: httpx2.Client) -> None:
    (one,) = double.seed("likes tea", user_id="u", run_id="r", metadata={"a": 1})
    path = f"/v1/memories/{one}/"
    changed = client.put(path, json={"text": "likes coffee", "metadata": {"b": 2}})
    assert changed.json() == client.get(path).json()
    assert (changed.json()["memory"], changed.json()["metadata"]) == ("likes coffee", {"b": 2})
    assert changed.json()["session_id"] == "r"
    double.merge_metadata = True
    assert client.put(path, json={"metadata": {"c": 3}}).json()["metadata"] == {"b": 2, "c": 3}
    assert client.delete(path).json() == {"message": "Memory deleted successfully!"}
    events = [entry["event"] for entry in client.get(f"{path}history/").json()]
    assert events == ["ADD", "UPDATE", "UPDATE", "DELETE"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_missing_id_and_no_id_are_told_apart(client: httpx2.Client, method: str) -> None:
    answer = client.request(method, f"/v1/memories/{uuid.uuid4()}/", json={"text": "t"})
    assert (answer.status_code, answer.json()) == (404, {"error": "Memory not found!"})
    answer = client.request(method, "/v1/memories/12/", json={"text": "t"})
    assert (answer.status_code, answer.json()) == (400, {"error": "memory_id should be a valid UUID"})


def test_an_immutable_memory_refuses_change(client: httpx2.Client) -> None:
    made = add(client, immutable=True).json()["results"][0]
    assert "mmutable" in message(client.put(f"/v1/memories/{made['id']}/", json={"text": "t"}))


def test_batches_take_1000_and_no_more(double: Mem0Platform, client: httpx2.Client) -> None:
    ids = [{"memory_id": one} for one in double.seed("likes tea", times=1001, user_id="u")]
    for method in ["PUT", "DELETE"]:
        answer = client.request(method, "/v1/batch/", json={"memories": ids})
        assert (answer.status_code, answer.json()["error"][:24]) == (400, "Maximum of 1000 memories")
    changed = client.put("/v1/batch/", json={"memories": [one | {"text": "t"} for one in ids[:1000]]})
    assert changed.json() == {"message": "Successfully updated 1000 memories"}
    assert [item["memory"] for item in double.items()] == ["t"] * 1000 + ["likes tea"]
    gone = client.request("DELETE", "/v1/batch/", json={"memories": ids[:1000]})
    assert gone.json() == {"message": "Successfully deleted 1000 memories"}
    assert len(double.items()) == 1


def test_a_bulk_delete_is_only_said_to_be_in_progress(double: Mem0Platform, client: httpx2.Client) -> None:
    double.seed("a", user_id="u", run_id="r")
    double.seed("b", user_id="u")
    double.slow_deletes = True
    assert message(client.delete("/v1/memories/"))
    answer = client.delete("/v1/memories/?user_id=u&run_id=r")
    assert answer.json()["message"] == "Delete in progress. This may take some time."
    assert len(double.items()) == 2
    double.settle()
    assert [item["memory"] for item in double.items()] == ["b"]
    double.slow_deletes = False
    client.delete("/v1/memories/?user_id=*")
    assert double.items() == []


def test_entities_are_listed_and_deleted(double: Mem0Platform, client: httpx2.Client) -> None:
    double.seed("a", times=2, user_id="u/v", run_id="r")
    page = client.get("/v1/entities/").json()
    assert page["count"] == 2
    assert {(one["type"], one["name"], one["total_memories"]) for one in page["results"]} == {
        ("user", "u/v", 2),
        ("run", "r", 2),
    }
    assert client.delete("/v2/entities/run/r/").status_code == 200
    assert double.items() == []
