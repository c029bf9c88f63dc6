"""A write whose first try was carried out and never answered is not called undone because its repeat was refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import AsyncMemory, Memory
from keyfold.dialects.cortexdb_direct import DirectWire
from keyfold.dialects.wire import Answer, Closed, Http, NotSent, Wait, ask
from keyfold.errors import Conflict, KeyfoldError, OutcomeUnknown, Unauthorized, Unavailable
from keyfold.flow import drive
from tests.remote.common import COGNEE, CORTEXDB, MEM0_OSS, MEM0_PLATFORM, SERVICES, TINYHUMANS, Service
from tests.remote.cortexdb_service import hasty, late
from tests.remote.test_cortexdb_cancelled import keys
from tests.remote.test_unreadable import REWRITES

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

AUTH = {"type": "decision", "title": "Auth", "topic_key": "auth"}
LOGS = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
FACES = pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
# Supermemory makes a rewrite once, as a repeat would fork; what is unknown of it is so after the one try.
REPEATING = (MEM0_OSS, MEM0_PLATFORM, COGNEE, CORTEXDB, TINYHUMANS)
# What a service says itself when a row or a claim is gone or taken: then it is looked at what that means.
OWN_WORD = {(MEM0_OSS, 404), (MEM0_PLATFORM, 404), (COGNEE, 409), (TINYHUMANS, 409)}
CODES = (302, 400, 401, 403, 404, 409, 429, 503)
REFUSALS = [(one, code) for one in REPEATING for code in CODES if (one, code) not in OWN_WORD]

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")


def saved(service: Service, double: Any, text: str, *, awaited: bool) -> Any:
    """What a save on a store of its own gives, or the error that it raises, on either face."""
    if not awaited:
        memory = service.memory(double)
        try:
            return memory.mem_save("ana", text, **AUTH)
        except KeyfoldError as error:
            return error
        finally:
            memory.close()

    async def save() -> Any:
        async with await service.async_memory(double) as memory:
            try:
                return await memory.mem_save("ana", text, **AUTH)
            except KeyfoldError as error:
                return error

    return asyncio.run(save())


@pytest.mark.parametrize(("service", "code"), REFUSALS, ids=lambda value: getattr(value, "name", value))
@FACES
def test_a_write_that_is_refused_after_a_try_that_was_carried_out_is_unknown_and_its_retry_writes_nothing_twice(
    service: Service, code: int, awaited: bool, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    saved(service, double, "JWT, one hour.", awaited=awaited)
    method, path = REWRITES[service]
    double.faults.add("apply_then_drop", method=method, path=path)
    double.faults.add("status", method=method, path=path, code=code, times=99)
    error = saved(service, double, "JWT, two hours.", awaited=awaited)
    assert isinstance(error, OutcomeUnknown)
    assert "make the same call again" in str(error)
    double.faults.clear()
    again = saved(service, double, "JWT, two hours.", awaited=awaited)
    assert (again.outcome, again.revision_count) == ("deduped", 2)
    held = remembering(service, double).mem_list("ana").items
    assert [record.content for record in held] == ["JWT, two hours."]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@FACES
def test_a_write_whose_only_try_was_refused_is_said_to_be_refused(
    service: Service, awaited: bool, running: Running
) -> None:
    double = running(service.double())
    double.faults.add("status", code=401, method="POST", times=99)
    assert isinstance(saved(service, double, "JWT", awaited=awaited), Unauthorized)
    double.faults.clear()
    assert saved(service, double, "JWT", awaited=awaited).outcome == "created"


@LOGS
@pytest.mark.parametrize("code", [302, 400, 401, 403, 404, 429])
def test_a_write_that_is_not_listed_yet_is_sent_as_the_same_event_after_its_repeat_was_refused(
    service: Service, code: int, running: Running, remembering: Remembering
) -> None:
    double = running(late(service.double()))
    memory = remembering(service, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    memory.mem_save("ana", "warm", type="decision", title="W", topic_key="w")
    double.knobs.listing_lag = 6
    double.faults.add("apply_then_drop", method="POST", path="experience")
    double.faults.add("status", method="POST", path="experience", code=code, times=3)
    double.reset_counts()
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "JWT", **AUTH)
    double.faults.clear()
    assert memory.mem_save("ana", "JWT", **AUTH).replayed
    assert len(keys(double)) == 1


@LOGS
def test_a_write_that_was_taken_is_not_called_undone_because_it_may_not_be_looked_at(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(late(service.double()))
    memory = remembering(service, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    memory.mem_save("ana", "warm", type="decision", title="W", topic_key="w")
    double.knobs.listing_lag = 6
    double.faults.add("status", method="GET", path="events", code=401, skip=1)
    double.reset_counts()
    with pytest.raises(OutcomeUnknown, match="had taken the write before"):
        memory.mem_save("ana", "JWT", **AUTH)
    assert memory.mem_save("ana", "JWT", **AUTH).replayed
    assert len(keys(double)) == 1


def test_the_pieces_that_were_taken_before_one_was_refused_are_not_written_twice(
    running: Running, remembering: Remembering
) -> None:
    double = running(late(TINYHUMANS.double()))
    memory = remembering(TINYHUMANS, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    memory.mem_save("ana", "warm", type="decision", title="W", topic_key="w")
    double.knobs.listing_lag = 4
    double.faults.add("status", method="POST", path="experience", code=401, skip=1)
    double.reset_counts()
    text = "a word of many. " * 20_000
    with pytest.raises(Unauthorized):
        memory.mem_save("ana", text, **AUTH)
    memory.mem_save("ana", text, **AUTH)
    pieces = len(keys(double))
    fresh = running(TINYHUMANS.double())
    remembering(TINYHUMANS, fresh).mem_save("ana", text, **AUTH)
    assert pieces == len(keys(fresh)) > 1


def test_a_wait_that_ran_out_is_a_write_that_was_taken_whatever_its_repeat_is_answered(
    running: Running, remembering: Remembering
) -> None:
    double = running(CORTEXDB.double())
    memory = remembering(CORTEXDB, double)
    double.faults.add("apply_then_status", method="POST", path="experience", code=408)
    double.faults.add("status", method="POST", path="experience", code=401)
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "JWT", **AUTH)
    assert len(memory.mem_list("ana")) == 1


def test_a_key_that_cortexdb_says_another_body_has_is_a_conflict_after_a_lost_answer_too(
    running: Running, remembering: Remembering
) -> None:
    double = running(CORTEXDB.double())
    memory = remembering(CORTEXDB, double)
    double.faults.add("drop", method="POST", path="experience")
    body = {"error_code": "IDEMPOTENCY_CONFLICT"}
    double.faults.add("status", method="POST", path="experience", code=409, body=body)
    with pytest.raises(Conflict):
        memory.mem_save("ana", "JWT", **AUTH)


@pytest.mark.parametrize("service", [COGNEE, CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
def test_a_store_that_is_closed_while_a_write_is_carried_out_does_not_say_that_nothing_was_sent(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())

    async def closed() -> BaseException | None:
        memory: AsyncMemory = await service.async_memory(double)
        reached, loop = asyncio.Event(), asyncio.get_running_loop()
        path = REWRITES[service][1]
        double.faults.add(
            "apply_then_stall",
            method="POST",
            path=path,
            run=lambda: loop.call_soon_threadsafe(reached.set),
        )
        saving = asyncio.ensure_future(memory.mem_save("ana", "JWT", **AUTH))
        await reached.wait()
        await memory.close()
        (told,) = await asyncio.gather(saving, return_exceptions=True)
        return told

    assert isinstance(asyncio.run(closed()), OutcomeUnknown)
    assert len(remembering(service, double).mem_list("ana")) == 1


@pytest.mark.parametrize("last", [NotSent("refused"), Closed("closed")], ids=["not sent", "closed"])
@pytest.mark.parametrize("wire", ["any", "cortexdb"])
def test_what_was_not_sent_the_second_time_may_have_been_carried_out_the_first(
    wire: str, last: Unavailable
) -> None:
    def told(request: Http, *errors: Unavailable) -> Any:
        said = iter([*errors, last, last, last])

        def answer(asked: Any) -> Any:
            if isinstance(asked, Wait):
                return None
            if asked.path.endswith("whoami"):
                return Answer(404, {}, b"")  # who acts, which the service does not say
            raise next(said)

        drive(ask(request) if wire == "any" else DirectWire().exchange(request), answer)

    lost = Unavailable("no answer")
    with pytest.raises(OutcomeUnknown):
        told(Http("PUT", "/", repeatable=True), lost)
    with pytest.raises(type(last)):
        told(Http("PUT", "/", repeatable=True))
    with pytest.raises(type(last)):
        told(Http("POST", "/", reads=True), lost)
