"""The order of calls: as if each were carried out when those that came before it are done.

A model may send a save and, before it is answered, the next save of the same topic or a read of it. Each takes several
steps on the store, so without an order the later one may well be there first, and what counts is the older text.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Calls take turns in the order in which they ask. Reads that follow each other have theirs together."""

    def __init__(self) -> None:
        self._line: deque[tuple[bool, asyncio.Future[None]]] = deque()
        self._reading = 0
        self._writing = False

    @asynccontextmanager
    async def turn(self, *, reads: bool) -> AsyncIterator[None]:
        """Wait for what came before, and keep what comes after waiting (a read: the writes). The place in the line
        is taken at once, before anything is awaited."""
        await self._wait(reads)
        try:
            yield
        finally:
            self._leave(reads)

    async def _wait(self, reads: bool) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._line.append((reads, mine))
        self._admit()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.cancelled():
                self._admit()  # those behind may have waited for this one alone
            else:
                self._leave(reads)  # its turn had come already
            raise

    def _leave(self, reads: bool) -> None:
        if reads:
            self._reading -= 1
        else:
            self._writing = False
        self._admit()

    def _admit(self) -> None:
        """Let those at the head of the line in, as far as that goes. Who was called off stays until it is passed."""
        while self._line and not self._writing:
            reads, waiting = self._line[0]
            if not waiting.done():
                if self._reading and not reads:
                    return
                if reads:
                    self._reading += 1
                else:
                    self._writing = True
                waiting.set_result(None)
            self._line.popleft()
