"""Where a store's URL may lead, and how the key that goes there is kept out of sight."""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Config
from keyfold.contract.intents import Query
from keyfold.engines.remote.credential import Credential
from keyfold.engines.remote.endpoint import Endpoint, endpoint
from keyfold.errors import InvalidRequest, KeyfoldError, Unauthorized
from keyfold.registry import open_engine
from tests.remote.common import KEY, MEM0_OSS, MEM0_PLATFORM, SERVICES, Service, configured, intent, ref

Running = Callable[[Any], Any]

SECRET = "s3cr3t-of-a-user"


@pytest.mark.parametrize(
    ("url", "scheme", "origin", "host", "prefix"),
    [
        ("mem0://api.mem0.ai", "", "https://api.mem0.ai", "api.mem0.ai", ""),
        ("mem0://api.mem0.ai/", "", "https://api.mem0.ai", "api.mem0.ai", ""),
        ("mem0://127.0.0.1:8000", "", "http://127.0.0.1:8000", "127.0.0.1:8000", ""),
        ("mem0://localhost", "", "http://localhost", "localhost", ""),
        ("mem0+http://127.0.0.1:8888/under/", "http", "http://127.0.0.1:8888", "127.0.0.1:8888", "/under"),
        ("mem0+http://[::1]:8888", "http", "http://[::1]:8888", "[::1]:8888", ""),
        ("mem0+https://mem0.example", "https", "https://mem0.example", "mem0.example", ""),
        ("mem0+https://127.0.0.1", "https", "https://127.0.0.1", "127.0.0.1", ""),
    ],
)
def test_an_address_is_read_as_it_stands(url: str, scheme: str, origin: str, host: str, prefix: str) -> None:
    assert endpoint(url, scheme=scheme) == Endpoint(origin, host, prefix)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"mem0://ana:{SECRET}@api.mem0.ai", "KEYFOLD_API_KEY"),
        (f"mem0://{SECRET}@api.mem0.ai", "KEYFOLD_API_KEY"),
        ("mem0://@api.mem0.ai", "KEYFOLD_API_KEY"),
        (f"mem0://api.mem0.ai?api_key={SECRET}", "query"),
        (f"mem0://api.mem0.ai/#{SECRET}", "fragment"),
        ("mem0://", "no host"),
        ("mem0:///path", "no host"),
        ("mem0:", "no host"),
        ("mem0://:8000", "no host"),
        ("mem0://api.mem0.ai:port", "host and port"),
        ("mem0://api.mem0.ai:99999", "host and port"),
        ("mem0://[::1", "host and port"),
        ("mem0://api.mem0.ai\r\nX: y", "white space"),
        ("mem0://api mem0 ai", "white space"),
        ("mem0://api.mem0.ai/\x7f", "control"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_before_anything_is_sent(url: str, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told) as caught:
        open_engine(url, config=configured())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["mem0.example", "10.0.0.7", "0.0.0.0", "localhost.example", "127.0.0.1.example", "[::2]"]
)
def test_plain_http_goes_to_this_machine_alone(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEYFOLD_ALLOW_HTTP", raising=False)
    with pytest.raises(InvalidRequest, match=r"in the clear.*KEYFOLD_ALLOW_HTTP=1"):
        open_engine(f"mem0+http://{host}:8888", config=configured())
    assert endpoint(f"mem0://{host}:8888", scheme="").origin.startswith("https://")
    for value in ("0", "", "no"):
        monkeypatch.setenv("KEYFOLD_ALLOW_HTTP", value)
        with pytest.raises(InvalidRequest, match="in the clear"):
            open_engine(f"mem0+http://{host}:8888", config=configured())
    monkeypatch.setenv("KEYFOLD_ALLOW_HTTP", "1")
    open_engine(f"mem0+http://{host}:8888", config=configured()).close()


def test_a_proxy_of_the_environment_is_not_given_what_is_meant_for_this_machine(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    double, proxy = running(MEM0_OSS.double()), running(MEM0_OSS.double())
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    engine = MEM0_OSS.engine(double)
    assert engine.get(ref("ns", "k")) is None
    engine.close()
    assert (double.count, proxy.seen) == (1, [])


def test_a_path_in_the_address_comes_before_every_route(running: Running) -> None:
    double = running(MEM0_OSS.double())
    engine = open_engine(MEM0_OSS.url(double) + "/under/", config=configured())
    with pytest.raises(KeyfoldError, match="404"):
        engine.get(ref("ns", "k"))
    engine.close()
    assert double.seen[0].path == "/under/memories"


# ---- the key ----


def test_the_key_comes_from_the_environment_and_keyfolds_own_variable_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("KEYFOLD_API_KEY", "MEM0_API_KEY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    credential = Credential(None, names)
    assert credential.key() is None
    monkeypatch.setenv("MEM0_API_KEY", "the-service's-own")
    assert credential.key() == "the-service's-own"
    monkeypatch.setenv("KEYFOLD_API_KEY", "keyfold's")
    assert credential.key() == "keyfold's"
    assert Credential(lambda: "the-callable's", names).key() == "the-callable's"


@pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)
def test_a_key_that_is_renewed_is_asked_for_with_each_request(service: Service, running: Running) -> None:
    double = running(service.double())
    key = ["old"]
    engine = service.engine(double, credential=lambda: key[0])
    with pytest.raises(Unauthorized):
        engine.get(ref("ns", "k"))
    key[0] = KEY
    assert engine.get(ref("ns", "k")) is None
    engine.close()


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("", "blank"),
        ("   ", "blank"),
        (f"{SECRET}\r\nX-Other: 1", "line ends"),
        (f"{SECRET}\n", "line ends"),
        (f" {SECRET}", "white space"),
        (f"{SECRET}ü", "ASCII"),
        (f"{SECRET}\0", "line ends"),
        (SECRET.encode(), "gave bytes, not a str or None"),
        ((SECRET,), "gave tuple, not a str or None"),
        (7, "gave int, not"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused_unsent_and_unseen(
    service: Service, key: Any, told: str, running: Running
) -> None:
    double = running(service.double())
    engine = service.engine(double, credential=lambda: key)
    with pytest.raises(Unauthorized, match=told) as caught:
        engine.get(ref("ns", "k"))
    engine.close()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert double.seen == []


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("awaited", [False, True])
def test_a_function_of_the_key_that_must_be_awaited_is_told_as_that(
    service: Service, awaited: bool, running: Running
) -> None:
    double = running(service.double())

    async def key() -> str:
        return SECRET

    async def ask() -> None:
        memory = await service.async_memory(double, credential=key)
        try:
            await memory.mem_list("ana")
        finally:
            await memory.close()

    def ask_blocking() -> None:
        with service.memory(double, credential=key) as memory:
            memory.mem_list("ana")

    with pytest.raises(Unauthorized, match=r"gave coroutine, .*: it is called and not awaited") as caught:
        asyncio.run(ask()) if awaited else ask_blocking()
    gc.collect()  # one that nobody awaited warns when it is collected
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert double.seen == []


def test_a_blank_key_is_told_by_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFOLD_API_KEY", " ")
    with pytest.raises(Unauthorized, match="credential is blank: set KEYFOLD_API_KEY, or leave it unset"):
        Credential(None, ("KEYFOLD_API_KEY",)).key()
    with pytest.raises(Unauthorized, match="that its function gave is blank: give the key, or None"):
        Credential(lambda: " ", ("KEYFOLD_API_KEY",)).key()


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_the_key_is_in_no_repr_log_error_or_traceback(
    service: Service, running: Running, hurried: None, caplog: pytest.LogCaptureFixture
) -> None:
    double = running(service.double())
    caplog.set_level(logging.DEBUG)
    engine = service.engine(double, credential=lambda: SECRET, timeout=0.2)
    said = [repr(engine), repr(engine.transport), repr(vars(engine.transport)), repr(engine.plans)]
    said.append(repr(configured(credential=lambda: SECRET)))
    said.append(repr(Credential(lambda: SECRET, ())))
    faults: list[tuple[str, dict[str, Any]]] = [
        ("status", {"code": 401, "body": {"detail": f"Invalid API key: {SECRET}"}}),
        ("status", {"code": 400, "body": {"detail": f"header Authorization: Token {SECRET} is bad"}}),
        ("status", {"code": 503, "body": f"upstream refused {SECRET}", "times": 3}),
        ("stall", {"times": 3}),
        ("drop", {"times": 3}),
        ("content_type", {}),
    ]
    for kind, how in faults:
        double.faults.add(kind, **how)
        with pytest.raises(KeyfoldError) as caught:
            engine.page(Query("ns"))
        said.append("".join(traceback.format_exception(caught.value)))
        double.faults.clear()
    with pytest.raises(KeyfoldError) as caught:
        engine.store(intent("ns", "k", "text"))
    said.append("".join(traceback.format_exception(caught.value)))
    engine.close()
    assert any(SECRET in str(seen.headers) for seen in double.seen), "it was sent"
    assert SECRET not in caplog.text
    assert [text for text in said if SECRET in text] == []


def test_a_setting_takes_a_function_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidRequest, match="function") as caught:
        Config(credential=SECRET)  # type: ignore[arg-type]
    assert SECRET not in str(caught.value)
