"""Queries of nothing but stop words, which are in no index: the embedded engine finds what the reference finds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.contract.intents import SearchQuery
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.engines.sqlite import SqliteEngine, search
from keyfold.model import Config
from keyfold.text.tokens import query_units
from tests.engines.common import USER, note

WORDS = [
    "don't",
    "dont",
    "don’t",
    "DON'T",
    "it's",
    "its",
    "you're",
    "the",
    "THE",
    "of",
    "ｔｈｅ",
    "d-o",
    "do",
    "a_n",
    "an",
    "no-no",
    "not",
    "isn’t",
    "él",
    "el",
    "ó",
    "o",
    "x.the",
    "the.x",
]
texts = st.lists(
    st.one_of(st.sampled_from(WORDS), st.text("don't-_.ó’ ", max_size=6)), min_size=1, max_size=5
).map(" ".join)


@pytest.mark.parametrize("asked", ["don't", "dont", "don’t", "the", "isn't the", "an"])
def test_a_contraction_is_found_however_it_is_written(asked: str) -> None:
    engine = SqliteEngine.open(":memory:")
    engine.store_many([note(None, f"prefers {text} disturb") for text in (asked, "x")])
    assert engine.search(SearchQuery(USER, asked)).total == 1
    engine.close()


@settings(max_examples=150, deadline=None)
@given(held=st.lists(texts, min_size=1, max_size=6), asked=texts, chunks=st.sampled_from([1, 32_768]))
def test_stop_words_are_found_as_the_reference_finds_them(held: list[str], asked: str, chunks: int) -> None:
    if query_units(asked):
        return
    config = Config(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    reference, engine = InMemoryEngine(config), SqliteEngine.open(":memory:", config=config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "CHUNKS", chunks, raising=False)
        for number, text in enumerate(held):
            for one in (reference, engine):
                one.store(note(f"k{number}", text or ".", tags=("the", "x")))
        query = SearchQuery(USER, asked, limit=10, explain=True)
        assert engine.search(query).total == reference.search(query).total
        for mine, theirs in zip(engine.search(query).items, reference.search(query).items, strict=True):
            assert (mine.record.id, mine.score, mine.parts) == (theirs.record.id, theirs.score, theirs.parts)
    engine.close()
