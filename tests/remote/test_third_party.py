"""The engine of docs/services/your-own.md: without a keyed read of its own it passes the clauses, from its listing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyfold import AsyncMemory, Config
from keyfold.conformance import run
from keyfold.conformance.world import SteppedClock
from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.transport import AwaitedTransport
from keyfold.errors import Unsupported
from keyfold.faces.planned import AsyncPlannedEngine, Plans
from keyfold.memory.face import Memory
from tests.remote.common import contents, intent, ref
from tests.test_docs import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "services" / "your-own.md"


@pytest.fixture
def page() -> Iterator[dict[str, Any]]:
    """What the page defines, with its service running; the examples that use it are run by the test of the pages."""
    defined: dict[str, Any] = {}
    service, dialect, opening, _ = [block.code for block in blocks(PAGE.read_text("utf-8")) if block.runs]
    for code in (service, dialect, opening.partition("\nwith Memory")[0]):
        exec(compile(code, str(PAGE), "exec"), defined)
    defined["asked"] = asked = []
    served = defined["NotesService"]
    parse = served.parse_request

    def parsed(self: Any) -> bool:
        found: bool = parse(self)
        asked.append((getattr(self, "command", None), getattr(self, "path", None)))
        return found

    served.parse_request = parsed
    yield defined
    defined["service"].shutdown()
    defined["service"].server_close()


def test_it_says_that_it_has_no_keyed_read_and_no_search(page: dict[str, Any]) -> None:
    engine = page["open_notes"]()
    assert engine.capabilities.engine == "notes"
    assert engine.capabilities.keyed_reads is False
    memory = Memory(engine)
    with pytest.raises(Unsupported, match=r"notes engine .* mem_list"):
        memory.mem_search("ana", "words")
    with pytest.raises(Unsupported, match="notes engine has no search"):
        engine.search(SearchQuery("ana", "words"))
    memory.close()


def test_it_passes_the_clauses_from_its_listing(page: dict[str, Any]) -> None:
    outcomes = run(page["open_notes"], clock=SteppedClock())
    assert [str(outcome) for outcome in outcomes if outcome.status == "failed"] == []
    assert sum(outcome.status == "passed" for outcome in outcomes) >= 100
    searching = [outcome for outcome in outcomes if outcome.id.startswith("Q-")]
    assert {outcome.status for outcome in searching} == {"skipped"}


def test_a_get_is_one_listing_and_a_rewrite_leaves_one_row(page: dict[str, Any]) -> None:
    engine, asked = page["open_notes"](), page["asked"]
    engine.store(intent("ns", "k", "first"))
    engine.store(intent("other", "k", "another's"))
    asked.clear()
    record = engine.get(ref("ns", "k"))
    assert record is not None
    assert (record.content, asked) == ("first", [("GET", "/notes")])
    asked.clear()
    assert engine.store(intent("ns", "k", "second")).revision_count == 2
    assert [method for method, _ in asked] == ["GET", "POST", "DELETE"], "never a moment without the record"
    assert contents(engine.page(Query("ns")).items) == ["second"]
    assert engine.namespaces() == ["ns", "other"]
    assert engine.forget(Selector("ns", ref("ns", "k"))).deleted == 1
    assert contents(engine.page(Query("other")).items) == ["another's"]
    engine.close()


def test_notes_that_others_wrote_are_left_alone(page: dict[str, Any]) -> None:
    notes = page["NotesService"].notes
    notes[999] = {"folder": "kf:ns", "text": "somebody's", "header": None}
    engine = page["open_notes"]()
    assert engine.page(Query("ns")).items == ()
    engine.forget(Selector("ns", everything=True))
    assert list(notes) == [999]
    engine.close()


def test_the_same_dialect_serves_the_async_face(page: dict[str, Any]) -> None:
    async def use() -> list[str]:
        transport = AwaitedTransport(endpoint(page["url"], scheme=""), dict, 5.0)
        async with AsyncMemory(
            AsyncPlannedEngine(Plans(page["Notes"]()), transport), config=Config()
        ) as memory:
            saves = [
                memory.mem_save("ana", f"text {n}", type="decision", title="T", topic_key=f"k{n}")
                for n in range(5)
            ]
            await asyncio.gather(*saves)
            return sorted(topic.key for topic in await memory.mem_topics("ana"))

    assert asyncio.run(use()) == [f"k{n}" for n in range(5)]
