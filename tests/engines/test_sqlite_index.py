"""What waits for the word index follows from the slots, whatever happens to the newest records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.contract.intents import Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine
from keyfold.engines.sqlite.index import BATCH, SHORT
from tests.engines.common import USER, check_agreement, note, opened, session, sql

LONG = "apple " * SHORT


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SqliteEngine]:
    engine = opened(tmp_path)
    yield engine
    engine.close()


def found(engine: SqliteEngine, word: str = "apple", user: str = USER) -> set[str]:
    return {item.record.key for item in engine.search(SearchQuery(user, word, limit=100)).items}


def forget(engine: SqliteEngine, key: str) -> None:
    assert engine.forget(Selector(USER, ref=Ref(USER, key=key))).deleted == 1


def waiting(folder: Path) -> tuple[int, int]:
    """How many new records wait, and how many rewritten ones."""
    new = "SELECT count(*) FROM records r JOIN namespaces n ON n.num = r.ns WHERE r.slot > n.num << 32 | n.indexed"
    return sql(folder, new)[0][0], sql(folder, "SELECT count(*) FROM unindexed")[0][0]


def test_a_new_record_is_one_row_and_nothing_else_is_counted_up(engine: SqliteEngine, tmp_path: Path) -> None:
    engine.store(note("first", "apple"))
    before = sql(tmp_path, "SELECT * FROM namespaces")
    engine.store(note("second", "apple"))
    assert sql(tmp_path, "SELECT * FROM namespaces") == before
    assert waiting(tmp_path) == (2, 0)
    assert found(engine) == {"first", "second"}


def test_the_sixteenth_new_record_indexes_them_all(engine: SqliteEngine, tmp_path: Path) -> None:
    for number in range(BATCH - 1):
        engine.store(note(f"k{number}", "apple"))
    assert waiting(tmp_path) == (BATCH - 1, 0)
    engine.store(note("last", "apple"))
    assert waiting(tmp_path) == (0, 0)
    assert len(found(engine)) == BATCH
    check_agreement(tmp_path)


def test_the_sixteenth_rewritten_record_indexes_what_is_new_too(engine: SqliteEngine, tmp_path: Path) -> None:
    for number in range(BATCH):
        engine.store(note(f"k{number}", "apple"))
    engine.store(note("new", "apple"))
    for number in range(BATCH - 1):
        engine.store(note(f"k{number}", "pear"))
    assert waiting(tmp_path) == (1, BATCH - 1)
    engine.store(note(f"k{BATCH - 1}", "pear"))
    assert waiting(tmp_path) == (0, 0)
    assert (len(found(engine, "pear")), found(engine)) == (BATCH, {"new"})
    check_agreement(tmp_path)


def test_a_record_that_is_rewritten_while_it_waits_needs_no_note(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    engine.store(note("k", "apple"))
    engine.store(note("k", "pear"))
    assert waiting(tmp_path) == (1, 0)
    assert (found(engine), found(engine, "pear")) == (set(), {"k"})


@pytest.mark.parametrize("indexed", [False, True])
def test_the_place_of_the_newest_record_is_taken_only_when_the_index_never_had_it(
    engine: SqliteEngine, tmp_path: Path, indexed: bool
) -> None:
    for number in range(BATCH if indexed else 3):
        engine.store(note(f"k{number}", "apple"))
    newest = f"k{BATCH - 1 if indexed else 2}"
    (slot,) = sql(tmp_path, "SELECT max(slot) FROM records")[0]
    forget(engine, newest)
    identity = engine.store(note("after", "pear")).id
    assert sql(tmp_path, "SELECT max(slot) FROM records") == [(slot + indexed,)]
    assert identity == str(slot - (1 << 32) + 1), "an id never comes again"
    assert newest not in found(engine)
    assert found(engine, "pear") == {"after"}
    check_agreement(tmp_path)


def test_a_long_text_is_indexed_at_once_with_all_that_waits(engine: SqliteEngine, tmp_path: Path) -> None:
    engine.store(note("short", "apple"))
    engine.store(note("long", LONG))
    assert waiting(tmp_path) == (0, 0)
    engine.store(note("short", "pear"))
    engine.store(note("new", "apple"))
    assert waiting(tmp_path) == (1, 1)
    engine.store(note("long", LONG + "pear"))
    assert waiting(tmp_path) == (0, 0)
    assert (found(engine), found(engine, "pear")) == ({"long", "new"}, {"long", "short"})
    check_agreement(tmp_path)


def test_a_batch_after_single_saves_leaves_no_gap(engine: SqliteEngine, tmp_path: Path) -> None:
    engine.store(note("single", "apple", session=session()))
    engine.store_many([note(f"k{number}", "apple", session=session()) for number in range(BATCH * 2)])
    assert waiting(tmp_path) == (0, 0)
    assert len(found(engine)) == BATCH * 2 + 1
    check_agreement(tmp_path)


def test_the_first_user_of_a_batch_is_the_first_by_number(engine: SqliteEngine, tmp_path: Path) -> None:
    engine.store_many([note(f"k{number}", "apple", f"u{9 - number % 9}") for number in range(BATCH * 2)])
    assert [name for (name,) in sql(tmp_path, "SELECT name FROM namespaces ORDER BY num")] == [
        f"u{9 - number}" for number in range(9)
    ]


STEPS = st.lists(
    st.tuples(st.sampled_from(["save", "save", "long", "forget", "batch"]), st.integers(0, 5), st.sampled_from("ab")),
    max_size=40,
)  # fmt: skip  # one argument a line says less


@given(steps=STEPS)
def test_whatever_is_saved_and_forgotten_is_found_as_it_stands(steps: list[tuple[str, int, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("index.BATCH", "bulk.WORTH"):
            patch.setattr(f"keyfold.engines.sqlite.{module}", 3)
        engine = SqliteEngine.open(":memory:")
        held: dict[tuple[str, str], str] = {}
        for number, (step, place, user) in enumerate(steps):
            key, word = f"k{place}", "x" + "".join("kmpqtvwxzj"[int(digit)] for digit in str(number))
            if step == "forget":
                engine.forget(Selector(user, ref=Ref(user, key=key)))
                held.pop((user, key), None)
            elif step == "batch":
                engine.store_many([note(f"k{at}", word, user) for at in range(place + 1)])
                held.update({(user, f"k{at}"): word for at in range(place + 1)})
            else:
                engine.store(note(key, f"{word} {LONG if step == 'long' else ''}".strip(), user))
                held[user, key] = word
            for name in "ab":
                there = {key: said for (owner, key), said in held.items() if owner == name}
                for said in set(there.values()) | {word}:
                    assert found(engine, said, name) == {key for key, text in there.items() if text == said}
                assert len(engine.page(Query(name, limit=100)).items) == len(there)
        engine.close()
