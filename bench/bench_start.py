"""How long a process takes to start: an editor hook pays this on every call."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("keyfold")
COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "import keyfold": [sys.executable, "-c", "import keyfold"],
    "keyfold --help": [str(SCRIPT), "--help"],
}
RUNS = 30


def milliseconds(command: list[str]) -> list[float]:
    """Times of whole processes, without the first, which warms the file cache."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1000)
    return times[1:]


def main() -> None:
    print(f"{'whole process':<16} {'median':>8} {'fastest':>8}   ({RUNS} runs, ms)")
    for name, command in COMMANDS.items():
        try:
            times = milliseconds(command)
        except subprocess.CalledProcessError as error:
            print(f"{name:<16} failed with exit status {error.returncode}")
            continue
        print(f"{name:<16} {statistics.median(times):8.1f} {min(times):8.1f}")


if __name__ == "__main__":
    main()
