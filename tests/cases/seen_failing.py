"""See every case fail: its test on a build that is broken for it. `python -m tests.cases.seen_failing [C012 ...]`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.cases.broken import BREAKS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "keyfold"


def named_after(case: str) -> list[str]:
    """The tests that are named after a case, as pytest calls them."""
    found = []
    for path in sorted((ROOT / "tests" / "cases").glob("test_cases_*.py")):
        names = re.findall(
            rf"^(?:async )?def (test_{case.lower()}_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
        found += [f"{path.relative_to(ROOT)}::{name}" for name in names]
    return found


def verdict(case: str) -> str:
    """Empty when the case's test fails on its broken build and does so by itself, else what is wrong."""
    broken = BREAKS[case]
    source = (SOURCES / broken.file).read_text("utf-8")
    if source.count(broken.there) == 0:
        return f"its break no longer applies: {broken.file} does not hold {broken.there!r}"
    with tempfile.TemporaryDirectory(prefix="keyfold-broken-") as folder:
        build = Path(folder) / "keyfold"
        shutil.copytree(SOURCES, build, ignore=shutil.ignore_patterns("__pycache__"))
        (build / broken.file).write_text(source.replace(broken.there, broken.instead), "utf-8")
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "60", "--no-header"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *named_after(case)],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": folder,
                "PYTHONDONTWRITEBYTECODE": "1",
                "KEYFOLD_BROKEN": folder,
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 1:
        return ""
    if done.returncode == 0:
        return "its test passes on the broken build"
    return f"its test could not be run:\n{(done.stdout + done.stderr)[-1500:]}"


def verdicts(cases: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(case, verdict), some at a time."""
    cases = list(cases)
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        yield from zip(cases, pool.map(verdict, cases), strict=True)


def main() -> int:
    wrong = 0
    for case, word in verdicts(sys.argv[1:] or BREAKS):
        wrong += bool(word)
        print(f"{case}  {word or 'seen failing: ' + BREAKS[case].words}", flush=True)
    print(f"{len(sys.argv[1:] or BREAKS) - wrong} seen failing, {wrong} not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
