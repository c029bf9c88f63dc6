"""Writing to the CortexDB double: keys that make a repeat harmless, and a schema that is closed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles.cortexdb import CortexDirect
from tests.doubles.cortexdb_asking import SCOPE, Asking, Clock, event, refusal


def test_a_write_is_accepted_and_numbered(ask: Asking) -> None:
    first, second = ask.write("one", "k1"), ask.write("two", "k2")
    assert first.status_code == 202
    assert first.json() == {"event_id": "evt_1", "status": "captured", "replayed_from_idempotency": False}
    assert second.json()["event_id"] == "evt_2"


def test_the_same_body_under_its_key_is_a_replay_and_writes_nothing(
    cortex: CortexDirect, ask: Asking
) -> None:
    first, again = ask.write("one", "k1").json(), ask.write("one", "k1").json()
    assert again["event_id"] == first["event_id"]
    assert (first["replayed_from_idempotency"], again["replayed_from_idempotency"]) == (False, True)
    assert [held.text for held in cortex.events] == ["one"]


@pytest.mark.parametrize(
    "other", [{"text": "two"}, {"labels": ["x"]}, {"scope": "app:other"}, {"modality": "document"}], ids=str
)
def test_another_body_under_the_key_is_a_conflict_that_names_the_first(
    cortex: CortexDirect, ask: Asking, other: dict[str, Any]
) -> None:
    ask.write("one", "k1")
    answer = ask.write(**({"text": "one", "key": "k1"} | other))
    assert refusal(answer) == (409, "IDEMPOTENCY_CONFLICT")
    assert answer.json()["details"] == {"existing_event_id": "evt_1"}
    assert answer.json()["retriable"] is False
    assert len(cortex.events) == 1


def test_when_it_happened_and_hints_are_no_part_of_what_is_compared(ask: Asking) -> None:
    def written(minute: int, **more: Any) -> Any:
        return ask.write("one", "k1", context={"observed_at": f"2026-01-01T00:0{minute}:00Z"}, **more).json()

    assert written(1)["replayed_from_idempotency"] is False
    assert written(2, language="de", scripts=["Latn"])["replayed_from_idempotency"] is True


def test_a_key_is_forgotten_after_a_day(cortex: CortexDirect, ask: Asking, moment: Clock) -> None:
    ask.write("one", "k1")
    moment.forward(hours=23, minutes=59)
    assert ask.write("one", "k1").json()["replayed_from_idempotency"] is True
    moment.forward(minutes=1)
    assert ask.write("one", "k1").json()["event_id"] == "evt_2"
    assert len(cortex.events) == 2


def test_a_write_without_a_key_is_written_each_time(cortex: CortexDirect, ask: Asking) -> None:
    ask.write("one")
    ask.write("one")
    assert len(cortex.events) == 2


def test_the_text_counts_with_the_marker_of_its_role(ask: Asking) -> None:
    fits = 1_048_576 - len("[user] ")
    assert ask.write("x" * fits, "k1").status_code == 202
    assert refusal(ask.write("x" * (fits + 1), "k2")) == (422, "INVALID_ENVELOPE")
    assert refusal(ask.write("é" * (fits // 2 + 1), "k3")) == (422, "INVALID_ENVELOPE")


def test_a_key_of_more_than_64_characters_is_refused_by_that_number(ask: Asking) -> None:
    assert ask.write("one", "é" * 64).status_code == 202
    answer = ask.write("one", "k" * 65)
    assert refusal(answer) == (422, "INVALID_ENVELOPE")
    assert "64" in answer.json()["message"]


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        (["l"] * 64, True),
        (["l"] * 65, False),
        (["é" * 128], True),
        (["é" * 128 + "x"], False),
        (["lang:de"], False),
        (["language:de"], True),
    ],
    ids=["64", "65", "256 bytes", "257 bytes", "lang:", "language:"],
)
def test_labels_are_limited_in_number_and_bytes_and_lang_is_reserved(
    ask: Asking, labels: list[str], fits: bool
) -> None:
    answer = ask.write("one", "k1", labels=labels)
    assert answer.status_code == 202 if fits else refusal(answer) == (422, "INVALID_ENVELOPE")


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {}},
        {"context": {"label": ["x"]}},
        {"content": {"kind": "message", "role": "user", "text": "a", "name": "b"}},
        {"content": {"kind": "message", "role": "narrator", "text": "a"}},
        {"content": {"kind": "poem", "text": "a"}},
        {"content": {"kind": "text"}},
        {"directives": {"extract": [], "embed": False}},
        {"directives": {"extract": False}},
        {"scope": "notes"},
        {"scope": "app:notes/a1"},
        {"scope": "/".join(["app:a"] * 33)},
        {"scope": None},
        {"modality": None},
        {"context": {"observed_at": "yesterday"}},
        {"context": {"observed_at": "2026-01-01T00:00:00"}},
        {"context": {"labels": "x"}},
        {"idempotency_key": 7},
    ],
    ids=str,
)
def test_the_schema_of_a_write_is_closed(cortex: CortexDirect, ask: Asking, wrong: dict[str, Any]) -> None:
    assert refusal(ask.write("one", **wrong)) == (422, "INVALID_BODY")
    assert cortex.events == []


def test_an_empty_text_is_refused(ask: Asking) -> None:
    assert refusal(ask.write("")) == (422, "INVALID_ENVELOPE")


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"scope": "\\ud800"}', b"\xff"], ids=str)
def test_a_body_that_is_no_object_of_valid_text_is_refused(ask: Asking, raw: bytes) -> None:
    assert refusal(ask.http.post("/v1/experience", content=raw)) == (422, "INVALID_BODY")


def test_a_type_of_scope_that_is_not_registered_is_refused(cortex: CortexDirect, ask: Asking) -> None:
    assert refusal(ask.write(scope="person:alice")) == (422, "UNREGISTERED_SCOPE_TYPE")
    cortex.knobs.any_scope_type = True
    assert ask.write(scope="person:alice").status_code == 202


def test_other_kinds_of_content_are_taken(cortex: CortexDirect, ask: Asking) -> None:
    for content in (
        {"kind": "text", "text": "plain"},
        {"kind": "json", "data": {"a": [1]}},
        {"kind": "blob_ref", "blob_id": "b1", "transcript": "spoken"},
        {"kind": "triple", "triple": {"subject": "s", "predicate": "p", "object": "o"}},
    ):
        assert ask.write(content=content).status_code == 202
    assert [held.text for held in cortex.events][:3] == ["plain", '{"a":[1]}', "spoken"]


def test_what_the_writer_directed_can_be_read_of_each_event(cortex: CortexDirect, ask: Asking) -> None:
    ask.write("kept as it is", directives={"extract": []})
    ask.write("derived from")
    assert [held.directives for held in cortex.events] == [{"extract": []}, None]
    assert [held.derives for held in cortex.events] == [False, True]


@pytest.mark.parametrize("wait", ["captured", "indexed", "consolidated", "settled"])
def test_a_wait_is_answered_as_reached_and_yet_nothing_is_listed(ask: Asking, wait: str) -> None:
    answer = ask.post(f"experience?wait={wait}", event("one", "k1"))
    assert answer.json()["status"] == wait
    assert ask.ids() == []


def test_waiting_for_acceptance_is_what_a_write_does_anyway(ask: Asking) -> None:
    assert ask.post("experience?wait=accepted", event("one", "k1")).json()["status"] == "captured"


def test_an_unknown_wait_is_refused_with_those_there_are(ask: Asking) -> None:
    answer = ask.post("experience?wait=done", event("one", "k1"))
    assert refusal(answer) == (422, "INVALID_BODY")
    assert "indexed" in answer.json()["message"]


def test_the_status_of_a_write_says_indexed_before_it_is_listed(ask: Asking) -> None:
    ask.write("one", "k1")
    for params in ({"idempotency_key": "k1"}, {"event_id": "evt_1"}):
        status = ask.get("experience/status", **params).json()
        assert (status["found"], status["event_id"], status["status"]) == (True, "evt_1", "indexed")
    assert ask.ids() == []
    assert ask.get("experience/status", idempotency_key="k9").json()["found"] is False


def test_a_bulk_answers_one_result_an_item_in_order(cortex: CortexDirect, ask: Asking) -> None:
    items = [event("one", "k1"), event("two", "k2", scope="app:other")]
    answer = ask.post("experience/bulk?wait=indexed", {"items": items, "ordering": "strict_temporal"})
    assert answer.status_code == 200
    assert answer.json() == {
        "accepted": 2,
        "results": [
            {"index": 0, "event_id": "evt_1", "replayed_from_idempotency": False},
            {"index": 1, "event_id": "evt_2", "replayed_from_idempotency": False},
        ],
    }
    assert [held.scope for held in cortex.events] == [SCOPE, "app:other"]


def test_a_repeated_bulk_answers_the_same_ids_each_replayed(cortex: CortexDirect, ask: Asking) -> None:
    items = {"items": [event("one", "k1"), event("two", "k2")]}
    first, again = (ask.post("experience/bulk", items).json()["results"] for _ in range(2))
    assert [item["event_id"] for item in again] == [item["event_id"] for item in first]
    assert [item["replayed_from_idempotency"] for item in again] == [True, True]
    assert len(cortex.events) == 2


def test_a_bulk_with_a_malformed_item_writes_nothing(cortex: CortexDirect, ask: Asking) -> None:
    answer = ask.post("experience/bulk", {"items": [event("one", "k1"), event("two", "k" * 65)]})
    assert refusal(answer) == (422, "INVALID_ENVELOPE")
    assert cortex.events == []


@pytest.mark.parametrize(
    "body",
    [{"items": []}, {}, {"items": [event()], "order": 1}, {"items": [event()] * 1001}],
    ids=lambda b: str(b)[:30],
)
def test_a_bulk_of_none_or_of_more_than_a_thousand_is_refused(ask: Asking, body: dict[str, Any]) -> None:
    assert refusal(ask.post("experience/bulk", body)) == (422, "INVALID_BODY")


def test_a_lost_event_frees_its_key(cortex: CortexDirect, ask: Asking) -> None:
    ask.written("piece 0", "k0")
    ask.written("piece 1", "k1")
    assert cortex.lose_last(SCOPE) == "evt_2"
    assert ask.ids() == ["evt_1", "evt_1"]
    again = ask.write("piece 1", "k1").json()
    assert (again["event_id"], again["replayed_from_idempotency"]) == ("evt_3", False)
