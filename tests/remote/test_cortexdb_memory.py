"""An agent's calls on CortexDB, on both wires; names of every sort; and imports that keep their past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import Conflict, IdempotencyConflict, InvalidRequest
from keyfold.portability import export, import_keyfold
from keyfold.registry import open_engine
from tests.conftest import SteppedClock
from tests.remote.common import CORTEXDB, NAMES, TINYHUMANS, Service, contents, intent, ref
from tests.remote.cortexdb_service import hasty, late

AUTH = {"type": "decision", "title": "Auth model", "topic_key": "architecture/auth"}
WIRES = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)


@pytest.fixture
def make(running: Callable[[Any], Any], remembering: Callable[..., Memory], clock: SteppedClock) -> Any:
    def one(service: Service) -> tuple[Any, Memory]:
        double = running(late(service.double()))
        double.clock = clock
        memory = remembering(service, double, clock=clock)
        hasty(memory.engine)  # type: ignore[arg-type]
        return double, memory

    return one


@WIRES
def test_keys_and_namespaces_are_any_text_and_kept_apart(make: Any, service: Service) -> None:
    _, memory = make(service)
    for name in NAMES:
        memory.engine.store(intent("ana", name, f"under {name}"))
        memory.engine.store(intent(name, "key", f"of {name}"))
    for name in NAMES:
        under, of = memory.engine.get(ref("ana", name)), memory.engine.get(ref(name, "key"))
        assert under is not None
        assert of is not None
        assert (under.key, under.content) == (name, f"under {name}")
        assert (of.namespace, of.content) == (name, f"of {name}")
        assert contents(memory.mem_list(name)) == [f"of {name}"]
    assert memory.engine.namespaces() == sorted({"ana", *NAMES})
    for name in NAMES:
        assert memory.mem_delete("ana", topic_key=name).deleted == 1
        assert memory.mem_delete(name, all=True).deleted == 1
    assert memory.mem_list("ana").total == 0


@WIRES
def test_a_day_of_an_agent(make: Any, service: Service, clock: SteppedClock) -> None:
    _, memory = make(service)
    begun = memory.mem_session_start("ana")
    assert begun.is_new
    first = memory.mem_save("ana", "JWT, one hour.", **AUTH)
    assert (first.outcome, first.session_id) == ("created", begun.session_id)
    assert memory.mem_save("ana", "JWT, one hour.", **AUTH).outcome == "deduped"
    clock.forward(minutes=5)
    assert memory.mem_save("ana", "JWT, two hours.", **AUTH).outcome == "updated"
    memory.mem_log_turn("ana", thread_id="t", index=0, role="user", text="How long do tokens live?")
    memory.mem_add_document("ana", source="notes/auth.md", text="# Auth\n\nRefresh tokens live 15 days.")
    assert {hit.type for hit in memory.mem_search("ana", "tokens")} == {"turn", "document"}
    assert [topic.key for topic in memory.mem_topics("ana")] == ["architecture/auth"]
    assert [state.content for state in memory.mem_history("ana", first.id)] == [
        "JWT, two hours.",
        "JWT, one hour.",
    ]
    restored = memory.mem_restore("ana", first.id, revision=1)
    assert (restored.outcome, restored.revision_count) == ("updated", 3)
    assert "JWT, one hour." in memory.mem_context("ana")
    stats = memory.mem_stats("ana")
    assert (stats["total"], stats["topics"]) == (3, 1)
    memory.mem_session_summary("ana", "Tokens.")
    ended = memory.mem_session_end("ana")
    assert ended is not None
    assert memory.mem_session_start("ana").summaries[0].summary == "Tokens."
    assert memory.mem_delete("ana", topic_key="architecture/auth").deleted == 1
    assert memory.mem_list("ana").total >= 2


@WIRES
def test_a_stale_revision_is_refused(make: Any, service: Service) -> None:
    _, memory = make(service)
    memory.mem_save("ana", "one", **AUTH)
    memory.mem_save("ana", "two", **AUTH, expect_revision=1)
    with pytest.raises(Conflict):
        memory.mem_save("ana", "three", **AUTH, expect_revision=1)


@WIRES
def test_a_callers_key_makes_a_save_a_replay_and_is_never_sent(make: Any, service: Service) -> None:
    double, memory = make(service)
    first = memory.mem_save("ana", "one", **AUTH, idempotency_key="call-1")
    memory.mem_save("ana", "two", **AUTH)
    again = memory.mem_save("ana", "one", **AUTH, idempotency_key="call-1")
    assert (again.id, again.outcome, again.revision_count, again.replayed) == (first.id, "created", 1, True)
    assert not any(b"call-1" in seen.body for seen in double.seen)


@WIRES
def test_a_callers_key_that_comes_again_for_another_record_is_refused_in_the_same_request(
    make: Any, service: Service
) -> None:
    double, memory = make(service)
    first = memory.mem_save("ana", "one", **AUTH, idempotency_key="call-1")
    double.settle()
    double.reset_counts()
    with pytest.raises(IdempotencyConflict) as caught:
        memory.mem_save(
            "ana", "two", type="decision", title="Other", topic_key="other", idempotency_key="call-1"
        )
    assert caught.value.existing_id == first.id
    assert double.count == 1
    assert memory.mem_save("ben", "two", **AUTH, idempotency_key="call-1").outcome == "created"
    memory.mem_delete("ana", first.id)
    told = memory.mem_save(
        "ana", "two", type="decision", title="Other", topic_key="other", idempotency_key="call-1"
    )
    assert told.outcome == "created", "forgetting the record released its keys"


@WIRES
def test_an_import_keeps_the_past_and_comes_out_as_it_went_in(make: Any, service: Service) -> None:
    _, memory = make(service)
    source = open_engine("inmemory:")
    for content in ("one", "two", "three"):
        source.store(intent("ana", "k", content))
    source.store(intent("ana", "j", "alone"))
    lines = list(export(source))
    assert import_keyfold(memory.engine, lines).created == 2
    assert [state.content for state in memory.mem_history("ana", topic_key="k")] == ["three", "two", "one"]
    assert list(export(memory.engine)) == lines
    again = import_keyfold(memory.engine, lines)
    assert (again.created, again.updated) == (0, 0)
    assert list(export(memory.engine)) == lines
    source.close()


@pytest.mark.parametrize(
    "options",
    ["history=some", "derive=maybe", "history=keep&history=none", "other=1", "history", "history=none#x"],
)
def test_options_that_are_not_known_are_refused(options: str) -> None:
    with pytest.raises(InvalidRequest, match="store"):
        open_engine(f"cortexdb+http://127.0.0.1:1?{options}")


def test_a_service_without_options_takes_none() -> None:
    with pytest.raises(InvalidRequest, match="query"):
        open_engine("mem0+http://127.0.0.1:1?history=none")
