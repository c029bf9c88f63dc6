"""Torture: what a store goes through in years, in minutes. `python -m tests.torture --help`, or `make torture`.

A line a scenario with what was counted, and a last line `N passed, N failed`. Every scenario is made by its seed:
--seed repeats a run (what processes do at the same moment is up to the machine).
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.torture import (
    clocks,
    copies,
    disks,
    interrupts,
    kills,
    readers,
    seen_failing,
    sharing,
    states,
    turns,
)
from tests.torture.common import Run

SCENARIOS: dict[str, Callable[[Run], None]] = {
    "kill-one-full": kills.one_writer_full,
    "kill-one-process": kills.one_writer_process,
    "kill-several-full": kills.several_writers_full,
    "kill-several-process": kills.several_writers_process,
    "sixteen-processes": sharing.sixteen_processes,
    "full-disk-quota": disks.quota,
    "full-disk-tmpfs": disks.tmpfs,
    "clock-jumps": clocks.jumps,
    "reader-held-open": readers.held_open,
    "interrupt-signals": interrupts.signals,
    "interrupt-every-point": interrupts.every_point,
    "copy-mid-write": copies.mid_write,
    "state-machine": states.long_run,
    "turns-on-a-log": turns.eight_writers,
    "cases-seen-failing": seen_failing.all_cases,
}
LONGEST = 400  # seconds until a scenario counts as stuck


class Skipped(Exception):
    """A scenario that this machine cannot play, and why."""


def play(name: str, seed: int, scale: float) -> str:
    """Run one scenario in a process of its own: `passed`, `failed` or `skipped`."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        os.setsid()
        os._exit(_in_child(name, seed, scale))
    deadline = time.monotonic() + LONGEST
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return {0: "passed", 3: "skipped"}.get(os.waitstatus_to_exitcode(status), "failed")
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            print(f"failed   {name:<22} stuck for {LONGEST} s  (seed {seed})", flush=True)
            return "failed"
        time.sleep(0.02)


def _in_child(name: str, seed: int, scale: float) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="keyfold-torture-") as folder:
        run = Run(seed, scale, Path(folder))
        try:
            SCENARIOS[name](run)
            word, status = "passed", 0
        except disks.CannotPlay as reason:
            run.counts = {"reason": str(reason)}
            word, status = "skipped", 3
        except BaseException:  # noqa: BLE001  # whatever it is, the scenario failed
            print(traceback.format_exc()[-4000:])
            word, status = "failed", 1
    told = ", ".join(f"{key} {value}" for key, value in run.counts.items())
    spent = time.monotonic() - began
    print(f"{word:<8} {name:<22} {spent:6.1f} s  (seed {seed})  {told}", flush=True)
    return status


def main() -> int:
    parser = argparse.ArgumentParser("torture", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"which (default all): {', '.join(SCENARIOS)}")
    parser.add_argument(
        "--scale",
        type=float,
        default=float(os.environ.get("TORTURE_SCALE", "1")),
        help="how much of it: 0.1 is a tenth (TORTURE_SCALE)",
    )
    parser.add_argument("--seed", type=int, help="repeat a run")
    given = parser.parse_args()
    unknown = set(given.scenario) - set(SCENARIOS)
    if unknown:
        parser.error(f"there is no scenario {', '.join(sorted(unknown))}")
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}, scale {given.scale:g}", flush=True)
    ended = [play(name, seed, given.scale) for name in given.scenario or SCENARIOS]
    skipped = f", {ended.count('skipped')} skipped" if "skipped" in ended else ""
    print(f"{ended.count('passed')} passed, {ended.count('failed')} failed{skipped}")
    return 1 if "failed" in ended else 0


if __name__ == "__main__":
    sys.exit(main())
