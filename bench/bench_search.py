"""Search by a user with 1,000 records: alone in a store, and among 200 such users (BENCH_FULL=1: 1,000).

What a search costs must grow with the user's own memory, not with the store.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from common import full, median, percentile, queries, row, texts
from keyfold import Config, Memory

BATCH = 20
USERS_TRIED = 20
QUERIES_EACH = 25


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000 if full() else 200_000)
    parser.add_argument("--each", type=int, default=1_000, help="records a user")
    given = parser.parse_args()
    users = given.records // given.each
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        crowd = Path(folder) / "crowd.db"
        fill(crowd, users, given.each)
        taken = time.perf_counter() - start
        size = crowd.stat().st_size / 1e6
        row(f"{given.records:,} records of {users:,} users", f"{taken:,.0f} s", f"{size:,.0f} MB")
        tried = random.Random(3).sample(range(users), min(USERS_TRIED, users))
        alone = Path(folder) / "alone.db"
        apart, among = [], []
        for user in tried:
            alone.unlink(missing_ok=True)
            fill_one(alone, user, given.each)
            apart += searches(alone, user)
            among += searches(crowd, user)
    row("", "median ms", "p95 ms")
    row("the user alone in a store", f"{median(apart) / 1e3:.2f}", f"{percentile(apart, 0.95) / 1e3:.2f}")
    row("the user among the others", f"{median(among) / 1e3:.2f}", f"{percentile(among, 0.95) / 1e3:.2f}")
    single, crowded = percentile(apart, 0.95) / 1e3, percentile(among, 0.95) / 1e3
    near = crowded <= max(2 * single, single + 2)
    row("p95 among others", f"{crowded:.2f} ms", "<= 10 ms", "ok" if crowded <= 10 else "ABOVE")
    row("p95 against alone", f"{crowded / single:.2f}x", "<= 2x or +2 ms", "ok" if near else "ABOVE")
    return 0 if near and crowded <= 10 else 1


def items(user: int, each: int) -> list[dict[str, str]]:
    """The memories of one user: the same wherever they are stored."""
    return [
        {"content": text, "type": "discovery", "title": f"Note {number}", "topic_key": f"note/{number}"}
        for number, text in enumerate(texts(each, seed=user))
    ]


def fill(path: Path, users: int, each: int) -> None:
    """All users, their records mixed: a batch of one user, then a batch of another."""
    with Memory.open(str(path), config=Config(durability="process")) as memory:
        body = list(texts(200_000, seed=1))
        source = random.Random(5)
        turns = [user for user in range(users) for _ in range(each // BATCH)]
        source.shuffle(turns)
        done = [0] * users
        own: dict[int, list[dict[str, str]]] = {
            user: items(user, each) for user in random.Random(3).sample(range(users), min(USERS_TRIED, users))
        }
        for user in turns:
            at = done[user]
            done[user] += BATCH
            batch = (
                own[user][at : at + BATCH]
                if user in own
                else [
                    {
                        "content": body[source.randrange(len(body))],
                        "type": "discovery",
                        "title": f"Note {number}",
                        "topic_key": f"note/{number}",
                    }
                    for number in range(at, at + BATCH)
                ]
            )
            memory.mem_save_many(f"user-{user}", batch)


def fill_one(path: Path, user: int, each: int) -> None:
    """One user's records in a store of their own."""
    with Memory.open(str(path), config=Config(durability="process")) as memory:
        memory.mem_save_many(f"user-{user}", items(user, each))


def searches(path: Path, user: int) -> list[float]:
    """Microseconds of searches by one user."""
    taken = []
    with Memory.open(str(path)) as memory:
        memory.mem_search(f"user-{user}", "warm up")
        for query in queries(QUERIES_EACH, seed=user):
            start = time.perf_counter()
            memory.mem_search(f"user-{user}", query)
            taken.append((time.perf_counter() - start) * 1e6)
    return taken


if __name__ == "__main__":
    raise SystemExit(main())
