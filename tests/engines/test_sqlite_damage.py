"""Bytes of the file that turned: what is read then is refused as damage, and never comes as a raw error."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import Memory
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Idempotency, Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine
from keyfold.engines.sqlite.doctor import examine
from keyfold.engines.sqlite.repair import treat
from keyfold.errors import InvalidRequest, KeyfoldError, NotFound, StoreError
from keyfold.model import Config
from keyfold.portability import export
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


def spoil(folder: Path, statement: str) -> None:
    """Put a value where SQLite would not take it, as a byte that turns in the file does."""
    for strict in (False, True):
        conn = apsw.Connection(str(folder / "store.db"))
        conn.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        if strict:
            conn.execute(statement)
            assert conn.changes()
        conn.execute("PRAGMA writable_schema = 1")
        pairs = ("NOT NULL", "/*--*/"), ("STRICT", "/**/"), (" ANY", "/*:*/")
        for words, mark in pairs:
            told = (mark, words) if strict else (words, mark)
            conn.execute(
                "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE type = 'table' AND name <> 'words'",
                told,
            )
        conn.close()


READS: dict[str, Callable[[Memory], Any]] = {
    "get": lambda memory: memory.mem_get_observation(USER, topic_key="k"),
    "list": lambda memory: memory.mem_list(USER),
    "list by tag": lambda memory: memory.mem_list(USER, tags=["tag"]),
    "list below": lambda memory: memory.mem_list(USER, reach="subtree"),
    "search": lambda memory: memory.mem_search(USER, "text"),
    "search the": lambda memory: memory.mem_search(USER, "the"),
    "search by tag": lambda memory: memory.mem_search(USER, "text", tags=["tag"]),
    "context": lambda memory: memory.mem_context(USER),
    "context of": lambda memory: memory.mem_context(USER, query="text"),
    "timeline": lambda memory: memory.mem_timeline(USER, topic_key="k"),
    "history": lambda memory: memory.mem_history(USER, topic_key="k"),
    "topics": lambda memory: memory.mem_topics(USER),
    "suggest": lambda memory: memory.mem_suggest_topic_key(USER, type="decision", title="Title"),
    "stats": lambda memory: memory.mem_stats(USER),
    "export": lambda memory: list(export(memory.engine)),
    "save": lambda memory: memory.mem_save(USER, "other", type="decision", title="t", topic_key="k"),
}
BY_KEY = {"get", "timeline", "history", "save"}  # which find no record under a key that is another now
VALUES = {
    "NULL": "NULL",
    "bytes": "x'616263'",
    "a number": "7",
    "a real": "1.5",
    "a text": "'x'",
}
COLUMNS = {
    **dict.fromkeys(("key", "type", "title", "content"), ("NULL", "bytes")),
    **dict.fromkeys(("metadata", "tags"), ("bytes", "a number")),
    "session": ("bytes",),
    **dict.fromkeys(
        ("revision", "created_at", "updated_at", "pinned"), ("NULL", "bytes", "a real", "a text")
    ),
    "hash": ("NULL", "a real"),
    "expires_at": ("bytes", "a text"),
    "observed_at": ("bytes", "a text"),
    "taint": ("NULL", "bytes", "a real"),
}


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column, values in COLUMNS.items() for value in values]
)
def test_a_value_of_a_wrong_type_is_told_as_damage_by_whatever_reads_it(
    tmp_path: Path, column: str, value: str
) -> None:
    with Memory.open(tmp_path / "store.db") as memory:
        memory.mem_save(
            USER, "the text", type="decision", title="Title", topic_key="k", tags=["tag"], metadata={"a": 1}
        )
    spoil(tmp_path, f"UPDATE records SET {column} = {VALUES[value]} WHERE space = 0")
    assert not examine(str(tmp_path / "store.db")).ok
    assert set(READS) - told_as_damage(tmp_path) <= ({"stats"} | BY_KEY if column == "key" else {"stats"})


def told_as_damage(folder: Path) -> set[str]:
    """Which reads say that the store is damaged. No other error is raised, but that there is no such record."""
    told: dict[str, str] = {}
    with Memory.open(folder / "store.db") as memory:
        for name, call in READS.items():
            try:
                call(memory)
            except StoreError as error:
                told[name] = str(error)
            except NotFound:
                pass
    assert all("so it is damaged: run keyfold doctor" in words for words in told.values())
    return set(told)


@pytest.mark.parametrize("column", ["written_at", "pinned", "hash", "type", "title", "content"])
def test_a_past_state_of_wrong_types_is_told_as_damage(tmp_path: Path, column: str) -> None:
    with Memory.open(tmp_path / "store.db") as memory:
        for text in ("the text", "the text now"):
            memory.mem_save(USER, text, type="decision", title="Title", topic_key="k")
    spoil(tmp_path, f"UPDATE revisions SET {column} = NULL")
    assert {"history", "timeline"} <= told_as_damage(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        *(
            f"UPDATE meta SET value = {value} WHERE name = '{name}'"
            for name in ("forgets", "erased")
            for value in ("NULL", "x'00'", "'a'")
        ),
        "UPDATE meta SET name = CAST(x'ff66' AS TEXT) WHERE name = 'erased'",
        "UPDATE meta SET value = CAST(x'ff66' AS TEXT) WHERE name = 'last_id'",
        "DELETE FROM meta WHERE name = 'forgets'",
    ],
)
def test_damaged_counters_are_erased_by_and_made_again(tmp_path: Path, statement: str) -> None:
    path = str(tmp_path / "store.db")
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    engine.close()
    spoil(tmp_path, statement)
    assert treat(path, erases=True).erased is True
    found = examine(path)
    assert not found.ok
    treated = treat(
        path, remedies={finding.remedy for finding in found.findings if finding.remedy}, erases=True
    )
    assert (treated.failed, treated.erased) == ((), True)
    assert any("set the counter" in line for line in treated.repaired)
    assert examine(path).ok


def test_a_callers_clock_that_fails_is_not_told_as_damage(tmp_path: Path) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC)]
    engine = SqliteEngine.open(str(tmp_path / "store.db"), config=Config(clock=lambda: moments[0]))
    engine.store(note("k", "text"))
    moments[0] = datetime(2026, 1, 1)  # noqa: DTZ001  # what is wrong with it
    with pytest.raises(InvalidRequest, match="clock: must give aware times"):
        engine.page(Query(USER))
    with pytest.raises(InvalidRequest, match="clock: must give aware times"):
        engine.store(note("k2", "text"))
    engine.close()
