"""A batch on a service, which has no transactions: one rule everywhere, in order, and what is before a fault stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.dialects.wire import Together, Wait
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.transport import AwaitedTransport, BlockingTransport
from keyfold.errors import Conflict, OutcomeUnknown, StoreError
from keyfold.flow import Plan
from tests.remote.common import CORTEXDB, MEM0_OSS, SERVICES, Service

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
CHANGES = ("POST", "PUT", "PATCH", "DELETE")

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")


def item(key: str, content: str, **more: Any) -> dict[str, Any]:
    return {"content": content, "type": "decision", "title": "T", "topic_key": key, **more}


def held(memory: Memory) -> dict[str | None, tuple[str, int]]:
    return {record.topic_key: (record.content, record.revision_count) for record in memory.mem_list("ana")}


@EACH
@pytest.mark.parametrize("fault", range(5))
def test_what_comes_before_a_refused_item_stays_and_nothing_after_it_is_written(
    service: Service, fault: int, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save_many("ana", [item("a", "a1"), item("b", "b1")])
    batch = [item("n1", "new"), item("a", "a2"), item("n2", "new"), item("b", "b2")]
    batch.insert(fault, item("a", "refused", expect_revision=9))
    with pytest.raises(Conflict):
        memory.mem_save_many("ana", batch)
    written = {"n1": ("new", 1), "a": ("a2", 2), "n2": ("new", 1), "b": ("b2", 2)}
    before = dict(list(written.items())[:fault])
    assert held(remembering(service, double)) == {"a": ("a1", 1), "b": ("b1", 1), **before}
    del batch[fault]
    again = memory.mem_save_many("ana", batch)
    assert [receipt.replayed for receipt in again] == [True] * fault + [False] * (4 - fault)


@EACH
def test_a_rewrite_of_a_batch_comes_after_the_new_ones_before_it(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save_many("ana", [item("a", "before it")])
    double.reset_counts()
    memory.mem_save_many("ana", [item("n1", "the-new-one"), item("a", "the-old-one")])
    sent = b"".join(seen.body for seen in double.recent if seen.method in CHANGES)
    assert 0 <= sent.index(b"the-new-one") < sent.index(b"the-old-one")


@pytest.mark.parametrize("service", [MEM0_OSS, CORTEXDB], ids=lambda service: service.name)
def test_new_ones_whose_write_was_lost_are_not_sent_again_by_the_batch_itself(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save_many("ana", [item("a", "a1")])
    path = "/memories" if service is MEM0_OSS else "experience"
    double.faults.add("apply_then_drop", method="POST", path=path, times=3)
    batch = [item("n1", "new"), item("a", "a2", expect_revision=9)]
    with pytest.raises(OutcomeUnknown):
        memory.mem_save_many("ana", batch)
    double.faults.clear()
    assert held(remembering(service, double)) == {"n1": ("new", 1), "a": ("a1", 1)}


def test_of_requests_side_by_side_those_before_one_that_fails_are_finished(running: Running) -> None:
    double = running(MEM0_OSS.double())
    done: list[int] = []

    def slow(number: int) -> Plan[None]:
        yield Wait(0.02)
        done.append(number)

    def failing() -> Plan[None]:
        yield Wait(0)
        raise StoreError("full")

    def request() -> Together:
        return Together([slow(1), slow(2), failing()])

    where = endpoint(double.url.replace("http://", "mem0+http://"), scheme="http")
    with pytest.raises(StoreError):
        BlockingTransport(where, dict).perform(request())

    async def awaited() -> None:
        transport = AwaitedTransport(where, dict)
        try:
            await transport.perform(request())
        finally:
            await transport.close()

    with pytest.raises(StoreError):
        asyncio.run(awaited())
    assert sorted(done) == [1, 1, 2, 2]
