"""A blocking engine, awaited: one worker thread, in order, and nothing torn by a cancelled task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextvars import ContextVar

import pytest

from keyfold.contract.intents import Intent, Query, Ref
from keyfold.contract.protocols import AsyncEngine
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import Unavailable
from keyfold.faces import Threaded
from keyfold.model import Receipt

TASK: ContextVar[str] = ContextVar("TASK", default="none")


def intent(key: str, content: str = "text") -> Intent:
    return Intent("alice", key=key, type="decision", title="Title", content=content, normalized_hash=content)


class Slow(InMemoryEngine):
    """Waits in each write until it is let go, and remembers where it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.go = threading.Event()
        self.threads: set[str] = set()
        self.tasks: list[str] = []

    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        self.threads.add(threading.current_thread().name)
        self.tasks.append(TASK.get())
        self.begun.set()
        assert self.go.wait(10)
        return super().store_many(intents)


def test_it_is_an_async_engine_with_the_capabilities_of_its_own() -> None:
    async def main() -> None:
        engine = Threaded(InMemoryEngine())
        assert isinstance(engine, AsyncEngine)
        assert engine.capabilities.engine == "inmemory"
        await engine.close()

    asyncio.run(main())


def test_the_loop_goes_on_while_an_engine_works_and_calls_keep_their_order() -> None:
    async def main() -> None:
        slow = Slow()
        engine = Threaded(slow)
        writes = [asyncio.create_task(engine.store(intent(f"k{n}"))) for n in range(5)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in writes)
        slow.go.set()
        receipts = await asyncio.gather(*writes)
        assert [receipt.id for receipt in receipts] == ["1", "2", "3", "4", "5"]
        assert len(slow.threads) == 1
        assert threading.current_thread().name not in slow.threads
        await engine.close()

    asyncio.run(main())


def test_a_cancelled_task_tears_nothing_and_what_had_not_begun_is_never_done() -> None:
    async def main() -> None:
        slow = Slow()
        engine = Threaded(slow)
        begun = asyncio.create_task(engine.store(intent("begun")))
        waiting = asyncio.create_task(engine.store(intent("waiting")))
        await asyncio.to_thread(slow.begun.wait, 10)
        begun.cancel()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        with pytest.raises(asyncio.CancelledError):
            await waiting
        slow.go.set()
        assert await engine.get(Ref("alice", key="begun")) is not None
        assert await engine.get(Ref("alice", key="waiting")) is None
        assert (await engine.store(intent("after"))).outcome == "created"
        await engine.close()

    asyncio.run(main())


def test_closing_waits_for_what_was_asked_before_and_refuses_what_comes_after() -> None:
    async def main() -> None:
        slow = Slow()
        engine = Threaded(slow)
        write = asyncio.create_task(engine.store(intent("k")))
        await asyncio.sleep(0)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await engine.page(Query("alice"))
        slow.go.set()
        assert (await write).outcome == "created"
        await closing
        await engine.close()
        with pytest.raises(Unavailable):
            slow.get(Ref("alice", key="k"))

    asyncio.run(main())


def test_a_cancelled_closing_closes_all_the_same() -> None:
    async def main() -> None:
        slow = Slow()
        engine = Threaded(slow)
        write = asyncio.create_task(engine.store(intent("k")))
        await asyncio.to_thread(slow.begun.wait, 10)
        closing = asyncio.create_task(engine.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        slow.go.set()
        await write
        await engine.close()
        with pytest.raises(Unavailable):
            slow.health()

    asyncio.run(main())


def test_the_worker_thread_ends_with_the_engine() -> None:
    engine = Threaded(InMemoryEngine())  # kept, so that it is not the garbage collector that ends the thread

    async def main() -> None:
        await engine.health()
        assert any(thread.name.startswith("keyfold") for thread in threading.enumerate())
        await engine.close()

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name.startswith("keyfold"):
            thread.join(5)
    assert not any(thread.name.startswith("keyfold") for thread in threading.enumerate())


def test_an_engine_sees_the_context_of_the_task_that_calls_it() -> None:
    async def main() -> None:
        slow = Slow()
        slow.go.set()
        engine = Threaded(slow)
        TASK.set("mine")
        await engine.store(intent("k"))
        assert slow.tasks == ["mine"]
        await engine.close()

    asyncio.run(main())
