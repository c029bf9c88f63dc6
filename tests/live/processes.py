"""Starts what a live server is made of, waits until it answers, and leaves nothing running behind."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
LOOK = 0.1  # seconds between two looks at a server that is starting


class Server:
    """A running server: where it answers, and how to stop it with all that it needed."""

    def __init__(self, url: str, parts: ExitStack) -> None:
        self.url = url
        self._parts = parts

    def stop(self) -> None:
        """Stop the server, then what it needed, in the reverse order of their start. Once is enough."""
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    """A port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def installed(venv: Path, distribution: str) -> str | None:
    """The version of a distribution in a virtual environment, or None. Reads names only: it starts nothing."""
    name = distribution.replace("-", "_")
    for found in venv.glob(f"lib/python*/site-packages/{name}-*.dist-info"):
        return found.name.removesuffix(".dist-info").rpartition("-")[2]
    return None


def plain_environment(home: Path, **more: str) -> dict[str, str]:
    """The variables that a server gets: none of the caller's keys, proxies or settings reach it."""
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8", **more}


def launch(
    parts: ExitStack,
    command: list[str],
    *,
    log: Path,
    env: Mapping[str, str],
    cwd: Path,
    stop_signal: signal.Signals = signal.SIGTERM,
    account: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, and have `parts` end it with whatever it started."""
    other: dict[str, object] = (
        {} if account is None else {"user": account, "group": account, "extra_groups": []}
    )
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            **other,  # type: ignore[call-overload]
        )
    parts.callback(end, process, stop_signal)
    return process


def end(
    process: subprocess.Popen[bytes], stop_signal: signal.Signals = signal.SIGTERM, patience: float = 20
) -> None:
    """Ask a process to stop, and then take down what is left of its session."""
    if process.poll() is None:
        process.send_signal(stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    with contextlib.suppress(ProcessLookupError):  # the session is empty, as it should be
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(
    ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, seconds: float = 110
) -> None:
    """Wait until `ready`; a process that ends before, or takes too long, is an error that shows its log."""
    for _ in range(int(seconds / LOOK)):
        if ready():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)  # the pause between two looks, cut short when there is no point in another
            break
    state = "did not answer in time" if process.poll() is None else f"ended with status {process.returncode}"
    tail = log.read_text("utf-8", "replace")[-3000:]
    raise RuntimeError(f"{process.args!r} {state}. The end of its log:\n{tail}")


def answers(url: str, headers: Mapping[str, str] | None = None) -> Callable[[], bool]:
    """Whether a GET of the URL is answered with 200 just now."""
    parts = urlsplit(url)

    def look() -> bool:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}", headers=dict(headers or {}))
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return look


def start_stub(parts: ExitStack, folder: Path, dimensions: int) -> str:
    """Start the stub OpenAI endpoint; its base URL, with the /v1."""
    port, log = free_port(), folder / "stub.log"
    command = [sys.executable, "-I", str(HERE / "stub_openai.py"), str(port), str(dimensions)]
    process = launch(parts, command, log=log, env=plain_environment(folder / "home"), cwd=folder)
    url = f"http://127.0.0.1:{port}/v1"
    wait_until(answers(f"{url}/models"), process, log, seconds=30)
    return url
