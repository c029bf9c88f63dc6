"""The clients of an awaited transport: one for each event loop that it is called from, closed when that loop ends.

A connection belongs to the loop that opened it, and a program may have several: one `asyncio.run` after another, a
loop for each test, a loop in each of some threads. Nothing tells that a loop ends but this: before it closes one,
`asyncio.run` (as asyncio.Runner and what is built on them) ends the asynchronous generators that were begun in it.
So a client is kept by one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from keyfold.engines.remote.client import httpx2

Keeper = AsyncGenerator[httpx2.AsyncClient, None]
Where = tuple[int, asyncio.AbstractEventLoop]


class LoopClients:
    """Lends the client of the loop that it is asked from. A forked process has clients of its own."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        # The list holds the client, until somebody takes it out to close it: its loop as it ends, or the first of those
        # who close the store. Of several threads at once, one gets it.
        self._held: dict[Where, tuple[Keeper, list[httpx2.AsyncClient]]] = {}

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[httpx2.AsyncClient]:
        """The client of this loop. One that a loop asks for when it is ending is for one exchange only."""
        where = os.getpid(), asyncio.get_running_loop()
        if where not in self._held:
            self._drop_the_dead()
            kept: list[httpx2.AsyncClient] = []
            keeper = self._keeper(kept)
            kept.append(await anext(keeper))
            self._held[where] = keeper, kept
        for client in self._held[where][1]:
            yield client
            return
        async with httpx2.AsyncClient(**self._options) as once:
            yield once

    async def _keeper(self, kept: list[httpx2.AsyncClient]) -> Keeper:
        client = httpx2.AsyncClient(**self._options)
        try:
            yield client
        finally:
            kept.clear()
            await client.aclose()

    def _drop_the_dead(self) -> None:
        """Let go of what closed loops had. One that was closed without ceremony left its sockets to the collector."""
        mine = os.getpid()
        for process, loop in list(self._held):
            if process == mine and loop.is_closed():
                self._held.pop((process, loop), None)

    async def close(self) -> None:
        """Close the client of this loop; those of loops that run in other threads are closed there."""
        here = asyncio.get_running_loop()
        for (process, loop), (keeper, kept) in list(self._held.items()):
            if process != os.getpid() or not (loop is here or loop.is_running()):
                continue
            try:
                kept.pop()
            except IndexError:  # it is closed, or about to be: twice at once a generator cannot be
                continue
            if loop is here:
                await keeper.aclose()
            else:
                with suppress(RuntimeError):  # it has just ended, and closed its own
                    loop.call_soon_threadsafe(loop.create_task, keeper.aclose())
        self._drop_the_dead()
