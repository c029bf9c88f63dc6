"""A memory on Cognee, as an agent uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import Conflict, IdempotencyConflict, OutcomeUnknown
from tests.doubles.cognee import CogneeDouble
from tests.remote.common import COGNEE, COGNEE_UNPAGED, Service

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]


@pytest.fixture(params=[COGNEE, COGNEE_UNPAGED], ids=lambda service: service.name)
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.param
    return found


@pytest.fixture
def double(service: Service, running: Running) -> CogneeDouble:
    found: CogneeDouble = running(service.double())
    return found


@pytest.fixture
def memory(service: Service, double: CogneeDouble, remembering: Remembering) -> Memory:
    return remembering(service, double)


def save(memory: Memory, content: str, key: str | None = "architecture/auth", **more: Any) -> Any:
    said = {"type": "decision", "title": "Auth model", "topic_key": key, **more}
    return memory.mem_save(user_id="ana", content=content, **said)


def test_a_topic_is_created_updated_and_deduped(memory: Memory, double: CogneeDouble) -> None:
    receipts = [save(memory, text) for text in ("JWT, one hour.", "JWT, a day.", "JWT, a day.")]
    assert [receipt.outcome for receipt in receipts] == ["created", "updated", "deduped"]
    assert [receipt.revision_count for receipt in receipts] == [1, 2, 2]
    assert len({receipt.id for receipt in receipts}) == 1
    found = memory.mem_get_observation("ana", receipts[0].id)
    assert found is not None
    assert (found.content, found.topic_key) == ("JWT, a day.", "architecture/auth")
    assert len(double.dataset("kf-ana").rows) == 1


def test_nothing_private_leaves_the_process(memory: Memory, double: CogneeDouble) -> None:
    save(memory, "the key is <private>hunter2</private>", tags=["<private>hunter2</private>"])
    assert all(b"hunter2" not in seen.body for seen in double.seen)
    assert any(b"[REDACTED]" in seen.body for seen in double.seen)


def test_the_same_unkeyed_text_is_stored_once(memory: Memory, double: CogneeDouble) -> None:
    long = "what happened " * 300
    receipts = [save(memory, text, None) for text in ("short", "short", long, long)]
    assert [receipt.outcome for receipt in receipts] == ["created", "deduped"] * 2
    assert len(double.dataset("kf-ana").rows) == 2


def test_it_is_listed_found_and_forgotten(memory: Memory) -> None:
    for number in range(5):
        save(memory, f"text number {number}", f"topic/{number}", tags=["odd"] if number % 2 else [])
    assert [topic.key for topic in memory.mem_topics("ana", "topic/")] == [f"topic/{n}" for n in range(5)]
    assert {item.topic_key for item in memory.mem_list("ana", tags=["odd"]).items} == {"topic/1", "topic/3"}
    assert next(iter(memory.mem_search("ana", "number 3"))).topic_key == "topic/3"
    assert memory.mem_stats("ana")["total"] == 5
    assert memory.mem_delete("ana", topic_key="topic/3").deleted == 1
    assert {item.topic_key for item in memory.mem_list("ana").items} == {f"topic/{n}" for n in (0, 1, 2, 4)}
    assert memory.mem_delete("ana", all=True).deleted == 4
    assert memory.mem_stats("ana")["total"] == 0


def test_a_session_has_its_turns_its_summary_and_its_end(memory: Memory, double: CogneeDouble) -> None:
    session = memory.mem_session_start("ana")
    turn = {"thread_id": "t", "role": "user"}
    first = memory.mem_log_turn("ana", index=0, text="hello", **turn)
    assert memory.mem_log_turn("ana", index=0, text="hello", **turn).id == first.id
    with pytest.raises(Conflict):
        memory.mem_log_turn("ana", index=0, text="another text", **turn)
    save(memory, "JWT, one hour.")
    memory.mem_session_summary("ana", "We settled the auth model.")
    memory.mem_session_end("ana", summary="Done.")
    with pytest.raises(LookupError):
        memory.mem_session_end("ana", summary="Done again.")
    assert "JWT, one hour." in str(memory.mem_context("ana"))
    again = memory.mem_session_start("ana")
    assert (again.is_new, again.session_id != session.session_id) == (True, True)
    assert len(double.dataset("kfs-ana").rows) == 2
    assert len(double.dataset("kf-ana").rows) == 3  # a turn, the decision, the summary


def test_a_callers_idempotency_key_is_kept_with_the_record(
    service: Service, double: CogneeDouble, memory: Memory, remembering: Remembering
) -> None:
    first = save(memory, "one", idempotency_key="call-1")
    save(memory, "two")
    again = save(remembering(service, double), "one", idempotency_key="call-1")
    assert (again.outcome, again.revision_count, again.replayed) == ("created", first.revision_count, True)
    with pytest.raises(IdempotencyConflict):
        save(memory, "three", idempotency_key="call-1")
    assert len(double.dataset("kf-ana").rows) == 1


def test_a_key_kept_for_a_repeat_leaves_one_row(memory: Memory, double: CogneeDouble) -> None:
    save(memory, "one")
    assert (
        save(memory, "one", idempotency_key="call-1").outcome == "deduped"
    )  # the same revision, other bytes
    assert save(memory, "one", idempotency_key="call-1").replayed
    assert len(double.dataset("kf-ana").rows) == 1


def test_a_changed_title_keeps_a_text_that_does_not_ride_along(memory: Memory) -> None:
    long = "what happened " * 300
    save(memory, long)
    receipt = memory.mem_update("ana", topic_key="architecture/auth", title="Another title")
    found = memory.mem_get_observation("ana", receipt.id)
    assert found is not None
    assert (found.title, found.content, found.revision_count) == ("Another title", long, 2)


def test_a_save_that_expects_another_revision_is_refused(memory: Memory) -> None:
    save(memory, "one", expect_revision=0)
    save(memory, "two", expect_revision=1)
    with pytest.raises(Conflict) as caught:
        save(memory, "three", expect_revision=1)
    assert caught.value.current_revision == 2


@pytest.mark.parametrize("kind", ["apply_then_status", "apply_then_drop"])
def test_a_retry_after_an_unknown_outcome_leaves_one_record_with_one_revision(
    memory: Memory, double: CogneeDouble, kind: str
) -> None:
    double.faults.add(kind, path="/add", times=3)
    with pytest.raises(OutcomeUnknown):
        save(memory, "one", idempotency_key="call-1")
    receipt = save(memory, "one", idempotency_key="call-1")
    assert (receipt.outcome, receipt.revision_count, receipt.replayed) == ("created", 1, True)
    assert len(double.dataset("kf-ana").rows) == 1
    double.faults.add(kind, method="DELETE", times=3)
    with pytest.raises(OutcomeUnknown):
        memory.mem_delete("ana", topic_key="architecture/auth")
    assert memory.mem_delete("ana", topic_key="architecture/auth").deleted == 0
    assert memory.mem_get_observation("ana", receipt.id) is None


async def _awaited(service: Service, double: CogneeDouble) -> list[Any]:
    memory = await service.async_memory(double)
    try:
        said = {"type": "decision", "title": "T", "topic_key": "k"}
        saved = [await memory.mem_save("ana", "x" * 5000, **said) for _ in range(2)]
        listed = await memory.mem_list("ana")
        found = await memory.mem_search("ana", "T")
        deleted = await memory.mem_delete("ana", topic_key="k")
        return [saved[1].outcome, listed.total, len(list(found)), deleted.deleted]
    finally:
        await memory.close()


def test_the_async_face_does_the_same(service: Service, double: CogneeDouble) -> None:
    import asyncio

    assert asyncio.run(_awaited(service, double)) == ["deduped", 1, 1, 1]
