"""No traceback that reaches a caller holds the key: not in its text, nor in a variable of any frame."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold import KeyfoldError, Memory
from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.dialects.wire import Answer, Http, Together, ask
from keyfold.engines.remote.credential import Credential
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.transport import LARGEST, AwaitedTransport, BlockingTransport
from keyfold.errors import OutcomeUnknown, StoreError, Unauthorized, Unavailable
from keyfold.flow import adrive, drive
from tests.doubles.serving import Double
from tests.remote.common import KEY, MEM0_OSS, SERVICES, Service, intent, ref
from tests.remote.sockets import HEAD, Handle, answering, dripping, listening, request_of

Running = Callable[[Any], Any]

READ = Http("GET", "/things", reads=True)
WRITE = Http("POST", "/things", json={"a": 1})


def errors_of(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all that led to it."""
    seen: set[int] = set()
    due = [error]
    while due:
        one = due.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            due += [one.__cause__, one.__context__]


def frames(error: BaseException) -> list[Any]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def holding(error: BaseException) -> list[tuple[str, str]]:
    """The function and the name of every variable in the frames of an error that shows the key."""
    found = [("", "text")] * (KEY in "".join(traceback.format_exception(error)))
    for one in errors_of(error):
        found += [("", "args")] * (KEY in repr(one.args) + repr(vars(one)))
        for frame in frames(one):
            if frame.f_code.co_filename != __file__:
                shown = {name for name, value in frame.f_locals.items() if KEY in repr(value)}
                found += [(frame.f_code.co_qualname, name) for name in shown]
    return found


