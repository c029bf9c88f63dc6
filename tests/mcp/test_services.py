"""`keyfold mcp` on a memory service: a key that is refused is told at the start, a service that is away is waited for."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.doubles.mem0_oss import Mem0Oss
from tests.mcp.common import SAVE, Starter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and descriptors are POSIX's")

Running = Callable[[Mem0Oss], Mem0Oss]


def url_of(service: Mem0Oss) -> str:
    return service.url.replace("http://", "mem0+http://")


def test_store_and_key_come_from_the_environment(running: Running, start: Starter) -> None:
    service = running(Mem0Oss(key="right"))
    server = start(KEYFOLD_STORE=url_of(service), KEYFOLD_API_KEY="right")
    server.greet()
    assert server.call("mem_save", SAVE)["structuredContent"]["outcome"] == "created"
    assert len(service.items()) == 1


def test_a_refused_key_ends_the_server_before_it_is_greeted(running: Running, start: Starter) -> None:
    service = running(Mem0Oss(key="right"))
    server = start(KEYFOLD_STORE=url_of(service), KEYFOLD_API_KEY="a-wrong-key")
    assert server.end() == 3
    assert b"refused the credentials (401)" in server.errors
    assert b"a-wrong-key" not in server.errors
    assert (server.garbage, server.heard) == ([], [])


def test_another_program_at_the_address_ends_the_server(running: Running, start: Starter) -> None:
    service = running(Mem0Oss(key="right"))
    service.faults.add("status", code=404, body={"detail": "Not Found"})
    server = start(KEYFOLD_STORE=url_of(service), KEYFOLD_API_KEY="right")
    assert server.end() == 3
    assert b"check the address" in server.errors


def test_a_service_that_is_away_is_tried_again_with_each_call(start: Starter) -> None:
    server = start(KEYFOLD_STORE="mem0+http://127.0.0.1:1", KEYFOLD_API_KEY="right")
    server.greet()
    refused = server.call("mem_save", SAVE)
    assert refused["isError"] is True
    assert "refused the connection" in refused["content"][0]["text"]
    server.close_stdin()
    assert server.end() == 0
    assert b"calls will be tried all the same" in server.errors
