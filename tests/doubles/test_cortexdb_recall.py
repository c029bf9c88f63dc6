"""Recall and answers of the CortexDB double: ranks, budgets, and packs that do not live long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles.cortexdb import CortexDirect
from tests.doubles.cortexdb_asking import SCOPE, Asking, Clock, event, refusal

BELOW = SCOPE + "/agent:b"


def answered(ask: Asking, pack_id: str | None, **more: Any) -> Any:
    pack = {"use_pack_id": pack_id} if pack_id else {}
    return ask.post("answer", {"scope": SCOPE, "question": "which tea?"} | pack | more)


def test_events_rank_by_the_words_they_share_and_the_newest_first_among_equals(ask: Asking) -> None:
    for text in ("green tea", "a green apple", "green tea, hot", "nothing of it"):
        ask.written(text)
    assert ask.found("Green TEA") == ["green tea, hot", "green tea", "a green apple"]
    assert ask.found("") == ["nothing of it", "green tea, hot", "a green apple", "green tea"]


def test_words_of_fewer_than_three_letters_do_not_count(ask: Asking) -> None:
    ask.written("it is so")
    ask.written("tea it is")
    assert ask.found("it is tea") == ["tea it is"]


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ({"view": "granular"}, ["tea here"]),
        ({"view": "descend"}, ["tea below", "tea here"]),
        ({"view": "holistic"}, ["tea below", "tea here", "tea above"]),
        ({}, ["tea below", "tea here", "tea above"]),
    ],
    ids=["granular", "descend", "holistic", "by default"],
)
def test_a_view_says_how_far_a_recall_reads(ask: Asking, view: dict[str, str], found: list[str]) -> None:
    ask.written("tea above", scope="app:notes")
    ask.written("tea here")
    ask.written("tea below", scope=BELOW)
    ask.written("tea beside", scope="app:notes/agent:a2")
    pack = ask.post("recall", {"scope": SCOPE, "query": "tea"} | view).json()
    assert [item["content"]["text"] for item in pack["layers"]["events"]] == found


def test_recall_lags_the_listing(ask: Asking) -> None:
    ask.write("tea")
    assert (ask.found("tea"), ask.ids(), ask.ids()) == ([], [], ["evt_1"] * 2)
    assert ask.found("tea") == []
    assert ask.found("tea") == ["tea"]


def test_two_seconds_later_it_has_caught_up(ask: Asking, moment: Clock) -> None:
    ask.write("tea")
    moment.forward(seconds=1)
    assert ask.found("tea") == []
    moment.forward(seconds=1)
    assert ask.found("tea") == ["tea"]


def test_filters_hold_by_any_of_a_list_and_by_all_of_the_keys(ask: Asking) -> None:
    ask.written("red tea", labels=["red"])
    ask.written("blue tea", labels=["blue"], modality="document")
    ask.written("tea")

    def found(**filters: Any) -> list[str]:
        return ask.found("tea", filters={"metadata": filters})

    assert found(labels="red") == ["red tea"]
    assert found(labels=["red", "blue"]) == ["blue tea", "red tea"]
    assert found(labels=["red", "blue"], modality=["document"]) == ["blue tea"]
    assert found(caller="user:local", labels=["green"]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"limit": 5},
        {"view": "narrow"},
        {"include": ["events", "rumours"]},
        {"filters": {"metadata": {"label": "x"}}},
        {"filters": {"labels": "x"}},
        {"budgets": {"max_tokens": 8_388_609}},
        {"budgets": {"max_tokens": "many"}},
        {"budgets": {"per_layer_limits": {"rumours": 1}}},
        {"scope": "notes"},
    ],
    ids=str,
)
def test_the_schema_of_a_recall_is_closed(ask: Asking, wrong: dict[str, Any]) -> None:
    body = {"scope": SCOPE, "query": "tea"} | wrong
    assert refusal(ask.post("recall", body)) == (422, "INVALID_BODY")


def test_diagnostics_are_for_who_may_read_them(cortex: CortexDirect, ask: Asking) -> None:
    body = {"scope": SCOPE, "query": "tea", "diagnostics": "summary"}
    assert refusal(ask.post("recall", body)) == (403, "POLICY_DENIED")
    cortex.knobs.diagnostics_allowed = True
    assert ask.post("recall", body).status_code == 200


def test_no_more_events_come_than_their_budget(ask: Asking) -> None:
    for number in range(5):
        ask.written(f"tea {number}")
    limits = {"max_tokens": 1_000_000, "per_layer_limits": {"events": 2}}
    assert ask.found("tea", budgets=limits) == ["tea 4", "tea 3"]


def test_without_a_budget_a_long_event_comes_as_an_excerpt(ask: Asking) -> None:
    long = "tea ✓ " * 3_000
    ask.written(long)
    content = ask.recall("tea")["layers"]["events"][0]["content"]
    assert content["_partial"] is True
    assert content["_partial_reason"] == "budget_excerpt"
    assert content["_original_bytes"] == len(long.encode())
    assert 13_000 < len(content["text"].encode()) <= 14_000
    assert long.startswith(content["text"])
    assert content["_excerpt_ranges"] == [{"start": 0, "end": len(content["text"].encode())}]
    assert ask.get("events/evt_1").json()["content"]["text"] == long


def test_with_a_budget_for_it_the_event_comes_whole(ask: Asking) -> None:
    long = "tea ✓ " * 3_000
    ask.written(long)
    content = ask.recall("tea", budgets={"max_tokens": 786_432})["layers"]["events"][0]["content"]
    assert content == {"kind": "message", "role": "user", "text": long}


def test_events_that_there_is_no_room_left_for_are_left_out(ask: Asking) -> None:
    ask.written("tea " * 100)
    ask.written("tea and more tea")
    budget = {"max_tokens": 5}
    assert ask.found("more tea", budgets=budget) == ["tea and more tea"]


def test_layers_that_are_asked_for_before_events_take_their_room(ask: Asking) -> None:
    ask.written("tea is green and hot and good")
    ask.post("beliefs/build", {"scope": SCOPE})
    budget = {"max_tokens": 12}
    last = ask.recall("tea", include=["beliefs", "events"], budgets=budget)["layers"]
    first = ask.recall("tea", include=["events", "beliefs"], budgets=budget)["layers"]
    assert (len(last["beliefs"]), last["events"]) == (1, [])
    assert [item["content"]["text"] for item in first["events"]] == ["tea is green and hot and good"]


def test_the_stored_text_is_served_and_the_block_has_the_roles(ask: Asking) -> None:
    ask.written("tea")
    pack = ask.recall("tea")
    assert pack["layers"]["events"][0]["content"]["text"] == "tea"
    assert pack["context_block"] == "[user] tea"


def test_older_servers_prefixed_the_role(cortex: CortexDirect, ask: Asking) -> None:
    ask.written("tea")
    cortex.knobs.role_prefix = True
    assert ask.found("tea") == ["[user] tea"]
    assert ask.page()["items"][0]["content"]["text"] == "tea"
    cortex.knobs.role_prefix_listed = True
    assert ask.page()["items"][0]["content"]["text"] == "[user] tea"


def test_every_recall_makes_a_pack_of_its_own(ask: Asking) -> None:
    assert ask.recall("tea")["pack_id"] != ask.recall("tea")["pack_id"]


def test_an_answer_comes_from_its_pack_and_cites_it(ask: Asking) -> None:
    ask.written("green tea")
    pack = ask.recall("tea")
    answer = answered(ask, pack["pack_id"], cite_sources=True, include_context=True).json()
    assert answer == {
        "answer": "grounded answer for which tea?: green tea",
        "citations": [{"id": "evt_1", "key": "evt_1", "content": "green tea", "score": 1.0}],
        "diagnostics": {"answer_model": "double"},
        "context_block": "[user] green tea",
    }
    assert answered(ask, pack["pack_id"]).json()["citations"] == []


def test_a_pack_lives_a_minute(ask: Asking, moment: Clock) -> None:
    pack = ask.recall("tea")["pack_id"]
    moment.forward(seconds=59)
    assert answered(ask, pack).status_code == 200
    moment.forward(seconds=1)
    assert refusal(answered(ask, pack)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("cascade", ["redact_events", "derived_only"])
def test_any_forget_even_in_another_scope_drops_every_pack(ask: Asking, cascade: str) -> None:
    ask.written("elsewhere", scope="app:other")
    pack = ask.recall("tea")["pack_id"]
    ask.forget("evt_1", scope="app:other", cascade=cascade)
    assert refusal(answered(ask, pack)) == (404, "NOT_FOUND")


def test_a_forget_that_is_refused_drops_none(ask: Asking) -> None:
    pack = ask.recall("tea")["pack_id"]
    assert ask.forget().status_code == 422
    assert answered(ask, pack).status_code == 200


def test_an_erasure_drops_every_pack_too(ask: Asking) -> None:
    pack = ask.recall("tea")["pack_id"]
    ask.post("erasures", {"scope": "app:other", "confirm_all": True})
    assert refusal(answered(ask, pack)) == (404, "NOT_FOUND")


def test_a_pack_is_for_the_scope_that_it_was_made_for(ask: Asking) -> None:
    pack = ask.recall("tea")["pack_id"]
    assert refusal(answered(ask, pack, scope="app:other")) == (422, "INVALID_BODY")


def test_an_answer_without_a_pack_is_refused_unless_the_server_recalls_by_itself(
    cortex: CortexDirect, ask: Asking
) -> None:
    ask.written("green tea")
    assert refusal(answered(ask, None)) == (400, "MISSING_PACK")
    cortex.knobs.answer_needs_pack = False
    assert answered(ask, None).json()["answer"].endswith("green tea")


def test_an_answer_needs_a_model(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.no_answer_model = True
    pack = ask.recall("tea")["pack_id"]
    answer = answered(ask, pack)
    assert refusal(answer) == (503, "ANSWER_UNAVAILABLE")
    assert answer.json()["retriable"] is False


@pytest.mark.parametrize(
    "wrong",
    [{"answer_instructions": "x" * 4_001}, {"query": "x"}, {"question": " "}],
    ids=lambda w: str(w)[:30],
)
def test_the_schema_of_an_answer_is_closed(ask: Asking, wrong: dict[str, Any]) -> None:
    pack = ask.recall("tea")["pack_id"]
    assert refusal(answered(ask, pack, **wrong)) == (422, "INVALID_BODY")


def test_beliefs_are_built_only_from_what_may_be_derived_from(ask: Asking) -> None:
    ask.written("green tea")
    ask.written("black tea", directives={"extract": []})
    built = ask.post("beliefs/build", {"scope": SCOPE}).json()
    assert (built["built"], built["events_scanned"], built["reasons"]) == (1, 1, [])
    assert ask.post("beliefs/build", {"scope": SCOPE}).json()["built"] == 0
    beliefs = ask.get("beliefs", scope=SCOPE, limit=5).json()
    assert [item["statement"] for item in beliefs["items"]] == ["user said green tea"]
    assert beliefs["has_more"] is False


def test_what_was_derived_goes_with_the_event_or_before_it(cortex: CortexDirect, ask: Asking) -> None:
    cortex.seed([event("green tea"), event("black tea")])
    ask.post("beliefs/build", {"scope": SCOPE})
    ask.forget("evt_1", cascade="derived_only")
    assert [item["supports"] for item in ask.get("beliefs", scope=SCOPE).json()["items"]] == [["evt_2"]]
    assert ask.ids() == ["evt_2", "evt_2", "evt_1", "evt_1"]
    ask.forget("evt_2")
    assert ask.get("beliefs", scope=SCOPE).json()["items"] == []
