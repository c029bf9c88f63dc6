"""An import of keyfold JSON Lines: records a second against raw inserts of the same lines, memory and bytes on disk.

Each import runs in a process of its own, whose peak of resident memory is read when it is done; raw and Keyfold
take turns. What raw does for a line is listed in raw.py. Then one process searches the store as its users, and
one searches a store in which all records are one user's.

BENCH_FULL=1 imports 1,000,000 records, else 100,000; the limits are those at 1,000,000.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import amount, full, median, peak_megabytes, percentile, queries, ratio, row
from exports import EACH, write

RAW_BATCH = 2_000  # of 500, 2,000 and 10,000 the quickest
MEMORY = 150  # megabytes
DISK = 2.5  # bytes a byte of text
SEARCHES = 400
SEARCHES_OF_ONE = 40


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000 if full() else 100_000)
    parser.add_argument("--rounds", type=int, default=1 if full() else 3)
    parser.add_argument(
        "--child", nargs=3, metavar=("WHAT", "EXPORT", "STORE"), help="(used by the bench itself)"
    )
    given = parser.parse_args()
    if given.child:
        what, export, store = given.child
        print(json.dumps(CHILDREN[what](Path(export), Path(store))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), given.records, given.rounds)


def measure(folder: Path, records: int, rounds: int) -> int:
    export = folder / "export.jsonl"
    size = write(export, records)
    told: dict[str, list[dict[str, Any]]] = {"raw": [], "keyfold": []}
    for _ in range(rounds):
        for what, results in told.items():
            for old in folder.glob(f"{what}.db*"):
                old.unlink()
            results.append(child(what, export, folder / f"{what}.db"))
    raw, ours = ([result["seconds"] * 1e6 / records for result in told[what]] for what in told)
    work = [[result["cpu"] * 1e6 / records for result in told[what]] for what in told]
    row(f"import of {records:,} records", "base", "keyfold", "ratio", "limit", "")
    row("  records a second", f"{1e6 / median(raw):,.0f}", f"{1e6 / median(ours):,.0f}")
    kept = ratio("  time a record", median(ours), median(raw), 2.0)
    row(
        "  processor time a record",
        f"{median(work[0]):.1f} us",
        f"{median(work[1]):.1f} us",
        f"{median(work[1]) / median(work[0]):.2f}x",
    )
    kept &= amount("  peak memory while importing", max(r["peak"] for r in told["keyfold"]), MEMORY, "MB")
    bytes_raw, bytes_ours = ((folder / f"{what}.db").stat().st_size / size for what in told)
    row("  bytes on disk a byte of text, raw", f"{bytes_raw:.2f}")
    kept &= amount("  bytes on disk a byte of text", bytes_ours, DISK, "B", 2)
    row("  bytes a record", f"{bytes_raw * size / records:,.0f}", f"{bytes_ours * size / records:,.0f}")
    kept &= searched(f"{records // EACH:,} users", child("search", export, folder / "keyfold.db"))
    for old in folder.glob("*.db*"):
        old.unlink()
    size = write(export, records, each=records)
    result = child("keyfold", export, folder / "one.db")
    kept &= amount("  peak memory while importing one user", result["peak"], MEMORY, "MB")
    kept &= amount(
        "  bytes on disk a byte of text, one user", (folder / "one.db").stat().st_size / size, DISK, "B", 2
    )
    return 0 if searched("one user", child("search-one", export, folder / "one.db")) and kept else 1


def searched(who: str, result: dict[str, Any]) -> bool:
    row(f"  searches by {who}", "", f"{result['median']:.2f} ms", f"p95 {result['p95']:.2f}")
    return amount(f"  peak memory while searching, {who}", result["peak"], MEMORY, "MB")


def child(what: str, export: Path, store: Path) -> dict[str, Any]:
    """Do one thing in a process of its own, and hear what it took."""
    command = [sys.executable, __file__, "--child", what, str(export), str(store)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(told.stdout)  # type: ignore[no-any-return]  # an object


def taken(action: Any) -> dict[str, Any]:
    """Seconds by the clock and of the processor, and the peak of memory."""
    start, work = time.perf_counter(), time.process_time()
    action()
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - work,
        "peak": peak_megabytes(),
    }


def raw_import(export: Path, store: Path) -> dict[str, Any]:
    from raw import RawImport

    def work() -> None:
        program = RawImport(store, "full")
        program.load(export, RAW_BATCH)
        program.close()

    return taken(work)


def keyfold_import(export: Path, store: Path) -> dict[str, Any]:
    from keyfold.portability import import_path
    from keyfold.registry import open_engine

    def work() -> None:
        engine = open_engine(str(store))
        report = import_path(engine, export)
        engine.close()
        assert report.created == report.records
        assert not report.skipped_count

    return taken(work)


def search(store: Path, users: list[str], count: int) -> dict[str, Any]:
    from keyfold import Memory

    times = []
    with Memory.open(str(store)) as memory:
        for number, query in enumerate(queries(count)):
            user = users[number % len(users)]
            start = time.perf_counter()
            memory.mem_search(user, query)
            times.append((time.perf_counter() - start) * 1e3)
    return {"median": median(times), "p95": percentile(times, 0.95), "peak": peak_megabytes()}


def search_many(_export: Path, store: Path) -> dict[str, Any]:
    from keyfold.registry import open_engine

    engine = open_engine(str(store))
    users = engine.namespaces()
    engine.close()
    return search(store, users[:: max(1, len(users) // SEARCHES)], SEARCHES)


def search_one(_export: Path, store: Path) -> dict[str, Any]:
    return search(store, ["user-000000"], SEARCHES_OF_ONE)


CHILDREN = {"raw": raw_import, "keyfold": keyfold_import, "search": search_many, "search-one": search_one}


if __name__ == "__main__":
    raise SystemExit(main())
