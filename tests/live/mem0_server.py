"""Starts Mem0's open-source server as far as it can be had: the real library on a real PostgreSQL.

    python -m tests.live.mem0_server FOLDER PORT

The files of the real server are no package. What it is a thin shell over is, so `mem0_app` is such a shell.
"""

from __future__ import annotations

import argparse
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from tests.live import postgres
from tests.live.processes import (
    HERE,
    Server,
    answers,
    free_port,
    launch,
    plain_environment,
    start_stub,
    wait_until,
)

ROOT = HERE.parents[1]
DIMENSIONS = 1536  # what the library makes its column for unless told otherwise, as the real server's
API_KEY = "an-admin-key-for-tests"


def venv() -> Path:
    """Where mem0ai and the database are installed."""
    return Path(os.environ.get("KEYFOLD_MEM0_VENV") or ROOT / ".venv-mem0").absolute()


def start(folder: Path, port: int) -> Server:
    """Start database, stub and server, and return when it is ready; the key for X-API-Key is API_KEY."""
    place, database = venv(), free_port()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as parts:
        postgres.start(parts, place, database)
        stub = start_stub(parts, folder, DIMENSIONS)
        env = plain_environment(
            folder / "home",
            MEM0_TELEMETRY="false",
            MEM0_DIR=str(folder / "mem0"),
            HISTORY_DB_PATH=str(folder / "history.db"),
            POSTGRES_PORT=str(database),
            OPENAI_API_KEY="sk-stub",
            OPENAI_BASE_URL=stub,
            ADMIN_API_KEY=API_KEY,
        )
        log = folder / "mem0.log"
        command = [str(place / "bin" / "python"), "-I", str(HERE / "mem0_app.py"), str(port)]
        process = launch(parts, command, log=log, env=env, cwd=folder)
        url = f"http://127.0.0.1:{port}"
        # There is no health route. This one also makes the table, before two requests could race to make it.
        probe = answers(f"{url}/memories?user_id=is-it-ready&top_k=1", {"X-API-Key": API_KEY})
        wait_until(probe, process, log)
        return Server(url, parts.pop_all())


def main() -> None:
    """Run a server by hand until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    given = parser.parse_args()
    with start(given.folder, given.port) as server:
        print(f"Mem0 answers at {server.url}, X-API-Key: {API_KEY}; Ctrl-C stops it", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
