"""What an error asks for after a write whose answer was lost is safe to do, and where it is not, it is not asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import OutcomeUnknown, Unavailable
from tests.remote.common import CORTEXDB, SERVICES, SUPERMEMORY, TINYHUMANS, Service
from tests.remote.cortexdb_service import hasty, late
from tests.remote.test_unreadable import WRITES

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
MOST_REQUESTS = 40  # of a start
NOTE = {"content": "a thought", "type": "discovery", "title": "T"}
SPAN = {"expires_at": timedelta(days=30)}

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")


def lose(service: Service, double: Any) -> None:
    """Let the next write be carried out, and its answer be lost, however often it is sent again."""
    skip = int(service is SUPERMEMORY)  # the listing that comes first has a path that begins like the write's
    path = {**{one.scheme: path for one, path in WRITES.items()}, SUPERMEMORY.scheme: "/v4/memories"}
    double.faults.add("apply_then_drop", method="POST", path=path[service.scheme], skip=skip, times=math.inf)


@EACH
@pytest.mark.parametrize(
    ("window", "more", "safe"),
    [
        (0, {}, False),
        (0, {"topic_key": "k"}, True),
        (0, {"idempotency_key": "k"}, True),
        (60, {}, True),
        (60, SPAN, False),
        (60, {**SPAN, "topic_key": "k"}, True),
        (60, {**SPAN, "idempotency_key": "k"}, True),
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_the_same_call_again_is_asked_for_only_where_it_writes_nothing_twice(
    service: Service,
    window: int,
    more: dict[str, Any],
    safe: bool,
    many: bool,
    running: Running,
    remembering: Remembering,
) -> None:
    double = running(service.double())
    memory = remembering(service, double, dedup_window=window)

    def save() -> None:
        if many:
            memory.mem_save_many("ana", [NOTE | more])
        else:
            memory.mem_save("ana", **NOTE, **more)

    lose(service, double)
    asked = "what is there already is not written twice" if safe else "look whether it is there before"
    with pytest.raises(OutcomeUnknown, match=asked) as error:
        save()
    assert ("not written twice" in str(error.value)) is safe
    double.faults.clear()
    save()
    assert len(memory.mem_list("ana")) == (1 if safe else 2)


@EACH
@pytest.mark.parametrize("key", [None, "start-1"])
def test_a_start_that_was_broken_off_anywhere_opens_one_session_when_it_is_called_again(
    service: Service, key: str | None, running: Running, remembering: Remembering
) -> None:
    for skipped in range(MOST_REQUESTS):
        double = running(service.double())
        memory = remembering(service, double)
        fault = double.faults.add("apply_then_drop", skip=skipped, times=3)
        try:
            first = memory.mem_session_start("ana", idempotency_key=key).session_id
        except Unavailable:
            first = ""
        double.faults.clear()
        again = memory.mem_session_start("ana", idempotency_key=key).session_id
        assert first in ("", again)
        assert [session.id for session in remembering(service, double).mem_session_list("ana")] == [again], (
            skipped
        )
        if not fault.struck:
            return
    raise AssertionError("a start costs more requests than were tried")


@EACH
def test_a_start_with_an_idempotency_key_is_repeated_by_another_process_too(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    first = remembering(service, double).mem_session_start("ana", idempotency_key="start-1")
    again = remembering(service, double).mem_session_start("ana", idempotency_key="start-1")
    other = remembering(service, double).mem_session_start("ana", idempotency_key="start-2")
    assert (again.session_id, again.replayed) == (first.session_id, True)
    assert other.session_id != first.session_id


@pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
def test_a_start_that_is_not_listed_yet_is_not_a_second_session(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(late(service.double()))
    memory = remembering(service, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    double.knobs.listing_lag = 8
    lose(service, double)
    with pytest.raises(OutcomeUnknown):
        memory.mem_session_start("ana")
    double.faults.clear()
    memory.mem_session_start("ana")
    assert len(memory.mem_session_list("ana")) == 1
