"""Saves and documents on CortexDB: looked up first, written once, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.contract.intents import Ref
from keyfold.errors import InvalidRequest, OutcomeUnknown, StoreError, Unavailable
from keyfold.faces.planned import PlannedEngine
from tests.conftest import SteppedClock
from tests.doubles.cortexdb import Cortex, CortexDirect
from tests.remote.common import CORTEXDB, TINYHUMANS, intent, ref
from tests.remote.cortexdb_service import hasty, late

AUTH = {"type": "decision", "title": "Auth model", "topic_key": "architecture/auth"}
LONG = "".join(f"## Part {number}\n\n{'word ' * 8_000}{number}\n\n" for number in range(20))  # some 800 KB

Remembering = Callable[..., Memory]


@pytest.fixture
def double(running: Callable[[Any], Any], clock: SteppedClock) -> CortexDirect:
    double: CortexDirect = running(late(CORTEXDB.double()))
    double.clock = clock
    return double


@pytest.fixture
def memory(double: CortexDirect, remembering: Remembering, clock: SteppedClock) -> Memory:
    """A memory that has asked who it is; waits take no time."""
    memory = opened(remembering, double, clock)
    double.reset_counts()
    return memory


def opened(remembering: Remembering, double: Cortex, clock: SteppedClock, options: str = "") -> Memory:
    service = CORTEXDB if isinstance(double, CortexDirect) else TINYHUMANS
    memory = remembering(service.with_options(options), double, clock=clock)
    hasty(memory.engine)  # type: ignore[arg-type]
    memory.engine.health()
    return memory


def paths(double: Cortex) -> list[str]:
    return [seen.path.removeprefix("/v1/") for seen in double.recent]


def contents(memory: Memory, user: str = "ana") -> list[str]:
    return sorted(record.content for record in memory.mem_list(user))


# --- documents


def test_an_unchanged_document_is_one_request_after_25_hours_too(
    memory: Memory, double: CortexDirect, clock: SteppedClock
) -> None:
    memory.mem_add_document("ana", source="a.md", text="a text")
    clock.forward(hours=25)
    double.reset_counts()
    again = memory.mem_add_document("ana", source="a.md", text="a text")
    assert (again.outcome, again.replayed) == ("deduped", True)
    assert paths(double) == ["events"]


def test_an_unchanged_document_seen_at_another_time_is_one_request(
    memory: Memory, double: CortexDirect, clock: SteppedClock
) -> None:
    fields: dict[str, Any] = {"kind": "document", "metadata": {"source": "a.md"}}
    memory.engine.store(intent("ana", "a.md", "a text", observed_at=clock(), **fields))
    clock.forward(days=1)
    double.reset_counts()
    again = memory.engine.store(intent("ana", "a.md", "a text", observed_at=clock(), **fields))
    assert (again.outcome, again.replayed, double.count) == ("deduped", True, 1)


def test_a_new_document_is_a_look_up_a_write_and_waits(memory: Memory, double: CortexDirect) -> None:
    told = memory.mem_add_document("ana", source="a.md", text="a text")
    assert (told.outcome, told.replayed) == ("created", False)
    assert paths(double)[:2] == ["events", "experience"]
    assert set(paths(double)[2:]) == {"events"}


def test_a_long_document_is_one_bulk_of_pieces_and_reads_back_whole(
    memory: Memory, double: CortexDirect
) -> None:
    told = memory.mem_add_document("ana", source="a.md", text=LONG)
    assert paths(double).count("experience/bulk") == 1
    assert len(double.events) > 3
    assert "".join(event.text for event in double.events) == LONG
    read = memory.mem_get_observation("ana", told.id)
    assert read is not None
    assert read.content == LONG
    assert contents(memory) == [LONG]
    double.reset_counts()
    assert memory.mem_add_document("ana", source="a.md", text=LONG).replayed is True
    assert double.count == 1


def test_a_piece_that_is_lost_makes_a_document_incomplete_and_only_it_is_written_again(
    memory: Memory, double: CortexDirect
) -> None:
    told = memory.mem_add_document("ana", source="a.md", text=LONG)
    lost = double.events[1]
    double.lose(lost.id)
    with pytest.raises(StoreError, match="lost piece 2"):
        memory.mem_get_observation("ana", told.id)
    with pytest.raises(StoreError, match="incomplete"):
        memory.mem_list("ana")
    assert all(LONG not in hit.snippet for hit in memory.mem_search("ana", "word part"))
    number = len(double.writes)
    mended = memory.mem_add_document("ana", source="a.md", text=LONG)
    assert (mended.id, mended.outcome, mended.replayed) == (told.id, "created", False)
    [again] = double.writes[number:]
    assert again == lost.body
    assert contents(memory) == [LONG]


def test_a_document_whose_piece_is_lost_can_be_rewritten_and_forgotten(
    memory: Memory, double: CortexDirect
) -> None:
    memory.mem_add_document("ana", source="a.md", text=LONG)
    double.lose(double.events[0].id)
    told = memory.mem_add_document("ana", source="a.md", text="another text")
    assert (told.outcome, told.revision_count) == ("updated", 2)
    assert contents(memory) == ["another text"]
    memory.mem_delete("ana", told.id)
    assert double.events == []


def test_pieces_that_are_on_their_way_are_waited_for(memory: Memory, double: CortexDirect) -> None:
    told = memory.mem_add_document("ana", source="a.md", text=LONG)
    hidden = double.events[1]
    hidden.listed, hidden.list_misses = False, 0
    double.log._fresh[hidden.scope].append(hidden)  # as if it had just been accepted
    read = memory.mem_get_observation("ana", told.id)
    assert read is not None
    assert read.content == LONG


def test_no_piece_of_a_forgotten_document_is_found(memory: Memory, double: CortexDirect) -> None:
    told = memory.mem_add_document("ana", source="a.md", text=LONG)
    double.settle()
    assert len(memory.mem_search("ana", "word")) == 1
    memory.mem_delete("ana", told.id)
    assert len(memory.mem_search("ana", "word")) == 0
    assert double.events == []


def test_what_is_too_long_in_a_batch_is_refused_and_what_comes_before_it_stays(
    memory: Memory, double: CortexDirect
) -> None:
    engine = memory.engine
    heavy = {"n": "x" * 800_000}
    with pytest.raises(InvalidRequest, match="too long"):
        engine.store_many(
            [
                intent("ana", "a", "one"),
                intent("ana", "b", "two", metadata=heavy),
                intent("ana", "c", "three"),
            ]
        )
    assert contents(memory) == ["one"]


@pytest.mark.parametrize("half", [False, True])
def test_a_bulk_that_fails_is_sent_again_and_each_piece_is_there_once(
    memory: Memory, double: CortexDirect, half: bool
) -> None:
    double.knobs.apply_half_then_fail = int(half)
    double.knobs.apply_then_fail = int(not half)
    memory.mem_add_document("ana", source="a.md", text=LONG)
    assert paths(double).count("experience/bulk") == 2
    assert "".join(event.text for event in double.events) == LONG


# --- batches


def test_a_batch_of_100_is_two_look_ups_and_one_bulk(memory: Memory, double: CortexDirect) -> None:
    receipts = memory.engine.store_many(
        [intent("ana", f"k{number}", f"text {number}") for number in range(100)]
    )
    assert {(receipt.outcome, receipt.replayed) for receipt in receipts} == {("created", False)}
    asked = paths(double)
    assert sorted(asked[:3]) == ["events", "events", "experience/bulk"]
    assert set(asked[3:]) == {"events"}
    double.reset_counts()
    again = memory.engine.store_many([intent("ana", f"k{number}", f"text {number}") for number in range(100)])
    assert all(receipt.replayed for receipt in again)
    assert paths(double) == ["events", "events"]


def test_a_batch_writes_only_what_is_missing_and_looks_each_hit_over(
    memory: Memory, double: CortexDirect
) -> None:
    memory.engine.store_many([intent("ana", f"k{number}", f"text {number}") for number in range(0, 60, 2)])
    double.reset_counts()
    receipts = memory.engine.store_many(
        [intent("ana", f"k{number}", f"text {number}") for number in range(60)]
    )
    assert [receipt.replayed for receipt in receipts] == [True, False] * 30
    [bulk] = [seen.json() for seen in double.recent if seen.path.endswith("bulk")]
    assert len(bulk["items"]) == 30


def test_a_bulk_takes_at_most_a_thousand_events_and_eight_mebibytes(
    memory: Memory, double: CortexDirect
) -> None:
    memory.engine.store_many([intent("ana", f"k{number}", f"text {number}") for number in range(1_020)])
    memory.engine.store_many(
        [intent("ben", f"k{number}", f"{number}{'x' * 200_000}") for number in range(50)]
    )
    bulks = [seen for seen in double.recent if seen.path.endswith("bulk")]
    assert [len(seen.json()["items"]) for seen in bulks][:2] == [1_000, 20]
    assert len(bulks) == 4
    assert all(len(seen.body) < 9 << 20 for seen in bulks)


# --- keyed records on a log


def test_a_new_revision_is_appended_and_the_older_one_is_history(
    memory: Memory, double: CortexDirect
) -> None:
    first = memory.mem_save("ana", "one", **AUTH)
    double.reset_counts()
    told = memory.mem_save("ana", "two", **AUTH)
    assert (told.id, told.outcome, told.revision_count) == (first.id, "updated", 2)
    assert paths(double)[:2] == ["events", "experience"]
    assert "forget" not in paths(double)
    assert [state.content for state in memory.mem_history("ana", topic_key=AUTH["topic_key"])] == [
        "two",
        "one",
    ]
    assert contents(memory) == ["two"]
    assert memory.mem_stats("ana")["total"] == 1
    assert [hit.snippet for hit in memory.mem_search("ana", "auth model")] == ["two"]
    assert len(memory.mem_search("ana", "one")) == 0, "the words of a former state find nothing"


def test_without_a_history_the_older_events_are_redacted_by_their_ids(
    double: CortexDirect, remembering: Remembering, clock: SteppedClock
) -> None:
    memory = opened(remembering, double, clock, "history=none")
    memory.mem_save("ana", "one", **AUTH)
    old = double.events[0].id
    memory.mem_save("ana", "two", **AUTH)
    [forget] = double.bodies("forget")
    assert forget["selector"] == {"memory_ids": [old]}
    assert forget["cascade"] == "redact_events"
    assert [event.id for event in double.events] == ["evt_2"]
    assert contents(memory) == ["two"]
    assert [hit.snippet for hit in memory.mem_search("ana", "auth model")] == ["two"]


def test_an_earlier_value_saved_again_is_written_again(memory: Memory, double: CortexDirect) -> None:
    for content in ("one", "two", "one"):
        told = memory.mem_save("ana", content, **AUTH)
        assert told.replayed is False
    assert told.revision_count == 3
    assert contents(memory) == ["one"]
    assert len(double.events) == 3


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("options", ["", "history=none"])
def test_what_was_forgotten_is_written_again_whether_or_not_the_server_kept_its_key(
    double: CortexDirect, remembering: Remembering, clock: SteppedClock, keeps: bool, options: str
) -> None:
    memory = opened(remembering, double, clock, options)
    double.knobs.forget_keeps_keys = keeps
    for save in (
        lambda: memory.mem_save("ana", "one", **AUTH),
        lambda: memory.mem_add_document("ana", source="a.md", text="a text"),
        lambda: memory.mem_add_document("ana", source="b.md", text=LONG),
    ):
        told = save()
        memory.mem_delete("ana", told.id)
        again = save()  # at the same moment, so in the same bytes
        assert (again.id, again.outcome, again.replayed) == (told.id, "created", False)
        assert memory.mem_get_observation("ana", told.id) is not None
    assert contents(memory) == sorted(["one", "a text", LONG])


def test_what_another_process_forgot_is_written_again_though_the_key_is_kept(
    memory: Memory, double: CortexDirect, remembering: Remembering, clock: SteppedClock
) -> None:
    double.knobs.forget_keeps_keys = True
    told = memory.mem_save("ana", "one", **AUTH)
    opened(remembering, double, clock).mem_delete("ana", told.id)
    again = memory.mem_save("ana", "one", session_id=told.session_id, **AUTH)
    assert (again.outcome, again.replayed) == ("created", False)
    assert contents(memory) == ["one"]
    assert [label for label in double.writes[-1]["context"]["labels"] if '"n":"' in label] != []


def test_redacted_events_that_list_on_are_absent(memory: Memory, double: CortexDirect) -> None:
    double.knobs.redacted_still_list = True
    told = memory.mem_save("ana", "one", **AUTH)
    memory.mem_delete("ana", told.id)
    assert memory.mem_get_observation("ana", told.id) is None
    assert contents(memory) == []
    assert memory.mem_save("ana", "two", **AUTH).outcome == "created"


def test_nothing_to_forget_sends_nothing(memory: Memory, double: CortexDirect) -> None:
    memory.mem_save("ana", "one", **AUTH)
    double.reset_counts()
    assert memory.mem_delete("ana", topic_key="absent").deleted == 0
    assert memory.mem_delete("ben", all=True).deleted == 0
    assert memory.mem_delete("ana", filter={"project": "none"}).deleted == 0
    assert {seen.method for seen in double.recent} == {"GET"}


def test_a_forget_names_at_most_100_events_a_request_and_never_none(
    memory: Memory, double: CortexDirect
) -> None:
    for number in range(120):
        told = memory.mem_save("ana", f"text {number}", **AUTH)
        double.settle()
    double.reset_counts()
    assert memory.mem_delete("ana", told.id).deleted == 1
    sizes = [len(body["selector"]["memory_ids"]) for body in double.bodies("forget")]
    assert sizes == [100, 20]
    assert double.events == []


def test_a_record_with_more_revisions_than_a_page_is_still_one_request_to_read(
    memory: Memory, double: CortexDirect
) -> None:
    for number in range(105):
        memory.mem_save("ana", f"text {number}", **AUTH)
        double.settle()
    double.reset_counts()
    read = memory.engine.get(ref("ana", AUTH["topic_key"]))
    assert read is not None
    assert (read.content, double.count) == ("text 104", 1)
    assert len(memory.mem_history("ana", topic_key=AUTH["topic_key"])) == 105


def test_forgetting_a_user_erases_the_scope_and_its_name(memory: Memory, double: CortexDirect) -> None:
    memory.mem_save("ana", "one", **AUTH)
    memory.mem_save("ben", "one", **AUTH)
    memory.mem_delete("ana", all=True)
    assert memory.engine.namespaces() == ["ben"]
    assert double.bodies("forget") == []
    assert memory.mem_save("ana", "one", **AUTH).outcome == "created"
    assert contents(memory, "ben") == ["one"]


# --- outcomes that stay unknown


@pytest.mark.parametrize("options", ["", "history=none"])
def test_a_retry_after_an_unknown_outcome_leaves_one_event(
    double: CortexDirect, remembering: Remembering, clock: SteppedClock, options: str
) -> None:
    memory = opened(remembering, double, clock, options)
    double.knobs.apply_then_fail = 3
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "one", **AUTH)
    clock.forward(seconds=1)
    told = memory.mem_save("ana", "one", **AUTH)  # not listed yet when it is looked up
    assert (told.revision_count, told.replayed) == (1, True)
    assert len(double.events) == 1
    double.knobs.apply_then_fail = 3
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "two", **AUTH)
    clock.forward(seconds=1)
    assert memory.mem_save("ana", "two", **AUTH).revision_count == 2
    assert contents(memory) == ["two"]


def test_a_wait_that_takes_too_long_loses_no_write(memory: Memory, double: CortexDirect) -> None:
    double.knobs.listing_lag = 10**6
    with pytest.raises(Unavailable, match="accepted and is kept"):
        memory.mem_save("ana", "one", **AUTH)
    double.settle()
    assert contents(memory) == ["one"]


def test_a_wait_on_the_server_that_times_out_is_no_lost_write(memory: Memory, double: CortexDirect) -> None:
    double.knobs.wait_timeouts = 1
    told = memory.mem_save("ana", "one", **AUTH)
    assert (told.outcome, told.replayed) == ("created", False)
    assert len(double.events) == 1


def test_an_answer_without_the_flag_counts_as_written(memory: Memory, double: CortexDirect) -> None:
    double.knobs.no_replay_flag = True
    turn = {"thread_id": "t", "index": 0, "role": "user", "text": "text"}
    assert [memory.mem_log_turn("ana", **turn).replayed for _ in range(2)] == [False, False]
    assert len(double.events) == 1


# --- two that write at once


def test_two_first_writes_at_once_are_one_record_and_the_newest_counts(
    double: CortexDirect, remembering: Remembering, clock: SteppedClock
) -> None:
    one, two = (opened(remembering, double, clock) for _ in range(2))
    double.faults.add(
        "call_before", method="POST", path="experience", run=lambda: two.mem_save("ana", "two", **AUTH)
    )
    one.mem_save("ana", "one", **AUTH)
    double.settle()
    for memory in (one, two):
        assert contents(memory) == ["one"]
    assert two.mem_save("ana", "three", **AUTH).revision_count == 2
    assert contents(one) == ["three"]


def test_warm_engines_that_write_in_turns_converge(
    double: CortexDirect, remembering: Remembering, clock: SteppedClock
) -> None:
    engines = [opened(remembering, double, clock) for _ in range(2)]
    for number in range(6):
        told = engines[number % 2].mem_save("ana", f"text {number}", **AUTH)
        assert told.revision_count == number + 1
    for memory in engines:
        assert contents(memory) == ["text 5"]


def test_what_was_removed_behind_our_back_is_absent(memory: Memory, double: CortexDirect) -> None:
    told = memory.mem_save("ana", "one", **AUTH)
    double.lose(double.events[0].id)
    assert memory.mem_get_observation("ana", told.id) is None
    assert contents(memory) == []
    assert len(memory.mem_search("ana", "one")) == 0
    assert memory.mem_save("ana", "two", **AUTH).outcome == "created"


def test_a_server_that_ignores_labels_makes_no_call_touch_another_record(
    memory: Memory, double: CortexDirect, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = memory.engine
    assert isinstance(engine, PlannedEngine)
    engine.store_many([intent("ana", f"k{number}", f"text {number}") for number in range(5)])
    listing = double.log.listing
    monkeypatch.setattr(double.log, "listing", lambda scope, labels=(): listing(scope))
    read = engine.get(ref("ana", "k3"))
    assert read is not None
    assert read.content == "text 3"
    assert engine.get(ref("ana", "absent")) is None
    assert engine.store(intent("ana", "k9", "new")).outcome == "created"
    receipts = engine.store_many([intent("ana", f"k{number}", f"text {number}") for number in range(7)])
    assert [receipt.outcome for receipt in receipts] == ["deduped"] * 5 + ["created"] * 2
    assert {hit.snippet for hit in memory.mem_search("ana", "text")} == {
        f"text {number}" for number in range(7)
    }
    assert memory.mem_delete("ana", topic_key="k1").deleted == 1
    assert contents(memory) == sorted(["new", "text 0", "text 2", "text 3", "text 4", "text 5", "text 6"])


def test_an_id_that_is_none_of_ours_asks_nothing(memory: Memory, double: CortexDirect) -> None:
    assert memory.engine.get(Ref("ana", id="evt_1", kind="")) is None
    assert double.count == 0