@pytest.fixture(params=["blocking", "awaited"])
def asks(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`asks(url, what, timeout=...)`: ask with the key on either face, and return the error that it ends in."""

    def blocking(url: str, what: Http, timeout: float) -> BaseException:
        transport = BlockingTransport(endpoint(url, scheme=""), lambda: {"x-api-key": KEY}, timeout)
        with pytest.raises(KeyfoldError) as caught:
            drive(ask(what), transport.perform)
        transport.close()
        return caught.value

    def awaited(url: str, what: Http, timeout: float) -> BaseException:
        async def run() -> BaseException:
            transport = AwaitedTransport(endpoint(url, scheme=""), lambda: {"x-api-key": KEY}, timeout)
            with pytest.raises(KeyfoldError) as caught:
                await adrive(ask(what), transport.perform)
            await transport.close()
            return caught.value

        return asyncio.run(run())

    face = blocking if request.param == "blocking" else awaited
    return lambda url, what, timeout=5.0: face(url, what, timeout)


@pytest.fixture
def server() -> Iterator[Callable[[Handle], str]]:
    with ExitStack() as stack:
        yield lambda handle: f"mem0://127.0.0.1:{stack.enter_context(listening(handle))}"


def cut(connection: socket.socket, over: threading.Event) -> None:
    request_of(connection)


def silent(connection: socket.socket, over: threading.Event) -> None:
    request_of(connection)
    over.wait()


def refusing(status: bytes, *headers: bytes) -> Handle:
    body = b'{"detail": "bad key %s"}' % KEY.encode()

    def handle(connection: socket.socket, over: threading.Event) -> None:
        request_of(connection)
        lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
        connection.sendall(b"\r\n".join([*lines, b"", body]))

    return handle


FAULTS: dict[str, Handle] = {
    "cut off": cut,
    "silent": silent,
    "no HTTP": lambda connection, over: connection.sendall(b"ERR unknown command\r\n"),
    "dripping": dripping(HEAD + b"content-length: 1000000\r\n\r\n", b" ", 0.01),
    "too large": answering(gzip.compress(b" " * (LARGEST + 1)), b"content-encoding: gzip"),
    "packed twice": answering(b"", b"content-encoding: gzip, gzip"),
    "badly packed": answering(KEY.encode(), b"content-encoding: gzip"),
    "too short": lambda connection, over: connection.sendall(HEAD + b"content-length: 100\r\n\r\n[1, 2"),
    **{
        status: refusing(status.encode(), b"www-authenticate: " + KEY.encode())
        for status in (
            "400 No",
            "401 No",
            "403 No",
            "404 No",
            "409 No",
            "413 No",
            "422 No",
            "500 No",
            "503 No",
        )
    },
    "429 No": refusing(b"429 No", b"retry-after: 60"),
    "307 No": refusing(b"307 No", b"location: http://elsewhere.invalid/" + KEY.encode()),
}


@pytest.mark.parametrize("request_", [READ, WRITE], ids=["read", "write"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_exchange_that_fails_leaves_no_key_in_its_traceback(
    fault: str, request_: Http, asks: Any, server: Callable[[Handle], str], hurried: None
) -> None:
    error = asks(server(FAULTS[fault]), request_, timeout=0.1)
    assert holding(error) == []
    assert "127.0.0.1" in str(error)


@pytest.mark.parametrize("host", ["nosuchhost.invalid", "127.0.0.1:1"])
def test_a_connection_that_cannot_be_made_leaves_no_key_in_its_traceback(
    host: str, asks: Any, hurried: None
) -> None:
    assert holding(asks(f"mem0://{host}", WRITE)) == []


@pytest.mark.parametrize("body", [b"<html>" + KEY.encode(), b'{"detail": "' + KEY.encode(), b"[" * 100_000])
def test_an_answer_that_is_no_json_leaves_no_key_in_its_traceback(body: bytes) -> None:
    answer = Answer(200, {"content-type": KEY}, body, secrets=(KEY,))
    with pytest.raises(StoreError, match="not JSON") as caught:
        answer.json()
    assert holding(caught.value) == []


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("fault", ["stall", "drop", "huge", "status", "content_type", "truncate"])
def test_a_call_that_fails_leaves_no_key_in_its_traceback(
    service: Service, fault: str, running: Running, remembering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyfold.engines.remote.transport.LARGEST", 1000)
    monkeypatch.setattr("keyfold.engines.remote.transport.time", SimpleNamespace(sleep=lambda _: None))
    double: Double = running(service.double())
    memory = remembering(service, double, timeout=0.1)
    how: dict[str, Any] = {
        "status": {"code": 401, "body": {"detail": f"bad key {KEY}"}},
        "content_type": {"body": f"<html>{KEY}</html>"},
        "huge": {"size": 100_000},
    }.get(fault, {})
    double.faults.add(fault, times=9, **how)
    with pytest.raises(KeyfoldError) as caught:
        memory.mem_save("ana", "Text.", type="decision", title="T", topic_key="k")
    assert holding(caught.value) == []


CALLS: dict[str, Callable[[Memory], Any]] = {
    "save": lambda memory: memory.mem_save("ana", "x", type="decision", title="T", topic_key="c"),
    "list": lambda memory: memory.mem_list("ana"),
    "search": lambda memory: memory.mem_search("ana", "x"),
    "delete": lambda memory: memory.mem_delete("ana", topic_key="a"),
    "export": lambda memory: memory.engine.everything(),  # type: ignore[attr-defined]
}
BODIES: list[Any] = [
    {"detail": f"bad key {KEY}"},
    {"success": False, "error": f"bad key {KEY}"},
    {"success": True, "data": {"error": f"bad key {KEY}"}},
    [{"error": f"bad key {KEY}"}],
    json.dumps(f"bad key {KEY}"),
]


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("code", [200, 400])
def test_a_refusal_that_looks_like_an_answer_leaves_no_key_in_a_traceback(
    service: Service, code: int, awaited: bool, running: Running, without_pauses: None
) -> None:
    double: Double = running(service.double())
    raised: list[BaseException] = []

    async def asked(name: str) -> None:
        engine = await service.async_engine(double)
        call: Any = {
            "save": lambda: engine.store(intent("ana", "c", "x")),
            "list": lambda: engine.page(Query("ana")),
            "search": lambda: engine.search(SearchQuery("ana", "x")),
            "delete": lambda: engine.forget(Selector("ana", ref("ana", "a"))),
            "export": engine.everything,
        }[name]
        try:
            await call()
        finally:
            await engine.close()

    for body in BODIES:
        double.faults.clear()
        double.faults.add("status", times=math.inf, code=code, body=body)
        for name, call in CALLS.items():
            try:
                if awaited:
                    asyncio.run(asked(name))
                else:
                    with service.memory(double) as memory:
                        call(memory)
            except KeyfoldError as error:
                raised.append(error)
    assert len(raised) > 15
    assert [holding(error) for error in raised] == [[]] * len(raised)
    assert any("dialects" in frame.f_code.co_filename for frame in frames(raised[0])), "its lines are told"


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
def test_what_the_caller_was_handling_keeps_its_variables_and_its_generators(
    awaited: bool, running: Running
) -> None:
    double: Double = running(MEM0_OSS.double())
    double.faults.add("status", times=math.inf, code=401, body={"detail": "no"})

    def failing(kept: str) -> None:
        raise LookupError(kept)

    def suspended() -> Iterator[BaseException]:
        try:
            failing("the caller's own")
        except LookupError as error:
            yield error
        yield StopIteration("it went on")

    async def asked() -> None:
        engine = await MEM0_OSS.async_engine(double)
        try:
            await engine.get(ref("ana", "k"))
        finally:
            await engine.close()

    generator = suspended()
    mine = next(generator)

    def handling() -> None:
        try:
            raise mine
        except LookupError:
            if awaited:
                asyncio.run(asked())
            else:
                with MEM0_OSS.memory(double) as memory:
                    memory.mem_list("ana")

    with pytest.raises(Unauthorized) as caught:
        handling()
    assert mine in errors_of(caught.value)
    assert frames(mine)[-1].f_locals == {"kept": "the caller's own"}
    assert str(next(generator)) == "it went on"


@pytest.mark.parametrize("key", [f"{KEY} x", f"{KEY}\n", f"{KEY}é"])
def test_a_key_that_cannot_be_one_is_in_no_traceback(key: str) -> None:
    with pytest.raises(Unauthorized, match="it is not sent") as caught:
        Credential(lambda: key, ("KEYFOLD_API_KEY",)).key()
    assert [name for where, name in holding(caught.value) if where.startswith("Credential")] == []


def test_the_function_that_gives_the_key_fails_with_its_own_traceback(running: Running) -> None:
    def keys() -> str:
        raise LookupError("the vault is shut")

    double = running(MEM0_OSS.double())
    with (
        MEM0_OSS.memory(double, credential=keys) as memory,
        pytest.raises(LookupError, match="vault") as caught,
    ):
        memory.mem_topics("ana")
    assert frames(caught.value)[-1].f_code is keys.__code__


def test_a_call_that_is_cancelled_leaves_no_key_in_its_traceback(server: Callable[[Handle], str]) -> None:
    url = server(silent)

    async def run() -> None:
        transport = AwaitedTransport(endpoint(url, scheme=""), lambda: {"x-api-key": KEY}, 20.0)
        with pytest.raises(TimeoutError) as late:
            await asyncio.wait_for(adrive(ask(READ), transport.perform), 0.05)
        assert holding(late.value) == []
        with pytest.raises(TimeoutError) as together:
            await asyncio.wait_for(transport.perform(Together([ask(READ), ask(READ)])), 0.05)
        assert holding(together.value) == []
        await transport.close()

    asyncio.run(run())


def test_an_interrupt_is_the_same_interrupt_and_has_no_key_in_its_traceback(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = KeyboardInterrupt()

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        raise stop

    monkeypatch.setattr("httpx2.Client.send", interrupted)
    double = running(MEM0_OSS.double())
    with MEM0_OSS.memory(double) as memory, pytest.raises(KeyboardInterrupt) as caught:
        memory.mem_topics("ana")
    assert caught.value is stop
    assert holding(stop) == []


def test_an_error_still_says_whether_anything_was_sent_and_shows_no_error_behind_it(
    asks: Any, server: Callable[[Handle], str]
) -> None:
    url = server(cut)
    assert type(asks(url, WRITE)) is OutcomeUnknown
    error = asks(url, WRITE)
    assert "broke the connection off" in str(error)
    assert error.__suppress_context__
    assert all(isinstance(one, Unavailable) for one in errors_of(error))
    assert "During handling" not in "".join(traceback.format_exception(error))
