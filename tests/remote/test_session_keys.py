"""An idempotency key of a session's start, used again: in its day the same session, later another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import IdempotencyConflict, Unavailable
from tests.conftest import SteppedClock
from tests.remote.common import SERVICES, Service

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
KEY = "nightly"


def summaries(sessions: Any) -> list[str | None]:
    return sorted(session.summary for session in sessions)


@EACH
@pytest.mark.parametrize("ended", [True, False])
def test_a_key_of_every_night_opens_a_session_each_night_and_keeps_the_summaries(
    service: Service, ended: bool, running: Running, remembering: Remembering, clock: SteppedClock
) -> None:
    double = running(service.double())
    memory = remembering(service, double, clock=clock, session_timeout=10 * 86_400)
    nights, known = ("one", "two", "three", "four"), []
    for night in nights:
        started = memory.mem_session_start("ana", idempotency_key=KEY)
        assert (started.is_new, started.replayed, started.session.status) == (True, False, "active"), night
        known.append(started.session_id)
        if ended:
            assert memory.mem_session_end("ana", summary=night).id == started.session_id
        else:
            memory.mem_session_summary("ana", night)
        clock.forward(hours=25)  # over a week it falls into every hour of a day
    sessions = remembering(service, double, clock=clock).mem_session_list("ana")
    assert summaries(sessions) == sorted(nights)
    assert {session.id: session.summary for session in sessions} == dict(zip(known, nights, strict=True))


@EACH
def test_within_a_day_of_each_night_the_key_is_the_same_start_even_over_midnight(
    service: Service, running: Running, remembering: Remembering, clock: SteppedClock
) -> None:
    """The stepped clock begins at noon, so that the second look of each night is on the next day."""
    double = running(service.double())
    known = []
    for _ in range(3):
        first = remembering(service, double, clock=clock).mem_session_start("ana", idempotency_key=KEY)
        clock.forward(hours=2)
        remembering(service, double, clock=clock).mem_session_end("ana", summary="Done.")
        for _ in range(2):
            clock.forward(hours=10.5)
            again = remembering(service, double, clock=clock).mem_session_start("ana", idempotency_key=KEY)
            assert (again.session_id, again.replayed) == (first.session_id, True)
            assert (again.session.status, again.session.summary) == ("completed", "Done.")
        clock.forward(hours=1)
        known.append(first.session_id)
    sessions = remembering(service, double, clock=clock).mem_session_list("ana")
    assert sorted(session.id for session in sessions) == sorted(known)


@EACH
def test_a_start_of_the_second_night_that_was_broken_off_opens_one_session(
    service: Service,
    running: Running,
    remembering: Remembering,
    clock: SteppedClock,
    hurried: None,
    without_pauses: None,
) -> None:
    for skipped in range(40):
        double = running(service.double())
        memory = remembering(service, double, clock=clock)
        memory.mem_session_start("ana", idempotency_key=KEY)
        memory.mem_session_end("ana", summary="one")
        clock.forward(hours=30)
        fault = double.faults.add("apply_then_drop", skip=skipped, times=3)
        try:
            memory.mem_session_start("ana", idempotency_key=KEY)
        except Unavailable:
            assert fault.struck
        double.faults.clear()
        again = remembering(service, double, clock=clock).mem_session_start("ana", idempotency_key=KEY)
        sessions = remembering(service, double, clock=clock).mem_session_list("ana")
        assert len(sessions) == 2, skipped
        assert again.session_id in [session.id for session in sessions if session.status == "active"]
        if not fault.struck:
            return
    raise AssertionError("a start costs more requests than were tried")


@EACH
def test_the_async_face_opens_a_session_each_night_too(
    service: Service, running: Running, clock: SteppedClock
) -> None:
    double = running(service.double())

    async def night(name: str) -> Awaitable[Any]:
        memory = await service.async_memory(double, clock=clock)
        try:
            await memory.mem_session_start("ana", idempotency_key=KEY)
            await memory.mem_session_end("ana", summary=name)
            return await memory.mem_session_list("ana")
        finally:
            await memory.close()

    asyncio.run(night("one"))
    clock.forward(hours=30)
    assert summaries(asyncio.run(night("two"))) == ["one", "two"]


@EACH
def test_another_call_under_the_key_of_a_start_is_refused_on_the_first_night_and_on_the_next(
    service: Service, running: Running, remembering: Remembering, clock: SteppedClock
) -> None:
    double = running(service.double())
    memory = remembering(service, double, clock=clock)
    for night in (1, 2):
        memory.mem_session_start("ana", idempotency_key=KEY)
        with pytest.raises(IdempotencyConflict):
            memory.mem_session_start("ana", budget=77, idempotency_key=KEY)
        assert len(memory.mem_session_list("ana")) == night
        clock.forward(hours=30)
