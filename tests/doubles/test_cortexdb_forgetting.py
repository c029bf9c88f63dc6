"""Forgetting in the CortexDB double: the interlocks, what happens to the keys, and what is only redacted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles.cortexdb import CortexDirect
from tests.doubles.cortexdb_asking import SCOPE, Asking, refusal


def test_forgetting_by_ids_takes_exactly_those(ask: Asking) -> None:
    for text in ("one", "two", "three"):
        ask.written(text)
    answer = ask.forget("evt_1", "evt_3", "evt_9")
    assert answer.status_code == 200
    assert answer.json()["deleted"]["events"] == 2
    assert (answer.json()["requested"], answer.json()["matched"]) == (3, 2)
    assert ask.ids() == ["evt_2"] * 2
    assert refusal(ask.get("events/evt_1")) == (404, "NOT_FOUND")


def test_an_id_of_another_scope_is_not_touched(ask: Asking) -> None:
    ask.written("one", scope="app:other")
    assert ask.forget("evt_1").json()["deleted"]["events"] == 0
    assert ask.ids("app:other") == ["evt_1"] * 2


@pytest.mark.parametrize("cascade", [{}, {"cascade": "derived_only"}], ids=str)
def test_a_forget_that_does_not_say_redact_keeps_the_events(ask: Asking, cascade: dict[str, Any]) -> None:
    ask.written("one", "k1")
    body = {"scope": SCOPE, "layers": ["events"], "selector": {"memory_ids": ["evt_1"]}} | cascade
    assert ask.post("forget", body).json()["deleted"]["events"] == 0
    assert ask.ids() == ["evt_1"] * 2
    assert ask.write("one", "k1").json()["replayed_from_idempotency"] is True


def test_older_servers_deleted_by_default(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.derived_only_deletes = True
    ask.written("one")
    ask.post("forget", {"scope": SCOPE, "selector": {"memory_ids": ["evt_1"]}})
    assert ask.ids() == []


@pytest.mark.parametrize(
    "selector", [{}, {"memory_ids": []}, {"event_ids": ["evt_1"]}, {"ids": ["evt_1"]}], ids=str
)
def test_a_selector_of_nothing_known_means_everything_and_is_refused(
    ask: Asking, selector: dict[str, Any]
) -> None:
    ask.written("one")
    answer = ask.forget(selector=selector)
    assert refusal(answer) == (422, "EMPTY_SELECTOR_WITHOUT_CONFIRMATION")
    assert ask.ids() == ["evt_1"] * 2


def test_a_misspelt_selector_that_is_confirmed_wipes_the_scope(ask: Asking) -> None:
    ask.written("one")
    ask.written("two")
    ask.written("elsewhere", scope="app:other")
    assert ask.forget(selector={"event_ids": ["evt_1"]}, confirm_all=True).json()["deleted"]["events"] == 2
    assert ask.ids() == []
    assert ask.ids("app:other") == ["evt_3"] * 2


def test_a_selector_and_confirm_all_are_ambiguous(ask: Asking) -> None:
    ask.written("one")
    assert refusal(ask.forget("evt_1", confirm_all=True)) == (400, "AMBIGUOUS_SELECTOR_CONFIRM_ALL")
    assert ask.ids() == ["evt_1"] * 2


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        ({"dry_run": True}, (422, "INVALID_BODY")),
        ({"cascade": "everything"}, (400, "INVALID_CASCADE")),
        ({"scope": "notes"}, (422, "INVALID_BODY")),
        ({"selector": {"memory_ids": ["evt_1"] * 101}}, (422, "INVALID_BODY")),
        ({"from_preview_id": "fpvw_9"}, (422, "UNKNOWN_PREVIEW_ID")),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_schema_of_a_forget_is_closed(
    ask: Asking, wrong: dict[str, Any], refused: tuple[int, str]
) -> None:
    ask.written("one")
    assert refusal(ask.forget("evt_1", **wrong)) == refused
    assert ask.ids() == ["evt_1"] * 2


def test_forgetting_by_ids_releases_their_keys_and_no_others(cortex: CortexDirect, ask: Asking) -> None:
    ask.written("one", "k1")
    ask.written("two", "k2")
    ask.forget("evt_1")
    assert ask.write("one", "k1").json()["replayed_from_idempotency"] is False
    assert ask.write("two", "k2").json()["replayed_from_idempotency"] is True
    assert cortex.log.forgotten == ["evt_1"]


def test_some_servers_keep_the_keys_of_what_was_forgotten(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.forget_keeps_keys = True
    ask.written("one", "k1")
    ask.forget("evt_1")
    again = ask.write("one", "k1").json()
    assert (again["event_id"], again["replayed_from_idempotency"]) == ("evt_1", True)
    cortex.settle()
    assert ask.ids() == []


def test_redacting_a_whole_scope_keeps_its_keys(ask: Asking) -> None:
    ask.written("one", "k1")
    ask.forget(confirm_all=True)
    assert ask.ids() == []
    assert ask.write("one", "k1").json()["replayed_from_idempotency"] is True


def test_a_scope_that_was_redacted_whole_may_serve_no_more(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.dead_after_redaction = True
    ask.written("one")
    ask.forget(confirm_all=True)
    assert ask.write("two").status_code == 202
    cortex.settle()
    assert ask.ids() == []


def test_a_redacted_event_may_list_on_with_a_blank_content(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.redacted_still_list = True
    ask.written("one", labels=["tm:i:1"])
    ask.forget("evt_1")
    (shown, _) = ask.page(labels="tm:i:1")["items"]
    assert (shown["id"], shown["content"]["text"]) == ("evt_1", "")
    assert ask.found("one") == []
    assert ask.forget("evt_1").json()["deleted"]["events"] == 0


def test_a_preview_deletes_nothing_and_its_id_is_accepted(ask: Asking) -> None:
    ask.written("one")
    body = {"scope": SCOPE, "selector": {"memory_ids": ["evt_1"]}, "cascade": "redact_events"}
    preview = ask.post("forget/preview", body).json()
    assert preview["preview_id"].startswith("fpvw_")
    assert (preview["scope"], preview["estimated_deleted"]["events"]) == (SCOPE, 1)
    assert ask.ids() == ["evt_1"] * 2
    assert ask.forget("evt_1", from_preview_id=preview["preview_id"]).json()["deleted"]["events"] == 1


def test_an_erasure_releases_the_keys_of_its_scope_and_only_redacts_below(ask: Asking) -> None:
    ask.written("here", "k1")
    ask.written("below", "k2", scope=SCOPE + "/agent:b")
    answer = ask.post("erasures", {"scope": SCOPE, "confirm_all": True, "audit_note": "asked for"})
    assert (answer.status_code, answer.json()["status"]) == (202, "completed")
    assert ask.ids() == []
    assert ask.ids(SCOPE + "/agent:b") == []
    assert ask.write("here", "k1").json()["replayed_from_idempotency"] is False
    assert ask.write("below", "k2", scope=SCOPE + "/agent:b").json()["replayed_from_idempotency"] is True


def test_an_erasure_may_take_its_time(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.erasure_polls = 1
    ask.written("one")
    answer = ask.post("erasures", {"scope": SCOPE, "selector": {"memory_ids": ["evt_1"]}}).json()
    assert answer["status"] == "running"
    assert ask.ids() == ["evt_1"] * 2
    looked = [ask.get(f"erasures/{answer['erasure_id']}").json()["status"] for _ in range(3)]
    assert looked == ["running", "completed", "completed"]
    assert ask.ids() == []
    assert refusal(ask.get("erasures/erasure_9")) == (404, "NOT_FOUND")


def test_an_erasure_has_the_same_interlocks(ask: Asking) -> None:
    ask.written("one")
    empty = ask.post("erasures", {"scope": SCOPE, "confirm_all": False})
    both = ask.post("erasures", {"scope": SCOPE, "confirm_all": True, "selector": {"memory_ids": ["evt_1"]}})
    assert refusal(empty) == (422, "EMPTY_SELECTOR_WITHOUT_CONFIRMATION")
    assert refusal(both) == (400, "AMBIGUOUS_SELECTOR")
    preview = ask.post("erasures/preview", {"scope": SCOPE, "confirm_all": True}).json()
    assert preview["estimated_affected"] == 1
    assert ask.ids() == ["evt_1"] * 2
