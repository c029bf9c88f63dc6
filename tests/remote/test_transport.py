"""Exchanges on real sockets: an answer, whole and of a size that is read, or an error that says what failed."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from keyfold import AsyncMemory
from keyfold.dialects.wire import Closed, Http, NotSent, Together, Wait, ask
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.transport import LARGEST, PATIENCE, AwaitedTransport, BlockingTransport
from keyfold.errors import KeyfoldError, OutcomeUnknown, StoreError, Unavailable
from keyfold.flow import Plan, adrive, drive
from tests.remote.common import KEY, MEM0_OSS, configured, intent, ref
from tests.remote.sockets import HEAD, Handle, answering, dripping, listening, request_of, self_signed

Running = Callable[[Any], Any]
Asks = Callable[..., Any]

READ = Http("GET", "/things", reads=True)
WRITE = Http("POST", "/things", json={"a": 1})


@pytest.fixture(params=["blocking", "awaited"])
def asks(request: pytest.FixtureRequest) -> Asks:
    """`asks(url, what, timeout=...)`: carry out a request or a plan's, on either face."""

    def blocking(url: str, what: Any, timeout: float = 5.0) -> Any:
        transport = BlockingTransport(endpoint(url, scheme=""), lambda: {"x-api-key": KEY}, timeout)
        try:
            return drive(what, transport.perform) if isinstance(what, Iterator) else transport.perform(what)
        finally:
            transport.close()

    def awaited(url: str, what: Any, timeout: float = 5.0) -> Any:
        async def run() -> Any:
            transport = AwaitedTransport(endpoint(url, scheme=""), lambda: {"x-api-key": KEY}, timeout)
            try:
                if isinstance(what, Iterator):
                    return await adrive(what, transport.perform)
                return await transport.perform(what)
            finally:
                await transport.close()

        return asyncio.run(run())

    return blocking if request.param == "blocking" else awaited


@pytest.fixture
def server() -> Iterator[Callable[[Handle], str]]:
    with ExitStack() as stack:
        yield lambda handle: f"mem0://127.0.0.1:{stack.enter_context(listening(handle))}"


# ---- how a connection fails ----


def test_a_host_that_does_not_exist_is_told_as_such(asks: Asks) -> None:
    with pytest.raises(NotSent, match=r"^nosuchhost\.invalid is not a host that can be found \(DNS\): check"):
        asks("mem0://nosuchhost.invalid", READ)


