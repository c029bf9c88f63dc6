"""Bytes of the file that turned: what is read then is refused as damage, and never comes as a raw error."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyfold.contract.filters import Filter
from keyfold.contract.intents import Idempotency, Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine
from keyfold.errors import KeyfoldError, StoreError
from keyfold.model import Config
from tests.engines.common import USER, note, opened, session, sql

CALLS: list[Callable[[SqliteEngine], Any]] = [
    lambda engine: engine.health(),
    lambda engine: engine.namespaces(),
    lambda engine: engine.count(USER),
    lambda engine: [engine.get(Ref(USER, key=f"k{number}")) for number in range(40)],
    lambda engine: [engine.history(Ref(USER, key=f"k{number}")) for number in range(40)],
    lambda engine: engine.page(Query(USER, limit=1000)),
    lambda engine: engine.page(Query(USER, order="key", limit=1000)),
    lambda engine: engine.page(Query(USER, where=Filter(tags=("tag",)), limit=1000)),
    lambda engine: engine.search(SearchQuery(USER, "text apple the", limit=100)),
    lambda engine: engine.search(SearchQuery(USER, "the", limit=100)),
    lambda engine: engine.store(note("k1", "another text", session=session())),
    lambda engine: engine.store(note(None, "repeated", dedup_window=None)),
    lambda engine: engine.store(note("k2", "text 2", idempotency=Idempotency("save", b"2", b"body"))),
    lambda engine: engine.store_many([note(f"k{number}", f"new {number}") for number in range(40)]),
    lambda engine: engine.forget(Selector(USER, ref=Ref(USER, key="k5"))),
    lambda engine: engine.forget(Selector(USER, where=Filter(tags=("tag",)))),
    lambda engine: engine.erase(),
    lambda engine: engine.reindex(),
    lambda engine: engine.close(),
]


def filled(folder: Path) -> bytes:
    """A store with something in every table, as bytes."""
    engine = opened(folder)
    for number in range(40):
        for text in (f"text {number} the apple", f"text {number} the pie naïve"):
            engine.store(
                note(
                    f"k{number}",
                    text,
                    tags=("tag", "über"),
                    metadata={"number": number, "word": "é"},
                    session=session(),
                    idempotency=Idempotency("save", str((number, text)).encode(), b"body"),
                )
            )
    engine.store(note(None, "repeated"))
    engine.close()
    return (folder / "store.db").read_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_give_answers_or_errors_of_this_library(tmp_path: Path, seed: int) -> None:
    whole = filled(tmp_path)
    source = random.Random(seed)
    path = tmp_path / "store.db"
    for _ in range(12):
        content = bytearray(whole)
        for _ in range(source.choice([1, 5, 60])):
            content[source.randrange(100, len(content))] = source.randrange(256)
        path.write_bytes(content)
        for side in ("-wal", "-shm"):
            (tmp_path / f"store.db{side}").unlink(missing_ok=True)
        try:
            engine = opened(tmp_path)
        except KeyfoldError:
            continue
        for call in CALLS:
            try:
                call(engine)
            except KeyfoldError as error:
                assert "text" not in str(error), error  # noqa: PT017  # of any record
        engine.close()


DAMAGE = {
    "no UTF-8": "UPDATE records SET title = CAST(x'ff66' AS TEXT)",
    "no JSON": "UPDATE records SET metadata = '{\"a\": '",
    "JSON of another form": "UPDATE records SET tags = '7'",
    "a time beyond all times": "UPDATE records SET created_at = 9000000000000000000",
    "no such space": "UPDATE records SET space = -77",
    "no such taint": "UPDATE records SET taint = 9",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_value_that_cannot_be_read_is_told_as_damage_without_its_text(tmp_path: Path, name: str) -> None:
    engine = opened(tmp_path)
    receipt = engine.store(note("k", "text", metadata={"a": 1}))
    sql(tmp_path, DAMAGE[name])
    with pytest.raises(StoreError, match="damaged") as caught:
        engine.get(Ref(USER, id=receipt.id))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    engine.close()


def test_a_callers_clock_that_fails_is_not_told_as_damage(tmp_path: Path) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC)]
    engine = SqliteEngine.open(str(tmp_path / "store.db"), config=Config(clock=lambda: moments[0]))
    engine.store(note("k", "text"))
    moments[0] = datetime(2026, 1, 1)  # noqa: DTZ001  # what is wrong with it
    with pytest.raises(TypeError, match="naive"):
        engine.page(Query(USER))
    with pytest.raises(TypeError, match="naive"):
        engine.store(note("k2", "text"))
    engine.close()
