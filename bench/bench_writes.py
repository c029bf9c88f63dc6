"""New saves, rewrites and reads by key, as ratios against raw apsw in the same run.

Raw and Keyfold take turns in blocks, so that both meet the same machine.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean

from common import each, median, ratio, row, texts
from keyfold import Config, Memory
from raw import Raw

BLOCK = 250


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--saves", type=int, default=5_000)
    count = parser.parse_args().saves
    body = list(texts(count * 2))
    kept = True
    row("", "base", "keyfold", "ratio", "limit", "")
    for durability in ("full", "process"):
        with tempfile.TemporaryDirectory() as folder:
            kept &= measure(Path(folder), durability, body, count)
    return 0 if kept else 1


def measure(folder: Path, durability: str, body: list[str], count: int) -> bool:
    raw = Raw(folder / "raw.db", durability)
    memory = Memory.open(str(folder / "keyfold.db"), config=Config(durability=durability))
    memory.mem_save("alice", "to open the session", type="decision", title="Start")

    def save(number: int) -> object:
        return memory.mem_save(
            "alice", body[number], type="decision", title=f"Title {number}", topic_key=f"topic/key-{number}"
        )

    def rewrite(number: int) -> object:
        return memory.mem_save(
            "alice",
            body[number + count],
            type="decision",
            title=f"Title {number}",
            topic_key=f"topic/key-{number}",
        )

    def raw_save(number: int) -> object:
        return raw.save("alice", f"topic/key-{number}", "decision", f"Title {number}", body[number])

    base, ours, again, read, raw_read = [], [], [], [], []
    for start in range(0, count, BLOCK):
        base += each(lambda n, at=start: raw_save(at + n), BLOCK)
        ours += each(lambda n, at=start: save(at + n), BLOCK)
    for start in range(0, count, BLOCK):
        again += each(lambda n, at=start: rewrite(at + n), BLOCK)
        raw_read += each(lambda n, at=start: raw.get("alice", f"topic/key-{at + n}"), BLOCK)
        read += each(
            lambda n, at=start: memory.mem_get_observation("alice", topic_key=f"topic/key-{at + n}"), BLOCK
        )
    kept = ratio(f"new keyed save, durability {durability}", median(ours), median(base), 1.6)
    kept &= ratio(f"rewrite against a new save, {durability}", median(again), median(ours), 2.0)
    kept &= ratio(f"get by key, {durability}", median(read), median(raw_read), 3.0)
    # The median hides what comes now and then: merges of the index, checkpoints, every sixteenth save's batch.
    row(
        "  the same saves, mean",
        f"{fmean(base):.1f} us",
        f"{fmean(ours):.1f} us",
        f"{fmean(ours) / fmean(base):.2f}x",
    )
    memory.close()
    raw.close()
    return kept


if __name__ == "__main__":
    raise SystemExit(main())
