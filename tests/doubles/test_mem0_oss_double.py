"""The double of the open-source Mem0 server is as awkward as the server."""

from __future__ import annotations

import hashlib
import re
import uuid
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


def add(client: httpx2.Client, text: str = "likes tea", **body: Any) -> httpx2.Response:
    scope = {} if body.keys() & {"user_id", "agent_id", "run_id"} else {"user_id": "u"}
    said = {"messages": [{"role": "user", "content": text}], "infer": False}
    return client.post("/memories", json=said | scope | body)


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


# -- who may ask ------------------------------------------------------------------------------------------------


def test_without_a_key_the_answer_says_which_headers_it_takes(double: Mem0Oss) -> None:
    for headers in [{}, {"Authorization": "Token k"}]:
        answer = httpx2.get(f"{double.url}/memories?user_id=u", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        words = "Authentication required. Provide a Bearer token or X-API-Key header."
        assert answer.json() == {"detail": words}
        assert re.fullmatch("[0-9a-f]{8}", answer.headers["x-request-id"])


def test_a_bad_bearer_beats_a_good_key_and_the_key_is_no_bearer(client: httpx2.Client) -> None:
    for token in ["rubbish", "k"]:
        answer = client.get("/memories?user_id=u", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()) == (401, {"detail": "Invalid or expired token."})
    assert (
        client.get("/memories?user_id=u", headers={"Authorization": "Bearer a.valid.jwt"}).status_code == 200
    )


def test_a_wrong_key_is_told_apart_from_none(client: httpx2.Client) -> None:
    answer = client.get("/memories?user_id=u", headers={"X-API-Key": "other"})
    assert (answer.status_code, answer.json()) == (401, {"detail": "Invalid API key."})


def test_a_user_s_key_may_not_delete_in_bulk(client: httpx2.Client) -> None:
    headers = {"X-API-Key": "m0sk_user"}
    assert client.get("/memories?user_id=u", headers=headers).status_code == 200
    assert client.delete("/memories?user_id=u", headers=headers).status_code == 403
    assert client.post("/reset", headers=headers).status_code == 403


def test_there_is_no_health_route_no_v1_and_no_redirect_of_slashes(client: httpx2.Client) -> None:
    for path in ["/health", "/api/health", "/memories/", "/v1/memories/"]:
        assert (client.get(path).status_code, client.get(path).json()) == (404, {"detail": "Not Found"})
    answer = client.put("/memories")
    assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"})
    assert client.get("/").headers["location"] == "/docs"
    assert client.get("/auth/me").status_code == 200


# -- add --------------------------------------------------------------------------------------------------------


def test_an_add_without_infer_is_verbatim_and_answers_200(client: httpx2.Client) -> None:
    answer = add(client, "  likes tea\n")
    (made,) = answer.json()["results"]
    assert answer.status_code == 200
    assert uuid.UUID(made.pop("id")).version == 4
    assert made == {"memory": "  likes tea\n", "event": "ADD", "actor_id": None, "role": "user"}


@pytest.mark.parametrize("infer", [{}, {"infer": True}, {"infer": None}])
def test_unless_infer_is_false_nothing_is_kept_and_nothing_says_so(
    double: Mem0Oss, client: httpx2.Client, infer: dict[str, Any]
) -> None:
    body = {"messages": [{"role": "user", "content": "likes tea"}], "user_id": "u"} | infer
    answer = client.post("/memories", json=body)
    assert (answer.status_code, answer.json()) == (200, {"results": []})
    assert double.items() == []
    assert double.inferred == [body]


def test_the_same_again_is_another_row(client: httpx2.Client) -> None:
    ids = {add(client, run_id="r", user_id="u").json()["results"][0]["id"] for _ in range(3)}
    assert len(ids) == 3
    assert {item["id"] for item in listed(client, run_id="r")} == ids


def test_an_item_shows_all_that_is_known_of_it(client: httpx2.Client) -> None:
    metadata = {"key": "a/b", "n": {"b": [1, None, True]}, "user_id": "evil", "hash": "x", "role": "system"}
    (made,) = add(client, metadata=metadata, user_id="u", run_id="r").json()["results"]
    item = client.get(f"/memories/{made['id']}").json()
    assert item == {
        "id": made["id"],
        "memory": "likes tea",
        "hash": hashlib.md5(b"likes tea").hexdigest(),
        "metadata": {"key": "a/b", "n": {"b": [1, None, True]}},
        "score": None,
        "created_at": "2026-03-01T12:00:00.123456+00:00",
        "updated_at": "2026-03-01T12:00:00.123456+00:00",
        "user_id": "u",
        "run_id": "r",
        "role": "user",
    }
    assert listed(client) == [{key: value for key, value in item.items() if key != "score"}]


def test_metadata_can_set_when_a_row_was_created(client: httpx2.Client) -> None:
    add(client, metadata={"created_at": "2020-01-01T00:00:00+00:00"})
    (item,) = listed(client)
    assert item["created_at"] == item["updated_at"] == "2020-01-01T00:00:00+00:00"


def test_system_messages_are_passed_over_and_other_roles_are_taken(client: httpx2.Client) -> None:
    roles = ["system", "user", "narrator"]
    body = {"messages": [{"role": role, "content": role} for role in roles], "user_id": "u", "infer": False}
    made = client.post("/memories", json=body).json()["results"]
    assert [one["role"] for one in made] == ["user", "narrator"]
    assert client.post("/memories", json=body | {"messages": []}).json() == {"results": []}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"user_id": None}, 400),
        ({"user_id": ""}, 400),
        ({"user_id": "a b"}, 400),
        ({"user_id": 7}, 422),
        ({"messages": "likes tea"}, 422),
        ({"messages": None}, 422),
        ({"memory_type": "episodic"}, 400),
        ({"expiration_date": "tomorrow"}, 400),
    ],
)
def test_a_bad_add_is_refused_with_the_code_of_its_kind(
    double: Mem0Oss, client: httpx2.Client, change: dict[str, Any], code: int
) -> None:
    answer = add(client, **change)
    assert answer.status_code == code
    assert isinstance(answer.json()["detail"], str if code == 400 else list)
    assert double.items() == []


