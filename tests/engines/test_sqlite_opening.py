"""Opening a store: races, files that are none of ours, and what is said about them."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from keyfold.contract.intents import Ref
from keyfold.engines.sqlite import SqliteEngine
from keyfold.engines.sqlite.schema import APPLICATION_ID, VERSION
from keyfold.errors import StoreError, Unavailable
from tests.engines.common import USER, finish, note, opened, sql, start

RACE = """
import sys
from tests.engines.common import note, opened
from pathlib import Path
engine = opened(Path(sys.argv[1]))
print(engine.store(note(None, f"text of process {sys.argv[2]}")).outcome)
engine.close()
"""


def test_eight_processes_that_open_a_missing_file_at_once_all_get_the_same_store(tmp_path: Path) -> None:
    processes = [start(RACE, tmp_path, number) for number in range(8)]
    assert [finish(process) for process in processes] == ["created\n"] * 8
    assert sql(tmp_path, "SELECT count(*) FROM records") == [(8,)]


def test_a_new_store_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    with_side_files = opened(tmp_path)
    with_side_files.store(note("k", "text"))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    with_side_files.close()
    assert modes == {0o600}


def refused(path: Path) -> str:
    """What is said of a path that is refused; it must be as it was, and nothing may lie beside it."""
    before = sorted(path.parent.iterdir())
    content = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as caught:
        SqliteEngine.open(str(path))
    assert sorted(path.parent.iterdir()) == before
    assert content is None or path.read_bytes() == content
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def test_a_folder_is_refused_as_one(tmp_path: Path) -> None:
    assert "is a folder" in refused(tmp_path)


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        SqliteEngine.open(str(tmp_path / "absent" / "store.db"))
    assert str(tmp_path / "absent") in str(caught.value)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("path", "word"),
    [("a\0b.db", "NUL"), ("/dev/null", "ordinary"), ("n" * 5_000, "made"), ("link.db/x", "folder")],
)
def test_a_path_that_can_hold_no_store_is_refused_without_a_traceback(
    tmp_path: Path, path: str, word: str
) -> None:
    (tmp_path / "link.db").write_text("a file, where a folder is needed")
    with pytest.raises(StoreError, match=word):
        SqliteEngine.open(str(tmp_path / path))


def text_file(path: Path) -> None:
    path.write_text("These are notes, and no database at all. " * 100)


def encrypted(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def cut_short(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\0" * 50)


@pytest.mark.parametrize("make", [text_file, encrypted, cut_short])
def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "store.db")
    assert "not a SQLite database" in refused(tmp_path / "store.db")


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "store.db"
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA journal_mode = {mode}")
    other.execute("CREATE TABLE theirs (a)")
    other.execute("INSERT INTO theirs VALUES (1)")
    other.commit()
    other.close()
    assert "another program" in refused(path)


def test_a_database_in_use_by_another_program_keeps_its_log(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = apsw.Connection(str(path))
    other.execute(
        "PRAGMA journal_mode = WAL; CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)"
    ).fetchall()
    log = (tmp_path / "store.db-wal").read_bytes()
    assert "another program" in refused(path)
    assert (tmp_path / "store.db-wal").read_bytes() == log
    other.close()


def test_a_newer_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    newer = apsw.Connection(str(path))
    newer.execute(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION + 1}")
    newer.close()
    message = refused(path)
    assert "newer Keyfold" in message
    assert "upgrade" in message


def test_a_store_that_cannot_grow_says_the_disk_is_full_and_changes_nothing(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    pages = sql(tmp_path, "PRAGMA page_count")[0][0]
    assert engine._writer is not None
    engine._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full"):
        engine.store(note("k2", "x" * 100_000))
    assert engine.get(Ref(USER, key="k2")) is None
    assert engine.store(note("k", "text")).outcome == "deduped"
    engine.close()


def test_a_closed_store_says_so_and_closing_twice_is_fine(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    engine.close()
    engine.close()
    with pytest.raises(Unavailable, match="closed"):
        engine.get(Ref(USER, key="k"))
    with pytest.raises(Unavailable, match="closed"):
        engine.store(note("k", "text"))
    memory = SqliteEngine.open(":memory:")
    memory.close()
    with pytest.raises(Unavailable, match="closed"):
        memory.get(Ref(USER, key="k"))


def test_a_store_that_another_writer_holds_is_unavailable_and_no_sql_is_shown(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    assert engine._writer is not None
    engine._writer.set_busy_timeout(10)
    other = apsw.Connection(str(tmp_path / "store.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as caught:
        engine.store(note("k", "secret text"))
    assert "secret" not in str(caught.value)
    assert "INSERT" not in str(caught.value)
    other.execute("ROLLBACK")
    assert engine.store(note("k", "secret text")).outcome == "created"
    other.close()
    engine.close()
