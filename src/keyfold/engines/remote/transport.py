"""The one place where requests meet sockets: httpx2, blocking and async, under the same plans.

What a status means is decided in the plans (keyfold.dialects.wire). Here an exchange either gets an answer, whole
and at most 64 MiB of it, or ends in an error that says which host, what failed, and whether anything was sent.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import monotonic
from typing import Any, Final

from keyfold.dialects.wire import Answer, Closed, Http, NotSent, Together, TooLarge, Wait
from keyfold.engines.remote.client import httpx2
from keyfold.engines.remote.endpoint import Endpoint
from keyfold.engines.remote.loops import LoopClients
from keyfold.errors import InvalidRequest, StoreError, Unavailable
from keyfold.flow import Plan, adrive, drive

LARGEST: Final = 64 * 1024 * 1024  # bytes of a response that are read
TIMEOUT: Final = 60.0  # seconds for an answer
CONNECT: Final = 10.0  # seconds for a connection
PATIENCE: Final = 4  # times the time-out, after which an answer that still drips in is given up
LEAST_SECRET: Final = 6  # characters; a shorter key is none, and would be taken out of the middle of words
SHORTEST: Final = 0.001  # seconds that a read waits when the time is up: none at all would mean for ever

Headers = Callable[[], dict[str, str]]


class _Client:
    """What both transports share: how a request looks, and what an error means."""

    def __init__(self, endpoint: Endpoint, headers: Headers, timeout: float, keyless: str) -> None:
        self._endpoint = endpoint
        self._keyless = keyless
        self._headers = headers
        self._timeout = timeout
        self._closed = False
        self._noticing = threading.Lock()
        self._last: int | None = None  # a hash of the headers with the key, as they were last
        self._changes = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._endpoint.host}>"

    def _options(self) -> dict[str, Any]:
        # A redirect would carry the key to another host: it is not followed.
        options: dict[str, Any] = {
            "timeout": httpx2.Timeout(self._timeout, connect=CONNECT),
            "follow_redirects": False,
            # Who asks is told by the key alone: a cookie would still name whom an earlier key named.
            "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        }
        if self._endpoint.origin.startswith("http://"):
            options["verify"] = False  # no TLS is spoken: loading the certificates would take 40 ms and more
            # A proxy that the environment names would read what is meant for this machine.
            options["trust_env"] = False
        return options

    def _secrets(self) -> dict[str, str]:
        """The headers that carry the credential. Asked for each exchange, as a key may be renewed."""
        return self._noticed()[0]

    def key_number(self) -> int:
        """Looks at the key again, and counts: it is another number than before when the key is another one."""
        return self._noticed()[1]

    def _noticed(self) -> tuple[dict[str, str], int]:
        if self._closed:
            raise Closed("this store was closed; open it again")
        secrets = self._headers()
        mark = hash(frozenset(secrets.items()))
        with self._noticing:
            self._changes += self._last not in (mark, None)
            self._last = mark
            return secrets, self._changes

    def _built(self, request: Http, secrets: dict[str, str]) -> dict[str, Any]:
        # Of one encoding a piece that is read unfolds a thousand times at most; of two, a million times.
        headers = {"accept-encoding": "gzip", **secrets, **dict(request.headers)}
        built: dict[str, Any] = {
            "method": request.method,
            "url": self._endpoint.origin + self._endpoint.prefix + request.path,
            "headers": headers,
        }
        if request.query:
            built["params"] = list(request.query)
        if request.json is not None:
            built["json"] = request.json
        if request.parts:
            built["files"] = [(part.field, (part.name, part.content, part.mime)) for part in request.parts]
        if request.form:
            built["data"] = _fields(request.form)
        if request.timeout is not None:
            built["timeout"] = httpx2.Timeout(request.timeout, connect=CONNECT)
        return built

    def _answer(self, request: Http, response: httpx2.Response, body: bytes, sent: dict[str, str]) -> Answer:
        headers = {name.lower(): value for name, value in response.headers.items()}
        secrets = tuple(
            key for key in (value.split(" ")[-1] for value in sent.values()) if len(key) >= LEAST_SECRET
        )
        keyless = "" if sent else self._keyless
        host, wrote = self._endpoint.host, not request.reads
        return Answer(response.status_code, headers, body, host, keyless, wrote, secrets, request)

    def _patience(self, request: Http) -> float:
        return PATIENCE * (request.timeout or self._timeout)

    def _check_encoding(self, request: Http, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "").strip().lower() not in ("", "identity", "gzip"):
            what = f"{self._endpoint.host} packed its answer in a way that was not asked for"
            raise StoreError(what) if request.reads else Unavailable(what)

    def _check_size(self, request: Http, body: bytearray) -> None:
        if len(body) > LARGEST:
            what = f"{self._endpoint.host} answered with more than {LARGEST >> 20} MiB, which is not read"
            raise TooLarge(f"{what}: ask for less at once") if request.reads else Unavailable(what)

    def _too_slow(self, request: Http) -> Unavailable:
        return Unavailable(
            f"{self._endpoint.host} was still answering after {self._patience(request):.0f} s and was given up"
        )

    def _closed_by_another(self, begun: bool, error: RuntimeError) -> Unavailable:
        if not self._closed:  # how httpx2 and asyncio say that what they are to work with has ended
            return Unavailable(f"{self._endpoint.host} could not be asked: {error}; call again")
        if begun:
            return Unavailable("this store was closed while it was being answered; open it again")
        return Closed("this store was closed; open it again")

    def _failed(self, request: Http, error: httpx2.HTTPError | httpx2.InvalidURL) -> Exception:
        """The error of ours that an error of httpx2 stands for."""
        host = self._endpoint.host
        if isinstance(error, httpx2.ConnectTimeout):
            return NotSent(f"{host} did not accept a connection within {CONNECT:.0f} s: check host and port")
        if isinstance(error, (httpx2.ConnectError, httpx2.PoolTimeout)):
            return NotSent(f"{host} {_cause(error)}")
        if isinstance(error, httpx2.TimeoutException):
            return Unavailable(
                f"{host} gave no answer within {self._timeout:g} s: call again, or raise the timeout"
            )
        if isinstance(error, (httpx2.UnsupportedProtocol, httpx2.InvalidURL)):
            return InvalidRequest("store", f"{host} is not an address that can be asked")
        if isinstance(error, httpx2.DecodingError):
            what = f"{host} sent a body that its content encoding does not fit"
            return StoreError(what) if request.reads else Unavailable(what)
        return Unavailable(f"{host} broke the connection off before it answered: call again")


def _bare(error: BaseException) -> BaseException:
    """An error without the frames that it came through and the errors behind it: their variables hold the key, and
    there are tools that show or send a traceback's variables."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _fields(form: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    fields: dict[str, list[str]] = {}
    for name, value in form:
        fields.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _cause(error: BaseException) -> str:
    """Why a connection could not be made, in a user's words: the cause lies somewhere down the chain."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "is not a host that can be found (DNS): check its name and your network"
        if isinstance(cause, ssl.SSLError):
            return "offers no TLS connection that can be trusted: check the host name and its certificate"
        if isinstance(cause, ConnectionRefusedError):
            return "refused the connection: is the server running, and is the port right?"
        cause = cause.__cause__ or cause.__context__
    text = str(error).lower()
    if "name or service" in text or "getaddrinfo" in text or "nodename" in text:
        return "is not a host that can be found (DNS): check its name and your network"
    if "certificate" in text or "ssl" in text or "tls" in text:
        return "offers no TLS connection that can be trusted: check the host name and its certificate"
    if "refused" in text or "all connection attempts failed" in text:
        return "refused the connection: is the server running, and is the port right?"
    return "could not be connected to: check host, port and network"


class _Deadline(threading.local):
    """Until when the exchange of this thread may take. A stream's time-out is for each read, so that an answer
    that drips in would never end; the streams that a client opens are told this one."""

    until = math.inf

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """httpx2's hook. It hands over each stream as it is opened, for TLS a second one."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            stream = info["return_value"]
            stream.read = self._limited(stream.read)

    def _limited(self, read: Callable[..., bytes]) -> Callable[..., bytes]:
        def limited(most: int, timeout: float | None = None) -> bytes:
            left = max(SHORTEST, self.until - monotonic())
            return read(most, left if timeout is None else min(timeout, left))

        return limited