def test_errors_are_worded_as_the_server_words_them(client: httpx2.Client) -> None:
    words = "At least one identifier (user_id, agent_id, run_id) is required."
    assert add(client, user_id=None).json() == {"detail": words}
    (wrong,) = client.post("/memories", content=b"{").json()["detail"]
    assert (wrong["type"], wrong["loc"][0], wrong["msg"]) == ("json_invalid", "body", "JSON decode error")
    (wrong,) = client.post("/memories", json={"user_id": "u"}).json()["detail"]
    assert wrong == {
        "type": "missing",
        "loc": ["body", "messages"],
        "msg": "Field required",
        "input": {"user_id": "u"},
    }


def test_ids_are_trimmed_and_may_hold_anything_else(client: httpx2.Client) -> None:
    name = "/:?#%&=é" + "x" * 5000
    add(client, user_id=f" {name} ")
    assert len(client.get("/memories", params={"user_id": name}).json()["results"]) == 1


def test_text_that_the_database_cannot_hold_is_an_upstream_error(
    double: Mem0Oss, client: httpx2.Client
) -> None:
    assert upstream(add(client, "a\0b")) == UNKNOWN
    assert upstream(add(client, metadata={"k": ["\0"]})) == UNKNOWN
    assert upstream(add(client, " ".join(f"word{n:07}" for n in range(100_000)))) == UNKNOWN
    assert add(client, "tea " * 250_000).status_code == 200
    lone = b'{"messages":[{"role":"user","content":"\\ud800"}],"user_id":"u","infer":false}'
    assert client.post("/memories", content=lone).status_code == 400
    assert len(double.items()) == 1


