"""Batches: what is written many at a time is what single saves write."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyfold.contract.intents import Intent, Ref, SearchQuery, SessionLapsed, SessionUse
from keyfold.engines.sqlite import SqliteEngine, bulk
from keyfold.errors import Conflict
from keyfold.model import SESSION
from tests.engines.common import USER, check_agreement, note, opened, session, sql

MANY = range(bulk.WORTH * 3)


def test_a_batch_of_new_records_is_in_the_index_at_once(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store_many([note(f"k{number}", f"apple {number}") for number in MANY])
    assert engine.search(SearchQuery(USER, "apple")).total == len(MANY)
    engine.close()
    assert sql(tmp_path, "SELECT indexed FROM namespaces") == [(len(MANY),)]
    check_agreement(tmp_path)


def test_a_short_batch_waits_for_the_index_as_single_saves_do(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store_many([note(f"k{number}", "apple") for number in range(bulk.WORTH - 1)])
    engine.close()
    assert sql(tmp_path, "SELECT count(*), (SELECT indexed FROM namespaces) FROM words_docsize") == [(0, 0)]
    check_agreement(tmp_path)


def test_users_mixed_in_a_batch_have_rows_and_statistics_of_their_own(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    receipts = engine.store_many([note(f"k{number}", "apple", f"user {number % 5}") for number in MANY])
    assert [receipt.id for receipt in receipts] == [str(number + 1) for number in MANY]
    assert engine.get(Ref("user 3", id="4")) is not None
    assert engine.get(Ref("user 4", id="4")) is None
    engine.close()
    check_agreement(tmp_path)


def test_keys_of_a_batch_that_look_alike_are_told_of_each_other(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    intents = [note(f"k{number}", "apple") for number in MANY]
    intents[20:20] = [note("the-key", "one"), note("The Key", "two"), note("the-key", "three")]
    receipts = engine.store_many(intents)
    assert [receipt.similar_keys for receipt in receipts[20:23]] == [(), ("the-key",), ()]
    assert [receipt.outcome for receipt in receipts[20:23]] == ["created", "created", "updated"]
    engine.close()
    check_agreement(tmp_path)


def test_a_batch_with_one_conflict_leaves_nothing(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    intents = [note(f"k{number}", "apple") for number in MANY]
    intents.append(note("late", "text", expect_revision=3))
    with pytest.raises(Conflict):
        engine.store_many(intents)
    assert engine.count(USER).total == 0
    assert engine.namespaces() == []
    engine.close()
    check_agreement(tmp_path)


@pytest.mark.parametrize("width", [1, 1_000])
def test_a_batch_opens_touches_and_needs_its_session_as_single_saves_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(bulk, "WORTH", width)
    engine = opened(tmp_path)
    engine.store_many([note(f"k{number}", "apple", session=session("s")) for number in MANY])
    found = engine.get(Ref(USER, key="s", kind=SESSION))
    last = engine.get(Ref(USER, key=f"k{MANY[-1]}"))
    assert found is not None
    assert last is not None
    assert (found.updated_at, last.session_id) == (last.updated_at, "s")
    lapsed: list[Intent] = [note(f"n{number}", "apple", session=SessionUse("none")) for number in MANY]
    with pytest.raises(SessionLapsed):
        engine.store_many(lapsed)
    assert engine.count(USER).total == len(MANY)
    engine.close()
    check_agreement(tmp_path)


@pytest.mark.parametrize("width", [1, 1_000])
def test_a_session_that_a_batch_opens_gets_the_id_behind_its_first_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(bulk, "WORTH", width)
    engine = opened(tmp_path)
    receipts = engine.store_many([note(f"k{number}", "apple", session=session("s")) for number in range(4)])
    found = engine.get(Ref(USER, key="s", kind=SESSION))
    assert found is not None
    assert (found.id, [receipt.id for receipt in receipts]) == ("2", ["1", "3", "4", "5"])
    engine.close()


def test_records_longer_than_a_note_may_be_go_with_a_batch(tmp_path: Path) -> None:
    engine: SqliteEngine = opened(tmp_path)
    engine.store_many([note(f"k{number}", "apple " * 2_000) for number in MANY])
    assert engine.search(SearchQuery(USER, "apple")).total == len(MANY)
    engine.close()
    check_agreement(tmp_path)
