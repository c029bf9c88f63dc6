"""What goes wrong on the way to Mem0, and the caller's next call: one record, one revision, nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import KeyfoldError, Memory
from keyfold.errors import OutcomeUnknown, StoreError, Unavailable
from tests.remote.common import MEM0_OSS, MEM0_PLATFORM, Service

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

BOTH = pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)
# Each write: the request that carries it out.
APPLIED = ("apply_then_status", "apply_then_stall", "apply_then_drop")
LOST = ("status", "stall", "drop", "huge", "truncate", "content_type", "rate_limit")

pytestmark = pytest.mark.usefixtures("hurried")


def adds(service: Service) -> dict[str, str]:
    return {"method": "POST", "path": "/v3/memories/add/" if service is MEM0_PLATFORM else "/memories"}


def how(kind: str) -> dict[str, Any]:
    return {"after": 60} if kind == "rate_limit" else {}


def save(memory: Memory, text: str, **more: Any) -> Any:
    return memory.mem_save("ana", text, type="decision", title="Auth", topic_key="auth", **more)


def texts(double: Any) -> list[str]:
    return sorted(item["memory"] for item in double.items())


@BOTH
@pytest.mark.parametrize("kind", APPLIED)
def test_a_first_save_whose_answer_was_lost_is_replayed_by_the_callers_retry(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    double.faults.add(kind, **adds(service))
    with pytest.raises(OutcomeUnknown, match=r"127\.0\.0\.1.*make the same call again"):
        save(memory, "JWT, one hour.", idempotency_key="once")
    again = save(memory, "JWT, one hour.", idempotency_key="once")
    assert (again.outcome, again.replayed, again.revision_count) == ("created", True, 1)
    without = save(memory, "JWT, one hour.")
    assert (without.outcome, without.replayed, without.revision_count) == ("deduped", True, 1)
    assert texts(double) == ["JWT, one hour."]


@BOTH
@pytest.mark.parametrize("kind", APPLIED)
def test_a_rewrite_whose_answer_was_lost_is_one_revision(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    save(memory, "JWT, one hour.")
    double.faults.add(kind, method="PUT")  # sent again it writes the same: it is, and nobody notices
    receipt = save(memory, "JWT, two hours.")
    assert (receipt.outcome, receipt.revision_count) == ("updated", 2)
    double.faults.add(kind, method="PUT", times=3)
    with pytest.raises(OutcomeUnknown):
        save(memory, "JWT, three hours.", idempotency_key="once")
    again = save(memory, "JWT, three hours.", idempotency_key="once")
    assert (again.outcome, again.replayed, again.revision_count) == ("updated", True, 3)
    assert texts(double) == ["JWT, three hours."]


@BOTH
@pytest.mark.parametrize("kind", APPLIED)
def test_a_delete_whose_answer_was_lost_is_done_and_its_retry_finds_nothing(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    save(memory, "JWT, one hour.")
    double.faults.add(kind, method="DELETE")
    assert memory.mem_delete("ana", topic_key="auth").deleted == 1, "a repeat that finds it gone is the proof"
    save(memory, "JWT, one hour.")
    double.faults.add(kind, method="DELETE", times=3)
    with pytest.raises(OutcomeUnknown):
        memory.mem_delete("ana", topic_key="auth")
    assert memory.mem_delete("ana", topic_key="auth").deleted == 0
    assert texts(double) == []


@BOTH
@pytest.mark.parametrize("kind", APPLIED)
def test_an_unkeyed_save_whose_answer_was_lost_is_not_stored_twice(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    double.faults.add(kind, **adds(service))
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "a thought", type="discovery", title="T")
    assert memory.mem_save("ana", "a thought", type="discovery", title="T").outcome == "deduped"
    assert texts(double) == ["a thought"]


@BOTH
@pytest.mark.parametrize("kind", APPLIED)
def test_a_batch_whose_answers_were_lost_is_finished_by_its_retry(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    items = [
        {"content": f"text {n}", "type": "decision", "title": "T", "topic_key": f"k{n}"} for n in range(12)
    ]
    double.faults.add(kind, **adds(service), skip=4, times=2)
    with pytest.raises(OutcomeUnknown):
        memory.mem_save_many("ana", items)
    memory.mem_save_many("ana", items)
    assert texts(double) == sorted(f"text {n}" for n in range(12))
    assert {topic.revision_count for topic in memory.mem_topics("ana")} == {1}


@BOTH
@pytest.mark.parametrize("kind", LOST)
def test_a_read_that_fails_is_told_and_the_next_one_is_answered(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    saved = save(memory, "JWT, one hour.")
    for read in (
        lambda: memory.mem_get_observation("ana", saved.id),
        lambda: memory.mem_list("ana"),
        lambda: memory.mem_search("ana", "JWT"),
    ):
        double.faults.add(kind, times=3, **how(kind))
        with pytest.raises((Unavailable, StoreError), match=r"127\.0\.0\.1"):
            read()
        double.faults.clear()
        assert read()
    assert texts(double) == ["JWT, one hour."]


@BOTH
@pytest.mark.parametrize("kind", LOST)
def test_a_write_that_fails_is_told_and_the_callers_retry_leaves_one_record(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    double.faults.add(kind, **adds(service), times=3, **how(kind))
    with pytest.raises(KeyfoldError, match=r"127\.0\.0\.1"):
        save(memory, "first")
    double.faults.clear()
    save(memory, "first")
    assert texts(double) == ["first"]
    double.faults.add(kind, method="PUT", times=3, **how(kind))
    with pytest.raises(KeyfoldError, match=r"127\.0\.0\.1"):
        save(memory, "second")
    double.faults.clear()
    receipt = save(memory, "second")
    assert receipt.revision_count == 2
    assert texts(double) == ["second"]


@BOTH
def test_a_rate_limit_on_a_write_is_waited_for_and_the_write_made_once(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    double.faults.add("rate_limit", **adds(service), after=0)
    double.faults.add("rate_limit", method="GET" if service is MEM0_OSS else "POST", after=0)
    assert save(memory, "text").outcome == "created"
    assert texts(double) == ["text"]


@BOTH
def test_one_of_several_deletes_that_fails_is_told_and_the_next_call_removes_the_rest(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double, timeout=0.3)
    for number in range(6):
        memory.mem_save("ana", f"text {number}", type="decision", title="T", topic_key=f"k{number}")
    double.faults.add("status", method="DELETE", times=30, code=503)
    with pytest.raises(OutcomeUnknown):
        memory.mem_delete("ana", all=True)
    double.faults.clear()
    memory.mem_delete("ana", all=True)
    assert texts(double) == []
