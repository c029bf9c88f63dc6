"""Who may ask the CortexDB double what: tokens, actors, scopes that have an owner, and what needs no token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.doubles.cortexdb import CortexDirect
from tests.doubles.cortexdb_asking import SCOPE, Asking, event, refusal


def test_a_request_without_a_token_is_refused(cortex: CortexDirect) -> None:
    answer = httpx2.get(f"{cortex.url}/v1/events", params={"scope": SCOPE})
    assert refusal(answer) == (401, "MISSING_TOKEN")
    assert set(answer.json()) == {"error_code", "message", "request_id", "retriable"}


def test_a_token_that_is_not_known_is_refused(cortex: CortexDirect) -> None:
    headers = {"Authorization": "Bearer guessed"}
    answer = httpx2.get(f"{cortex.url}/v1/events", params={"scope": SCOPE}, headers=headers)
    assert refusal(answer) == (401, "INVALID_TOKEN_SIGNATURE")


def test_a_token_may_be_replaced_while_a_client_uses_it(cortex: CortexDirect, ask: Asking) -> None:
    assert ask.get("events", scope=SCOPE).status_code == 200
    cortex.accept_token("newer")
    assert refusal(ask.get("events", scope=SCOPE)) == (401, "REVOKED_TOKEN")
    ask.http.headers["Authorization"] = "Bearer newer"
    assert ask.get("events", scope=SCOPE).status_code == 200


def test_a_development_server_asks_for_no_token(running: Callable[[Any], Any]) -> None:
    double = running(CortexDirect(key=""))
    assert httpx2.post(f"{double.url}/v1/experience", json=event()).status_code == 202


def test_health_and_version_are_public(cortex: CortexDirect) -> None:
    assert httpx2.get(f"{cortex.url}/v1/admin/health").status_code == 200
    version = httpx2.get(f"{cortex.url}/v1/admin/version").json()
    assert version["version"].startswith("v0.10")
    assert "budget_excerpt_v1" in version["capabilities"]


def test_an_authenticated_answer_tells_the_limits(ask: Asking) -> None:
    headers = ask.get("events", scope=SCOPE).headers
    assert {"x-ratelimit-limit", "x-ratelimit-reset", "x-cortex-token-expires-in"} <= set(headers)


def test_the_actor_has_to_be_who_the_token_is(ask: Asking) -> None:
    assert ask.get("auth/whoami").json()["caller"] == "user:local"
    for actor, status in (("user:local", 200), ("user:alice", 401)):
        answer = ask.http.get("/v1/events", params={"scope": SCOPE}, headers={"X-Cortex-Actor": actor})
        assert answer.status_code == status
    assert answer.json()["error_code"] == "ACTOR_MISMATCH"


def test_an_older_server_knows_no_callers(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.whoami_missing = True
    assert refusal(ask.get("auth/whoami")) == (404, "NOT_FOUND")
    assert (
        ask.http.get("/v1/events", params={"scope": SCOPE}, headers={"X-Cortex-Actor": "user:x"}).status_code
        == 200
    )


def test_there_is_nobody_who_signs_up(ask: Asking) -> None:
    assert refusal(ask.post("auth/signup", {})) == (503, "NOT_CONFIGURED")


def test_who_writes_first_owns_a_scope_and_others_have_to_be_members(
    cortex: CortexDirect, ask: Asking
) -> None:
    cortex.tokens["alices"] = "user:alice"
    ask.written("mine", "k1")
    alice = Asking(cortex, token="alices")
    assert refusal(alice.write("hers")) == (403, "NOT_A_MEMBER")
    assert refusal(alice.get("events", scope=SCOPE)) == (403, "NOT_A_MEMBER")
    assert refusal(alice.get("events/evt_1")) == (403, "NOT_A_MEMBER")
    assert refusal(alice.post("recall", {"scope": SCOPE})) == (403, "NOT_A_MEMBER")
    assert refusal(alice.forget("evt_1")) == (403, "NOT_A_MEMBER")
    ask.http.put("/v1/scopes/members", params={"path": SCOPE}, json={"members": ["user:alice"]})
    assert alice.write("hers").status_code == 202
    alice.close()


def test_a_scope_is_registered_once(ask: Asking) -> None:
    made = ask.post("scopes", {"path": "app:new", "members": ["user:alice"]})
    assert made.status_code == 201
    assert refusal(ask.post("scopes", {"path": "app:new"})) == (409, "SCOPE_REGISTRATION_EXISTS")
    record = {"path": "app:new", "owner": "user:local", "members": ["user:alice"]}
    assert ask.get("scopes", path="app:new").json() == record
    assert refusal(ask.get("scopes", path="app:none")) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/search"), ("POST", "/v1/remember"), ("PUT", "/v1/events")]
)
def test_routes_that_are_gone_or_never_were_are_404(ask: Asking, method: str, path: str) -> None:
    assert refusal(ask.http.request(method, path)) == (404, "NOT_FOUND")


def test_what_was_sent_can_be_read_from_the_double(cortex: CortexDirect, ask: Asking) -> None:
    ask.write("one", "k1", claim="c1")
    ask.post("experience/bulk", {"items": [event("two", "k2"), event("three")]})
    ask.recall("tea")
    assert cortex.claims == [("k1", "c1"), ("k2", None), (None, None)]
    assert [body["content"]["text"] for body in cortex.writes] == ["one", "two", "three"]
    assert [body["query"] for body in cortex.bodies("recall")] == ["tea"]
    assert {seen.headers["authorization"] for seen in cortex.seen} == {"Bearer secret"}
    assert cortex.count == 3
