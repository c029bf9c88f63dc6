"""Importing again writes nothing: seen in the receipts, and in what another connection sees of the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import open_engine
from keyfold.contract.intents import Intent, Query
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.portability import Report, import_path
from keyfold.portability.drafts import Draft, State
from keyfold.portability.held import Address, held_at
from keyfold.portability.loader import CHUNK, Loader


def notes(folder: Path) -> Path:
    for number in range(CHUNK + 20):
        place = folder / f"area {number % 7}" / f"n{number}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"---\ntags: [a, b]\nrank: {number}\n---\n# Note {number}\n<private>x</private>\n")
    return folder


def graph(folder: Path) -> Path:
    lines = [
        {"type": "entity", "name": f"e{n}", "entityType": "x", "observations": [f"said {n}"]}
        for n in range(CHUNK + 20)
    ]
    lines += [
        {"type": "relation", "from": f"e{n}", "to": f"e{n + 1}", "relationType": "r"} for n in range(CHUNK)
    ]
    path = folder / "memory.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def transcripts(folder: Path) -> Path:
    for session in range(CHUNK // 40 + 5):
        lines = [
            {"type": "user", "sessionId": f"s{session}", "uuid": f"{session}-{n}", "timestamp": f"2026-03-01T10:00:{n:02d}Z",
             "message": {"role": "user", "content": f"said {n}"}}
            for n in range(40)
        ]  # fmt: skip  # a field a line says less
        (folder / f"s{session}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def conversations(folder: Path) -> Path:
    found = []
    for number in range(CHUNK // 20 + 10):
        mapping = {
            f"{n}": {"parent": f"{n - 1}" if n else None, "message": {"author": {"role": "user"}, "create_time": 1.7e9 + n,
                     "content": {"content_type": "text", "parts": [f"said {n}"]}}}
            for n in range(20)
        }  # fmt: skip  # a field a line says less
        found.append(
            {
                "conversation_id": f"{number * 7919:x}",
                "mapping": mapping,
                "current_node": "19",
                "create_time": 1.7e9,
            }
        )
    (folder / "conversations.json").write_text(json.dumps(found))
    return folder


@pytest.mark.parametrize("make", [notes, graph, transcripts, conversations])
def test_the_second_import_writes_nothing(make: Callable[[Path], Path], tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    path = make(tmp_path / "input")
    store = tmp_path / "memory.db"
    engine = open_engine(str(store))
    calls: list[Any] = []
    first = import_path(engine, path)
    assert first.created == first.records > CHUNK
    watch = apsw.Connection(str(store))
    before = watch.execute("PRAGMA data_version").fetchall()
    for name in ("store", "store_many"):
        monkey = getattr(engine, name)
        setattr(engine, name, lambda *given, call=monkey: calls.append(given) or call(*given))
    again = import_path(engine, path)
    assert (again.deduped, again.changed, again.skipped) == (first.records, False, [])
    assert watch.execute("PRAGMA data_version").fetchall() == before
    if first.redacted == 0:
        assert calls == []  # not even asked
    watch.close()
    engine.close()


def test_progress_is_told_as_an_import_goes(tmp_path: Path, engine: InMemoryEngine) -> None:
    (tmp_path / "input").mkdir()
    seen: list[int] = []

    def tell(report: Report) -> None:
        seen.append(report.records)

    report = import_path(engine, notes(tmp_path / "input"), progress=tell)
    assert seen == sorted(seen)
    assert seen[-1] == report.records
    assert len(seen) > 1


@pytest.mark.parametrize("url", ["inmemory:", ":memory:"])
def test_what_is_held_is_found_wherever_its_keys_lie(url: str) -> None:
    engine = open_engine(url)
    made = [Intent("u", key=f"{number:05d}", type="t", title="t", content="c") for number in range(2000)]
    others = [
        Intent("u", "document", key="00001", type="t", title="t", content="c"),
        Intent("v", key="00001", type="t", title="t", content="c"),
    ]
    engine.store_many([*made, *others])
    every, some = range(2000), [*range(0, 2000, 97), *range(400, 460), 1999]
    for numbers in (every, some, [3], [3, 5], range(0, 2000, 4)):
        wanted = {Address("u", "observation", False, f"{number:05d}") for number in numbers}
        assert held_at(engine, wanted).keys() == wanted
        absent = {Address("u", "observation", False, f"{number:05d}x") for number in numbers}
        assert held_at(engine, wanted | absent).keys() <= wanted
        assert held_at(engine, absent) == {}
    assert held_at(engine, [Address("w", "observation", False, "a")]) == {}
    engine.close()


def test_two_states_of_one_record_in_a_chunk_are_taken_in_turn(engine: InMemoryEngine, config: Any) -> None:
    from datetime import UTC, datetime

    at = datetime(2026, 1, 1, tzinfo=UTC)

    def draft(text: str) -> Draft:
        return Draft(
            "x", None, "u", "document", "k", False, State(1, "document", "t", text, at), at, current=at
        )

    for texts, outcome in ((["a"], (1, 0, 0)), (["b", "a"], (0, 2, 0)), (["a", "a"], (0, 0, 2))):
        report = Report()
        loader = Loader(engine, report, config)
        for text in texts:
            loader.offer(draft(text))
        loader.finish()
        assert (report.created, report.updated, report.deduped) == outcome
    (record,) = engine.page(Query("u", kinds=("document",))).items
    assert (record.content, record.revision_count) == ("a", 3)


@pytest.mark.parametrize("dry", [True, False])
def test_two_states_of_one_record_in_two_chunks_are_taken_in_turn(
    engine: InMemoryEngine, config: Any, dry: bool
) -> None:
    from datetime import UTC, datetime

    at = datetime(2026, 1, 1, tzinfo=UTC)

    def draft(text: str, key: str = "k") -> Draft:
        state = State(1, "document", "t", text, at)
        return Draft("x", None, "u", "document", key, False, state, at, current=at)

    def taken(drafts: list[Draft], *, dry_run: bool = False) -> tuple[int, int, int]:
        report = Report()
        loader = Loader(engine, report, config, dry_run=dry_run)
        for one in drafts:
            loader.offer(one)
        loader.finish()
        return report.created, report.updated, report.deduped

    others = [draft("o", f"o{number}") for number in range(CHUNK)]
    taken([draft("a"), *others])
    assert taken([draft("b"), *others, draft("a")], dry_run=dry) == (0, 2, CHUNK)


def test_a_listing_by_key_reads_on_from_where_a_page_ended(tmp_path: Path) -> None:
    engine = open_engine(str(tmp_path / "m.db"))
    made = [
        Intent("u", kind, key=f"{number:04d}", type="t", title="t", content="c")
        for kind in ("observation", "document")
        for number in range(300)
    ]
    engine.store_many(made)
    for kinds in (("document",), ("observation", "document"), ("document", "turn", "session")):
        found: list[tuple[str, str]] = []
        position = None
        while True:
            page = engine.page(
                Query("u", kinds=kinds, order="key", position=position, limit=70, want_total=False)
            )
            found += [(record.kind, record.key) for record in page.items]
            position = page.position
            if position is None:
                break
        assert found == [
            (kind, f"{number:04d}")
            for kind in kinds
            if kind in ("observation", "document")
            for number in range(300)
        ]
    engine.close()
