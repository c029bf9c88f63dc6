"""Run the benchmarks, and write what they printed to results.md: the machine, the ratios, then everything.

    python bench/run.py [NAME ...] [--full NAME ...] [--output FILE]

runs all, or those named (`writes` is bench_writes.py); with --full those at full size (BENCH_FULL=1: all). Exits with 1 when a ratio is above its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw

HERE = Path(__file__).resolve().parent
VERDICTS = ("ok", "ABOVE")


class Run(NamedTuple):
    """One benchmark, done."""

    name: str
    seconds: float
    load: float
    full: bool
    code: int
    rows: list[list[str]]


def main() -> int:
    known = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--output", default=str(HERE / "results.md"))
    parser.add_argument("--full", nargs="*", default=[], metavar="NAME", help="at full size")
    given = parser.parse_args()
    if unknown := {*given.names, *given.full} - set(known):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    runs = [measure(name, full=name in given.full) for name in given.names or known]
    Path(given.output).write_text(report(runs), encoding="utf-8")
    print(f"\nwrote {given.output}")
    return 1 if any(run.code for run in runs) else 0


def measure(name: str, *, full: bool) -> Run:
    print(f"\n== {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows"
        rows.touch()
        start, load = time.perf_counter(), os.getloadavg()[0]
        command = [sys.executable, str(HERE / f"bench_{name}.py")]
        env = {**os.environ, "BENCH_ROWS": str(rows), **({"BENCH_FULL": "1"} if full else {})}
        code = subprocess.run(command, check=False, env=env).returncode
        lines = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    full = full or os.environ.get("BENCH_FULL", "") not in ("", "0")
    return Run(name, time.perf_counter() - start, max(load, os.getloadavg()[0]), full, code, lines)


def report(runs: list[Run]) -> str:
    parts = ["# Results", "", *machine(runs), "", "## Ratios and limits", ""]
    parts += ["| | base | keyfold | ratio | limit | |", "|---|--:|--:|--:|--:|---|"]
    for run in runs:
        heading = ""
        for name, *cells in run.rows:
            if cells and cells[-1] in VERDICTS:
                *figures, limit = cells[:-1]
                # A figure alone is ours, two are the base and ours, three have their ratio too.
                base, ours, value = ["", *figures, ""] if len(figures) == 1 else [*figures, ""][:3]
                if not name.startswith(" "):
                    heading = ""
                told = f"{heading}: {name.strip()}" if heading else name
                parts.append(f"| {told} | {base} | {ours} | {value} | {limit} | {cells[-1]} |")
            elif not name.startswith(" "):
                heading = name
    parts += ["", "## All figures"]
    for run in runs:
        failed = " It failed." if run.code > 1 or (run.code and not run.rows) else ""
        parts += ["", f"### bench_{run.name}.py", ""]
        parts += [
            f"{run.seconds:.0f} s; {'full size; ' if run.full else ''}load {run.load:.1f}.{failed}",
            "",
            "```",
        ]
        parts += [
            (f"{name:<44}" + "".join(f"{cell:>14}" for cell in cells)).rstrip() for name, *cells in run.rows
        ]
        parts.append("```")
    return "\n".join(parts) + "\n"


def machine(runs: list[Run]) -> list[str]:
    full = [run.name for run in runs if run.full]
    size = (
        "short (BENCH_FULL=1 for 1,000,000 records)" if not full else f"full: {', '.join(full)}; others short"
    )
    return [
        "Written by `make bench`, not by hand. Figures of one machine are worth little; compare the ratios.",
        "",
        "| | |",
        "|---|---|",
        f"| date | {datetime.now(UTC):%Y-%m-%d %H:%M} UTC |",
        f"| size | {'full (BENCH_FULL=1)' if len(full) == len(runs) else size} |",
        f"| processor | {processor()}, {os.cpu_count()} cores |",
        f"| load | {min(run.load for run in runs):.1f} to {max(run.load for run in runs):.1f} (other work beside the benchmarks' own 1) |",
        f"| system | {platform.system()} {platform.release()} |",
        f"| Python | {platform.python_version()} |",
        f"| SQLite | {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()}) |",
    ]


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    raise SystemExit(main())
