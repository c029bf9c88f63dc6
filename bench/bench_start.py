"""How long a process takes to start: an editor hook pays this on every call."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import median, ratio, row

SCRIPT = Path(sys.executable).with_name("keyfold")
RUNS = 40


def milliseconds(commands: list[list[str]]) -> list[float]:
    """Median times of whole processes, which take turns; the first round warms the file cache."""
    times: list[list[float]] = [[] for _ in commands]
    # as installed: with compiled modules on disk
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(RUNS + 1):
        for place, command in enumerate(commands):
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=surroundings)
            if turn:
                times[place].append((time.perf_counter() - start) * 1000)
    return [median(taken) for taken in times]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "memory.db")
        save = [
            "save",
            "--type",
            "decision",
            "--title",
            "Auth",
            "--topic",
            "architecture/auth",
            "JWT, one hour.",
        ]
        subprocess.run([str(SCRIPT), "--store", store, *save], check=True, stdout=subprocess.DEVNULL)
        bare, apsw, dataclasses, keyfold, get = milliseconds(
            [
                [sys.executable, "-c", "pass"],
                [sys.executable, "-c", "import apsw"],
                [sys.executable, "-c", "import dataclasses"],
                [sys.executable, "-c", "import keyfold"],
                [str(SCRIPT), "--store", store, "get", "--topic", "architecture/auth"],
            ]
        )
    row("", "base", "keyfold", "ratio", "limit", "")
    row("python -c pass", f"{bare:.1f} ms")
    kept = ratio("import keyfold against import dataclasses", keyfold, dataclasses, 3, "ms")
    kept &= ratio("keyfold get against import apsw", get, apsw, 8, "ms")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
