"""The marks of imports: there while a record is as an import left it, and gone with the first change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from keyfold.contract.intents import Intent, Load, Ref, Selector
from keyfold.contract.protocols import Engine, Marked
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.engines.sqlite import SqliteEngine
from keyfold.model import DOCUMENT

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOTE = Intent(
    "ana", DOCUMENT, "load", "a.md", type=DOCUMENT, title="A", content="one", normalized_hash="0" * 64,
    load=Load(THEN, THEN, current=THEN, mark=b"first"),
)  # fmt: skip  # one argument a line says less
KEYS = ["b.md", "a.md", "c.md"]


@pytest.fixture
def engine() -> Iterator[SqliteEngine]:
    engine = SqliteEngine.open(":memory:")
    yield engine
    engine.close()


def loaded(content: str, mark: bytes | None, **changes: object) -> Intent:
    """The note with another text."""
    load = Load(THEN, THEN, current=THEN, mark=mark)
    return replace(NOTE, content=content, normalized_hash=content[0] * 64, load=load, **changes)


def marks(engine: SqliteEngine) -> dict[str, bytes]:
    return engine.marks("ana", DOCUMENT, KEYS)


def test_only_an_engine_that_keeps_marks_says_so(engine: SqliteEngine) -> None:
    assert isinstance(engine, Marked)
    assert not isinstance(InMemoryEngine(), Marked)


def test_a_mark_is_found_by_namespace_kind_and_key(engine: SqliteEngine) -> None:
    engine.store(NOTE)
    engine.store(replace(NOTE, namespace="bob", key="b.md"))
    assert marks(engine) == {"a.md": b"first"}
    assert engine.marks("ana", "observation", KEYS) == {}
    assert engine.marks("nobody", DOCUMENT, KEYS) == {}
    assert engine.marks("ana", DOCUMENT, []) == {}


def test_a_batch_leaves_the_same_marks_as_single_writes(engine: SqliteEngine) -> None:
    notes = [
        replace(NOTE, key=f"{number}.md", load=Load(THEN, THEN, current=THEN, mark=b"%d" % number))
        for number in range(40)
    ]
    engine.store_many(notes)
    engine.store_many([replace(note, namespace="bob") for note in notes[:3]])
    keys = [str(note.key) for note in notes]
    assert engine.marks("ana", DOCUMENT, keys) == {f"{number}.md": b"%d" % number for number in range(40)}
    assert len(engine.marks("bob", DOCUMENT, keys)) == 3


def changed_by_hand(engine: SqliteEngine) -> None:
    engine.store(replace(NOTE, mode="update", content="by hand", normalized_hash="1" * 64, load=None))


def pinned(engine: SqliteEngine) -> None:
    engine.store(replace(NOTE, mode="update", pinned=True, content="one", load=None))


def imported_without_a_mark(engine: SqliteEngine) -> None:
    engine.store(loaded("two", None))


def forgotten(engine: SqliteEngine) -> None:
    engine.forget(Selector("ana", ref=Ref("ana", key="a.md", kind=DOCUMENT)))


def forgotten_and_written_again(engine: SqliteEngine) -> None:
    forgotten(engine)
    engine.store(replace(NOTE, mode="upsert", load=None))


def all_forgotten(engine: SqliteEngine) -> None:
    engine.forget(Selector("ana", everything=True))


@pytest.mark.parametrize(
    "change",
    [changed_by_hand, pinned, imported_without_a_mark, forgotten, forgotten_and_written_again, all_forgotten],
)
def test_a_mark_goes_with_the_first_change(
    engine: SqliteEngine, change: Callable[[SqliteEngine], None]
) -> None:
    engine.store(NOTE)
    change(engine)
    assert marks(engine) == {}


def test_a_change_that_is_imported_has_its_own_mark_and_a_repeated_import_keeps_it(
    engine: SqliteEngine,
) -> None:
    engine.store(NOTE)
    assert engine.store(loaded("two", b"second")).outcome == "updated"
    assert marks(engine) == {"a.md": b"second"}
    assert engine.store(loaded("two", b"third")).outcome == "deduped"
    assert marks(engine) == {"a.md": b"second"}, "nothing was written"


def test_what_expires_or_is_not_the_word_of_its_source_alone_has_no_mark(engine: SqliteEngine) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    engine.store(loaded("one", b"first", expires_at=later))
    assert marks(engine) == {}
    engine.store(replace(NOTE, key="b.md", load=Load(THEN, THEN, mark=b"first")))
    assert marks(engine) == {}


def test_an_engine_without_marks_takes_the_same_load() -> None:
    engine: Engine = InMemoryEngine()
    assert engine.store(NOTE).outcome == "created"
    assert engine.store(loaded("two", b"second")).outcome == "updated"
