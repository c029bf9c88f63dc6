"""Servers for tests: one in this process behind the SDK's own client, and real ones behind bare pipes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from keyfold import AsyncMemory, Config
from keyfold.mcp_server.server import build_server
from keyfold.mcp_server.toolbox import Toolbox
from mcp import Client

SOURCES = Path(__file__).resolve().parents[2] / "src"
PATIENCE = 30.0
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
SAVE = {"content": "JWT, one hour.", "type": "decision", "title": "Auth model"}


def until(true: Callable[[], object], seconds: float = PATIENCE) -> float:
    """Wait until something is so, and say how long it took; fails when it takes longer than `seconds`."""
    start = time.monotonic()
    while not true():
        assert time.monotonic() - start < seconds, f"not so after {seconds} s"
        time.sleep(0.01)
    return time.monotonic() - start


def alive(pid: int) -> bool:
    """Whether a process runs. One that has ended but was not collected by its parent does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def environment(tmp_path: Path, **changes: str) -> dict[str, str]:
    paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    settings = {**os.environ, "PYTHONPATH": paths, "KEYFOLD_STORE": str(tmp_path / "memory.db")}
    for name in ("KEYFOLD_USER", "PYTHONDONTWRITEBYTECODE"):  # compiling again would take most of the start
        settings.pop(name, None)
    return {**settings, **changes}


def command(*options: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "keyfold", "mcp", *options]


class Server:
    """A real server, spoken to line by line. Each line it prints must be JSON."""

    def __init__(self, argv: list[str], env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
        self.heard: list[dict[str, Any]] = []
        self.garbage: list[bytes] = []
        self.errors = b""
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._listen, self._drain)]
        for thread in self._threads:
            thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message = json.loads(line.decode("utf-8"))
            except ValueError:
                self.garbage.append(line)
                continue
            self._queue.put(message)
        self._queue.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, params: Any = None, id: int | str | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": {} if params is None else params}
        self.raw(json.dumps(message if id is None else {**message, "id": id}).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next message; fails when there is none."""
        message = self._queue.get(timeout=PATIENCE)
        assert message is not None, f"the server has ended: {self.errors!r}"
        self.heard.append(message)
        return message

    def ask(self, method: str, params: Any = None, id: int | str = 1) -> dict[str, Any]:
        self.send(method, params, id)
        return self.hear()

    def greet(self) -> dict[str, Any]:
        answer = self.ask("initialize", HELLO, "hello")
        self.send("notifications/initialized")
        return answer

    def call(self, name: str, arguments: Any, id: int | str = 7) -> dict[str, Any]:
        """The result of a tool call, which must come next."""
        answer = self.ask("tools/call", {"name": name, "arguments": arguments}, id)
        assert answer["id"] == id, answer
        return dict(answer["result"])

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self, seconds: float = PATIENCE) -> int:
        """Wait for the end, collect what was said, and give the exit code."""
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(PATIENCE)
        return code

    def abandon(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


Starter = Callable[..., Server]
Talk = Callable[[Client, AsyncMemory], Awaitable[Any]]


def talk(work: Talk, *, mode: str = "auto", url: str = ":memory:", **settings: Any) -> Any:
    """Let the SDK's client talk to a server in this process."""

    async def session() -> Any:
        async with (
            AsyncMemory.open(url, config=Config(**settings)) as memory,
            Client(build_server(Toolbox(memory, "ana")), mode=mode) as client,
        ):
            return await work(client, memory)

    return asyncio.run(session())


def said(result: Any) -> str:
    """The text of a result."""
    return "".join(block.text for block in result.content)
