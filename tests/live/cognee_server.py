"""Starts the real Cognee API server: offline, on loopback, everything it writes below one folder.

python -m tests.live.cognee_server FOLDER PORT [--multi-tenant]
"""

from __future__ import annotations

import argparse
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from tests.live.processes import Server, answers, launch, plain_environment, start_stub, wait_until

ROOT = Path(__file__).resolve().parents[2]
DIMENSIONS = 64  # of the embeddings; small, since nothing here is about their quality
USER, PASSWORD = "default_user@example.com", "a-password-for-tests"


def venv() -> Path:
    """Where Cognee is installed."""
    return Path(os.environ.get("KEYFOLD_COGNEE_VENV") or ROOT / ".venv-cognee").absolute()


def settings(folder: Path, stub: str, place: Path, multi_tenant: bool) -> dict[str, str]:
    """What Cognee is told by its environment, and why."""
    tokenizers = next(place.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers"))
    guarded = "true" if multi_tenant else "false"
    return {
        # It would report to its makers, and write logs beside its own sources.
        "TELEMETRY_DISABLED": "1",
        "COGNEE_LOG_FILE": "false",
        "LOG_LEVEL": "ERROR",
        "LITELLM_LOG": "ERROR",
        # Everything it would fetch while running, it has, or does without.
        "TIKTOKEN_CACHE_DIR": str(tokenizers),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HF_HUB_OFFLINE": "1",
        "GLINER_AUTO_INSTALL": "false",
        # Its databases and uploads lie inside the installed package unless told otherwise.
        "DATA_ROOT_DIRECTORY": str(folder / "data"),
        "SYSTEM_ROOT_DIRECTORY": str(folder / "system"),
        "CACHE_ROOT_DIRECTORY": str(folder / "cache"),
        # Two settings, since authentication alone is required again by access control.
        "ENABLE_BACKEND_ACCESS_CONTROL": guarded,
        "REQUIRE_AUTHENTICATION": guarded,
        "DEFAULT_USER_PASSWORD": PASSWORD,
        "FASTAPI_USERS_JWT_SECRET": "a-secret-for-tests-that-outlives-a-restart",
        "LLM_PROVIDER": "custom",
        "LLM_MODEL": "openai/stub",
        "LLM_ENDPOINT": stub,
        "LLM_API_KEY": "sk-stub",
        # A model name that tiktoken knows: for any other one it looks for a repository of that name.
        "EMBEDDING_PROVIDER": "openai_compatible",
        "EMBEDDING_MODEL": "text-embedding-3-small",
        "EMBEDDING_DIMENSIONS": str(DIMENSIONS),
        "EMBEDDING_ENDPOINT": stub,
        "EMBEDDING_API_KEY": "sk-stub",
    }


def start(folder: Path, port: int, multi_tenant: bool = False) -> Server:
    """Start Cognee and return when it is ready; with `multi_tenant` it wants a login of USER, PASSWORD."""
    place = venv()
    folder = folder.absolute()
    for name in ("cwd", "data", "system", "cache"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    with ExitStack() as parts:
        stub = start_stub(parts, folder, DIMENSIONS)
        env = plain_environment(folder / "home", **settings(folder, stub, place, multi_tenant))
        # Not `python -m cognee.api.client`: the socket it makes lacks TCP_NODELAY, 40 ms a request.
        command = [str(place / "bin" / "python"), "-m", "uvicorn", "cognee.api.client:app"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
        log = folder / "cognee.log"
        # An empty folder to run in, since Cognee reads the .env of the one it is started in.
        process = launch(parts, command, log=log, env=env, cwd=folder / "cwd")
        url = f"http://127.0.0.1:{port}"
        wait_until(answers(f"{url}/health"), process, log)
        return Server(url, parts.pop_all())


def main() -> None:
    """Run a server by hand until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--multi-tenant", action="store_true")
    given = parser.parse_args()
    with start(given.folder, given.port, given.multi_tenant) as server:
        print(f"Cognee answers at {server.url}; Ctrl-C stops it", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
