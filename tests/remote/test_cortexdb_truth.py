"""What CortexDB's log says when writers pass each other, answers cannot be read, and the service says odd things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.dialects.cortexdb_envelope import PART, compact, encode, piece_of
from keyfold.dialects.cortexdb_names import scope_of
from keyfold.errors import OutcomeUnknown, StoreError
from keyfold.faces.planned import PlannedEngine
from tests.remote.common import CORTEXDB, TINYHUMANS, Service, Shelf, payload
from tests.remote.cortexdb_service import hasty, late

NOTE = {"type": "decision", "title": "Auth model", "topic_key": "k"}
TURN = {"thread_id": "t", "index": 0, "role": "user", "text": "Where were we?"}
SERVICES = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)

Make = Callable[..., tuple[Any, Memory]]


@pytest.fixture
def make(running: Callable[[Any], Any], remembering: Callable[..., Memory]) -> Make:
    """`make(service, double=None)`: a double and a memory on it; waits take no time."""

    def one(service: Service, double: Any = None) -> tuple[Any, Memory]:
        double = double or running(late(service.double()))
        memory = remembering(service, double)
        hasty(memory.engine)  # type: ignore[arg-type]
        return double, memory

    return one


def held(memory: Memory) -> list[tuple[str, int]]:
    return [(record.content, record.revision_count) for record in memory.mem_list("ana")]


# --- writers that pass each other


@SERVICES
@pytest.mark.parametrize("options", ["", "history=none"])
def test_a_slow_writers_acknowledged_write_counts_though_others_passed_it(
    make: Make, service: Service, options: str
) -> None:
    double, slow = make(service.with_options(options))
    _, quick = make(service.with_options(options), double)
    slow.mem_save("ana", "0", **NOTE)

    def twice() -> None:
        quick.mem_save("ana", "B1", **NOTE)
        quick.mem_save("ana", "B2", **NOTE)

    double.faults.add("call_before", method="POST", path="experience", run=twice)
    slow.mem_save("ana", "alpha", **NOTE)
    double.settle()
    _, fresh = make(service.with_options(options), double)
    for memory in (slow, quick, fresh):
        assert held(memory) == [("alpha", 4)]
        record = memory.mem_get_observation("ana", topic_key="k")
        assert record is not None
        assert record.content == "alpha"
    assert [hit.snippet for hit in fresh.mem_search("ana", "alpha")] == ["alpha"]
    assert quick.mem_save("ana", "C", **NOTE).revision_count == 5
    assert held(fresh) == [("C", 5)]


def test_a_turn_that_was_corrected_is_not_undone_by_the_hot_path(make: Make) -> None:
    double, memory = make(CORTEXDB)
    told = memory.mem_log_turn("ana", **TURN)
    memory.mem_update("ana", told.id, content="Where are we?")
    make(CORTEXDB, double)[1].mem_log_turn("ana", **(TURN | {"text": "Elsewhere."}))
    double.settle()
    assert held(memory) == [("Where are we?", 2)]


@SERVICES
def test_a_leftover_of_an_interrupted_rewrite_is_not_found_without_a_history(
    make: Make, service: Service
) -> None:
    double, memory = make(service.with_options("history=none"))
    memory.mem_save("ana", "zebra secret", **NOTE)
    double.faults.add("status", code=503, path="forget", times=3)
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "lion", **NOTE)
    double.settle()
    for reader in (memory, make(service.with_options("history=none"), double)[1]):
        assert [hit.snippet for hit in reader.mem_search("ana", "zebra")] == []
        assert [hit.snippet for hit in reader.mem_search("ana", "lion")] == ["lion"]


@SERVICES
@pytest.mark.parametrize("again", [0, 1])
def test_a_waited_turn_that_another_process_forgot_is_logged_anew_where_keys_are_kept(
    make: Make, service: Service, again: int
) -> None:
    double, memory = make(service)
    double.knobs.forget_keeps_keys = True
    _, other = make(service, double)
    told = memory.mem_log_turn("ana", **TURN)
    double.settle()
    assert other.mem_delete("ana", told.id).deleted == 1
    double.faults.add("drop", method="POST", path="experience", times=again)
    told = memory.mem_log_turn("ana", **TURN, wait="listed")
    assert (told.outcome, told.replayed) == ("created", False)
    assert held(other) == [(TURN["text"], 1)]


# --- answers that cannot be read


@SERVICES
@pytest.mark.parametrize("kind", ["truncate", "content_type", "huge"])
def test_an_unreadable_answer_to_a_write_is_an_unknown_outcome_and_the_retry_writes_nothing(
    make: Make, service: Service, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyfold.engines.remote.transport.LARGEST", 2_000_000)
    double, memory = make(service)
    memory.mem_save("ana", "the first", **(NOTE | {"topic_key": "other"}))
    for act in (
        lambda: memory.mem_save("ana", "A", **NOTE),
        lambda: memory.mem_save("ana", "A", **NOTE, metadata={"x": 1}),
        lambda: memory.mem_log_turn("ana", **TURN),
        lambda: memory.mem_add_document("ana", source="a.md", text="# Part\n\n" + "word " * 80_000),
    ):
        how = {"size": 4_000_000} if kind == "huge" else {}
        double.faults.add(kind, path="experience", times=3, **how)
        with pytest.raises(OutcomeUnknown, match="make the same call again"):
            act()
        double.faults.clear()
        act()  # what was written is not listed yet when it is looked up
        states = [(event.text, event.body["context"]["labels"]) for event in double.events]
        assert all(states.count(state) == 1 for state in states)
        double.settle()
    assert {text[:4]: revision for text, revision in held(memory)}["A"] == 2


@SERVICES
def test_a_forget_whose_outcome_is_unknown_says_what_to_do(make: Make, service: Service) -> None:
    double, memory = make(service)
    memory.mem_save("ana", "A", **NOTE)
    double.knobs.forget_then_fail = 9
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        memory.mem_delete("ana", topic_key="k")
    double.knobs.forget_then_fail = 0
    assert held(memory) == []


@pytest.mark.parametrize("kind", ["apply_then_status", "drop"])
def test_a_question_whose_answer_was_lost_is_asked_again_under_another_claim(make: Make, kind: str) -> None:
    double, memory = make(TINYHUMANS)
    memory.mem_save("ana", "Tokens live an hour.", **NOTE)
    double.faults.add(kind, method="POST", path="answer", times=2)
    assert memory.mem_recall("ana", "How long do tokens live?").citations
    claims = [seen.headers["idempotency-key"] for seen in double.seen if seen.path.endswith("/answer")]
    assert len(set(claims)) == len(claims) == 3


# --- odd things that a service says


@SERVICES
@pytest.mark.parametrize("anew", [False, True], ids=["nothing new", "always more"])
def test_a_listing_that_never_ends_is_told_by_name(
    make: Make, service: Service, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyfold.dialects.cortexdb_wire.MOST_PAGES", 7)
    double, memory = make(service)
    memory.mem_save("ana", "A", **NOTE)
    [item] = [event.rendered() for event in double.events]
    count = 0

    def page(*_: Any) -> dict[str, Any]:
        nonlocal count
        count += 1
        items = [item | {"id": f"evt_{1000 + count}"}] if anew else [item]
        return {"items": items, "has_more": True, "next_cursor": f"c{count}"}

    for name in ("listed", "events"):
        holder = double.service()
        if hasattr(holder, name):
            monkeypatch.setattr(type(holder), name, page)
    with pytest.raises(StoreError, match="user:ana"):
        memory.mem_list("ana")
    assert count <= 8


@SERVICES
def test_a_user_whose_records_were_deleted_singly_is_erased_with_the_name(
    make: Make, service: Service
) -> None:
    double, memory = make(service)
    told = memory.mem_save("ana", "A", **NOTE)
    memory.mem_delete("ana", told.id)
    engine = memory.engine
    assert isinstance(engine, PlannedEngine)
    assert list(engine.namespaces()) == ["ana"]
    assert memory.mem_delete("ana", all=True).deleted == 0
    assert list(engine.namespaces()) == []
    double.reset_counts()
    memory.mem_delete("nobody", all=True)
    assert not any(seen.method == "POST" for seen in double.recent)


def test_labels_and_ids_that_are_none_of_ours_are_foreign_events() -> None:
    [body] = encode(payload("ana", "k", "A"), scope_of(Shelf("ana")))
    item = body | {"id": "evt_1"}
    assert piece_of(item) is not None
    for event in ("..", ".", "", "a/b", "\ud800", 7, None, "x" * 300):
        assert piece_of(item | {"id": event}) is None
    for number in ("9" * 5_000, "٣", "-1"):
        labels = [*body["context"]["labels"], f"{PART}{number}:x"]
        assert piece_of(item | {"context": {"labels": labels}}) is None


def test_a_count_of_pieces_beyond_any_text_is_not_counted_through() -> None:
    [body] = encode(payload("ana", "k", "A"), scope_of(Shelf("ana")), version=2)
    import json

    said = json.loads(body["content"]["text"])
    for count, ours in ((2, True), (10**12, False)):
        text = compact(said | {"chunk": {"index": 0, "count": count}})
        piece = piece_of({"id": "evt_1", **body, "content": body["content"] | {"text": text}})
        assert (piece is not None) is ours
