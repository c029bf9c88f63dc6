"""Importing twice: the second time nothing is written, and it takes less than a fifth of the first.

A folder of 10,000 notes and a memory.jsonl as the MCP reference memory server writes it, through `import_path`
into a store on disk. `--chatgpt MB` measures the memory that an export of that size takes, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from common import ratio, row, texts
from keyfold import open_engine
from keyfold.portability import import_path

LIMIT = 0.2
CHAT_LIMIT = 0.35  # a history is parsed whole each time, and that is a larger share of storing short turns
ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--entities", type=int, default=1_000)
    parser.add_argument(
        "--chatgpt", type=int, default=100, metavar="MB", help="size of the export; 0: leave it out"
    )
    parser.add_argument(
        "--twice", nargs=4, metavar=("NAME", "PATH", "ROUNDS", "LIMIT"), help=argparse.SUPPRESS
    )
    parser.add_argument("--peak", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.twice:
        name, path, rounds, limit = args.twice
        return 0 if twice(name, Path(path), int(rounds), float(limit)) else 1
    if args.peak:
        return peak(Path(args.peak))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vault, graph = folder / "vault", folder / "memory.jsonl"
        write_notes(vault, args.notes)
        write_graph(graph, args.entities)
        row("", "first", "again", "ratio", "limit", "")
        codes = [
            alone("--twice", f"{args.notes:,} notes", vault, ROUNDS, LIMIT),
            alone("--twice", f"memory.jsonl of {graph.stat().st_size // 1000:,} kB", graph, ROUNDS, LIMIT),
        ]
        if args.chatgpt:
            export = folder / "conversations.json"
            write_conversations(export, args.chatgpt)
            codes.append(alone("--twice", f"conversations.json of {args.chatgpt} MB", export, 1, CHAT_LIMIT))
            codes.append(alone("--peak", export))
    return max(codes)


def alone(*arguments: object) -> int:
    """Measure in a process of its own, as the command line would run: what writes the inputs fills this one."""
    return subprocess.run([sys.executable, __file__, *map(str, arguments)], check=False).returncode


def twice(name: str, path: Path, rounds: int, limit: float) -> bool:
    """Import a path into a new store and again, `rounds` times; the best of each. The store must not move."""
    with tempfile.TemporaryDirectory() as folder:
        return ratio(f"{name}, again", *best_of(path, Path(folder), rounds), limit, "ms")


def best_of(path: Path, folder: Path, rounds: int) -> tuple[float, float]:
    first, again = [], []
    for number in range(rounds):
        store = folder / f"{path.name}-{number}.db"
        engine = open_engine(str(store))
        watch = apsw.Connection(str(store))
        for times in (first, again):
            before = version(watch)
            start = time.perf_counter()
            report = import_path(engine, path, namespace="alice")
            times.append((time.perf_counter() - start) * 1e3)
            assert report.skipped_count == 0, report.skipped[:3]
        assert not report.changed, report
        assert report.deduped == report.records > 0
        assert version(watch) == before, "the second import wrote something"
        watch.close()
        engine.close()
    return min(again), min(first)


def version(watch: apsw.Connection) -> object:
    """What another connection sees change whenever anything is written."""
    return watch.execute("PRAGMA data_version").fetchall()


def write_notes(folder: Path, count: int) -> None:
    """Notes of 40 to 400 words in folders of a hundred, two in three with front matter."""
    source = random.Random(5)
    for number, text in enumerate(texts(count, words=400)):
        place = folder / f"area-{number // 1000}" / f"topic-{number // 100}" / f"note {number}.md"
        if number % 100 == 0:
            place.parent.mkdir(parents=True, exist_ok=True)
        words = text.split()[: source.randint(40, 400)]
        front = ""
        if number % 3:
            front = (
                f"---\ntitle: Note number {number}\ntags: [work, area-{number // 1000}]\ncreated: 2025-03-04\n"
                f"status: draft # {number}\nrank: {number}\n---\n"
            )
        lines = [" ".join(words[at : at + 12]) for at in range(0, len(words), 12)]
        place.write_text(f"{front}# Note {number}\n\n" + "\n".join(lines) + "\n")


def write_graph(path: Path, entities: int) -> None:
    """Entities of 1 to 120 observations (most of a few), some twice, and two relations each."""
    source = random.Random(6)
    said = texts(entities * 12, words=20)
    with path.open("w") as out:
        for number in range(entities):
            many = 120 if number % 100 == 0 else source.randint(1, 8)
            value = {
                "type": "entity",
                "name": f"Entity {number}: part/{number % 7}",
                "entityType": source.choice(["person", "project", "preference", "tool"]),
                "observations": [next(said) for _ in range(many)],
                "createdAt": "2025-06-07T08:09:10Z",
            }
            out.write(json.dumps(value) + "\n")
            if number % 20 == 0:
                value["observations"].append(next(said))
                out.write(json.dumps(value) + "\n")
            for _ in range(2):
                one = source.randrange(entities)
                other = f"Entity {one}: part/{one % 7}"
                relation = {"type": "relation", "from": value["name"], "to": other, "relationType": "uses"}
                out.write(json.dumps(relation) + "\n")


def write_conversations(path: Path, megabytes: int) -> None:
    """An export of conversations of 2 to 60 messages, as one line."""
    source = random.Random(7)
    said = endless()
    with path.open("w") as out:
        out.write("[")
        number = size = 0
        while size < megabytes * 1_000_000:
            text = json.dumps(conversation(number, source.randint(2, 60), said))
            out.write(("," if number else "") + text)
            size += len(text)
            number += 1
        out.write("]")


def endless() -> Iterator[str]:
    while True:
        yield from texts(20_000, words=120)


def conversation(number: int, messages: int, said: Iterator[str]) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for index in range(messages):
        mapping[f"{number}-{index}"] = {
            "id": f"{number}-{index}",
            "parent": f"{number}-{index - 1}" if index else None,
            "children": [f"{number}-{index + 1}"] if index + 1 < messages else [],
            "message": {
                "id": f"{number}-{index}",
                "author": {"role": "assistant" if index % 2 else "user"},
                "create_time": 1_700_000_000 + number * 1000 + index + 0.25,
                "content": {"content_type": "text", "parts": [next(said)]},
                "metadata": {"model_slug": "x", "citations": [], "request_id": f"{number * 7919:032x}"},
                "recipient": "all",
            },
        }
    return {
        "title": f"Conversation {number}",
        "create_time": 1_700_000_000 + number * 1000,
        "mapping": mapping,
        "current_node": f"{number}-{messages - 1}",
        "conversation_id": f"c-{number}",
    }


def peak(path: Path) -> int:
    """Import into a store on disk, and print the most memory that this process took."""
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(str(Path(folder) / "m.db"))
        report = import_path(engine, path, namespace="alice")
        engine.close()
    name = f"memory, {path.stat().st_size / 1e6:,.0f} MB, {report.records:,} records"
    status = Path(
        "/proc/self/status"
    ).read_text()  # not getrusage: that counts the process it was forked from
    most = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    row(name, f"{most:,.0f} MiB peak")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
