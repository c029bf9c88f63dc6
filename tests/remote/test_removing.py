"""What is said to be gone is gone: a status, a proxy's page or a count of nothing does not pass for a delete."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import OutcomeUnknown
from tests.remote.common import CORTEXDB, SERVICES, SUPERMEMORY, TINYHUMANS, Service

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
BOTH_CORTEX = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
# Answers to a delete that was not carried out.
UNDONE: dict[str, dict[str, Any]] = {
    "not found": {"kind": "status", "code": 404, "body": {"detail": "Not Found"}},
    "a sign-in page": {"kind": "content_type"},
    "an empty object": {"kind": "status", "code": 200, "body": {}},
    "nothing": {"kind": "status", "code": 204, "body": ""},
}

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")


def deletes(service: Service) -> dict[str, str]:
    if service in (CORTEXDB, TINYHUMANS):
        return {"method": "POST", "path": "forget"}
    return {"method": "DELETE"}


def save(memory: Memory, text: str = "JWT, one hour.") -> Any:
    return memory.mem_save("ana", text, type="decision", title="Auth", topic_key="auth")


def topics(service: Service, double: Any, remembering: Remembering) -> list[str]:
    """The topics as another process sees them."""
    return [topic.key for topic in remembering(service, double).mem_topics("ana")]


@EACH
@pytest.mark.parametrize("answer", UNDONE)
def test_a_delete_that_was_not_carried_out_is_no_delete_whatever_it_is_answered(
    service: Service, answer: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory)
    double.faults.add(**UNDONE[answer], **deletes(service), times=math.inf)
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        memory.mem_delete("ana", topic_key="auth")
    assert topics(service, double, remembering) == ["auth"]
    double.faults.clear()
    assert memory.mem_delete("ana", topic_key="auth").deleted == 1
    assert topics(service, double, remembering) == []


@EACH
@pytest.mark.parametrize("answer", UNDONE)
def test_a_delete_that_is_answered_wrongly_once_is_made_again(
    service: Service, answer: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory)
    double.faults.add(**UNDONE[answer], **deletes(service))
    assert memory.mem_delete("ana", topic_key="auth").deleted == 1
    assert topics(service, double, remembering) == []


@EACH
def test_a_delete_of_all_that_is_answered_wrongly_for_some_leaves_none_of_them(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    service.fill(double, "ana", 20)
    memory = remembering(service, double)
    if service is SUPERMEMORY:  # its many are asked for at once, and one by one where that is not offered
        double.faults.add("status", path="forget-matching", code=404)
    if service in (CORTEXDB, TINYHUMANS):
        double.faults.add("status", path="erasures", code=404)
    double.faults.add("status", **deletes(service), code=404, times=2)
    assert memory.mem_delete("ana", all=True).deleted == 20
    assert topics(service, double, remembering) == []


@EACH
def test_what_another_process_removed_meanwhile_is_gone_and_no_error(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory, other = remembering(service, double), remembering(service, double)
    save(memory)
    done: list[int] = []
    double.faults.add(
        "call_before",
        **deletes(service),
        run=lambda: done.append(other.mem_delete("ana", topic_key="auth").deleted),
    )
    assert memory.mem_delete("ana", topic_key="auth").deleted == 1
    assert done == [1]
    assert topics(service, double, remembering) == []


@EACH
def test_a_look_that_fails_after_a_doubtful_delete_leaves_its_outcome_unknown(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory)
    double.reset_counts()
    assert memory.mem_delete("ana", topic_key="auth", dry_run=True).deleted == 1
    looks = double.count
    double.faults.add("status", **deletes(service), code=404)
    double.faults.add("status", code=503, times=math.inf, skip=looks)
    with pytest.raises(OutcomeUnknown):
        memory.mem_delete("ana", topic_key="auth")
    double.faults.clear()
    memory.mem_delete("ana", topic_key="auth")
    assert topics(service, double, remembering) == []


@pytest.mark.parametrize("code", [404, 409])
def test_the_parts_of_a_long_text_stay_while_its_head_stays(
    code: int, running: Running, remembering: Remembering
) -> None:
    double = running(SUPERMEMORY.double())
    memory = remembering(SUPERMEMORY, double)
    text = "word " * 5_000
    saved = save(memory, text)
    double.faults.add("status", path="forget-matching", code=404)
    double.faults.add("status", method="DELETE", code=code, times=3)
    with pytest.raises(OutcomeUnknown):
        memory.mem_delete("ana", topic_key="auth")
    fresh = remembering(SUPERMEMORY, double)
    assert [record.content for record in fresh.mem_list("ana").items] == [text]
    assert memory.mem_delete("ana", observation_id=saved.id).deleted == 1
    assert topics(SUPERMEMORY, double, remembering) == []


@BOTH_CORTEX
def test_a_forget_that_counts_fewer_than_it_was_asked_for_is_looked_at_again(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory)
    said: Any = {"deleted": {"events": 0}, "requested": 1}
    body = {"success": True, "data": said} if service is TINYHUMANS else said
    double.faults.add("status", path="forget", code=200, body=body, times=math.inf)
    with pytest.raises(OutcomeUnknown):
        memory.mem_delete("ana", topic_key="auth")
    assert topics(service, double, remembering) == ["auth"]
    double.faults.clear()
    double.faults.add(
        "apply_then_status", path="forget", code=200, body=body
    )  # the count is wrong, and it is gone
    assert memory.mem_delete("ana", topic_key="auth").deleted == 1
    assert topics(service, double, remembering) == []


@BOTH_CORTEX
def test_a_forget_that_was_only_taken_note_of_is_waited_for(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory)
    double.faults.add("status", path="forget", code=202, body={"status": "queued"})
    with pytest.raises(OutcomeUnknown, match=r"took note .*\(202\), and after 30 s it lists it still"):
        memory.mem_delete("ana", topic_key="auth")
    assert len([seen for seen in double.seen if seen.path.endswith("/forget")]) == 1, "it was asked for once"
    double.faults.add("apply_then_status", path="forget", code=202, body={"status": "queued"})
    assert memory.mem_delete("ana", topic_key="auth").deleted == 1
    assert topics(service, double, remembering) == []


@BOTH_CORTEX
@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize(
    ("code", "body"), [(204, ""), (200, "null"), (200, "<html>ok</html>"), (200, "[]"), (200, {})]
)
@pytest.mark.parametrize("kind", ["status", "apply_then_status"])
def test_an_erasure_that_is_answered_in_no_form_of_the_services_is_made_sure_of_event_by_event(
    service: Service,
    kind: str,
    code: int,
    body: Any,
    awaited: bool,
    running: Running,
    remembering: Remembering,
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    for number in range(3):
        memory.mem_save("ana", f"text {number}", type="decision", title="T", topic_key=f"k{number}")
    fault = double.faults.add(kind, method="POST", path="erasures", code=code, body=body)

    async def erased() -> int:
        async with await service.async_memory(double) as other:
            return (await other.mem_delete("ana", all=True)).deleted

    assert (asyncio.run(erased()) if awaited else memory.mem_delete("ana", all=True).deleted) == 3
    assert fault.struck
    assert len(remembering(service, double).mem_list("ana")) == 0
