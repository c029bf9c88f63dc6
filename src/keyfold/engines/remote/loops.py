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
        # None in the place of a client: its loop is about to close, or did.
        self._held: dict[Where, tuple[Keeper, httpx2.AsyncClient | None]] = {}

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[httpx2.AsyncClient]:
        """The client of this loop. One that a loop asks for when it is ending is for one exchange only."""
        where = os.getpid(), asyncio.get_running_loop()
        if where not in self._held:
            self._drop_the_dead()
            keeper = self._keeper(where)
            self._held[where] = keeper, await anext(keeper)
        client = self._held[where][1]
        if client is not None:
            yield client
            return
        async with httpx2.AsyncClient(**self._options) as once:
            yield once

    async def _keeper(self, where: Where) -> Keeper:
        client = httpx2.AsyncClient(**self._options)
        try:
            yield client
        finally:
            self._held[where] = self._held[where][0], None
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
        for (process, loop), (keeper, client) in list(self._held.items()):
            if process != os.getpid() or client is None:
                continue
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                with suppress(RuntimeError):  # it has just ended, and closed its own
                    loop.call_soon_threadsafe(loop.create_task, keeper.aclose())
        self._drop_the_dead()
