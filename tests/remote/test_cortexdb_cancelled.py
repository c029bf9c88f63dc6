"""A write to CortexDB that its caller gave up: the same save again is the same event, whether or not it is listed yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import AsyncMemory, Memory
from keyfold.errors import Unavailable
from tests.remote.common import CORTEXDB, TINYHUMANS, Service
from tests.remote.cortexdb_service import hasty, hasty_async, late

Running = Callable[[Any], Any]

SERVICES = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
# Where the call stands when it is cancelled: the write was carried out, the answer never came; or it is waited for.
WHERE: dict[str, dict[str, Any]] = {
    "unanswered": {"kind": "apply_then_stall", "method": "POST", "path": "experience"},
    "unlisted": {"kind": "stall", "method": "GET", "path": "events", "skip": 1},
}
NOTE = {"type": "decision", "title": "Auth model"}


def keys(double: Any) -> set[str]:
    """The keys of the events that were sent: events of one key are one."""
    bodies = [seen.json() for seen in double.recent if seen.method == "POST" and "experience" in seen.path]
    return {item["idempotency_key"] for body in bodies for item in body.get("items", [body])}


async def given_up(
    service: Service, double: Any, where: str, call: Callable[[AsyncMemory], Any]
) -> list[Any]:
    """The receipts of a call that was cancelled and then made again."""
    memory = await service.async_memory(double)
    hasty_async(memory.engine)  # type: ignore[arg-type]
    try:
        await memory.mem_save("ana", "warm", **NOTE, topic_key="w")
        begun, loop = asyncio.Event(), asyncio.get_running_loop()
        double.knobs.listing_lag = 4
        double.reset_counts()
        double.faults.add(**WHERE[where], run=lambda: loop.call_soon_threadsafe(begun.set))
        work = asyncio.ensure_future(call(memory))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        said = await call(memory)
        return list(said) if isinstance(said, list) else [said]
    finally:
        await memory.close()


@SERVICES
@pytest.mark.parametrize("where", WHERE)
def test_a_save_that_was_cancelled_is_one_event_when_it_is_called_again(
    service: Service, where: str, running: Running
) -> None:
    double = running(late(service.double()))
    [again] = asyncio.run(
        given_up(service, double, where, lambda m: m.mem_save("ana", "text", **NOTE, topic_key="k"))
    )
    assert (again.outcome, again.replayed, again.revision_count) == ("created", True, 1)
    assert len(keys(double)) == 1


@SERVICES
@pytest.mark.parametrize("where", WHERE)
def test_a_rewrite_that_was_cancelled_is_one_event_when_it_is_called_again(
    service: Service, where: str, running: Running
) -> None:
    double = running(late(service.double()))
    [again] = asyncio.run(
        given_up(service, double, where, lambda m: m.mem_save("ana", "warmer", **NOTE, topic_key="w"))
    )
    assert (again.outcome, again.replayed, again.revision_count) == ("updated", True, 2)
    assert len(keys(double)) == 1


def test_a_batch_that_was_cancelled_is_the_same_events_when_it_is_called_again(running: Running) -> None:
    double = running(late(CORTEXDB.double()))
    items = [{**NOTE, "content": f"text {number}", "topic_key": f"k{number}"} for number in range(3)]
    again = asyncio.run(given_up(CORTEXDB, double, "unanswered", lambda m: m.mem_save_many("ana", items)))
    assert [(one.outcome, one.replayed) for one in again] == [("created", True)] * 3
    assert len(keys(double)) == 3


@SERVICES
def test_a_save_that_was_accepted_and_not_listed_in_time_is_one_event_when_it_is_called_again(
    service: Service, running: Running, remembering: Callable[..., Memory]
) -> None:
    double = running(late(service.double()))
    memory = remembering(service, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    double.knobs.listing_lag = 10_000
    with pytest.raises(Unavailable, match="was accepted and is kept"):
        memory.mem_save("ana", "text", **NOTE, topic_key="k")
    double.faults.add(
        "call_after", method="POST", path="experience", run=lambda: setattr(double.knobs, "listing_lag", 0)
    )
    again = memory.mem_save("ana", "text", **NOTE, topic_key="k")
    assert (again.replayed, again.revision_count) == (True, 1)
    assert len(keys(double)) == 1