def test_a_port_where_nothing_listens_is_told_as_such(asks: Asks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(NotSent, match=rf"^127\.0\.0\.1:{port} refused the connection: is the server running"):
        asks(f"mem0://127.0.0.1:{port}", WRITE)


def test_a_certificate_that_nobody_vouches_for_is_told_as_such_and_nothing_is_sent() -> None:
    got: list[bytes] = []

    def handle(connection: socket.socket, over: threading.Event) -> None:
        got.append(request_of(connection))

    def url(port: int) -> Any:
        return endpoint(f"mem0+https://localhost:{port}", scheme="https")

    with listening(handle, tls=self_signed()) as port:
        transport = BlockingTransport(url(port), lambda: {"x-api-key": KEY}, 5.0)
        with pytest.raises(NotSent, match=rf"^localhost:{port} offers no TLS connection that can be trusted"):
            transport.perform(READ)
        transport.close()
    assert got == []


def test_a_server_that_speaks_no_tls_is_told_as_such() -> None:
    def handle(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listening(handle) as port:
        where = endpoint(f"mem0+https://localhost:{port}", scheme="https")
        transport = BlockingTransport(where, dict, 5.0)
        with pytest.raises(NotSent, match="TLS"):
            transport.perform(READ)
        transport.close()


def test_a_connection_that_is_cut_is_a_read_that_failed_and_a_write_of_unknown_outcome(
    asks: Asks, server: Callable[[Handle], str], hurried: None
) -> None:
    def cut(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)

    url = server(cut)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:\d+ broke the connection off") as caught:
        asks(url, ask(READ))
    assert type(caught.value) is Unavailable
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        asks(url, ask(WRITE))


def test_no_answer_in_time_is_told_with_the_time(asks: Asks, server: Callable[[Handle], str]) -> None:
    def silent(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        over.wait()

    url = server(silent)
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:\d+ gave no answer within 0\.3 s"):
        asks(url, READ, timeout=0.3)
    with pytest.raises(OutcomeUnknown, match=r"gave no answer within 0\.3 s"):
        asks(url, ask(WRITE), timeout=0.3)


# ---- answers that never end, or are too large ----


@pytest.mark.parametrize(
    ("first", "each"),
    [
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD + b"content-length: 1000000\r\n\r\n", b" "),
        (HEAD, b"x-more: and more\r\n"),
        (b"HTTP/1.1 200 OK\r\nx-long: ", b"a"),
        (b"", b"H"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["chunks", "a body", "headers", "one header", "a first line", "interim answers"],
)
def test_a_server_that_drips_for_ever_is_given_up(
    first: bytes, each: bytes, asks: Asks, server: Callable[[Handle], str]
) -> None:
    url = server(dripping(first, each, 0.01))
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:\d+ (was still answering|gave no answer|broke)"):
        asks(url, READ, timeout=0.05)
    assert time.monotonic() - began < 50 * PATIENCE * 0.05, "each byte came in time, the whole never would"


def test_an_answer_of_more_than_64_mib_is_not_read_and_a_write_so_answered_is_of_unknown_outcome(
    asks: Asks, running: Running
) -> None:
    double = running(MEM0_OSS.double())
    double.faults.add("huge", times=2)
    url = MEM0_OSS.url(double)
    with pytest.raises(StoreError, match=r"more than 64 MiB.*ask for less"):
        asks(url, ask(READ))
    with pytest.raises(OutcomeUnknown, match="more than 64 MiB"):
        asks(url, ask(WRITE))


def test_a_small_answer_that_unfolds_to_more_than_64_mib_is_not_read(
    asks: Asks, server: Callable[[Handle], str]
) -> None:
    packed = gzip.compress(b" " * (LARGEST + 1))
    assert len(packed) < LARGEST // 500
    with pytest.raises(StoreError, match="more than 64 MiB"):
        asks(server(answering(packed, b"content-encoding: gzip")), READ)


def test_an_answer_that_is_packed_twice_is_refused_before_it_is_unfolded(
    asks: Asks, server: Callable[[Handle], str]
) -> None:
    """One piece of it could unfold to a million times its size."""
    packed = gzip.compress(gzip.compress(b"{}"))
    with pytest.raises(StoreError, match="not asked for"):
        asks(server(answering(packed, b"content-encoding: gzip, gzip")), READ)


def test_a_packed_answer_is_read_and_a_broken_one_is_an_error(
    asks: Asks, server: Callable[[Handle], str]
) -> None:
    packed = gzip.compress(b'{"a": 1}')
    assert asks(server(answering(packed, b"content-encoding: gzip")), READ).json() == {"a": 1}
    with pytest.raises(StoreError, match="content encoding does not fit"):
        asks(server(answering(b"not packed", b"content-encoding: gzip")), READ)


def test_a_body_that_ends_early_is_an_error_and_no_short_answer(
    asks: Asks, server: Callable[[Handle], str]
) -> None:
    def early(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        connection.sendall(HEAD + b"content-length: 100\r\n\r\n[1, 2")

    with pytest.raises(Unavailable, match="broke the connection off"):
        asks(server(early), READ)


def test_a_redirect_is_not_followed(asks: Asks, running: Running, server: Callable[[Handle], str]) -> None:
    elsewhere = running(MEM0_OSS.double())

    def moved(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        to = f"location: {elsewhere.url}/memories\r\n".encode()
        connection.sendall(b"HTTP/1.1 307 Temporary Redirect\r\n" + to + b"content-length: 0\r\n\r\n")

    with pytest.raises(StoreError, match=r"sends elsewhere \(307\), where the key does not follow"):
        asks(server(moved), ask(READ))
    assert elsewhere.seen == []


# ---- several at once ----


def test_plans_side_by_side_are_answered_in_order_and_the_first_error_ends_them(
    asks: Asks, running: Running
) -> None:
    double = running(MEM0_OSS.double())
    url = MEM0_OSS.url(double)

    def one(number: int) -> Plan[Any]:
        got = yield from ask(
            Http("GET", "/memories", (("user_id", f"u{number}"), ("top_k", "1")), reads=True)
        )
        return number, got.json()

    plans = [one(number) for number in range(20)]
    assert asks(url, Together(plans)) == [(number, {"results": []}) for number in range(20)]
    assert double.count == 20
    double.faults.add("status", code=401, body={"detail": "no"}, skip=3)
    with pytest.raises(KeyfoldError, match="refused the credentials"):
        asks(url, Together([one(number) for number in range(20)]))


def test_threads_share_an_engine(running: Running) -> None:
    double = running(MEM0_OSS.double())
    engine = MEM0_OSS.engine(double)
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda n: engine.store(intent("ns", f"k{n}", f"text {n}")), range(40)))
        records = list(pool.map(lambda n: engine.get(ref("ns", f"k{n}")), range(40)))
    engine.close()
    assert {receipt.outcome for receipt in receipts} == {"created"}
    assert [record and record.content for record in records] == [f"text {n}" for n in range(40)]


def test_a_thread_that_waits_longer_does_not_lengthen_the_deadline_of_another(
    server: Callable[[Handle], str],
) -> None:
    url = server(dripping(HEAD + b"content-length: 1000000\r\n\r\n", b" ", 0.01))
    transport = BlockingTransport(endpoint(url, scheme=""), dict, 0.05)
    patient = Http("GET", "/", reads=True, timeout=0.2)
    with ThreadPoolExecutor(2) as pool:
        ends: dict[str, float] = {}

        def timed(name: str, request: Http) -> None:
            with pytest.raises(Unavailable):
                transport.perform(request)
            ends[name] = time.monotonic()

        list(pool.map(timed, ["long", "short"], [patient, READ]))
    transport.close()
    assert ends["short"] < ends["long"]


# ---- closing and cancelling ----


def test_a_closed_engine_says_so_at_once_and_closing_twice_is_fine(running: Running) -> None:
    double = running(MEM0_OSS.double())
    engine = MEM0_OSS.engine(double)
    engine.close()
    engine.close()
    with pytest.raises(Closed, match="open it again"):
        engine.get(ref("ns", "k"))
    with pytest.raises(Closed):
        engine.store(intent("ns", "k", "text"))

    async def awaited() -> None:
        other = await MEM0_OSS.async_engine(double)
        await other.close()
        await other.close()
        with pytest.raises(Closed, match="open it again"):
            await other.get(ref("ns", "k"))

    asyncio.run(awaited())
    assert double.seen == []


def test_an_engine_that_is_closed_while_it_waits_for_an_answer_ends_with_an_error(
    running: Running, hurried: None
) -> None:
    double = running(MEM0_OSS.double())
    engine = MEM0_OSS.engine(double, timeout=0.2)
    double.faults.add("stall", run=engine.close)
    with pytest.raises(Unavailable):
        engine.get(ref("ns", "k"))


def telling(event: asyncio.Event) -> Callable[[], None]:
    """What sets the event from a double's thread; the loop may be over by then."""
    loop = asyncio.get_running_loop()

    def tell() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    return tell


def test_an_awaited_call_can_be_cancelled_and_the_engine_used_again(running: Running) -> None:
    double = running(MEM0_OSS.double())

    async def run() -> None:
        engine = await MEM0_OSS.async_engine(double)
        arrived = asyncio.Event()
        double.faults.add("stall", run=telling(arrived))
        call = asyncio.create_task(engine.store(intent("ns", "k", "text")))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await engine.store(intent("ns", "k", "text"))).outcome == "created"
        await engine.close()

    asyncio.run(run())
    assert len(double.items()) == 1


def test_cancelling_plans_side_by_side_leaves_none_behind(running: Running) -> None:
    double = running(MEM0_OSS.double())

    async def run() -> int:
        engine = await MEM0_OSS.async_engine(double)
        arrived = asyncio.Event()
        double.faults.add("stall", method="POST", times=8, run=telling(arrived))
        call = asyncio.create_task(engine.store_many([intent("ns", f"k{n}", f"text {n}") for n in range(8)]))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        left = len(asyncio.all_tasks()) - 1
        await engine.close()
        return left

    assert asyncio.run(run()) == 0


def test_a_timeout_of_the_callers_own_is_the_callers(running: Running) -> None:
    double = running(MEM0_OSS.double())
    double.faults.add("stall", times=9)

    async def run() -> None:
        async with AsyncMemory.open(MEM0_OSS.url(double), config=configured()) as memory:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await memory.mem_topics("ana")

    asyncio.run(run())


def test_a_wait_is_a_wait_on_both_faces(asks: Asks) -> None:
    assert asks("mem0://127.0.0.1:1", Wait(0.0)) is None


def test_an_async_memory_carries_out_calls_at_once(running: Running) -> None:
    double = running(MEM0_OSS.double())

    async def run() -> list[str]:
        async with AsyncMemory.open(MEM0_OSS.url(double), config=configured()) as memory:
            saves = [
                memory.mem_save("ana", f"text {n}", type="decision", title="T", topic_key=f"k{n}")
                for n in range(10)
            ]
            await asyncio.gather(*saves)
            return [topic.key for topic in await memory.mem_topics("ana")]

    assert sorted(asyncio.run(run())) == sorted(f"k{n}" for n in range(10))
