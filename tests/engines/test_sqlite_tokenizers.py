"""Two programs whose tokenizers differ have one store open: neither spoils the index, and no search is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keyfold.contract.intents import Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine, index
from keyfold.engines.sqlite.doctor import examine
from keyfold.errors import StoreError
from keyfold.text.tokens import TOKENIZER_VERSION
from tests.engines.common import USER, check_agreement, note, opened, sql

LONG = "apple " * index.SHORT


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    """An engine whose store another program has made the index of anew since."""
    engine = opened(tmp_path)
    for number in range(20):
        engine.store(note(f"k{number}", "apple"))
    sql(tmp_path, "UPDATE meta SET value = value + 1 WHERE name = 'tokenizer'")
    yield engine
    engine.close()


def test_a_search_is_refused_and_all_else_goes_on(engine: SqliteEngine) -> None:
    with pytest.raises(StoreError, match="restart it with that version"):
        engine.search(SearchQuery(USER, "apple"))
    assert engine.get(Ref(USER, key="k3")) is not None
    assert engine.store(note("new", "apple")).outcome == "created"
    assert engine.store(note("k4", "pear")).outcome == "updated"
    assert engine.forget(Selector(USER, ref=Ref(USER, key="k5"))).deleted == 1


def test_what_it_saves_waits_for_the_other_and_is_found_there(engine: SqliteEngine, tmp_path: Path) -> None:
    words = "SELECT count(*), (SELECT max(indexed) FROM namespaces) FROM words_docsize"
    before = sql(tmp_path, words)
    for number in range(40):
        engine.store(note(f"new {number}", "apple"))
    for number in range(20):
        engine.store(note(f"k{number}", "apple pie"))
    engine.store(note("long", LONG))
    engine.store_many([note(f"many {number}", "apple") for number in range(40)])
    assert sql(tmp_path, words) == before
    # the other program comes to write
    sql(tmp_path, "UPDATE meta SET value = ? WHERE name = 'tokenizer'", TOKENIZER_VERSION)
    engine.store(note("last", "apple"))
    assert engine.search(SearchQuery(USER, "apple", limit=200)).total == 20 + 40 + 1 + 40 + 1
    assert engine.search(SearchQuery(USER, "pie", limit=200)).total == 20
    check_agreement(tmp_path)
    assert examine(str(tmp_path / "store.db")).ok


def test_opening_again_makes_the_index_anew(engine: SqliteEngine, tmp_path: Path) -> None:
    engine.store(note("new", "apple"))
    again = opened(tmp_path)
    assert again.search(SearchQuery(USER, "apple")).total == 21
    assert engine.search(SearchQuery(USER, "apple")).total == 21, "it is of this tokenizer again"
    again.close()


def test_a_store_that_lost_the_number_is_indexed_anew_once(tmp_path: Path) -> None:
    opened(tmp_path).close()
    sql(tmp_path, "DELETE FROM meta WHERE name = 'tokenizer'")
    opened(tmp_path).close()
    assert sql(tmp_path, "SELECT value FROM meta WHERE name = 'tokenizer'") == [(TOKENIZER_VERSION,)]
