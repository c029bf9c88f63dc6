"""What the Mem0 dialect is built on, held against the real library on a real PostgreSQL."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.live import mem0_server


@pytest.fixture
def mem0(live_mem0_url: str) -> Iterator[httpx2.Client]:
    headers = {"X-API-Key": mem0_server.API_KEY}
    with httpx2.Client(base_url=live_mem0_url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def user() -> str:
    """A scope of the test's own."""
    return f"ns:{uuid4().hex}"


def add(client: httpx2.Client, *texts: str, **fields: Any) -> list[dict[str, Any]]:
    messages = [{"role": "user", "content": text} for text in texts]
    answer = client.post("/memories", json={"messages": messages, "infer": False, **fields})
    assert answer.status_code == 200, answer.text
    added: list[dict[str, Any]] = answer.json()["results"]
    return added


def listed(client: httpx2.Client, **params: Any) -> list[dict[str, Any]]:
    answer = client.get("/memories", params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def refused(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["detail"]


def test_what_is_added_is_held_word_for_word(mem0: httpx2.Client, user: str) -> None:
    text = "  two\nlines, <b>é</b> "
    [added] = add(mem0, text, user_id=user, metadata={"k": {"n": [1, None, True]}, "hash": "theirs"})
    assert added == {"id": added["id"], "memory": text, "event": "ADD", "actor_id": None, "role": "user"}
    held = mem0.get(f"/memories/{added['id']}").json()
    assert held.pop("created_at") == held.pop("updated_at")
    assert held == {
        "id": added["id"],
        "memory": text,
        "hash": hashlib.md5(text.encode()).hexdigest(),
        "metadata": {"k": {"n": [1, None, True]}},
        "score": None,
        "user_id": user,
        "role": "user",
    }


def test_eight_adds_at_once_of_one_text_in_one_scope_make_eight_rows(mem0: httpx2.Client, user: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(lambda _: add(mem0, "the same", user_id=user, run_id="key"), range(8)))
    assert len({one["id"] for [one] in added}) == 8
    assert len(listed(mem0, user_id=user, run_id="key")) == 8


def test_an_add_needs_a_scope_and_a_message_list(mem0: httpx2.Client, user: str) -> None:
    message = {"messages": [{"role": "user", "content": "x"}], "infer": False}
    assert refused(mem0.post("/memories", json=message))[0] == 400
    assert refused(mem0.post("/memories", json={**message, "user_id": "a b"}))[0] == 400
    assert mem0.post("/memories", json={**message, "user_id": 7}).status_code == 422
    assert mem0.post("/memories", json={"messages": "x", "user_id": user}).status_code == 422
    assert add(mem0, user_id=user) == []
    assert listed(mem0, user_id=user) == []


def test_an_absent_id_is_null_and_a_malformed_one_a_bad_gateway(mem0: httpx2.Client) -> None:
    absent = mem0.get(f"/memories/{uuid4()}")
    assert (absent.status_code, absent.text) == (200, "null")
    malformed = mem0.get("/memories/not-a-uuid")
    assert malformed.status_code == 502
    answer = malformed.json()
    assert (answer["detail"], answer["code"]) == ("Upstream provider error.", "unknown")
    assert answer["request_id"] == malformed.headers["X-Request-ID"]


def test_a_put_merges_metadata_and_keeps_the_row(mem0: httpx2.Client, user: str) -> None:
    row = add(mem0, "one", user_id=user, run_id="r", metadata={"a": 1, "b": 2})[0]["id"]
    before = mem0.get(f"/memories/{row}").json()
    body = {"text": "two", "metadata": {"b": 3, "c": None, "user_id": "mallory"}}
    changed = mem0.put(f"/memories/{row}", json=body)
    assert (changed.status_code, changed.json()) == (200, {"message": "Memory updated successfully!"})
    after = mem0.get(f"/memories/{row}").json()
    assert (after["memory"], after["metadata"]) == ("two", {"a": 1, "b": 3, "c": None})
    assert (after["user_id"], after["run_id"], after["created_at"]) == (user, "r", before["created_at"])
    assert after["updated_at"] > before["updated_at"]
    assert refused(mem0.put(f"/memories/{row}", json={"memory": "x"}))[0] == 400
    assert refused(mem0.put(f"/memories/{uuid4()}", json={"text": "x"}))[0] == 404
    assert mem0.put("/memories/not-a-uuid", json={"text": "x"}).status_code == 502


def test_a_delete_of_what_is_gone_is_not_found_and_its_history_stays(mem0: httpx2.Client, user: str) -> None:
    row = add(mem0, "one", user_id=user)[0]["id"]
    gone = mem0.delete(f"/memories/{row}")
    assert (gone.status_code, gone.json()) == (200, {"message": "Memory deleted successfully"})
    assert refused(mem0.delete(f"/memories/{row}")) == (404, f"Memory with id {row} not found")
    assert [step["event"] for step in mem0.get(f"/memories/{row}/history").json()] == ["ADD", "DELETE"]
    assert mem0.get(f"/memories/{uuid4()}/history").json() == []


def test_a_page_is_twenty_rows_unless_asked_and_a_thousand_at_most(mem0: httpx2.Client, user: str) -> None:
    add(mem0, *(f"row {n}" for n in range(25)), user_id=user)
    assert len(listed(mem0, user_id=user)) == 20
    assert len(listed(mem0, user_id=user, top_k=1000)) == 25
    assert len(listed(mem0, user_id=user, top_k=0)) == 1
    for limit in (1001, -1):
        assert mem0.get("/memories", params={"user_id": user, "top_k": limit}).status_code == 422


def test_past_a_thousand_rows_only_a_search_returns_them_all(mem0: httpx2.Client, user: str) -> None:
    add(mem0, *(f"row {n}" for n in range(1001)), user_id=user)
    assert len(listed(mem0, user_id=user, top_k=1000)) == 1000
    everything = {"query": "zebra", "filters": {"user_id": user}, "top_k": 5000, "threshold": 0}
    assert len(mem0.post("/search", json=everything).json()["results"]) == 1001
    [entity] = [one for one in mem0.get("/entities").json() if one["id"] == user]
    assert (entity["type"], entity["total_memories"]) == ("user", 1001)


def test_a_bare_metadata_key_filters_and_the_platforms_wrapper_is_refused(
    mem0: httpx2.Client, user: str
) -> None:
    for key in ("key-1", "key-2"):
        add(mem0, f"a text under {key}", user_id=user, metadata={"k": key})

    def search(**filters: Any) -> httpx2.Response:
        return mem0.post("/search", json={"query": "text", "filters": filters, "threshold": 0})

    exact = search(user_id=user, k="key-2")
    assert [item["memory"] for item in exact.json()["results"]] == ["a text under key-2"]
    assert exact.json()["results"][0]["score"] > 0
    assert refused(search(user_id=user, k={"between": [1, 2]}))[0] == 400
    assert refused(search(user_id=user, metadata={"k": "key-2"}))[0] == 400
    assert refused(search(k="key-2"))[0] == 400
    assert refused(mem0.post("/search", json={"query": " ", "filters": {"user_id": user}}))[0] == 400


def test_a_star_as_a_scope_is_everybody(mem0: httpx2.Client, user: str) -> None:
    for tenant in (f"{user}-a", f"{user}-b"):
        add(mem0, "mine", user_id=tenant, run_id=user)
    assert len(listed(mem0, user_id="*", run_id=user)) == 2
    hits = mem0.post("/search", json={"query": "mine", "filters": {"user_id": "*", "run_id": user}})
    assert len(hits.json()["results"]) == 2


def test_a_row_that_has_expired_is_hidden_from_lists_but_not_by_its_id(
    mem0: httpx2.Client, user: str
) -> None:
    row = add(mem0, "old", user_id=user, expiration_date="2020-01-01")[0]["id"]
    assert listed(mem0, user_id=user) == []
    assert [item["id"] for item in listed(mem0, user_id=user, show_expired=True)] == [row]
    assert mem0.get(f"/memories/{row}").json()["expiration_date"] == "2020-01-01"


def test_a_scope_is_deleted_whole_and_no_other(mem0: httpx2.Client, user: str) -> None:
    add(mem0, "one", "two", user_id=user)
    add(mem0, "three", user_id=f"{user}-other")
    gone = mem0.delete("/memories", params={"user_id": user})
    assert (gone.status_code, gone.json()) == (200, {"message": "All relevant memories deleted"})
    assert listed(mem0, user_id=user) == []
    assert len(listed(mem0, user_id=f"{user}-other")) == 1
    assert refused(mem0.delete("/memories"))[0] == 400


def test_a_bad_bearer_token_beats_a_good_key(live_mem0_url: str) -> None:
    url, key = f"{live_mem0_url}/memories?user_id=x", mem0_server.API_KEY

    def status(**headers: str) -> tuple[int, str]:
        return refused(
            httpx2.get(url, headers={k.replace("_", "-"): v for k, v in headers.items()}, trust_env=False)
        )

    assert httpx2.get(url, headers={"X-API-Key": key}, trust_env=False).status_code == 200
    assert status(X_API_Key="wrong") == (401, "Invalid API key.")
    assert status(X_API_Key=key, Authorization=f"Bearer {key}") == (401, "Invalid or expired token.")
    for nothing in ({}, {"Authorization": f"Token {key}"}):
        assert status(**nothing)[1].startswith("Authentication required.")
    assert httpx2.get(url, trust_env=False).headers["WWW-Authenticate"] == "Bearer"


def test_there_is_no_health_route_and_no_redirect_of_slashes(mem0: httpx2.Client) -> None:
    for path in ("/health", "/memories/", "/v1/memories"):
        assert refused(mem0.get(path)) == (404, "Not Found")
    assert refused(mem0.patch("/memories")) == (405, "Method Not Allowed")
    assert re.fullmatch("[0-9a-f]{8}", mem0.get("/memories", params={"user_id": "x"}).headers["X-Request-ID"])
