"""The agent-facing calls on Mem0: the same names and outcomes as on a file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import Conflict, Unsupported
from tests.conftest import SteppedClock
from tests.remote.common import MEM0_OSS, MEM0_PLATFORM, Service, payload, put_mem0

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

BOTH = pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)


def save(memory: Memory, text: str, key: str | None = "auth", **more: Any) -> Any:
    fields = {"type": "decision", "title": "Auth model", "topic_key": key, **more}
    return memory.mem_save(
        "ana", text, **{name: value for name, value in fields.items() if value is not None}
    )


@BOTH
def test_a_save_is_created_deduped_and_updated(
    service: Service, running: Running, remembering: Remembering
) -> None:
    memory = remembering(service, running(service.double()))
    first = save(memory, "JWT, one hour.", metadata={"area": "api"}, tags=["security"])
    same = save(memory, "JWT, one hour.")
    changed = save(memory, "JWT, two hours.")
    assert [one.outcome for one in (first, same, changed)] == ["created", "deduped", "updated"]
    assert [one.revision_count for one in (first, same, changed)] == [1, 1, 2]
    assert first.id == same.id == changed.id
    got = memory.mem_get_observation("ana", first.id)
    assert got is not None
    assert (got.content, got.metadata, list(got.tags)) == ("JWT, two hours.", {"area": "api"}, ["security"])
    assert memory.mem_get_observation("ben", first.id) is None
    with pytest.raises(Conflict):
        save(memory, "JWT, four hours.", expect_revision=1)


@BOTH
def test_what_is_private_never_reaches_the_service(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory, "key <private>hunter2</private> rotates", metadata={"note": "<private>hunter2</private>"})
    memory.mem_search("ana", "key <private>hunter2</private>")
    memory.mem_log_turn("ana", thread_id="t", index=0, role="user", text="<private>hunter2")
    memory.mem_session_start("ana")
    memory.mem_session_summary("ana", "did <private>hunter2</private>")
    memory.mem_session_end("ana")
    sent = b"".join(seen.body + seen.path.encode() + seen.query.encode() for seen in double.seen)
    assert b"[REDACTED]" in sent
    assert b"hunter2" not in sent


@BOTH
def test_lists_topics_search_context_and_stats_show_what_was_saved(
    service: Service, running: Running, remembering: Remembering
) -> None:
    memory = remembering(service, running(service.double()))
    save(memory, "JWT tokens live one hour.", "auth")
    save(memory, "Invoices are PDF.", "billing/format", type="preference")
    save(memory, "A thought about invoices.", None, type="discovery")
    assert len(memory.mem_list("ana").items) == 3
    assert [topic.key for topic in memory.mem_topics("ana", "billing")] == ["billing/format"]
    hits = memory.mem_search("ana", "JWT tokens")
    assert hits[0].topic_key == "auth"
    assert 0 < hits[0].score <= 1
    typed = memory.mem_search("ana", "invoices", types=["discovery"])
    assert [hit.type for hit in typed] == ["discovery"]
    assert memory.mem_search("ben", "JWT tokens").total == 0
    assert "JWT tokens live one hour." in str(memory.mem_context("ana"))
    stats = memory.mem_stats("ana")
    assert stats["total"] == 3


@BOTH
def test_a_deleted_memory_is_gone_and_the_answer_says_what_the_service_keeps(
    service: Service, running: Running, remembering: Remembering
) -> None:
    memory = remembering(service, running(service.double()))
    save(memory, "JWT, one hour.")
    result = memory.mem_delete("ana", topic_key="auth")
    assert result.deleted == 1
    assert isinstance(result.erased, str), "Mem0 keeps a history of what was deleted, and this is said"
    assert list(memory.mem_topics("ana")) == []


@BOTH
def test_a_turn_is_logged_once_and_never_changed(
    service: Service, running: Running, remembering: Remembering
) -> None:
    memory = remembering(service, running(service.double()))
    turn = {"thread_id": "t", "index": 0, "role": "user"}
    first = memory.mem_log_turn("ana", **turn, text="hello")
    again = memory.mem_log_turn("ana", **turn, text="hello")
    assert (first.outcome, again.outcome, again.replayed) == ("created", "deduped", True)
    with pytest.raises(Conflict):
        memory.mem_log_turn("ana", **turn, text="something else")


@BOTH
def test_a_session_is_started_summed_up_and_ended(
    service: Service, running: Running, remembering: Remembering
) -> None:
    memory = remembering(service, running(service.double()))
    started = memory.mem_session_start("ana")
    assert started.is_new
    receipt = save(memory, "JWT, one hour.")
    assert receipt.session_id == started.session_id
    memory.mem_session_end("ana", summary="Chose tokens.")
    with pytest.raises(LookupError):
        memory.mem_session_end("ana")
    later = memory.mem_session_start("ana")
    assert later.is_new
    assert "Chose tokens." in str(later)


@BOTH
def test_what_mem0_cannot_do_is_refused_and_named(
    service: Service, running: Running, remembering: Remembering
) -> None:
    memory = remembering(service, running(service.double()))
    save(memory, "first")
    save(memory, "second")
    history = memory.mem_history("ana", topic_key="auth")
    assert [revision.content for revision in history] == ["second"], "earlier states are not kept there"
    assert history.gaps == ((1, 1),)
    with pytest.raises(Unsupported, match="mem0"):
        memory.mem_recall("ana", "what do we use?")
    with pytest.raises(Unsupported, match="idempotency keys of deletes"):
        memory.mem_delete("ana", topic_key="auth", idempotency_key="once")


@BOTH
def test_an_expired_memory_is_absent_and_can_be_saved_anew(
    service: Service, running: Running, remembering: Remembering
) -> None:
    clock = SteppedClock()
    memory = remembering(service, running(service.double()), clock=clock)
    save(memory, "for a day", expires_at=clock.moment + timedelta(days=1))
    clock.forward(days=2)
    assert memory.mem_list("ana").total == 0
    assert save(memory, "anew").outcome == "created"
    assert memory.mem_list("ana").total == 1


@BOTH
def test_more_than_a_page_is_listed_page_by_page(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    for number in range(250):
        put_mem0(double, payload("ana", f"k{number:03}", f"text {number}", revision=number + 1))
    memory = remembering(service, double)
    found, cursor = [], None
    while True:
        page = memory.mem_list("ana", limit=100, cursor=cursor)
        found += [item.content for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [f"text {number}" for number in reversed(range(250))]


@BOTH
def test_the_awaited_memory_does_the_same(service: Service, running: Running) -> None:
    double = running(service.double())

    async def run() -> list[str]:
        memory = await service.async_memory(double)
        outcomes = []
        for text in ("one", "one", "two"):
            saved = await memory.mem_save("ana", text, type="decision", title="T", topic_key="k")
            outcomes.append(saved.outcome)
        hits = await memory.mem_search("ana", "two")
        outcomes.append(str(hits[0].topic_key))
        await memory.mem_delete("ana", topic_key="k")
        outcomes.append(str((await memory.mem_list("ana")).total))
        await memory.close()
        return outcomes

    assert asyncio.run(run()) == ["created", "deduped", "updated", "k", "0"]
    assert double.inferred == []
