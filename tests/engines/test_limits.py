"""The ends of what can be counted, and of what is quick: both engines that need no server say the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.contract.filters import Filter
from keyfold.contract.intents import Idempotency, Load, Query, Ref, SearchQuery, Selector
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.engines.sqlite import SqliteEngine, search
from keyfold.errors import Conflict, IdempotencyConflict, InvalidRequest, NotFound
from keyfold.model import UNSET, Config
from tests.engines.common import USER, note

NOW = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime.max.replace(tzinfo=UTC)


def reference(**config: Any) -> InMemoryEngine:
    return InMemoryEngine(Config(clock=lambda: NOW, **config))


def embedded(**config: Any) -> SqliteEngine:
    return SqliteEngine.open(":memory:", config=Config(clock=lambda: NOW, **config))


@pytest.fixture(params=[reference, embedded])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    make: Callable[[], Any] = request.param
    one = make()
    yield one
    one.close()


def loaded(moment: datetime, revision: int = 1) -> Any:
    return note("far", "text", mode="load", load=Load(moment, moment, (), revision))


def test_what_bears_the_last_moment_is_not_rewritten_but_can_be_forgotten(engine: Any) -> None:
    engine.store(loaded(END))
    with pytest.raises(Conflict, match="'far'") as caught:
        engine.store(note("far", "another text"))
    assert caught.value.current_revision == 1
    assert engine.get(Ref(USER, key="far")).content == "text"
    assert engine.store(note("far", "text")).outcome == "deduped"
    assert engine.forget(Selector(USER, ref=Ref(USER, key="far"))).deleted == 1
    assert engine.store(note("far", "another text")).outcome == "created"


def test_the_moment_before_the_last_has_one_after_it(engine: Any) -> None:
    engine.store(loaded(END - timedelta(microseconds=1)))
    assert engine.store(note("far", "another text")).outcome == "updated"
    assert engine.get(Ref(USER, key="far")).updated_at == END


@pytest.mark.parametrize("revision", [2**63 - 1, 2**63, 2**80])
def test_a_revision_that_cannot_be_counted_on_from_is_told(engine: Any, revision: int) -> None:
    if revision < 2**63:
        engine.store(loaded(NOW - timedelta(days=1), revision))
        with pytest.raises(Conflict, match="'far'"):
            engine.store(note("far", "another text"))
    else:
        with pytest.raises(InvalidRequest, match="revision"):
            engine.store(loaded(NOW, revision))


@pytest.mark.parametrize(
    "identity", [str(2**63 - 1), str(2**63), str(2**70), "9" * 4_000, "-1", "1.0", "²", "٣"]
)
def test_an_id_beyond_all_numbers_is_an_id_of_nothing(engine: Any, identity: str) -> None:
    engine.store(note("k", "text"))
    ref = Ref(USER, id=identity)
    assert engine.get(ref) is None
    assert engine.history(ref).record is None
    assert engine.forget(Selector(USER, ref=ref)).deleted == 0
    with pytest.raises(NotFound):
        engine.store(note(None, "text", id=identity, mode="update"))


@pytest.mark.parametrize("order", ["newest", "key"])
@pytest.mark.parametrize(
    "position",
    [
        f"{2**63}.1",
        f"-{2**64}.1",
        f"{'9' * 5_000}.1",
        f"1.{'9' * 5_000}",
        "1.1e9",
        '["a", 1e999, 0, "b"]',
        f'["a", {2**70}, 0, "b"]',
        f'["a", 0, {2**70}, "b"]',
    ],
)
def test_a_position_beyond_all_numbers_is_refused(engine: Any, order: Any, position: str) -> None:
    engine.store(note("k", "text"))
    with pytest.raises(InvalidRequest, match="cursor"):
        engine.page(Query(USER, order=order, position=position))


def test_as_many_revisions_may_be_kept_as_one_likes() -> None:
    engine = embedded(keep_revisions=2**31 - 1)
    engine.store(note("k", "text"))
    engine.store(note("k", "another text"))
    assert len(engine.history(Ref(USER, key="k")).revisions) == 2
    engine.close()


def test_both_engines_tell_alike_of_an_idempotency_key_that_comes_again() -> None:
    told = []
    for engine in (reference(), embedded()):
        receipt = engine.store(note("secret key", "text", idempotency=Idempotency("save", b"key", b"one")))
        with pytest.raises(IdempotencyConflict) as caught:
            engine.store(note("secret key", "text", idempotency=Idempotency("save", b"key", b"two")))
        assert caught.value.existing_id == receipt.id
        assert f"record {receipt.id}" in str(caught.value)
        told.append(str(caught.value))
        everything = Selector(USER, everything=True, idempotency=Idempotency("delete", b"key", b"one"))
        engine.forget(everything)
        with pytest.raises(IdempotencyConflict) as caught:
            engine.forget(Selector(USER, everything=True, idempotency=Idempotency("delete", b"key", b"two")))
        told.append(str(caught.value))
        engine.close()
    assert told[:2] == told[2:]
    assert not any("secret" in text or "key'" in text for text in told)


words = st.sampled_from([f"word{number}" for number in range(60)] + ["naïve", "東京", "userName", "the"])
texts = st.lists(words, min_size=1, max_size=30).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(
    held=st.lists(texts, min_size=1, max_size=20),
    asked=st.lists(words, min_size=30, max_size=60, unique=True).map(" ".join),
    size=st.sampled_from([1, 2, 7, 64]),
    where=st.sampled_from([Filter(), Filter(tags=("even",)), Filter(types=("decision",))]),
)
def test_a_query_of_many_words_finds_what_the_reference_finds(
    held: list[str], asked: str, size: int, where: Filter
) -> None:
    one, other = reference(), embedded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "WORDS_A_BATCH", size, raising=False)
        for number, text in enumerate(held):
            for engine in (one, other):
                engine.store(note(f"k{number}", text, tags=("even",) if number % 2 else ("odd",)))
        query = SearchQuery(USER, asked, limit=50, where=where, explain=True)
        expected, found = one.search(query), other.search(query)
    other.close()
    assert found.total == expected.total
    assert [hit.record.id for hit in found.items] == [hit.record.id for hit in expected.items]
    assert [hit.score for hit in found.items] == pytest.approx([hit.score for hit in expected.items])


def test_no_statement_asks_the_index_for_thousands_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = embedded()
    engine.store_many([note(f"k{number}", f"word{number} and more") for number in range(40)])
    asked: list[int] = []
    real = search._any_of
    monkeypatch.setattr(search, "_any_of", lambda tokens: asked.append(len(list(tokens))) or real(tokens))
    found = engine.search(SearchQuery(USER, " ".join(f"word{number}" for number in range(4_000)), limit=50))
    assert found.total == 40
    assert max(asked) < 2 * search.WORDS_A_BATCH
    engine.close()


unkeyed = st.builds(
    lambda text, **more: note(None, text, dedup_window=None, **more),
    st.sampled_from(["text", "more"]),
    title=st.sampled_from(["A", "B"]),
    type=st.sampled_from(["decision", "pattern"]),
    tags=st.sampled_from([UNSET, None, (), ("x",), ("x", "y"), ("y", "x")]),
    metadata=st.sampled_from(
        [UNSET, None, {}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": 1, "b": 2}, {"b": 2, "a": 1}]
    ),
    pinned=st.sampled_from([UNSET, None, True, False]),
    expires_at=st.sampled_from([UNSET, None, END, NOW + timedelta(days=1)]),
    dedup_on=st.sampled_from(["material", "material", "content"]),
)


@settings(max_examples=150, deadline=None)
@given(saves=st.lists(unkeyed, min_size=2, max_size=25))
def test_an_unkeyed_repeat_is_one_of_the_same_record_on_both_engines(saves: list[Any]) -> None:
    one, other = reference(), embedded()
    for save in saves:
        mine, theirs = other.store(save), one.store(save)
        assert (mine.outcome, mine.id) == (theirs.outcome, theirs.id)
    other.close()


def test_a_repeat_among_thousands_reads_but_what_it_may_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyfold.engines.sqlite import write

    engine = embedded()
    same = [note(None, "text", title=f"Title {number}", dedup_window=None) for number in range(3_000)]
    engine.store_many([*same, *[note(None, "text", mode="upsert", dedup_window=0) for _ in range(2_000)]])
    read: list[object] = []
    real = write.record_of
    monkeypatch.setattr(write, "record_of", lambda *row: read.append(row) or real(*row))
    assert engine.store(note(None, "text", title="Another", dedup_window=None)).outcome == "created"
    assert engine.store(note(None, "text", title="Title 7", dedup_window=None)).outcome == "deduped"
    assert len(read) <= 2
    engine.close()


def test_a_save_over_ten_thousand_copies_costs_no_more_than_ever() -> None:
    engine = embedded()
    engine.store_many([note(None, "text", dedup_window=0) for _ in range(10_000)])
    began = time.process_time()
    for number in range(50):
        engine.store(note(None, "text", title=f"Title {number}", dedup_window=60.0))
    assert time.process_time() - began < 1
    engine.close()
