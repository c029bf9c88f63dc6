"""A process that was forked asks over connections of its own: on the parent's it would read the parent's answers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

from keyfold.dialects.wire import Http
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.opening import _claims
from keyfold.engines.remote.transport import AwaitedTransport, BlockingTransport
from tests.remote.sockets import HEAD, listening, request_of

ASK = Http("GET", "/", reads=True)


@pytest.fixture
def address() -> Iterator[str]:
    """A service that answers every request with the number of the connection that it came on."""
    numbers = count()

    def handle(connection: socket.socket, over: threading.Event) -> None:
        number = json.dumps(next(numbers)).encode()
        while request_of(connection):
            connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(number) + number)

    with listening(handle) as port:
        yield f"mem0+http://127.0.0.1:{port}"


def in_child(work: Callable[[], Any]) -> Any:
    """What a forked child finds, by way of a pipe."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # the service's threads are not needed in the child
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)  # a child must not run on into the test session
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said)


def test_a_forked_child_has_connections_of_its_own_and_closes_none_of_the_parents(address: str) -> None:
    transport = BlockingTransport(endpoint(address, scheme="http"), dict)

    def work() -> Any:
        seen = [transport.perform(ASK).json(), transport.perform(ASK).json()]
        transport.close()
        return seen

    with closing(transport):
        assert transport.perform(ASK).json() == 0
        assert in_child(work) == [1, 1]
        assert transport.perform(ASK).json() == 0


def test_an_awaited_store_in_a_forked_child_has_connections_of_its_own(address: str) -> None:
    transport = AwaitedTransport(endpoint(address, scheme="http"), dict)

    async def seen() -> Any:
        return (await transport.perform(ASK)).json()

    with asyncio.Runner() as runner:
        assert runner.run(seen()) == 0
        assert in_child(lambda: asyncio.Runner().run(seen())) == 1
        assert runner.run(seen()) == 0
        runner.run(transport.close())


def test_no_two_processes_claim_a_write_by_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1)
    claim = _claims()
    assert in_child(claim) != claim()
