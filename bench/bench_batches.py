"""Saves by batch size, as microseconds a record, against a raw program that batches the same way.

A batch of one is mem_save, a larger one mem_save_many. Raw and Keyfold take turns.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from common import median, ratio, row, texts
from keyfold import Config, Memory
from raw import Raw

SIZES = (1, 10, 100, 1_000, 10_000)
# One save at a time is what the project aims for. A record of a larger batch costs raw less and less, and us what
# Python needs to check, redact and cut it into words: the ratio grows with the batch until that is all, and has no
# limit but the one of an import (bench_bulk.py).
LIMITS = {1: 1.6}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=20_000, help="at most so many a size")
    most = parser.parse_args().records
    kept = True
    row("", "base", "keyfold", "ratio", "limit", "")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            kept &= measure(Path(folder), size, max(5, min(most // size, 3_000)))
    return 0 if kept else 1


def measure(folder: Path, size: int, batches: int) -> bool:
    """Batches of one size, in turns."""
    raw = Raw(folder / "raw.db", "full")
    memory = Memory.open(str(folder / "keyfold.db"), config=Config(durability="full"))
    memory.mem_save("alice", "to open the session", type="decision", title="Start")
    body = list(texts(batches * size))
    base, ours = [], []
    for number in range(batches):
        batch = [
            (f"topic/key-{number}-{place}", f"Title {place}", text)
            for place, text in enumerate(body[number * size : (number + 1) * size])
        ]
        items = [
            {"content": text, "type": "decision", "title": title, "topic_key": key}
            for key, title, text in batch
        ]
        start = time.perf_counter()
        raw.save_many("alice", "decision", batch)
        base.append((time.perf_counter() - start) * 1e6 / size)
        start = time.perf_counter()
        if size == 1:
            memory.mem_save("alice", **items[0])
        else:
            memory.mem_save_many("alice", items)
        ours.append((time.perf_counter() - start) * 1e6 / size)
    memory.close()
    raw.close()
    name = f"new keyed saves, batches of {size:,}"
    if size in LIMITS:
        return ratio(name, median(ours), median(base), LIMITS[size])
    row(name, f"{median(base):.1f} us", f"{median(ours):,.1f} us", f"{median(ours) / median(base):.2f}x")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
