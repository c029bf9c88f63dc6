"""Whatever goes wrong on CortexDB's wires: no duplicate, no lost acknowledged write, no wrong record, a truthful error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Conflict, KeyfoldError, Memory
from keyfold.errors import OutcomeUnknown, StoreError, Unauthorized, Unavailable
from tests.conftest import SteppedClock
from tests.doubles.cortexdb import Cortex
from tests.remote.common import CORTEXDB, KEY, TINYHUMANS, Service
from tests.remote.cortexdb_service import hasty, late

AUTH = {"type": "decision", "title": "Auth model", "topic_key": "architecture/auth"}
FIRST = {"type": "decision", "title": "First", "topic_key": "first"}
SERVICES = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)

# Every knob of the double that makes a service older, slower or worse: (name, value).
KNOBS: list[tuple[str, Any]] = [
    ("doubled", False),
    ("listing_lag", 3),
    ("recall_lag", 3),
    ("packs_die_at_forget", False),
    ("compare_text_only", True),
    ("role_prefix", True),
    ("role_prefix_listed", True),
    ("flat_events", True),
    ("forget_keeps_keys", True),
    ("redacted_still_list", True),
    ("derived_only_deletes", True),
    ("dead_after_redaction", True),
    ("any_scope_type", True),
    ("whoami_missing", True),
    ("answer_needs_pack", False),
    ("no_replay_flag", True),
    ("version_down", True),
    ("recall_down", True),
    ("no_answer_model", True),
    ("refuse_attribution", True),
    ("diagnostics_allowed", True),
    ("padding_scopes", 1_200),
    ("erasure_polls", 2),
    ("rate_limit", 3),
    ("conflict_is_409", True),
    ("scopes_shape", "items"),
    ("scoped_erasures", True),
    ("erase_all_missing", True),
    ("answer_odd", {"success": True}),
    ("answer_odd", [1, 2]),
    ("fail_all", 401),
    ("fail_all", 403),
    ("fail_all", 404),
    ("fail_all", 409),
    ("fail_all", 422),
    ("fail_all", 429),
    ("fail_all", 500),
    ("fail_all", 503),
    ("hide_listing_for", 1),
    ("hide_listing_for", 4),
    ("stuck_cursor", 1),
    ("rate_limit_events", 1),
    ("rate_limit_events", 9),
    ("rate_limit_experience", 1),
    ("rate_limit_experience", 9),
    ("rate_limit_forget", 1),
    ("rate_limit_forget", 9),
    ("state_change_events", 1),
    ("state_change_events", 5),
    ("state_change_events", 9),
    ("state_change_experience", 5),
    ("state_change_experience", 9),
    ("apply_then_fail", 1),
    ("apply_then_fail", 3),
    ("apply_then_fail_every", 2),
    ("apply_half_then_fail", 1),
    ("forget_then_fail", 1),
    ("forget_then_fail", 3),
    ("claim_then_fail", 1),
    ("claim_then_fail", 3),
    ("fail_nth_experience", 1),
    ("fail_nth_experience", 2),
    ("wait_timeouts", 1),
    ("wait_timeouts", 3),
    ("expire_packs", 1),
    ("expire_packs", 9),
]
LONG = "".join(f"## Part {number}\n\n{'word ' * 8_000}\n\n" for number in range(8))

Act = Callable[[Memory], Any]


def save(memory: Memory) -> Any:
    return memory.mem_save("ana", "two", **AUTH)


def rewrite(memory: Memory) -> Any:
    """The text that is there, and other metadata: only the envelope tells the two states apart."""
    return memory.mem_save("ana", "the first", **FIRST, metadata={"x": 1})


def turn(memory: Memory) -> Any:
    return memory.mem_log_turn("ana", thread_id="t", index=0, role="user", text="a turn")


def document(memory: Memory) -> Any:
    return memory.mem_add_document("ana", source="a.md", text=LONG)


def listing(memory: Memory) -> Any:
    return [record.content for record in memory.mem_list("ana")]


def search(memory: Memory) -> Any:
    return [hit.snippet for hit in memory.mem_search("ana", "first")]


def recall(memory: Memory) -> Any:
    return memory.mem_recall("ana", "first")


def forget(memory: Memory) -> Any:
    return memory.mem_delete("ana", topic_key="first")


def forget_all(memory: Memory) -> Any:
    return memory.mem_delete("ana", all=True)


ACTS: list[Act] = [save, rewrite, turn, document, listing, search, recall, forget, forget_all]


@pytest.fixture
def make(running: Callable[[Any], Any], remembering: Callable[..., Memory]) -> Any:
    def one(service: Service, clock: SteppedClock) -> tuple[Any, Memory]:
        double = running(late(service.double()))
        double.clock = clock
        memory = remembering(service, double, clock=clock)
        hasty(memory.engine)  # type: ignore[arg-type]
        memory.mem_save("ana", "the first", type="decision", title="First", topic_key="first")
        memory.mem_save("ben", "of another", type="decision", title="First", topic_key="first")
        double.settle()
        return double, memory

    return one


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@SERVICES
def test_every_knob_on_every_call(make: Any, service: Service, act: Act) -> None:
    for name, value in KNOBS:
        clock = SteppedClock()
        double, memory = make(service, clock)
        try:
            held(double, memory, clock, act, name, value)
        except KeyfoldError as error:
            raise AssertionError(f"{name}={value!r}: {error}") from error
        except AssertionError as error:
            raise AssertionError(f"{name}={value!r}: {error}") from error


def held(double: Cortex, memory: Memory, clock: SteppedClock, act: Act, name: str, value: Any) -> None:
    """One call under one knob, then the knob turned back and the call made again: what is held, held against what was said."""
    usual = getattr(double.knobs, name)
    setattr(double.knobs, name, value)
    told, error = None, None
    try:
        told = act(memory)
    except KeyfoldError as caught:
        error = caught
    assert error is None or (str(error) and KEY not in str(error))
    setattr(double.knobs, name, usual)
    clock.forward(minutes=2)
    double.settle()
    try:
        present = sorted(record.content for record in memory.mem_list("ana"))
    except StoreError:
        if act is not document or not isinstance(error, OutcomeUnknown):  # its write failed half way
            raise
        present = []
    check_reads(act, told, error, present)
    if act is rewrite and error is None:
        assert [record.metadata for record in memory.mem_list("ana")] == [{"x": 1}], (
            "acknowledged, and not there"
        )
    again = act(memory)  # what a caller does after an error; after none, a repeat
    double.settle()
    expected = {
        "save": ["the first", "two"],
        "turn": ["a turn", "the first"],
        "document": sorted([LONG, "the first"]),
        "forget": [],
        "forget_all": [],
    }.get(act.__name__, ["the first"])
    assert sorted(record.content for record in memory.mem_list("ana")) == expected
    assert [record.content for record in memory.mem_list("ben")] == ["of another"]
    if act is rewrite:
        assert [record.metadata for record in memory.mem_list("ana")] == [{"x": 1}]
        assert len(states_of(double)) == 2, "each state is there once"
        # Where the listing hid what was there, it is another first write, and the younger counts.
        assert again.revision_count == (1 if name == "hide_listing_for" else 2)
        if error is None:
            assert (told.revision_count, again.replayed) == (again.revision_count, True)
    if act in (save, turn, document):
        assert again.revision_count == 1
        live = states_of(double)
        assert len(live) - 1 == (1 if act is not document else len(pieces_of(live))), (
            "each event is there once"
        )
        if error is None:
            assert again.replayed is True
            assert again.id == told.id


def states_of(double: Cortex) -> list[Any]:
    """The first user's events, those of the other left out."""
    return [event for event in double.events if event.scope.endswith("user:ana") and not event.redacted]


