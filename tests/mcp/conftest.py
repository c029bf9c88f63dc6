"""Real servers, ended with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.common import Server, Starter, command, environment


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start a real server on the test's store."""
    started: list[Server] = []

    def begin(*options: str, argv: list[str] | None = None, **changes: str) -> Server:
        started.append(Server(argv or command(*options), environment(tmp_path, **changes)))
        return started[-1]

    yield begin
    for server in started:
        server.abandon()


@pytest.fixture
def server(start: Starter) -> Server:
    """A real server that has been greeted."""
    begun = start()
    begun.greet()
    return begun
