"""What the benchmarks share: texts like those people write, and medians that compare like with like."""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

FUNCTION_WORDS = (
    "the of and to in a is that for it was on as with be by at this from or have an they which one you were all "
    "her she there would their we him been has when who will no more if out so up said what its about than into "
    "them can only other time new some could these two may first then do any like my now over such our man even"
).split()
SYLLABLES = "ba be bi bo ca ce co da de di do fa fe ga go la le li lo ma me mi mo na ne no pa pe po ra re ri ro sa se si so ta te ti to va ve vi".split()
VOCABULARY = 30_000
WORDS_A_TEXT = 40


def vocabulary(source: random.Random) -> list[str]:
    """English function words first, as in any English text, then pseudo-words of two to four syllables."""
    words = dict.fromkeys(FUNCTION_WORDS)
    while len(words) < VOCABULARY:
        words["".join(source.choices(SYLLABLES, k=source.randint(2, 4)))] = None
    return list(words)


def texts(count: int, seed: int = 7, words: int = WORDS_A_TEXT) -> Iterator[str]:
    """Texts of `words` words drawn by Zipf's law (the word of rank r has weight 1/r)."""
    source = random.Random(seed)
    known = vocabulary(source)
    weights = [1 / rank for rank in range(1, len(known) + 1)]
    pool = source.choices(known, weights, k=max(200_000, min(count * words, 2_000_000)))
    for _ in range(count):
        start = source.randrange(len(pool) - words)
        yield " ".join(pool[start : start + words])


def queries(count: int, seed: int = 11, words: int = 4) -> list[str]:
    """Queries of words as they occur, without the function words that nobody searches for."""
    source = random.Random(seed)
    spoken = [word for text in texts(2_000, seed=seed) for word in text.split() if word not in FUNCTION_WORDS]
    return [" ".join(source.choices(spoken, k=words)) for _ in range(count)]


def each(action: Callable[[int], object], count: int) -> list[float]:
    """Microseconds of `count` calls, one by one."""
    taken = []
    clock = time.perf_counter
    for number in range(count):
        start = clock()
        action(number)
        taken.append((clock() - start) * 1e6)
    return taken


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def row(name: str, *cells: object) -> None:
    """One line of a table; run.py collects them in the file that BENCH_ROWS names."""
    print(f"{name:<44}" + "".join(f"{cell:>14}" for cell in cells), flush=True)
    if rows := os.environ.get("BENCH_ROWS"):
        with Path(rows).open("a", encoding="utf-8") as out:
            out.write(json.dumps([name, *map(str, cells)]) + "\n")


def ratio(name: str, ours: float, base: float, limit: float, unit: str = "us") -> bool:
    """Print a ratio beside its limit; False when it is above."""
    value = ours / base
    kept = value <= limit
    row(
        name,
        f"{base:,.1f} {unit}",
        f"{ours:,.1f} {unit}",
        f"{value:.2f}x",
        f"<= {limit:g}x",
        "ok" if kept else "ABOVE",
    )
    return kept


def amount(name: str, ours: float, limit: float, unit: str, digits: int = 1) -> bool:
    """Print an amount beside its limit; False when it is above."""
    kept = ours <= limit
    row(name, "", f"{ours:,.{digits}f} {unit}", "", f"<= {limit:g} {unit}", "ok" if kept else "ABOVE")
    return kept


def full() -> bool:
    """Whether this is a run at full size (BENCH_FULL=1), which takes tens of minutes."""
    return os.environ.get("BENCH_FULL", "") not in ("", "0")


def peak_megabytes() -> float:
    """The most memory that this process had resident so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status tells no VmHWM")
