"""An end of a session whose answer is lost: the same call again ends it, and its summary is there once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import KeyfoldError, Unavailable
from tests.remote.common import CORTEXDB, MEM0_OSS, SERVICES, Service
from tests.remote.cortexdb_service import hasty_async

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
MOST_REQUESTS = 40  # of an end

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")


@contextmanager
def on_a_face(service: Service, double: Any, *, awaited: bool) -> Iterator[Callable[..., Any]]:
    """`call(name, ...)` on a memory, blocking or in one loop."""
    if not awaited:
        with service.memory(double) as blocking:
            yield lambda name, *said, **more: getattr(blocking, name)(*said, **more)
        return
    with asyncio.Runner() as runner:
        memory = runner.run(service.async_memory(double))
        hasty_async(memory.engine)  # type: ignore[arg-type]
        yield lambda name, *said, **more: runner.run(getattr(memory, name)(*said, **more))
        runner.run(memory.close())


def summaries(memory: Memory) -> list[str]:
    return [record.content for record in memory.mem_list("ana").items if record.kind == "summary"]


@EACH
@pytest.mark.parametrize("kind", ["drop", "apply_then_drop"])
@pytest.mark.parametrize("key", [None, "end-1"])
def test_an_end_that_was_broken_off_anywhere_succeeds_when_it_is_called_again(
    service: Service, kind: str, key: str | None, running: Running, remembering: Remembering
) -> None:
    for skipped in range(MOST_REQUESTS):
        double = running(service.double())
        memory = remembering(service, double)
        started = memory.mem_session_start("ana")
        fault = double.faults.add(kind, skip=skipped, times=3)
        failed = False
        try:
            memory.mem_session_end("ana", summary="Chose tokens.", idempotency_key=key)
        except Unavailable:
            failed = True
        double.faults.clear()
        if not fault.struck:
            break
        if failed:
            ended = memory.mem_session_end("ana", summary="Chose tokens.", idempotency_key=key)
            assert (ended.id, ended.status, ended.summary) == (
                started.session_id,
                "completed",
                "Chose tokens.",
            ), skipped
        if key is None:
            with pytest.raises(LookupError):
                memory.mem_session_end("ana", summary="Chose tokens.")
        fresh = remembering(service, double)
        [session] = fresh.mem_session_list("ana")
        assert (session.status, session.is_auto_generated, session.summary) == (
            "completed",
            False,
            "Chose tokens.",
        )
        assert summaries(fresh) == ["Chose tokens."], skipped
    else:
        raise AssertionError("an end costs more requests than were tried")
    assert skipped > 2


@EACH
@pytest.mark.parametrize("named", [True, False])
def test_a_session_that_somebody_else_ended_is_refused_and_its_summary_stays(
    service: Service, named: bool, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory, other = remembering(service, double), remembering(service, double)
    session = memory.mem_session_start("ana").session_id
    other.mem_session_end("ana", session_id=session, summary="Theirs.")
    for key in (None, "end-1"):
        with pytest.raises(LookupError, match="ended already"):
            memory.mem_session_end(
                "ana", session_id=session if named else None, summary="Mine.", idempotency_key=key
            )
    assert summaries(remembering(service, double)) == ["Theirs."]


@EACH
def test_what_is_begun_after_an_end_that_was_broken_off_is_the_one_that_the_next_end_means(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory, other = remembering(service, double), remembering(service, double)
    first = memory.mem_session_start("ana").session_id
    double.faults.add("drop", skip=1, times=99)
    with pytest.raises(Unavailable):
        memory.mem_session_end("ana", summary="One.")
    double.faults.clear()
    assert memory.mem_session_start("ana").session_id == first, "it goes on"
    other.mem_session_end("ana", session_id=first, summary="Theirs.")
    with pytest.raises(LookupError, match="ended already"):
        memory.mem_session_end("ana", summary="One.")
    second = memory.mem_session_start("ana").session_id
    assert memory.mem_session_end("ana", summary="Two.").id == second != first


@pytest.mark.parametrize("service", [MEM0_OSS, CORTEXDB], ids=lambda service: service.name)
def test_an_end_that_was_cancelled_succeeds_when_it_is_called_again(
    service: Service, running: Running
) -> None:
    double = running(service.double())

    async def ended() -> Any:
        memory = await service.async_memory(double)
        started = asyncio.Event()
        loop = asyncio.get_running_loop()
        await memory.mem_session_start("ana")
        write = {"method": "PUT"} if service is MEM0_OSS else {"path": "experience", "skip": 1}
        double.faults.add("apply_then_stall", run=lambda: loop.call_soon_threadsafe(started.set), **write)
        call = asyncio.ensure_future(memory.mem_session_end("ana", summary="Chose tokens."))
        await started.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        try:
            return await memory.mem_session_end("ana", summary="Chose tokens.")
        finally:
            await memory.close()

    session = asyncio.run(ended())
    assert (session.status, session.summary) == ("completed", "Chose tokens.")


@EACH
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_an_end_that_was_broken_off_is_meant_by_its_name_alone_once_another_session_is_begun(
    service: Service, repeated: bool, awaited: bool, running: Running
) -> None:
    for skipped in range(MOST_REQUESTS):
        double = running(service.double())
        with on_a_face(service, double, awaited=awaited) as call:
            first = call("mem_session_start", "ana").session_id
            fault = double.faults.add("apply_then_drop", skip=skipped, times=99)
            failed = False
            try:
                call("mem_session_end", "ana", summary="Of the first.")
            except Unavailable:
                failed = True
            double.faults.clear()
            if not fault.struck:
                return
            call("mem_session_start", "ana", session_id="second")
            if repeated and failed:
                again = call("mem_session_end", "ana", session_id=first, summary="Of the first.")
                assert (again.id, again.status, again.summary) == (first, "completed", "Of the first.")
                call("mem_session_start", "ana", session_id="second")
            assert call("mem_session_end", "ana").id == "second"
            with pytest.raises(LookupError, match="'second' was ended already"):
                call("mem_session_end", "ana", summary="Of the second.")
            told = {session.id: session.summary for session in call("mem_session_list", "ana")}
            assert told["second"] is None
            assert told[first] in (["Of the first."] if repeated or not failed else [None, "Of the first."])
    raise AssertionError("an end costs more requests than were tried")


@EACH
@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("kind", ["status", "apply_then_status"])
@pytest.mark.parametrize("code", [400, 401, 409])
def test_an_end_that_was_refused_anywhere_succeeds_when_it_is_called_again(
    service: Service, awaited: bool, kind: str, code: int, running: Running
) -> None:
    for skipped in range(MOST_REQUESTS):
        double = running(service.double())
        with on_a_face(service, double, awaited=awaited) as call:
            first = call("mem_session_start", "ana").session_id
            fault = double.faults.add(kind, skip=skipped, times=99, code=code)
            failed = False
            try:
                call("mem_session_end", "ana", summary="Chose tokens.")
            except KeyfoldError:
                failed = True
            double.faults.clear()
            if not fault.struck:
                return
            if failed:
                ended = call("mem_session_end", "ana", summary="Chose tokens.")
                assert (ended.id, ended.status, ended.summary) == (first, "completed", "Chose tokens.")
            [session] = call("mem_session_list", "ana")
            assert (session.status, session.summary) == ("completed", "Chose tokens."), skipped
            with pytest.raises(LookupError, match="ended already"):
                call("mem_session_end", "ana")
    raise AssertionError("an end costs more requests than were tried")
