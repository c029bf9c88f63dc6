"""The real servers that the tests in this folder share, each started once when it is first asked for.

They need installations of their own, which `make live` makes; without one a test is skipped and says so.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import cognee_server, mem0_server
from tests.live.processes import Server, free_port, installed

REPORT: list[str] = []  # what is printed below the results: the versions, and how long each took to start


def pytest_configure(config: pytest.Config) -> None:
    """Have a run that is told to end take its servers down with it, as one that is interrupted does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored, where a shell started it in the background


def serve(
    name: str, variable: str, venv: Path, distribution: str, start: Callable[[int], Server]
) -> Iterator[str]:
    """Start a server and give its URL; skip where it is not installed, unless `make live` says that it is."""
    version = installed(venv, distribution)
    if version is None:
        if os.environ.get(variable):
            pytest.fail(
                f"{variable} is set, but there is no {distribution} in {venv}: make live", pytrace=False
            )
        pytest.skip(f"the real {name} is not installed: make live")
    begun = time.monotonic()
    server = start(free_port())
    ready = time.monotonic()
    try:
        yield server.url
    finally:
        stopping = time.monotonic()
        server.stop()
        ended = time.monotonic()
        REPORT.append(
            f"{name} ({distribution} {version}): ready after {ready - begun:.1f} s,"
            f" up for {stopping - ready:.1f} s, stopped in {ended - stopping:.1f} s"
        )


@pytest.fixture(scope="session")
def live_cognee_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Cognee for one user, without authentication."""
    folder = tmp_path_factory.mktemp("cognee")

    def start(port: int) -> Server:
        return cognee_server.start(folder, port)

    yield from serve("Cognee", "KEYFOLD_COGNEE_VENV", cognee_server.venv(), "cognee", start)


@pytest.fixture(scope="session")
def live_cognee_tenants_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Cognee with access control: it wants a login of `cognee_server.USER` and `PASSWORD`."""
    folder = tmp_path_factory.mktemp("cognee-tenants")

    def start(port: int) -> Server:
        return cognee_server.start(folder, port, multi_tenant=True)

    name = "Cognee with access control"
    yield from serve(name, "KEYFOLD_COGNEE_VENV", cognee_server.venv(), "cognee", start)


@pytest.fixture(scope="session")
def live_mem0_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Mem0's open-source server; `mem0_server.API_KEY` is its key."""
    folder = tmp_path_factory.mktemp("mem0")

    def start(port: int) -> Server:
        return mem0_server.start(folder, port)

    yield from serve("Mem0", "KEYFOLD_MEM0_VENV", mem0_server.venv(), "mem0ai", start)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where the run is spread over processes, each tells the first what it has to report."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["real_servers"] = REPORT


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear what a process had to report."""
    REPORT.extend(getattr(node, "workeroutput", {}).get("real_servers", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which versions the results are about."""
    if REPORT:
        terminalreporter.section("real servers")
        for line in REPORT:
            terminalreporter.line(line)
