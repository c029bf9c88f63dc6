"""What the engine writes, and what it does not: ids, dedups, statistics, erased bytes, the reach of a search."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold.contract.filters import Filter
from keyfold.contract.intents import Idempotency, Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine, forget
from keyfold.engines.sqlite.index import BATCH, SHORT
from keyfold.engines.sqlite.search import Hits
from keyfold.errors import IdempotencyConflict, InvalidRequest, NotFound
from keyfold.model import Config
from tests.engines.common import USER, check_agreement, note, opened, session, sql

DAY = timedelta(days=1)


class Clock:
    """Moves when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_dedup_writes_nothing_at_all(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text", session=session()))
    engine.store(note(None, "unkeyed text", session=session()))
    log = tmp_path / "store.db-wal"
    watcher = apsw.Connection(str(tmp_path / "store.db"))
    before = watcher.execute("PRAGMA data_version").fetchall(), log.stat().st_size
    assert engine.store(note("k", "text", session=session("another"))).outcome == "deduped"
    assert engine.store(note(None, "unkeyed text", session=session("another"))).outcome == "deduped"
    assert (watcher.execute("PRAGMA data_version").fetchall(), log.stat().st_size) == before
    watcher.close()
    engine.close()


def test_an_id_never_comes_again_even_when_the_newest_is_forgotten(tmp_path: Path) -> None:
    seen: list[int] = []
    for turn in range(4):
        engine = opened(tmp_path)
        seen += [int(engine.store(note(f"{turn} {number}", "text")).id) for number in range(3)]
        engine.forget(Selector(USER, ref=Ref(USER, key=f"{turn} 2")))
        engine.forget(Selector(USER, everything=turn % 2 == 0, where=None if turn % 2 == 0 else Filter()))
        engine.close()
    assert seen == sorted(set(seen))


def test_a_forgotten_namespace_leaves_no_row_and_its_number_is_not_used_again(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text", session=session(), idempotency=Idempotency("save", b"1", b"2")))
    engine.store(note("k", "other text"))
    first = sql(tmp_path, "SELECT num FROM namespaces")
    assert engine.forget(Selector(USER, everything=True)).deleted == 1  # sessions go along uncounted
    for table in ("namespaces", "records", "revisions", "idempotency", "words"):
        assert sql(tmp_path, f"SELECT count(*) FROM {table}") == [(0,)], table
    assert engine.store(note("k", "text")).outcome == "created"
    assert sql(tmp_path, "SELECT num FROM namespaces") != first
    engine.close()


def test_an_engine_notices_that_another_forgot_the_namespace(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.store(note("k", "text"))
    other.forget(Selector(USER, everything=True))
    other.store(note("k", "text of the other"))
    assert one.store(note("k", "text")).outcome == "updated"
    assert one.store(note("k2", "text")).outcome == "created"
    assert {record.key for record in other.page(Query(USER)).items} == {"k", "k2"}
    one.close()
    other.close()
    check_agreement(tmp_path)


def test_an_expired_record_makes_way_for_a_new_one_with_another_id(tmp_path: Path) -> None:
    clock = Clock()
    engine = SqliteEngine.open(str(tmp_path / "store.db"), clock=clock)
    first = engine.store(note("k", "passing text", expires_at=clock.now + DAY))
    engine.store(note("k", "passing text, rewritten"))
    clock.now += DAY
    assert engine.get(Ref(USER, key="k")) is None
    assert engine.search(SearchQuery(USER, "passing")).total == 0
    with pytest.raises(NotFound):
        engine.store(note("k", "text", mode="update"))
    again = engine.store(note("k", "new text"))
    assert (again.outcome, again.revision_count) == ("created", 1)
    assert int(again.id) > int(first.id)
    assert engine.history(Ref(USER, key="k")).revisions[0].content == "new text"
    engine.close()
    check_agreement(tmp_path)
    assert b"passing text" not in (tmp_path / "store.db").read_bytes()


def test_statistics_follow_saves_rewrites_patches_and_forgets(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    for number in range(30):
        engine.store(note(f"k{number}", f"some words about {number}", tags=("red", "blue")))
    engine.store(note("k3", "fewer words"))
    engine.store(note("k4", "many more words than there were before the rewrite"))
    engine.store(note("k5", "x", mode="update", content="patched content", tags=("green",)))
    engine.store(note("k6", "x", mode="update", content="some words about 6", metadata={"a": 1}))
    engine.forget(Selector(USER, where=Filter(types=("decision",), topic_prefix="k1")))
    engine.close()
    check_agreement(tmp_path)


def test_only_the_states_that_are_kept_stay(tmp_path: Path) -> None:
    engine = opened(tmp_path, keep_revisions=2)
    for number in range(5):
        engine.store(note("k", f"state{number}"))
    past = engine.history(Ref(USER, key="k"))
    assert [state.content for state in past.revisions] == ["state4", "state3"]
    engine.close()
    assert b"state1" not in (tmp_path / "store.db").read_bytes()


def save(key: str, text: str, idempotency_key: bytes, body: bytes) -> Any:
    return note(key, text, idempotency=Idempotency("save", idempotency_key, body))


def test_an_idempotency_key_gives_the_first_receipt_for_a_day_and_goes_with_its_record(
    tmp_path: Path,
) -> None:
    clock = Clock()
    engine = SqliteEngine.open(str(tmp_path / "store.db"), clock=clock)
    engine.store(note("A-key", "text"))
    first = engine.store(save("a_key", "text", b"1", b"body"))
    assert first.similar_keys == ("A-key",)
    engine.store(note("a_key", "rewritten"))
    again = engine.store(save("a_key", "text", b"1", b"body"))
    assert (again.replayed, again.id, again.outcome, again.revision_count) == (True, first.id, "created", 1)
    assert again.similar_keys == ("A-key",)
    with pytest.raises(IdempotencyConflict) as caught:
        engine.store(save("a_key", "else", b"1", b"other body"))
    assert caught.value.existing_id == first.id
    engine.forget(Selector(USER, ref=Ref(USER, key="A-key")))
    assert engine.store(save("a_key", "text", b"1", b"body")).similar_keys == ()
    clock.now += DAY
    assert engine.store(save("a_key", "text", b"1", b"body")).outcome == "updated"
    engine.forget(Selector(USER, ref=Ref(USER, key="a_key")))
    assert sql(tmp_path, "SELECT count(*) FROM idempotency") == [(0,)]
    engine.close()


def test_a_repeated_forget_answers_as_the_first_and_its_row_holds_no_name(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    everything = Selector(USER, everything=True, idempotency=Idempotency("delete", b"1", b"body"))
    first = engine.forget(everything)
    engine.store(note("k", "new text"))
    again = engine.forget(everything)
    assert (again.deleted, again.ids, again.replayed) == (1, first.ids, True)
    assert engine.get(Ref(USER, key="k")) is not None
    row = sql(tmp_path, "SELECT * FROM idempotency")[0]
    assert USER not in repr(row)
    engine.close()


def test_a_forget_names_what_it_means_in_one_way_only(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    with pytest.raises(InvalidRequest):
        engine.forget(Selector(USER))
    with pytest.raises(InvalidRequest):
        engine.forget(Selector(USER, where=Filter(), everything=True))
    engine.close()


def test_a_large_store_is_erased_on_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "INLINE", 0)
    engine = opened(tmp_path)
    engine.store(note("k", "forgettable"))
    result = engine.forget(Selector(USER, ref=Ref(USER, key="k")))
    assert result.erased == forget.TOO_LARGE
    assert engine.health().facts["erase_pending"] is True
    engine.close()
    assert all(b"forgettable" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_writer_in_the_way_puts_erasure_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "PATIENCE", 10)
    engine = opened(tmp_path)
    engine.store(note("k", "forgettable"))
    monkeypatch.setattr(engine, "_erase_inline", lambda: False)
    engine.forget(Selector(USER, ref=Ref(USER, key="k")))
    other = apsw.Connection(str(tmp_path / "store.db"))
    other.execute("BEGIN IMMEDIATE")
    assert engine.erase() == forget.WRITER
    other.execute("ROLLBACK")
    other.close()
    assert engine.erase() is True
    engine.close()


def test_a_search_reads_its_own_namespace_and_ranks_by_its_own_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    take = Hits.take
    monkeypatch.setattr(Hits, "take", lambda self: looked_at.append(len(self.rows)) or take(self))
    engine = opened(tmp_path)
    for number in range(BATCH + 4):
        engine.store(note(f"k{number}", f"apple pie {number}", "me"))
    alone = [
        (hit.record.id, hit.parts) for hit in engine.search(SearchQuery("me", "apple", explain=True)).items
    ]
    engine.store_many([note(f"k{number}", "apple " * 50, "others") for number in range(300)])
    engine.store_many([note(f"k{number}", "apple", f"me/{number}") for number in range(300)])
    hits = engine.search(SearchQuery("me", "apple", explain=True))
    assert hits.total == 20
    assert [(hit.record.id, hit.parts and hit.parts["relevance"]) for hit in hits.items] == [
        (identity, parts and parts["relevance"]) for identity, parts in alone
    ]
    assert looked_at == [BATCH, BATCH]  # the other four wait to be indexed
    engine.close()


def test_listings_by_time_are_read_from_an_index_and_never_sorted(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text", session=session()))
    plans: list[str] = []
    conn = engine._readers.run(lambda conn: conn)
    conn.exec_trace = lambda cursor, statement, values: plans.append(statement) or True
    engine.page(Query(USER))
    engine.page(Query(USER, kinds=("turn",)))
    engine.page(Query(USER, kinds=("summary",), want_total=False))
    engine.page(Query(USER, kinds=("session",), where=Filter(types=("completed",)), want_total=False))
    engine.page(Query(USER, kinds=("session",), where=Filter(types=("active",)), limit=1))
    conn.exec_trace = None
    listings = [statement for statement in plans if "ORDER BY" in statement]
    assert len(listings) == 5
    for statement in listings[:4]:
        steps = [
            row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {statement}", (0,) * statement.count("?"))
        ]
        assert not any("TEMP B-TREE" in step for step in steps), steps
    steps = [
        row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {listings[4]}", (0,) * listings[4].count("?"))
    ]
    assert any("records_active" in step for step in steps)
    engine.close()


def test_a_query_of_thousands_of_words_is_answered(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store_many([note(f"k{number}", f"word{number} and more") for number in range(20)])
    text = " ".join(f"word{number}" for number in range(4_000))
    found = engine.search(SearchQuery(USER, text, limit=50))
    assert len(text) > 30_000
    assert found.total == 20
    engine.close()


def test_a_patch_of_a_store_in_memory_needs_no_file() -> None:
    engine = SqliteEngine.open(":memory:", config=Config(durability="process"))
    engine.store(note("k", "text"))
    assert engine.forget(Selector(USER, everything=True)).erased is True
    assert engine.namespaces() == []
    engine.close()


def test_an_index_of_another_tokenizer_is_made_anew_on_opening(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store_many([note(f"k{number}", f"apple {number}") for number in range(20)])
    engine.close()
    sql(tmp_path, "UPDATE meta SET value = 0 WHERE name = 'tokenizer'")
    sql(tmp_path, "INSERT INTO words (words) VALUES ('delete-all')")
    engine = opened(tmp_path)
    assert engine.search(SearchQuery(USER, "apple")).total == 20
    engine.close()
    check_agreement(tmp_path)


@pytest.mark.parametrize("records", [1, BATCH, BATCH + 1, 3 * BATCH])
def test_a_rewrite_is_found_by_its_new_words_at_once_and_never_by_its_old_ones(
    tmp_path: Path, records: int
) -> None:
    engine = opened(tmp_path)
    for old, new in (("none", "oak"), ("oak", "elm"), ("elm", "ash")):
        for number in range(records):
            engine.store(note(f"k{number}", f"{new} fruit"))
            left = records - number - 1 if old != "none" else 0
            assert engine.search(SearchQuery(USER, new)).total == number + 1
            assert engine.search(SearchQuery(USER, old)).total == left
            assert engine.search(SearchQuery(USER, "fruit", limit=5)).total == number + 1 + left
    engine.store(note("k0", "ash " * SHORT))
    engine.store(note("k0", "short again"))
    assert engine.search(SearchQuery(USER, "ash")).total == records - 1
    engine.store(note("k0", "ash " * SHORT))
    assert engine.search(SearchQuery(USER, "ash")).items[0].record.key == "k0"
    engine.forget(Selector(USER, ref=Ref(USER, key="k0")))
    assert engine.search(SearchQuery(USER, "ash")).total == records - 1
    engine.close()
    check_agreement(tmp_path)


def test_a_better_match_is_never_passed_over_for_the_limit(tmp_path: Path) -> None:
    clock = Clock()
    engine = SqliteEngine.open(str(tmp_path / "store.db"), clock=clock)
    for number in range(60):
        clock.now += number % 4 * 10 * DAY
        engine.store(note(f"k{number}", f"apple {'pie ' * (number % 7)}{'filler ' * (number % 11)}"))
        if number % 2:
            engine.store(note(f"k{number}", f"apple pie {'pie ' * (number % 5)}"))
    everything = engine.search(SearchQuery(USER, "apple pie", limit=60)).items
    for limit in (1, 3, 10, 59):
        assert engine.search(SearchQuery(USER, "apple pie", limit=limit)).items == everything[:limit]
    engine.close()
