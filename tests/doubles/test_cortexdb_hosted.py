"""The CortexDB double behind the TinyHumans backend: envelopes, claims, tenants, grammar, and its own limits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles.cortexdb_asking import SCOPE, Asking, Clock, event, refusal
from tests.doubles.cortexdb_hosted import CortexHosted

ROOTED = f"org:tenant-1/{SCOPE}"


def test_a_success_comes_in_an_envelope(ask_hosted: Asking) -> None:
    answer = ask_hosted.write("one", "k1", claim="c1")
    receipt = {"event_id": "evt_1", "status": "captured", "replayed_from_idempotency": False}
    assert (answer.status_code, answer.json()) == (200, {"success": True, "data": receipt})
    again = ask_hosted.write("one", "k1", claim="c2").json()["data"]
    assert (again["event_id"], again["replayed_from_idempotency"]) == ("evt_1", True)


def test_a_failure_comes_in_an_envelope_with_a_code(ask_hosted: Asking) -> None:
    answer = ask_hosted.get("events/evt_9")
    assert refusal(answer) == (404, "NOT_FOUND")
    assert set(answer.json()) == {"success", "error", "errorCode"}
    assert answer.json()["success"] is False


def test_a_token_that_is_not_known_is_refused(hosted: CortexHosted) -> None:
    for token in ("", "guessed"):
        stranger = Asking(hosted, "/memory", token)
        assert refusal(stranger.get("events", scope=SCOPE)) == (401, "UNAUTHORIZED")
        stranger.close()


@pytest.mark.parametrize("path", ["experience/bulk", "forget/preview", "beliefs/build"])
def test_there_are_no_bulks_previews_or_beliefs(ask_hosted: Asking, path: str) -> None:
    assert refusal(ask_hosted.post(path, {"items": [event("one", "k1")]})) == (404, "NOT_FOUND")


def test_there_is_no_waiting(hosted: CortexHosted, ask_hosted: Asking) -> None:
    answer = ask_hosted.post("experience?wait=indexed", event("one", "k1"))
    assert refusal(answer) == (400, "BAD_REQUEST")
    assert hosted.events == []


def test_a_write_needs_a_body_key(ask_hosted: Asking) -> None:
    assert refusal(ask_hosted.write("one")) == (400, "MISSING_IDEMPOTENCY_KEY")


def test_a_claim_is_taken_once_whatever_the_body(hosted: CortexHosted, ask_hosted: Asking) -> None:
    ask_hosted.write("one", "k1", claim="c1")
    assert refusal(ask_hosted.write("one", "k1", claim="c1")) == (400, "CONFLICT")
    assert refusal(ask_hosted.write("two", "k2", claim="c1")) == (400, "CONFLICT")
    assert [held.text for held in hosted.events] == ["one"]
    assert hosted.claims == [("k1", "c1"), ("k1", "c1"), ("k2", "c1")]


@pytest.mark.parametrize("route", ["forget", "answer"])
def test_forgets_and_answers_take_claims_too(ask_hosted: Asking, route: str) -> None:
    pack = ask_hosted.recall()["pack_id"]
    bodies = {
        "forget": {"scope": SCOPE, "selector": {"memory_ids": ["evt_1"]}},
        "answer": {"scope": SCOPE, "question": "q", "use_pack_id": pack},
    }
    claim = {"Idempotency-Key": "c1"}
    assert ask_hosted.post(route, bodies[route], claim).status_code == 200
    assert refusal(ask_hosted.post(route, bodies[route], claim)) == (400, "CONFLICT")


def test_newer_backends_keep_the_409_of_a_conflict(hosted: CortexHosted, ask_hosted: Asking) -> None:
    hosted.knobs.conflict_is_409 = True
    ask_hosted.write("one", "k1", claim="c1")
    assert refusal(ask_hosted.write("one", "k1", claim="c1")) == (409, "CONFLICT")


def test_a_key_with_another_body_is_a_conflict_as_well(ask_hosted: Asking) -> None:
    ask_hosted.write("one", "k1", claim="c1")
    assert refusal(ask_hosted.write("two", "k1", claim="c2")) == (400, "CONFLICT")


def test_a_claim_may_be_taken_and_the_write_lost(hosted: CortexHosted, ask_hosted: Asking) -> None:
    hosted.knobs.claim_then_fail = 1
    assert ask_hosted.write("one", "k1", claim="c1").status_code == 502
    assert hosted.events == []
    assert refusal(ask_hosted.write("one", "k1", claim="c1")) == (400, "CONFLICT")
    assert ask_hosted.write("one", "k1", claim="c2").json()["data"]["replayed_from_idempotency"] is False


def test_a_write_may_be_carried_out_and_then_conflict_with_itself(
    hosted: CortexHosted, ask_hosted: Asking
) -> None:
    hosted.knobs.apply_then_fail = 1
    assert ask_hosted.write("one", "k1", claim="c1").status_code == 503
    assert refusal(ask_hosted.write("one", "k1", claim="c1")) == (400, "CONFLICT")
    assert [held.text for held in hosted.events] == ["one"]


def test_300_requests_a_minute_are_allowed_and_more_are_refused_outside_the_envelope(
    ask_hosted: Asking, moment: Clock
) -> None:
    for _ in range(300):
        assert ask_hosted.get("events", scope=SCOPE).status_code == 200
    answer = ask_hosted.write("one", "k1", claim="c1")
    assert answer.status_code == 429
    assert set(answer.json()) == {"error"}
    assert answer.json()["error"]["type"] == "rate_limit_error"
    moment.forward(minutes=1)
    assert ask_hosted.write("one", "k1", claim="c1").status_code == 200, "the limiter stands before the claim"


@pytest.mark.parametrize("knob", ["rate_limit_experience", "rate_limit_events", "rate_limit_forget"])
def test_a_route_may_be_limited_before_its_claim_is_taken(
    hosted: CortexHosted, ask_hosted: Asking, knob: str
) -> None:
    setattr(hosted.knobs, knob, 1)
    forget = {"scope": SCOPE, "selector": {"memory_ids": ["evt_1"]}}
    calls = {
        "rate_limit_experience": lambda: ask_hosted.write("one", "k1", claim="c1"),
        "rate_limit_events": lambda: ask_hosted.get("events", scope=SCOPE),
        "rate_limit_forget": lambda: ask_hosted.post("forget", forget, {"Idempotency-Key": "c2"}),
    }
    limited, passed = calls[knob](), calls[knob]()
    assert (limited.status_code, set(limited.json())) == (429, {"error"})
    assert passed.status_code == 200


@pytest.mark.parametrize(
    "scope",
    ["notes", "app:a b", "app:a/", "app:", "app:é", "app:a.b", "/".join(["app:a"] * 32)],
    ids=lambda s: s[:12],
)
def test_scopes_are_of_a_narrow_grammar(ask_hosted: Asking, scope: str) -> None:
    assert refusal(ask_hosted.write("one", "k1", scope=scope)) == (400, "BAD_REQUEST")
    assert refusal(ask_hosted.get("events", scope=scope)) == (400, "BAD_REQUEST")


def test_31_segments_fit_below_the_tenant(ask_hosted: Asking) -> None:
    deepest = "/".join(["app:a"] * 31)
    ask_hosted.written("one", "k1", scope=deepest)
    assert ask_hosted.ids(deepest) == ask_hosted.ids(f"org:tenant-1/{deepest}") == ["evt_1"] * 2


def test_what_is_seeded_and_lost_lies_below_the_tenant_too(hosted: CortexHosted, ask_hosted: Asking) -> None:
    assert hosted.seed([event("one", "k1"), event("two", "k2")]) == ["evt_1", "evt_2"]
    assert hosted.lose_last(SCOPE) == "evt_2"
    assert ask_hosted.ids() == ["evt_1"] * 2
    assert hosted.count == 1


def test_scopes_lie_below_the_tenant_and_may_be_read_by_either_name(ask_hosted: Asking) -> None:
    ask_hosted.written("one", "k1")
    assert ask_hosted.page()["items"][0]["scope"] == ROOTED
    assert ask_hosted.ids(ROOTED) == ask_hosted.ids(SCOPE) == ["evt_1"] * 2
    assert ask_hosted.get("scopes").json()["data"] == {"scopes": [ROOTED]}
    assert ask_hosted.get("scopes", prefix="app:notes").json()["data"] == {"scopes": [ROOTED]}


def test_every_token_is_a_tenant_of_its_own(hosted: CortexHosted, ask_hosted: Asking) -> None:
    hosted.tokens["other"] = "user:other"
    ask_hosted.written("one", "k1")
    other = Asking(hosted, "/memory", "other")
    assert other.ids() == []
    assert other.ids(ROOTED) == []
    assert other.write("one", "k1").json()["data"]["replayed_from_idempotency"] is False
    other.close()


@pytest.mark.parametrize("prefix", ["", "tmh"])
def test_the_prefix_of_scopes_is_type_and_id_or_absent(ask_hosted: Asking, prefix: str) -> None:
    assert refusal(ask_hosted.get("scopes", prefix=prefix, limit=1)) == (400, "BAD_REQUEST")
    assert ask_hosted.get("scopes", prefix="tmh:probe", limit=1).json()["data"] == {"scopes": []}


@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ("paths", {"scopes": [{"path": ROOTED}]}),
        ("items", {"items": [{"path": ROOTED}]}),
    ],
)
def test_scopes_come_in_more_than_one_shape(
    hosted: CortexHosted, ask_hosted: Asking, shape: str, data: dict[str, Any]
) -> None:
    ask_hosted.written("one", "k1")
    hosted.knobs.scopes_shape = shape
    assert ask_hosted.get("scopes").json()["data"] == data


def test_labels_are_given_once(ask_hosted: Asking) -> None:
    ask_hosted.written("one", "k1", labels=["a"])
    assert ask_hosted.ids(labels="a,b") == ["evt_1"] * 2
    assert refusal(ask_hosted.get("events", scope=SCOPE, labels=["a", "b"])) == (400, "BAD_REQUEST")


def test_listing_lags_and_doubles_here_too(ask_hosted: Asking) -> None:
    ask_hosted.write("one", "k1")
    assert [ask_hosted.ids() for _ in range(2)] == [[], ["evt_1"] * 2]


@pytest.mark.parametrize(
    "wrong", [{"view": "granular"}, {"answer_instructions": None}, {"diagnostics": "none"}], ids=str
)
def test_the_keys_of_an_answer_are_strict_and_null_is_none(ask_hosted: Asking, wrong: dict[str, Any]) -> None:
    pack = ask_hosted.recall()["pack_id"]
    body = {"scope": SCOPE, "question": "q", "use_pack_id": pack, "cite_sources": True}
    assert refusal(ask_hosted.post("answer", body | wrong)) == (400, "VALIDATION_ERROR")
    assert ask_hosted.post("answer", body).json()["data"]["answer"] == "grounded answer for q"


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (lambda ask: ask.forget(), (400, "BAD_REQUEST")),
        (lambda ask: ask.write("one", "k" * 65), (400, "BAD_REQUEST")),
        (lambda ask: ask.post("answer", {"scope": SCOPE, "question": "q"}), (400, "BAD_REQUEST")),
        (
            lambda ask: ask.post("recall", {"scope": SCOPE, "diagnostics": "full"}),
            (502, "UPSTREAM_UNAVAILABLE"),
        ),
        (lambda ask: ask.get("nothing"), (404, "NOT_FOUND")),
    ],
    ids=["422", "422 of a write", "400", "403", "404"],
)
def test_what_the_engine_refuses_is_told_in_the_backends_words(
    ask_hosted: Asking, call: Any, refused: tuple[int, str]
) -> None:
    assert refusal(call(ask_hosted)) == refused


@pytest.mark.parametrize(("code", "called"), [(402, "USER_INSUFFICIENT_CREDITS"), (401, "UNAUTHORIZED")])
def test_everything_may_fail_in_the_backends_own_words(
    hosted: CortexHosted, ask_hosted: Asking, code: int, called: str
) -> None:
    hosted.knobs.fail_all = code
    assert refusal(ask_hosted.write("one", "k1")) == (code, called)


def test_an_answer_may_be_no_envelope_at_all(hosted: CortexHosted, ask_hosted: Asking) -> None:
    hosted.knobs.answer_odd = {"status": "ok"}
    assert ask_hosted.write("one", "k1").json() == {"status": "ok"}


def test_forgetting_by_ids_works_as_on_the_engine(ask_hosted: Asking) -> None:
    ask_hosted.written("one", "k1")
    assert ask_hosted.forget("evt_1").json()["data"]["deleted"]["events"] == 1
    assert ask_hosted.ids() == []
    assert ask_hosted.write("one", "k1").json()["data"]["replayed_from_idempotency"] is False


def test_erasures_are_passed_through_without_an_envelope(ask_hosted: Asking) -> None:
    ask_hosted.written("one", "k1")
    answer = ask_hosted.post("v1/erasures", {"scope": SCOPE, "confirm_all": True})
    assert (answer.status_code, answer.json()["status"]) == (202, "completed")
    assert ask_hosted.ids() == []
    assert ask_hosted.get(f"v1/erasures/{answer.json()['erasure_id']}").json()["status"] == "completed"
    refused = ask_hosted.post("v1/erasures", {"scope": SCOPE})
    assert refused.json()["error_code"] == "EMPTY_SELECTOR_WITHOUT_CONFIRMATION"


def test_erasures_may_be_scoped_and_closed(hosted: CortexHosted, ask_hosted: Asking) -> None:
    hosted.knobs.scoped_erasures = True
    ask_hosted.written("one", "k1")
    ask_hosted.written("two", "k2", scope=SCOPE + "/agent:b")
    refused = ask_hosted.post("v1/erasures", {"scope": SCOPE, "confirm_all": True})
    assert refusal(refused) == (400, "UNKNOWN_FIELD")
    answer = ask_hosted.post("v1/erasures", {"scope": SCOPE, "audit_note": "asked for"}).json()
    assert (answer["erased"], answer["scope"], answer["scopes"]) == (True, ROOTED, 2)
    assert len(answer["erasure_ids"]) == 2
    assert (
        ask_hosted.write("two", "k2", scope=SCOPE + "/agent:b").json()["data"]["replayed_from_idempotency"]
        is False
    )


def test_everything_of_a_tenant_can_be_erased_where_the_backend_knows_how(
    hosted: CortexHosted, ask_hosted: Asking
) -> None:
    ask_hosted.written("one", "k1")
    ask_hosted.written("two", "k2", scope="app:other")
    hosted.knobs.erase_all_missing = True
    assert refusal(ask_hosted.http.delete("/memory")) == (404, "NOT_FOUND")
    hosted.knobs.erase_all_missing = False
    assert ask_hosted.http.delete("/memory").json()["data"] == {"erased": True, "scopes": 2}
    assert hosted.events == []
    assert ask_hosted.write("one", "k1").json()["data"]["replayed_from_idempotency"] is False
