"""Search by the size of the user and of the store: each user alone in a store, and among others in a large one.

What a search costs must grow with the user's own memory, not with the store. BENCH_FULL=1 puts the users among
1,000,000 records of others, else among 100,000.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import full, median, percentile, queries, row, texts
from keyfold import Config, Memory

SIZES = (100, 1_000, 10_000, 100_000)
BATCH = 5_000
CROWD = 1_000  # records of each of the others
SEARCHES = 200


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--others", type=int, default=1_000_000 if full() else 100_000, help="records of others"
    )
    others = parser.parse_args().others
    kept = True
    row("search, ms", "alone", "among others", "p95 ratio", "limit", "")
    with tempfile.TemporaryDirectory() as folder:
        crowd = Path(folder) / "crowd.db"
        fill(crowd, [(f"other-{number}", CROWD) for number in range(others // CROWD)])
        fill(crowd, [(user_of(size), size) for size in SIZES])
        for size in SIZES:
            alone = Path(folder) / f"alone-{size}.db"
            fill(alone, [(user_of(size), size)])
            apart, among = searches(alone, crowd, user_of(size))
            single, crowded = percentile(apart, 0.95), percentile(among, 0.95)
            row(f"  {size:,} records, median", f"{median(apart):.2f}", f"{median(among):.2f}")
            near = crowded <= max(2 * single, single + 2)
            row(
                f"  {size:,} records, 95th percentile",
                f"{single:.2f}",
                f"{crowded:.2f}",
                f"{crowded / single:.2f}x",
                "<= 2x, +2 ms",
                "ok" if near else "ABOVE",
            )
            kept &= near
    return 0 if kept else 1


def user_of(size: int) -> str:
    return f"user-of-{size}"


def items(user: str, count: int) -> Iterator[dict[str, str]]:
    """The memories of one user: the same wherever they are stored."""
    for number, text in enumerate(texts(count, seed=sum(user.encode()))):
        yield {"content": text, "type": "discovery", "title": f"Note {number}", "topic_key": f"note/{number}"}


def fill(path: Path, users: list[tuple[str, int]]) -> None:
    with Memory.open(str(path), config=Config(durability="process")) as memory:
        for user, count in users:
            batch = []
            for item in items(user, count):
                batch.append(item)
                if len(batch) == BATCH:
                    memory.mem_save_many(user, batch)
                    batch = []
            if batch:
                memory.mem_save_many(user, batch)


def searches(alone: Path, crowd: Path, user: str) -> tuple[list[float], list[float]]:
    """Milliseconds of the same searches in both stores, which take turns."""
    apart: list[float] = []
    among: list[float] = []
    with Memory.open(str(alone)) as one, Memory.open(str(crowd)) as other:
        for query in ["warm up", *queries(SEARCHES, seed=len(user))]:
            for memory, taken in ((one, apart), (other, among)):
                start = time.perf_counter()
                memory.mem_search(user, query)
                taken.append((time.perf_counter() - start) * 1e3)
    return apart[1:], among[1:]


if __name__ == "__main__":
    raise SystemExit(main())
