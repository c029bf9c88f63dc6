"""The async face of an engine that is blocking by nature."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from keyfold.contract.intents import (
    Capabilities,
    Counts,
    FoundPage,
    Health,
    Intent,
    Page,
    Past,
    Query,
    Ref,
    SearchQuery,
    Selector,
)
from keyfold.contract.protocols import Engine
from keyfold.errors import Unavailable
from keyfold.model import DeleteResult, Reach, Receipt, Record

P = ParamSpec("P")
T = TypeVar("T")


class Threaded:
    """A blocking engine, awaited: its calls run one after the other on one worker thread.

    A task that is cancelled while it waits stops waiting. A call that had not begun is then never made; one
    that had is carried out to its end in the background, so nothing is left half done. The engine is closed
    by `close`, after what was asked for before.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="keyfold")
        self._closing: Future[None] | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    async def store(self, intent: Intent) -> Receipt:
        return await self._run(self._engine.store, intent)

    async def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        return await self._run(self._engine.store_many, intents)

    async def get(self, ref: Ref) -> Record | None:
        return await self._run(self._engine.get, ref)

    async def page(self, query: Query) -> Page:
        return await self._run(self._engine.page, query)

    async def search(self, query: SearchQuery) -> FoundPage:
        return await self._run(self._engine.search, query)

    async def forget(self, selector: Selector) -> DeleteResult:
        return await self._run(self._engine.forget, selector)

    async def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        return await self._run(self._engine.count, namespace, reach)

    async def namespaces(self, prefix: str = "") -> list[str]:
        return await self._run(self._engine.namespaces, prefix)

    async def history(self, ref: Ref) -> Past:
        return await self._run(self._engine.history, ref)

    async def health(self) -> Health:
        return await self._run(self._engine.health)

    async def close(self) -> None:
        if self._closing is None:
            self._closing = self._worker.submit(self._engine.close)
            self._worker.shutdown(wait=False)  # what was handed in still runs; then the thread ends
        # shielded: whoever stops waiting for the end must not call it off
        await asyncio.shield(asyncio.wrap_future(self._closing))

    async def _run(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._closing is not None:
            raise Unavailable("this store was closed; open it again")
        # the caller's context goes along, so that what traces and logs see is the task's
        context = copy_context()
        work = self._worker.submit(lambda: context.run(method, *args, **kwargs))
        return await asyncio.wrap_future(work)
