"""What every double shares: a real socket, a record of each request, and faults to strike with.

A double is a subclass of `Double` with the routes of its service:

    with served(Mem0Oss(key="k")) as url:
        ...

or, in a test, `double = running(Mem0Oss(key="k"))` and `double.url`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar

import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tests.doubles.faults import ANSWERED_TRULY, CARRIED_OUT, Fault, Faults, Seen

MIB = 1 << 20
SIGN_IN_PAGE = "<!doctype html><html><title>Sign in</title><body>Please sign in.</body></html>"


class Double:
    """A service in a box. Handlers are coroutines, so what one does between awaits is atomic."""

    #: The body of a 429, as the service words it; a fault may bring another one.
    rate_limited: ClassVar[Any] = {"detail": "Too many requests"}

    def __init__(self, *, key: str = "secret") -> None:
        self.key = key
        self.url = ""
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.lock = threading.RLock()  # for state that a test looks at while the double runs
        self.faults = Faults()
        self.seen: list[Seen] = []
        self.broken: list[BaseException] = []  # faults of the double itself: they fail the test
        self._counted_from = 0
        self._inner = self.app()

    def app(self) -> ASGIApp:
        """The service itself. By default `routes()` without redirects to and from a trailing slash."""
        app = Starlette(routes=self.routes())
        app.router.redirect_slashes = False
        return app

    def routes(self) -> Sequence[BaseRoute]:
        raise NotImplementedError

    @property
    def recent(self) -> list[Seen]:
        """The requests since `reset_counts()`."""
        return self.seen[self._counted_from :]

    @property
    def count(self) -> int:
        return len(self.seen) - self._counted_from

    def reset_counts(self) -> None:
        self._counted_from = len(self.seen)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        seen = await _read(scope, receive)
        self.seen.append(seen)
        try:
            await self._answer(self.faults.take(seen), seen, scope, receive, send)
        except Exception as fault:
            self.broken.append(fault)
            raise

    async def _answer(
        self, fault: Fault | None, seen: Seen, scope: Scope, hangup: Receive, send: Send
    ) -> None:
        kind, how = (fault.kind, fault.how) if fault else ("", {})
        answer: list[Message] = []
        if kind == "call_before":
            await asyncio.to_thread(how["run"])
        if kind in CARRIED_OUT:
            answer = await self._carry_out(seen, scope)
        if kind in {"call_after", "stall", "apply_then_stall"} and "run" in how:
            await asyncio.to_thread(how["run"])
        if kind == "truncate":
            answer = _cut(answer)
        if kind in ANSWERED_TRULY:
            for message in answer:
                await send(message)
        elif kind.endswith("stall"):
            await _until_gone(hangup)
        elif kind.endswith("drop"):
            # ASGI has no word for this, so it is done to uvicorn's own connection.
            send.__self__.transport.abort()  # type: ignore[attr-defined]
            await _until_gone(hangup)
        elif kind == "huge":
            await _flood(send, how.get("size", 65 * MIB))
        else:
            await self._other_answer(kind, how)(scope, hangup, send)

    def _other_answer(self, kind: str, how: dict[str, Any]) -> Response:
        headers = dict(how.get("headers", {}))
        if kind == "content_type":
            return HTMLResponse(how.get("body", SIGN_IN_PAGE), how.get("code", 200), headers)
        if kind == "rate_limit":
            headers = {"Retry-After": str(how.get("after", 1))} | headers
            return JSONResponse(how.get("body", self.rate_limited), 429, headers)
        body = how.get("body", {"detail": "Service Unavailable"})
        make = Response if isinstance(body, str | bytes) else JSONResponse
        return make(body, how.get("code", 503), headers)

    async def _carry_out(self, seen: Seen, scope: Scope) -> list[Message]:
        """What the service answers, held back, so that a fault can come between it and the client."""
        answer: list[Message] = []
        requests: list[Message] = [{"type": "http.request", "body": seen.body, "more_body": False}]

        async def receive() -> Message:
            return requests.pop() if requests else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            answer.append(message)

        await self._inner(scope, receive, send)
        return answer


async def _read(scope: Scope, receive: Receive) -> Seen:
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    return Seen(scope["method"], path, query, headers, bytes(body))


def _cut(answer: list[Message]) -> list[Message]:
    whole = b"".join(message.get("body", b"") for message in answer[1:])
    half = whole[: len(whole) // 2]
    headers = [(name, value) for name, value in answer[0]["headers"] if name != b"content-length"]
    headers.append((b"content-length", str(len(half)).encode()))
    return [{**answer[0], "headers": headers}, {"type": "http.response.body", "body": half}]


async def _until_gone(hangup: Receive) -> None:
    while (await hangup())["type"] != "http.disconnect":
        pass


async def _flood(send: Send, size: int) -> None:
    # Without a length: who relies on the header to refuse a big answer reads it all.
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    chunk = b'"memory",' * (MIB // 9)
    await send({"type": "http.response.body", "body": b"[" + chunk, "more_body": True})
    for _ in range(size // len(chunk)):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b'"end"]'})


class _Running:
    """A double on its socket, on a thread with a loop of its own.

    Not `uvicorn.Server.run`: that looks for its end ten times a second and then waits another tenth, which the
    hundreds of tests on doubles would spend most of their time in.
    """

    def __init__(self, double: Double, port: int) -> None:
        self.double = double
        # From here on clients can connect, and wait.
        self.listener = socket.create_server(("127.0.0.1", port))
        # asyncio sets this only for sockets that name their protocol; without it each answer takes 40 ms.
        self.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        double.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.state = ServerState()
        self.config = uvicorn.Config(
            double, http=H11Protocol, ws="none", lifespan="off", log_config=None, log_level="critical"
        )
        self.loop = asyncio.new_event_loop()
        self.stop = asyncio.Event()
        self.thread = threading.Thread(target=self._run, name=f"double {double.url}", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        except BaseException as fault:  # noqa: BLE001 - it is raised where the test can see it
            self.double.broken.append(fault)
        finally:
            self.listener.close()
            self.loop.close()

    async def _serve(self) -> None:
        self.config.load()
        server = await self.loop.create_server(self._connection, sock=self.listener)
        await self.stop.wait()
        # First no more are let in: of a server that is closed, asyncio drops those half-way in, with a warning.
        self.loop.remove_reader(self.listener.fileno())
        while self.state.connections or len(asyncio.all_tasks()) > 1:
            for connection in list(self.state.connections):
                connection.transport.abort()
            await asyncio.sleep(0 if self.state.connections else 0.001)
        server.close()

    def _connection(self) -> H11Protocol:
        return H11Protocol(self.config, self.state, app_state={}, _loop=self.loop)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()
        if self.double.broken:
            raise self.double.broken[0]


@contextmanager
def served(double: Double, port: int = 0) -> Iterator[str]:
    """Serve the double until the block is left; a fault of the double's own is raised there."""
    running = _Running(double, port)
    try:
        yield double.url
    finally:
        running.close()
