"""The server on this process's pipes, from opening the store to leaving nothing behind.

It ends when stdin does, when the process that started it is gone, when nobody reads stdout, or on a signal. However
it ends, it takes about two seconds at most: calls under way get a moment to finish and be answered, the store is
closed, and if anything still hangs then, the process exits all the same. A transaction that was cut off so rolls back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
from typing import Any, Final, NoReturn

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCMessage, JSONRPCRequest

from keyfold.errors import Unavailable
from keyfold.mcp_server.ending import Deadline, leave, log_to_stderr
from keyfold.mcp_server.pipes import LONGEST_LINE, Pipes, Reader, Writer
from keyfold.mcp_server.server import build_server
from keyfold.mcp_server.toolbox import Toolbox
from keyfold.mcp_server.wire import Refusal, read_message, reply_line, settled_by
from keyfold.memory import AsyncMemory

GRACE: Final = 1.0  # seconds for calls under way when the client has closed the pipe
FLUSH: Final = 0.3  # seconds for the last replies to be read
LIMIT: Final = 1.5  # seconds from the first sign of the end to the last
WATCH: Final = 1.0  # seconds between looks at the parent


def run(store: str | None, user: str, pipes: Pipes) -> NoReturn:
    """Serve until the client is gone, and exit. Raises what opening the store raises."""
    log_to_stderr()
    try:
        code = asyncio.run(_serve(store, user, pipes))
    except KeyboardInterrupt:  # where the loop takes no signals
        code = 128 + signal.SIGINT
    leave(code)


async def _serve(store: str | None, user: str, pipes: Pipes) -> int:
    async with AsyncMemory.open(store) as memory:
        await _probe(memory)
        connection = Connection(Toolbox(memory, user), pipes)
        await connection.serve()
    return connection.code


async def _probe(memory: AsyncMemory) -> None:
    """Fail at once where a service refuses the key or is none; a service that is away may come back."""
    if memory.core.capabilities.transactions:
        return  # the embedded store was opened, which says as much
    try:
        await memory.engine.health()
    except Unavailable as error:
        logging.getLogger("keyfold").warning("%s; calls will be tried all the same", error)


class Connection:
    """One client on two pipes."""

    def __init__(self, toolbox: Toolbox, pipes: Pipes) -> None:
        self.code = 0
        self._parent = pipes.parent
        self._server = build_server(toolbox)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()  # the client has said all it will say
        self._stopped = asyncio.Event()  # nobody waits for answers any more
        self._idle = asyncio.Event()  # every request has its answer
        self._idle.set()
        self._unanswered: set[Any] = set()  # the ids of requests
        self._inbox, self._messages = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        self._writer = Writer(pipes.sink, self._break)
        self._reader = Reader(pipes.source, self._take, self._end)
        self._deadline = Deadline(LIMIT)

    async def serve(self) -> None:
        """Answer until the end."""
        self._heed_signals()
        replies, outbox = anyio.create_memory_object_stream[SessionMessage](0)
        self._writer.start()
        self._reader.start()
        serving = asyncio.create_task(
            self._server.run(self._messages, replies, self._server.create_initialization_options())
        )
        sending = asyncio.create_task(self._send(outbox))
        watching = asyncio.create_task(self._watch())
        waiting = asyncio.create_task(self._wait())
        try:
            await asyncio.wait({serving, sending, waiting}, return_when=asyncio.FIRST_COMPLETED)
            self._deadline.start()
            self._inbox.close()  # the server's run ends with its inbox, and calls off what is still under way
            if self._stopped.is_set():
                serving.cancel()
            try:
                await serving
            except asyncio.CancelledError:
                pass
            except BaseExceptionGroup as over:
                # the SDK was handing a call on when its own streams went; anything else is a fault
                if over.split((anyio.BrokenResourceError, anyio.ClosedResourceError, asyncio.CancelledError))[
                    1
                ]:
                    raise
            await sending
        finally:
            for task in (serving, sending, watching, waiting):
                task.cancel()
            for stream in (self._inbox, self._messages, replies, outbox):
                stream.close()
            self._writer.finish(0 if self._stopped.is_set() else FLUSH)

    async def _wait(self) -> None:
        """Until the end of stdin, and a moment longer while calls are under way; or until there is no point."""
        stopped = asyncio.create_task(self._stopped.wait())
        for event, patience in ((self._ended, None), (self._idle, GRACE)):
            awaited = asyncio.create_task(event.wait())
            await asyncio.wait({awaited, stopped}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            awaited.cancel()
        stopped.cancel()

    async def _send(self, outbox: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for reply in outbox:
            self._writer.put(reply_line(reply.message))
            self._settle(reply.message)

    def _settle(self, message: JSONRPCMessage) -> None:
        ended = settled_by(message)
        if isinstance(ended, (str, int)):
            self._unanswered.discard(ended)
            if not self._unanswered:
                self._idle.set()

    async def _watch(self) -> None:
        """A client that was killed leaves stdin open if a process in between holds it, but not its place as parent."""
        while os.getppid() == self._parent:  # noqa: ASYNC110  # nothing tells of it
            await asyncio.sleep(WATCH)
        self._stop(0)

    def _take(self, line: bytes | None) -> None:
        """A line from the reading thread."""
        if line is None:
            problem = f"a line of more than {LONGEST_LINE:,} bytes was passed over; send less at once"
            found: SessionMessage | Refusal | None = Refusal(INVALID_REQUEST, problem)
        else:
            found = read_message(line)
        if isinstance(found, Refusal):
            self._writer.put(found.line())
        elif found is not None:
            self._loop.call_soon_threadsafe(self._deliver, found)

    def _deliver(self, message: SessionMessage) -> None:
        if self._stopped.is_set():
            return
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it is over
            self._inbox.send_nowait(message)
            if isinstance(message.message, JSONRPCRequest):
                self._unanswered.add(message.message.id)
                self._idle.clear()
            self._settle(message.message)  # a call that is called off gets no answer

    def _end(self) -> None:
        """The end of stdin, on the reading thread."""
        self._deadline.start()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended.set)

    def _break(self) -> None:
        """The end of stdout, on the writing thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop, 0)

    def _stop(self, code: int) -> None:
        self.code = self.code or code
        self._deadline.start(code)
        self._stopped.set()

    def _heed_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows has no such loop
                self._loop.add_signal_handler(number, self._stop, 128 + number)
                # The loop gets to that when it has done what is ready, which a long queue makes much of. The time
                # that is left counts from the signal.
                signal.signal(number, lambda number, _: self._deadline.start(128 + number))
                signal.siginterrupt(number, False)