# -- list and get -------------------------------------------------------------------------------------------------


def test_a_list_gives_20_unless_asked_and_never_more_than_1000(
    double: Mem0Oss, client: httpx2.Client
) -> None:
    double.seed("likes tea", times=1001, user_id="u")
    assert len(listed(client)) == 20
    assert len(listed(client, top_k=1000)) == 1000
    assert len(listed(client, top_k=0)) == 1
    assert len(listed(client, top_k=5, offset=5, page=2, limit=9)) == 5
    for wrong in ["1001", "-1", "many"]:
        answer = client.get("/memories", params={"user_id": "u", "top_k": wrong})
        assert answer.status_code == 422
        assert answer.json()["detail"][0]["loc"] == ["query", "top_k"]


def test_a_list_ands_its_ids_and_an_unknown_scope_is_empty(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("a", user_id="u", run_id="r")
    double.seed("b", user_id="u", run_id="s")
    double.seed("c", user_id="v", run_id="r")
    assert [item["memory"] for item in listed(client, run_id="r")] == ["a"]
    assert client.get("/memories?user_id=nobody&top_k=1").json() == {"results": []}


def test_a_list_without_an_id_dumps_every_tenant_in_another_shape(
    double: Mem0Oss, client: httpx2.Client
) -> None:
    double.seed("Likes tea", user_id="u", metadata={"k": 1})
    double.seed("b", user_id="v")
    first, second = client.get("/memories").json()["results"]
    assert first["metadata"] == {"k": 1, "role": "user", "text_lemmatized": "likes tea"}
    assert (first["user_id"], first["agent_id"], second["user_id"]) == ("u", None, "v")


def test_white_space_in_the_id_of_a_list_is_an_upstream_error(client: httpx2.Client) -> None:
    assert upstream(client.get("/memories", params={"user_id": "a b"})) == UNKNOWN


def test_a_star_reads_and_deletes_every_tenant(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("likes tea", user_id="u")
    double.seed("likes tea", user_id="v")
    assert len(client.get("/memories?user_id=*").json()["results"]) == 2
    assert len(searched(client, filters={"user_id": "*"}).json()["results"]) == 2
    assert client.delete("/memories?user_id=*").json() == {"message": "All relevant memories deleted"}
    assert double.items() == []


def test_a_missing_id_is_200_and_null_and_no_uuid_is_an_upstream_error(client: httpx2.Client) -> None:
    answer = client.get(f"/memories/{uuid.uuid4()}")
    assert (answer.status_code, answer.json()) == (200, None)
    for method, body in [("GET", None), ("DELETE", None), ("PUT", {"text": "t"})]:
        assert upstream(client.request(method, "/memories/12", json=body)) == UNKNOWN


def test_what_has_expired_is_hidden_from_lists_and_searches_but_not_by_id(client: httpx2.Client) -> None:
    (made,) = add(client, expiration_date="2026-02-28").json()["results"]
    add(client, "tea today", expiration_date="2026-03-01")
    assert [item["memory"] for item in listed(client)] == ["tea today"]
    assert [item["memory"] for item in searched(client).json()["results"]] == ["tea today"]
    assert len(listed(client, show_expired=True)) == 2
    assert len(searched(client, show_expired=True).json()["results"]) == 2
    assert client.get(f"/memories/{made['id']}").json()["expiration_date"] == "2026-02-28"


def test_behind_many_expired_rows_a_list_finds_nothing(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("old", times=4000, user_id="u", metadata={"expiration_date": "2020-01-01"})
    double.seed("fresh", user_id="u")
    assert listed(client, top_k=1000) == []
    assert len(listed(client, top_k=1000, show_expired=True)) == 1000


# -- change and delete --------------------------------------------------------------------------------------------


def test_an_update_merges_metadata_and_moves_the_row_to_the_end(
    double: Mem0Oss, client: httpx2.Client
) -> None:
    first, _ = double.seed("likes tea", times=2, user_id="u", metadata={"a": 1, "b": 2})
    double.clock = lambda: NOW.replace(hour=13)
    change: dict[str, Any] = {
        "metadata": {"b": None, "c": 3, "user_id": "v", "created_at": "1999"},
        "text": "",
    }
    answer = client.put(f"/memories/{first}", json=change)
    assert (answer.status_code, answer.json()) == (200, {"message": "Memory updated successfully!"})
    item = listed(client)[-1]
    assert (item["id"], item["memory"], item["user_id"]) == (first, "", "u")
    assert item["metadata"] == {"a": 1, "b": None, "c": 3}
    assert (item["created_at"][11:13], item["updated_at"][11:13]) == ("12", "13")


def test_an_update_of_nothing_is_refused(double: Mem0Oss, client: httpx2.Client) -> None:
    (one,) = double.seed("likes tea", user_id="u", metadata={"expiration_date": "2030-01-01"})
    for body in [{}, {"text": None, "metadata": None}, {"memory": "x"}, {"data": "x"}]:
        answer = client.put(f"/memories/{one}", json=body)
        words = "At least one of text, metadata, or expiration_date must be provided."
        assert (answer.status_code, answer.json()) == (400, {"detail": words})
    assert client.put(f"/memories/{one}", json={"expiration_date": None}).status_code == 200
    assert double.items()[0]["expiration_date"] is None


def test_a_missing_row_cannot_be_changed_or_deleted(double: Mem0Oss, client: httpx2.Client) -> None:
    (one,) = double.seed("likes tea", user_id="u")
    assert client.delete(f"/memories/{one}").json() == {"message": "Memory deleted successfully"}
    answer = client.delete(f"/memories/{one}")
    assert (answer.status_code, answer.json()) == (404, {"detail": f"Memory with id {one} not found"})
    answer = client.put(f"/memories/{one}", json={"text": "t"})
    words = f"Memory with id {one} not found. Please provide a valid 'memory_id'"
    assert (answer.status_code, answer.json()) == (404, {"detail": words})


def test_the_history_outlives_the_row(double: Mem0Oss, client: httpx2.Client) -> None:
    (one,) = double.seed("likes tea", user_id="u")
    client.put(f"/memories/{one}", json={"text": "likes coffee"})
    client.delete(f"/memories/{one}")
    history = client.get(f"/memories/{one}/history").json()
    assert [(entry["event"], entry["old_memory"], entry["new_memory"]) for entry in history] == [
        ("ADD", None, "likes tea"),
        ("UPDATE", "likes tea", "likes coffee"),
        ("DELETE", "likes coffee", None),
    ]
    assert client.get(f"/memories/{uuid.uuid4()}/history").json() == []


def test_a_bulk_delete_needs_an_id_and_takes_all_of_it(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("a", times=1500, user_id="u")
    double.seed("b", user_id="v")
    answer = client.delete("/memories")
    assert (answer.status_code, answer.json()) == (400, {"detail": "At least one identifier is required."})
    for _ in range(2):
        answer = client.delete("/memories?user_id=u")
        assert (answer.status_code, answer.json()) == (200, {"message": "All relevant memories deleted"})
    assert [item["memory"] for item in double.items()] == ["b"]


def test_entities_list_the_scopes_and_a_reset_empties_them(double: Mem0Oss, client: httpx2.Client) -> None:
    double.seed("a", times=2, user_id="u", run_id="r")
    entities = client.get("/entities").json()
    assert {(one["type"], one["id"], one["total_memories"]) for one in entities} == {
        ("user", "u", 2),
        ("run", "r", 2),
    }
    assert client.delete("/entities/run/r").status_code == 200
    double.seed("a", user_id="u")
    assert client.post("/reset").json() == {"message": "All memories reset"}
    assert client.get("/entities").json() == []