class BlockingTransport(_Client):
    """Carries out what plans yield, blocking. Safe to use from several threads."""

    def __init__(
        self, endpoint: Endpoint, headers: Headers, timeout: float = TIMEOUT, keyless: str = ""
    ) -> None:
        super().__init__(endpoint, headers, timeout, keyless)
        self._clients = {os.getpid(): httpx2.Client(**self._options())}
        self._deadline = _Deadline()

    def perform(self, request: Any) -> Any:
        """Carry out an Http, a Wait or a Together."""
        if isinstance(request, Http):
            return self._exchange(request)
        if isinstance(request, Wait):
            time.sleep(request.seconds)
            return None
        assert isinstance(request, Together)
        return self._together(request)

    def close(self) -> None:
        self._closed = True
        if (mine := self._clients.get(os.getpid())) is not None:
            mine.close()

    def _client(self) -> httpx2.Client:
        # A fork's child has the parent's sockets, and its answers: it opens its own, and leaves those alone.
        found = self._clients.get(os.getpid())
        return found or self._clients.setdefault(os.getpid(), httpx2.Client(**self._options()))

    def _exchange(self, request: Http) -> Answer:
        secrets = self._secrets()
        try:
            return self._tried(request, secrets)
        except BaseException as error:  # noqa: BLE001 - it is raised below
            fault = _bare(error)
        del secrets
        raise fault

    def _tried(self, request: Http, secrets: dict[str, str]) -> Answer:
        built = self._built(request, secrets)
        self._deadline.until = until = monotonic() + self._patience(request)
        begun = False
        try:
            with self._client().stream(**built, extensions={"trace": self._deadline.trace}) as response:
                begun = True
                self._check_encoding(request, response)
                body = bytearray()
                for piece in response.iter_bytes():
                    body += piece
                    self._check_size(request, body)
                    if monotonic() > until:
                        raise self._too_slow(request)
                return self._answer(request, response, bytes(body), secrets)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            if monotonic() > until:
                raise self._too_slow(request) from None
            raise self._failed(request, error) from None
        except RuntimeError as error:  # the client was closed by another thread
            raise self._closed_by_another(begun, error) from None

    def _together(self, request: Together) -> list[Any]:
        plans = list(request.plans)
        if len(plans) <= 1:
            return [drive(plan, self.perform) for plan in plans]
        with ThreadPoolExecutor(min(request.at_once, len(plans)), "keyfold") as pool:
            # With the caller's context: what gives the key may look there for whose it is.
            work = [pool.submit(copy_context().run, drive, plan, self.perform) for plan in plans]
            try:
                return [item.result() for item in work]
            except BaseException:
                for item in work:
                    item.cancel()
                raise


