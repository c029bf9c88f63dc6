"""An AsyncMemory on a service is used from one event loop after another, and from several at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import unittest
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from keyfold import AsyncMemory
from keyfold.dialects.wire import Http
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.transport import AwaitedTransport, BlockingTransport
from keyfold.errors import Unavailable
from tests.doubles.serving import Double
from tests.remote.common import KEY, MEM0_OSS, SERVICES, Service

Running = Callable[[Any], Any]

READ = Http("GET", "/memories", (("user_id", "u"), ("top_k", "1")), reads=True)


@pytest.fixture(params=SERVICES, ids=lambda service: service.name)
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.param
    return found


@pytest.fixture
def double(service: Service, running: Running) -> Double:
    found: Double = running(service.double())
    return found


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    """A socket or a loop that is left open says so when it is collected, and a warning is an error here."""
    yield
    gc.collect()


async def opened(service: Service, double: Double) -> AsyncMemory:
    return await service.async_memory(double)


async def saved(memory: AsyncMemory, text: str) -> str:
    done = await memory.mem_save("ana", text, type="decision", title="T", topic_key="k")
    return done.outcome


async def logged(memory: AsyncMemory, index: int) -> str:
    done = await memory.mem_log_turn("ana", thread_id="t", index=index, role="user", text=f"turn {index}")
    return done.outcome


def test_each_asyncio_run_reads_and_writes_as_the_first_one_does(service: Service, double: Double) -> None:
    memory = asyncio.run(opened(service, double))
    saves = [asyncio.run(saved(memory, text)) for text in ("one", "two", "three")]
    turns = [asyncio.run(logged(memory, index)) for index in range(3)]
    asyncio.run(memory.close())
    assert saves == ["created", "updated", "updated"]
    assert turns == ["created"] * 3


def test_a_loop_for_each_test_as_test_runners_make_it_is_closed_with_nothing_open(running: Running) -> None:
    double = running(MEM0_OSS.double())
    memory = asyncio.run(opened(MEM0_OSS, double))
    outcomes: list[str] = []

    class Cases(unittest.IsolatedAsyncioTestCase):
        async def test_one(self) -> None:
            outcomes.append(await saved(memory, "one"))

        async def test_two(self) -> None:
            outcomes.append(await saved(memory, "two"))

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Cases).run(result)
    assert (result.errors, result.failures, outcomes) == ([], [], ["created", "updated"])
    asyncio.run(memory.close())


def test_loops_of_several_threads_share_a_memory_at_once(running: Running) -> None:
    double = running(MEM0_OSS.double())
    memory = asyncio.run(opened(MEM0_OSS, double))
    outcomes: list[str] = []
    together = threading.Barrier(4)

    async def work(number: int) -> None:
        for index in range(5):
            done = await memory.mem_save(
                "ana", f"{index}", type="decision", title="T", topic_key=f"k{number}"
            )
            outcomes.append(done.outcome)

    def loop(number: int) -> None:
        together.wait()
        asyncio.run(work(number))

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(memory.close())
    assert sorted(outcomes) == ["created"] * 4 + ["updated"] * 16


def test_a_connection_is_kept_within_a_loop_and_the_clients_of_loops_that_ended_are_dropped(
    running: Running,
) -> None:
    double = running(MEM0_OSS.double())
    transport = AwaitedTransport(endpoint(MEM0_OSS.url(double), scheme="http"), lambda: {"x-api-key": KEY})

    async def ask() -> None:
        await transport.perform(READ)
        await transport.perform(READ)

    for _ in range(5):
        asyncio.run(ask())
    assert len(transport._clients._held) == 1  # of the last one, until there is another
    asyncio.run(transport.close())
    assert transport._clients._held == {}


def test_a_loop_that_is_closed_without_ceremony_is_followed_by_one_that_works(running: Running) -> None:
    double = running(MEM0_OSS.double())
    memory = asyncio.run(opened(MEM0_OSS, double))
    for text, outcome in (("one", "created"), ("two", "updated"), ("three", "updated")):
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(saved(memory, text)) == outcome
        loop.close()
    asyncio.run(memory.close())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # what such a loop leaves open is told by asyncio
        gc.collect()


def test_closing_from_another_loop_closes_what_a_running_one_has(running: Running) -> None:
    double = running(MEM0_OSS.double())
    memory = asyncio.run(opened(MEM0_OSS, double))
    ready, over = threading.Event(), threading.Event()
    said: list[str] = []

    async def elsewhere() -> None:
        await saved(memory, "one")
        ready.set()
        await asyncio.to_thread(over.wait)
        try:
            await saved(memory, "two")
        except Unavailable as error:
            said.append(str(error))

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    ready.wait()
    asyncio.run(memory.close())
    over.set()
    thread.join()
    assert said == ["this store was closed; open it again"]


def test_a_store_that_several_loops_close_at_once_is_closed_once_and_nothing_is_logged(
    service: Service, double: Double, caplog: pytest.LogCaptureFixture
) -> None:
    memory = asyncio.run(opened(service, double))
    ready, together = threading.Event(), threading.Barrier(5)
    closed: list[bool] = []

    async def elsewhere() -> None:
        await saved(memory, "one")
        ready.set()
        await asyncio.to_thread(over.wait)
        await memory.close()

    async def close() -> None:
        together.wait()
        await memory.close()
        closed.append(True)

    over = threading.Event()
    user = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    user.start()
    ready.wait()
    threads = [threading.Thread(target=lambda: asyncio.run(close())) for _ in range(4)]
    for thread in threads:
        thread.start()
    together.wait()
    for thread in threads:
        thread.join()
    over.set()
    user.join()
    gc.collect()  # a task whose error nobody asked for tells it when it is collected
    assert closed == [True] * 4
    assert [record.getMessage() for record in caplog.records] == []


def test_an_exchange_is_made_even_while_its_loop_ends(running: Running) -> None:
    """A generator that nobody finished is finished as the last of a loop, when its client is closed already."""
    double = running(MEM0_OSS.double())
    transport = AwaitedTransport(endpoint(MEM0_OSS.url(double), scheme="http"), lambda: {"x-api-key": KEY})
    statuses: list[int] = []

    async def unfinished() -> AsyncIterator[None]:
        try:
            statuses.append((await transport.perform(READ)).status)
            yield
        finally:
            while any(client for _, client in transport._clients._held.values()):  # noqa: ASYNC110
                await asyncio.sleep(0)
            statuses.append((await transport.perform(READ)).status)

    held = unfinished()

    async def run() -> None:
        await anext(held)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # asyncio's, of generators that begin so late
        asyncio.run(run())
    assert statuses == [200, 200]
    asyncio.run(transport.close())


@pytest.mark.parametrize("awaited", [False, True])
def test_no_bare_runtime_error_leaves_an_exchange(
    awaited: bool, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = running(MEM0_OSS.double())
    where = endpoint(MEM0_OSS.url(double), scheme="http")
    transport: Any = (AwaitedTransport if awaited else BlockingTransport)(where, dict)

    def gone(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Event loop is closed")

    monkeypatch.setattr(f"httpx2.{'AsyncClient' if awaited else 'Client'}.send", gone)

    async def both() -> None:
        try:
            await transport.perform(READ)
        finally:
            await transport.close()

    with pytest.raises(Unavailable, match="could not be asked: Event loop is closed; call again"):
        asyncio.run(both()) if awaited else transport.perform(READ)
    if not awaited:
        transport.close()