def pieces_of(live: list[Any]) -> set[str]:
    return {event.text for event in live if event.body["modality"] == "document"}


def check_reads(act: Act, told: Any, error: KeyfoldError | None, present: list[str]) -> None:
    """An acknowledged write is there; what a read answered was never of another, and never a part."""
    if error is not None:
        if act in (save, turn, document) and not isinstance(error, (OutcomeUnknown, Unavailable)):
            assert present == ["the first"], f"the write was refused ({error}) and carried out"
        return
    if act is save:
        assert "two" in present
    if act is turn:
        assert "a turn" in present
    if act is document:
        assert LONG in present
    if act is search:
        assert told in ([], ["the first"])
    if act is listing:
        assert told in (["the first"], [])
    if act in (forget, forget_all):
        assert told.deleted in (0, 1)
        assert present == ([] if told.deleted else ["the first"])


@SERVICES
@pytest.mark.parametrize(
    "kind",
    ["status", "stall", "truncate", "content_type", "drop", "huge", "apply_then_drop", "apply_then_stall"],
)
@pytest.mark.parametrize("act", [save, turn, document, listing, search, recall], ids=lambda act: act.__name__)
def test_a_broken_answer_is_a_truthful_error_and_nothing_is_lost(
    running: Callable[[Any], Any],
    remembering: Callable[..., Memory],
    service: Service,
    kind: str,
    act: Act,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("keyfold.engines.remote.transport.LARGEST", 2_000_000)
    double = running(late(service.double()))
    memory = remembering(service, double, timeout=0.2 if kind.endswith("stall") else 5.0)
    hasty(memory.engine)  # type: ignore[arg-type]
    memory.mem_save("ana", "the first", type="decision", title="First", topic_key="first")
    double.settle()
    path = {listing: "events", search: "recall", recall: "answer"}.get(act, "experience")
    how = {"size": 4_000_000} if kind == "huge" else {}
    double.faults.add(kind, path=path, times=99, **how)
    with pytest.raises(KeyfoldError) as caught:
        act(memory)
    assert KEY not in str(caught.value)
    double.faults.clear()
    double.settle()
    again = act(memory)
    double.settle()
    if act in (save, turn, document):
        assert again.revision_count == 1
        assert len(memory.mem_list("ana")) == 2
    live = {event.text for event in double.events}
    assert len(live) == len(double.events)


# --- the hosted wire's claims


@pytest.fixture
def hosted(running: Callable[[Any], Any], remembering: Callable[..., Memory]) -> tuple[Any, Memory]:
    double = running(late(TINYHUMANS.double()))
    memory = remembering(TINYHUMANS, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    return double, memory


def test_each_hosted_write_has_a_claim_of_its_own_and_its_retries_the_same(
    hosted: tuple[Any, Memory],
) -> None:
    double, memory = hosted
    double.knobs.rate_limit_experience = 1
    turn(memory)
    save(memory)
    claims = [claim for _, claim in double.claims]
    assert claims[0] == claims[1] != claims[2]
    assert all(len(claim.split("-")) == 4 and claim.startswith("tm-") for claim in claims)
    keys = [key for key, _ in double.claims]
    assert keys[0] == keys[1] != keys[2]


def test_a_hosted_write_that_was_carried_out_and_answered_503_is_found_by_its_text(
    hosted: tuple[Any, Memory],
) -> None:
    double, memory = hosted
    double.knobs.apply_then_fail = 1
    told = turn(memory)
    assert (told.outcome, told.replayed) == ("created", False)
    assert len(double.events) == 1
    assert len(double.claims) == 2


def test_a_hosted_write_whose_claim_was_taken_and_not_forwarded_has_an_unknown_outcome(
    hosted: tuple[Any, Memory],
) -> None:
    double, memory = hosted
    double.knobs.claim_then_fail = 1
    with pytest.raises(OutcomeUnknown, match="in 30 s its event was not listed"):
        turn(memory)
    assert double.events == []
    assert turn(memory).outcome == "created"
    assert len(double.events) == 1


def test_a_hosted_turn_that_another_process_just_logged_is_a_replay_though_events_have_no_route_of_their_own(
    hosted: tuple[Any, Memory], remembering: Callable[..., Memory]
) -> None:
    double, memory = hosted
    double.faults.add(
        "status",
        path="/memory/events/",
        code=404,
        times=99,
        body={"success": False, "errorCode": "NOT_FOUND"},
    )
    other = remembering(TINYHUMANS, double)
    hasty(other.engine)  # type: ignore[arg-type]
    turn(other)
    double.knobs.hide_listing_for = 1
    assert turn(memory).replayed is True
    assert len(double.events) == 1


def test_a_conflict_on_the_first_attempt_of_a_hosted_write_is_a_conflict(hosted: tuple[Any, Memory]) -> None:
    double, memory = hosted
    double.faults.add(
        "status", path="experience", code=400, body={"success": False, "error": "x", "errorCode": "CONFLICT"}
    )
    with pytest.raises(Conflict):
        turn(memory)
    assert len(double.claims) == 1


def test_the_hosted_limit_is_told_with_what_to_do(hosted: tuple[Any, Memory]) -> None:
    double, memory = hosted
    save(memory)
    double.knobs.rate_limit = 0
    with pytest.raises(Unavailable, match="429"):
        listing(memory)


def test_a_success_without_an_envelope_is_no_success(hosted: tuple[Any, Memory]) -> None:
    double, memory = hosted
    save(memory)
    for odd in (
        {"success": True},
        {"data": {"items": []}},
        {"success": False, "data": {"items": []}},
        [],
        "text",
    ):
        double.knobs.answer_odd = odd
        with pytest.raises(KeyfoldError):
            listing(memory)


def test_a_key_that_is_refused_is_told_without_it(
    running: Callable[[Any], Any], remembering: Callable[..., Memory]
) -> None:
    for service in (CORTEXDB, TINYHUMANS):
        memory = remembering(service, running(service.double()), credential=lambda: "another-key")
        with pytest.raises(Unauthorized) as caught:
            listing(memory)
        assert "another-key" not in str(caught.value)
