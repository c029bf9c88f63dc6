"""Turns on CortexDB: one request each, safe to repeat, and never changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold import Conflict, Memory
from keyfold.errors import OutcomeUnknown
from tests.conftest import SteppedClock
from tests.doubles.cortexdb import CortexDirect
from tests.remote.common import CORTEXDB, TINYHUMANS
from tests.remote.cortexdb_service import hasty, late

TURN = {"thread_id": "t1", "index": 0, "role": "user", "text": "Where were we?"}


@pytest.fixture
def double(running: Callable[[Any], Any], clock: SteppedClock) -> CortexDirect:
    double: CortexDirect = running(late(CORTEXDB.double()))
    double.clock = clock
    return double


@pytest.fixture
def memory(double: CortexDirect, remembering: Callable[..., Memory], clock: SteppedClock) -> Memory:
    """A memory that has asked who it is; waits take no time."""
    memory = remembering(CORTEXDB, double, clock=clock)
    hasty(memory.engine)  # type: ignore[arg-type]
    memory.engine.health()
    double.reset_counts()
    return memory


def test_a_logged_turn_is_one_request(memory: Memory, double: CortexDirect) -> None:
    told = memory.mem_log_turn("ana", **TURN)
    assert (told.outcome, told.replayed, told.revision_count) == ("created", False, 1)
    assert [(seen.method, seen.path, seen.query) for seen in double.recent] == [
        ("POST", "/v1/experience", "")
    ]


def test_the_same_turn_again_is_one_request_and_replayed(
    memory: Memory, double: CortexDirect, clock: SteppedClock
) -> None:
    first = memory.mem_log_turn("ana", **TURN)
    clock.forward(hours=1)
    double.reset_counts()
    again = memory.mem_log_turn("ana", **TURN)
    assert double.count == 1
    assert (again.id, again.outcome, again.replayed) == (first.id, "deduped", True)
    assert len(double.events) == 1


def test_a_turn_has_the_same_bytes_in_every_process_session_and_hour(
    memory: Memory, double: CortexDirect, remembering: Callable[..., Memory], clock: SteppedClock
) -> None:
    memory.mem_save("ana", "a note", type="decision", title="Title")  # a session of its own
    memory.mem_log_turn("ana", **TURN)
    clock.forward(hours=5)
    other = remembering(CORTEXDB, double, clock=clock)
    assert other.mem_log_turn("ana", **TURN).replayed is True
    bodies = [body for body in double.writes if body["modality"] == "conversation"]
    assert bodies[0] == bodies[1]
    assert not any("session" in label for label in bodies[0]["context"]["labels"])


def test_a_turn_is_read_at_the_time_that_the_caller_gave_or_the_servers(
    memory: Memory, clock: SteppedClock
) -> None:
    at = datetime(2020, 5, 6, 7, 8, 9, tzinfo=UTC)
    told = memory.mem_log_turn("ana", **TURN, at=at)
    server = memory.mem_log_turn("ana", **{**TURN, "index": 1})
    one, two = (memory.mem_get_observation("ana", receipt.id) for receipt in (told, server))
    assert one is not None
    assert two is not None
    assert (one.created_at, one.observed_at) == (at, at)
    assert two.created_at == clock()


def test_a_turn_that_was_accepted_here_is_read_though_it_is_listed_later(
    memory: Memory, double: CortexDirect
) -> None:
    told = memory.mem_log_turn("ana", **TURN)
    read = memory.mem_get_observation("ana", told.id)
    assert read is not None
    assert read.content == TURN["text"]
    memory.mem_log_turn("ana", **{**TURN, "index": 1})
    assert len(memory.mem_list("ana")) == 2
    memory.mem_log_turn("ana", **{**TURN, "index": 2, "text": "zebra"})
    assert [hit.snippet for hit in memory.mem_search("ana", "zebra")] == ["zebra"]


def test_another_text_at_a_place_is_a_conflict_where_it_is_looked_up(
    memory: Memory, double: CortexDirect
) -> None:
    memory.mem_log_turn("ana", **TURN)
    with pytest.raises(Conflict, match="mem_update"):
        memory.mem_log_turn("ana", **{**TURN, "text": "Elsewhere."}, wait="listed")
    assert len(double.events) == 1


def test_on_the_hot_path_another_text_is_appended_and_the_first_counts(
    memory: Memory, double: CortexDirect
) -> None:
    told = memory.mem_log_turn("ana", **TURN)
    memory.mem_log_turn("ana", **{**TURN, "text": "Elsewhere."})
    double.settle()
    assert len(double.events) == 2
    read = memory.mem_get_observation("ana", told.id)
    assert read is not None
    assert read.content == TURN["text"]
    assert [item.content for item in memory.mem_list("ana")] == [TURN["text"]]
    assert [hit.snippet for hit in memory.mem_search("ana", "elsewhere")] == []


def test_a_turn_is_corrected_by_an_update(memory: Memory) -> None:
    told = memory.mem_log_turn("ana", **TURN)
    updated = memory.mem_update("ana", told.id, content="Where are we?")
    assert (updated.id, updated.outcome, updated.revision_count) == (told.id, "updated", 2)
    read = memory.mem_get_observation("ana", told.id)
    assert read is not None
    assert read.content == "Where are we?"


@pytest.mark.parametrize("wait", ["listed", "settled"])
def test_a_turn_that_waits_looks_up_first(memory: Memory, double: CortexDirect, wait: Any) -> None:
    memory.mem_log_turn("ana", **TURN, wait=wait)
    asked = [seen.path for seen in double.recent]
    assert asked[:2] == ["/v1/events", "/v1/experience"]
    assert set(asked[2:]) == {"/v1/events"} | ({"/v1/recall"} if wait == "settled" else set())
    [event] = double.events
    assert event.listed
    assert event.recallable is (wait == "settled")
    assert double.recent[1].query == "wait=indexed"


def test_a_turn_with_an_idempotency_key_of_the_caller_looks_up_first(
    memory: Memory, double: CortexDirect
) -> None:
    first = memory.mem_log_turn("ana", **TURN, idempotency_key="call-1")
    assert [seen.path for seen in double.recent][:2] == ["/v1/events", "/v1/experience"]
    again = memory.mem_log_turn("ana", **TURN, idempotency_key="call-1")
    assert (again.id, again.replayed) == (first.id, True)
    [body] = double.writes
    assert body["idempotency_key"].startswith("kf3:")
    assert "call-1" not in str(body)
    assert any(label.startswith("tm:c:") for label in body["context"]["labels"])


def test_a_hosted_turn_is_a_look_up_and_a_write(
    running: Callable[[Any], Any], remembering: Callable[..., Memory]
) -> None:
    double = running(TINYHUMANS.double())
    memory = remembering(TINYHUMANS, double)
    memory.mem_log_turn("ana", **TURN)
    assert [seen.path for seen in double.seen] == ["/memory/events", "/memory/experience"]
    double.reset_counts()
    assert memory.mem_log_turn("ana", **TURN).replayed is True
    assert [seen.path for seen in double.recent] == ["/memory/events"]


def test_a_turn_that_was_carried_out_and_answered_503_is_there_once(
    memory: Memory, double: CortexDirect
) -> None:
    double.knobs.apply_then_fail = 2
    told = memory.mem_log_turn("ana", **TURN)
    assert double.count == 3
    assert told.replayed is True  # every answer that came said so
    assert len(double.events) == 1


def test_a_turn_whose_outcome_stays_unknown_is_replayed_by_the_callers_retry(
    memory: Memory, double: CortexDirect
) -> None:
    double.knobs.apply_then_fail = 3
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        memory.mem_log_turn("ana", **TURN)
    assert memory.mem_log_turn("ana", **TURN).replayed is True
    assert len(double.events) == 1


@pytest.mark.parametrize("keeps", [False, True])
def test_a_turn_that_was_forgotten_is_logged_anew(memory: Memory, double: CortexDirect, keeps: bool) -> None:
    double.knobs.forget_keeps_keys = keeps
    told = memory.mem_log_turn("ana", **TURN)
    memory.mem_delete("ana", told.id)
    again = memory.mem_log_turn("ana", **TURN)
    assert (again.id, again.replayed) == (told.id, False)
    assert [item.content for item in memory.mem_list("ana")] == [TURN["text"]]


def test_facts_are_drawn_from_turns_and_documents_and_not_from_keyed_records_or_tools(
    memory: Memory, double: CortexDirect
) -> None:
    memory.mem_log_turn("ana", **TURN)
    memory.mem_log_turn("ana", **{**TURN, "index": 1, "role": "tool"})
    memory.mem_log_turn("ana", **{**TURN, "index": 2, "role": "tool"}, derive=True)
    memory.mem_log_turn("ana", **{**TURN, "index": 3}, derive=False)
    memory.mem_add_document("ana", source="a.md", text="a text")
    memory.mem_add_document("ana", source="b.md", text="a text", derive=False)
    memory.mem_save("ana", "a note", type="decision", title="Title")
    memory.mem_save("ana", "other note", type="decision", title="Title", derive=True)
    assert [event.derives for event in double.events] == [True, False, False, False, True, False, False, True]
    assert [event.directives for event in double.events if not event.derives] == [{"extract": []}] * 5


@pytest.mark.parametrize(
    ("option", "derives"), [("derive=on", [True, False, True]), ("derive=off", [False, False, False])]
)
def test_an_option_of_the_engine_says_whether_facts_are_drawn(
    double: CortexDirect, remembering: Callable[..., Memory], option: str, derives: list[bool]
) -> None:
    memory = remembering(CORTEXDB.with_options(option), double)
    memory.mem_log_turn("ana", **TURN)
    memory.mem_log_turn("ana", **{**TURN, "index": 1, "role": "tool"})
    memory.mem_save("ana", "a note", type="decision", title="Title")
    assert [event.derives for event in double.events] == derives
