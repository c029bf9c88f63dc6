"""Readers and a writer at once, each a process of its own on one store: how much each loses to the others.

A reader gets by key and searches in turns, the writer saves one record a call. `alone` is the readers without a
writer, and the writer without readers. The limit is what sharing the processors explains, and half as much again:
with R readers, one writer and P processors each gets P / (R + 1) of one at the least.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import median, queries, row, texts
from keyfold import Config, Memory

RECORDS = 10_000
USER = "alice"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--child", nargs=4, metavar=("WHAT", "STORE", "START", "SECONDS"), help="(used by the bench)"
    )
    given = parser.parse_args()
    if given.child:
        what, store, start, seconds = given.child
        wait = float(start) - time.time()
        print(json.dumps((read if what == "read" else write)(store, wait, float(seconds))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "memory.db")
        fill(store)
        return measure(store, given.readers, given.seconds, given.rounds)


def measure(store: str, readers: int, seconds: float, rounds: int) -> int:
    reads, writes, reads_then, writes_then = [], [], [], []
    for _ in range(rounds):
        reads.append(sum(together(store, ["read"] * readers, seconds)))
        writes.append(sum(together(store, ["write"], seconds)))
        *read, written = together(store, ["read"] * readers + ["write"], seconds)
        reads_then.append(sum(read))
        writes_then.append(written)
    row(f"{readers} readers and a writer", "alone", "together", "loss", "limit", "")
    fair = max(1.0, (readers + 1) / min(os.cpu_count() or 1, readers + 1))
    kept = compare("  reads a second", median(reads), median(reads_then), fair * 1.5)
    kept &= compare("  saves a second, durability process", median(writes), median(writes_then), fair * 1.5)
    return 0 if kept else 1


def compare(name: str, alone: float, together: float, limit: float) -> bool:
    loss = alone / together if together else float("inf")
    kept = loss <= limit
    row(
        name,
        f"{alone:,.0f}",
        f"{together:,.0f}",
        f"{loss:.2f}x",
        f"<= {limit:.2f}x",
        "ok" if kept else "ABOVE",
    )
    return kept


def together(store: str, what: list[str], seconds: float) -> list[float]:
    """Calls a second of each of these processes, which begin at the same moment."""
    start = time.time() + 1.5
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, "--child", kind, store, str(start), str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for kind in what
    ]
    told = [process.communicate()[0] for process in processes]
    assert not any(process.returncode for process in processes)
    return [json.loads(answer) for answer in told]


def fill(store: str) -> None:
    with Memory.open(store, config=Config(durability="process")) as memory:
        memory.mem_save_many(
            USER,
            [
                {
                    "content": text,
                    "type": "discovery",
                    "title": f"Note {number}",
                    "topic_key": f"note/{number}",
                }
                for number, text in enumerate(texts(RECORDS))
            ],
        )


def read(store: str, wait: float, seconds: float) -> float:
    asked = queries(500)
    with Memory.open(store) as memory:
        memory.mem_search(USER, "warm up")
        time.sleep(max(0.0, wait))
        number, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            if number % 2:
                assert memory.mem_get_observation(USER, topic_key=f"note/{number % RECORDS}") is not None
            else:
                memory.mem_search(USER, asked[number // 2 % len(asked)])
            number += 1
        return number / (time.perf_counter() - start)


def write(store: str, wait: float, seconds: float) -> float:
    body = list(texts(5_000))
    with Memory.open(store, config=Config(durability="process")) as memory:
        time.sleep(max(0.0, wait))
        number, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            key = f"{os.getpid()}/{number}"
            memory.mem_save(USER, body[number % len(body)], type="decision", title="Note", topic_key=key)
            number += 1
        return number / (time.perf_counter() - start)


if __name__ == "__main__":
    raise SystemExit(main())