class AwaitedTransport(_Client):
    """Carries out what plans yield, awaited, in whatever event loop it is called from."""

    def __init__(
        self, endpoint: Endpoint, headers: Headers, timeout: float = TIMEOUT, keyless: str = ""
    ) -> None:
        super().__init__(endpoint, headers, timeout, keyless)
        self._clients = LoopClients(self._options())

    async def perform(self, request: Any) -> Any:
        """Carry out an Http, a Wait or a Together."""
        if isinstance(request, Http):
            return await self._exchange(request)
        if isinstance(request, Wait):
            await asyncio.sleep(request.seconds)
            return None
        assert isinstance(request, Together)
        return await self._together(request)

    async def close(self) -> None:
        self._closed = True
        await self._clients.close()

    async def _exchange(self, request: Http) -> Answer:
        secrets = self._secrets()
        try:
            return await self._tried(request, secrets)
        except BaseException as error:  # noqa: BLE001 - it is raised below, a cancellation too
            fault = _bare(error)
        del secrets
        raise fault

    async def _tried(self, request: Http, secrets: dict[str, str]) -> Answer:
        built = self._built(request, secrets)
        begun = False
        try:
            async with (
                asyncio.timeout(self._patience(request)),
                self._clients.lent() as client,
                client.stream(**built) as response,
            ):
                begun = True
                self._check_encoding(request, response)
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    self._check_size(request, body)
                return self._answer(request, response, bytes(body), secrets)
        except TimeoutError:
            raise self._too_slow(request) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._failed(request, error) from None
        except RuntimeError as error:  # the client was closed meanwhile
            raise self._closed_by_another(begun, error) from None

    async def _together(self, request: Together) -> list[Any]:
        gate = asyncio.Semaphore(request.at_once)

        async def one(plan: Plan[Any]) -> Any:
            async with gate:
                return await adrive(plan, self.perform)

        work = [asyncio.ensure_future(one(plan)) for plan in request.plans]
        try:
            return [
                await item for item in work
            ]  # the first in their order that fails, as the blocking one tells
        except BaseException:
            for item in work:
                item.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            raise
