"""A page of noise in an index, in the word index or in what follows from the rest: doctor makes it again."""

from __future__ import annotations

import random
from pathlib import Path

import apsw
import pytest

from keyfold.contract.intents import Idempotency, Query, Ref, SearchQuery
from keyfold.engines.sqlite import SqliteEngine
from keyfold.engines.sqlite.doctor import examine
from keyfold.engines.sqlite.repair import treat
from keyfold.errors import StoreError
from keyfold.portability import export
from tests.engines.common import USER, check_agreement, note, opened, session

INDEXES = (
    "sqlite_autoindex_namespaces_1",
    "sqlite_autoindex_records_1",
    "records_address",
    "records_time",
    "records_summaries",
    "records_active",
    "records_closed",
    "records_folded",
    "records_repeat",
    "idempotency_slot",
    "idempotency_age",
)
WORDS = ("words_data", "words_idx", "words_docsize", "words_config")
KEPT = ("records", "revisions", "namespaces", "meta", "sqlite_sequence")


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with several pages in most of its indexes."""
    engine = opened(tmp_path)
    for number in range(300):
        engine.store(note(f"key {number} {'long ' * 20}", f"alpha beta word{number}", session=session()))
    for number in range(60):
        engine.store(note(f"key {number} {'long ' * 20}", f"alpha again{number}"))
        keyed = Idempotency("save", str(number).encode(), b"body")
        engine.store(note(None, f"alpha unkeyed {number}", idempotency=keyed))
    engine.close()
    return str(tmp_path / "store.db")


def pages_of(store: str, name: str) -> list[int]:
    """The numbers of an index's or a table's pages, its root first."""
    conn = apsw.Connection(store)
    rows = conn.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY path", (name,)).fetchall()
    conn.close()
    return [int(str(number)) for (number,) in rows]


def spoil(store: str, page: int, seed: int = 1) -> None:
    with Path(store).open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(random.Random(seed).randbytes(4096))


def remedies(store: str, *, quick: bool = False) -> set[str]:
    return {finding.remedy for finding in examine(store, quick=quick).findings if finding.remedy}


def content(store: str) -> list[tuple[str, int]]:
    engine = SqliteEngine.open(store)
    try:
        page = engine.page(Query(USER, limit=1000, order="key"))
        assert engine.search(SearchQuery(USER, "alpha", limit=1000)).total == len(page.items)
        return [(record.content, record.revision_count) for record in page.items]
    finally:
        engine.close()


def check_made_again(store: str) -> None:
    treatment = treat(store, remedies=remedies(store))
    assert treatment.repaired
    assert treatment.failed == ()
    assert examine(store).findings == ()
    check_agreement(Path(store).parent)


@pytest.mark.parametrize("name", [*INDEXES, *WORDS, "unindexed", "idempotency"])
def test_what_follows_from_the_rest_is_made_again_whichever_page_of_it_is_noise(
    store: str, name: str
) -> None:
    before, whole = content(store), Path(store).read_bytes()
    pages = pages_of(store, name)
    for page in {pages[0], pages[-1]}:
        Path(store).write_bytes(whole)
        spoil(store, page)
        for quick in (True, False):
            assert remedies(store, quick=quick) & {"pages", "words"}, f"page {page}"
        check_made_again(store)
        assert content(store) == before
    engine = SqliteEngine.open(store)
    assert engine.store(note("new", "alpha anew")).outcome == "created"
    engine.close()
    assert examine(store).ok


def test_several_damaged_indexes_are_made_again_at_once(store: str) -> None:
    before = content(store)
    for name in ("records_address", "records_time", "words_data", "sqlite_autoindex_records_1"):
        spoil(store, pages_of(store, name)[0])
    check_made_again(store)
    assert content(store) == before


@pytest.mark.parametrize("name", KEPT)
def test_what_only_the_store_knows_is_told_by_its_name_and_not_made_again(store: str, name: str) -> None:
    spoil(store, pages_of(store, name)[0])
    assert f"a page of the table {name} cannot be read" in str(examine(store).findings)
    assert "pages" not in remedies(store)


def test_a_step_that_meets_damage_does_not_undo_the_others(store: str) -> None:
    """SQLite commits nothing after it met a damaged page, so the others are done again without that step."""
    conn = apsw.Connection(store)
    conn.execute("DELETE FROM meta WHERE name = 'last_id'").fetchall()
    conn.close()
    spoil(store, pages_of(store, "revisions")[0])
    treatment = treat(store, remedies={"history", "counters"})
    assert [told.split(" could")[0] for told in treatment.failed] == ["the history"]
    assert any("last_id" in told for told in treatment.repaired)
    assert "last_id" not in str(examine(store).findings)


def test_looking_at_and_mending_a_store_leave_no_side_files(store: str) -> None:
    folder = Path(store).parent
    examine(store)
    assert [path.name for path in folder.iterdir()] == ["store.db"]
    spoil(store, pages_of(store, "records_time")[0])
    examine(store)
    treat(store, remedies={"pages"})
    examine(store)
    assert [path.name for path in folder.iterdir()] == ["store.db"]


def test_a_log_that_a_killed_program_left_is_still_there_after_a_look(store: str, tmp_path: Path) -> None:
    engine = SqliteEngine.open(store)
    engine.store(note("last", "words"))
    left = tmp_path / "left"
    left.mkdir()
    for side in ("", "-wal"):
        (left / f"store.db{side}").write_bytes(Path(f"{store}{side}").read_bytes())
    engine.close()
    log = (left / "store.db-wal").read_bytes()
    assert log
    assert examine(str(left / "store.db")).ok
    assert (left / "store.db-wal").read_bytes() == log


def test_an_export_that_meets_a_damaged_page_says_what_to_do(store: str) -> None:
    spoil(store, pages_of(store, "records")[-1])
    engine = SqliteEngine.open(store)
    with pytest.raises(StoreError, match=r"is damaged: run keyfold doctor, or restore a backup"):
        list(export(engine))
    assert engine.get(Ref(USER, key="key 5 " + "long " * 20)) is not None
    engine.close()
