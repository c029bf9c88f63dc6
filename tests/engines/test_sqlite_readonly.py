"""A store that cannot be written is read: whole, in whatever state it was left, and nothing is made beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold.contract.intents import Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine, connect, readonly, schema
from keyfold.engines.sqlite.doctor import examine
from keyfold.engines.sqlite.repair import treat
from keyfold.errors import StoreError, Unavailable
from tests.engines.common import USER, finish, note, sql, start
from tests.modes import modes_hold, sealed

SAVES = """
import os, sys
from tests.engines.common import note, opened
from pathlib import Path
engine = opened(Path(sys.argv[1]))
engine.store(note(sys.argv[2], "apple of another process"))
if sys.argv[3] == "dies":
    os._exit(0)
engine.close()
"""
NOW = datetime(2100, 1, 1, tzinfo=UTC)  # scores depend on it

READS: dict[str, Callable[[SqliteEngine], Any]] = {
    "get": lambda engine: engine.get(Ref(USER, key="k0")),
    "page": lambda engine: engine.page(Query(USER)),
    "search": lambda engine: engine.search(SearchQuery(USER, "apple", limit=50)),
    "search of stop words": lambda engine: engine.search(SearchQuery(USER, "the")),
    "count": lambda engine: engine.count(USER),
    "namespaces": lambda engine: engine.namespaces(),
    "history": lambda engine: engine.history(Ref(USER, key="k0")),
    "what a forget would take": lambda engine: engine.forget(Selector(USER, everything=True, dry_run=True)),
}
WRITES: dict[str, Callable[[SqliteEngine], Any]] = {
    "store": lambda engine: engine.store(note("k0", "a new text")),
    "store_many": lambda engine: engine.store_many([note("new", "a new text")]),
    "forget": lambda engine: engine.forget(Selector(USER, ref=Ref(USER, key="k0"))),
    "erase": lambda engine: engine.erase(),
    "reindex": lambda engine: engine.reindex(),
}


def opened(folder: Path) -> SqliteEngine:
    """The engine on the one store of a folder, at one moment."""
    return SqliteEngine.open(str(folder / "store.db"), clock=lambda: NOW)


@pytest.fixture(params=["closed", "copied with its log", "left by a kill", "open elsewhere"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder of a store of 21 records, one with a past, of which three wait for the word index."""
    made, folder = tmp_path / "made", tmp_path / "store"
    made.mkdir()
    engine = opened(made)
    engine.store(note("k0", "the pear"))
    for number in range(18):
        engine.store(note(f"k{number}", f"the apple {number}"))
    if request.param == "closed":
        engine.store_many([note(f"late{number}", "the late apple") for number in range(3)])
        engine.close()
    else:
        assert engine._writer is not None
        engine._writer.execute("PRAGMA wal_checkpoint").fetchall()
        engine.store_many([note(f"late{number}", "the late apple") for number in range(3)])
    if request.param == "open elsewhere":
        made.rename(folder)
    else:
        shutil.copytree(made, folder)
    if request.param == "copied with its log":
        (folder / "store.db-shm").unlink()
    yield folder
    engine.close()


def answers(engine: SqliteEngine) -> dict[str, Any]:
    return {name: call(engine) for name, call in READS.items()}


def expected(folder: Path) -> dict[str, Any]:
    """What an engine that may write answers, on a copy."""
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    engine = opened(copy)
    found = answers(engine)
    engine.close()
    return found


@pytest.mark.parametrize(("files", "itself"), [(0o400, 0o500), (0o400, 0o700)])
def test_every_read_works_and_every_write_is_refused_with_the_reason(
    store: Path, files: int, itself: int
) -> None:
    wanted = expected(store)
    assert wanted["page"].total == 21
    assert len(wanted["search"].items) == 21
    with sealed(store, files=files, itself=itself):
        engine = opened(store)
        assert answers(engine) == wanted
        for write in WRITES.values():
            with pytest.raises(
                StoreError, match=r"is read-only \(this process may not write the file\): make"
            ):
                write(engine)
        assert answers(engine) == wanted
        assert engine.health().facts["read_only"] is True
        engine.close()
        engine.close()
        with pytest.raises(Unavailable, match="closed"):
            engine.get(Ref(USER, key="k0"))


def test_a_folder_that_cannot_be_written_is_enough(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "apple"))
    engine.close()
    with sealed(tmp_path, files=0o600):
        engine = opened(tmp_path)
        assert engine.get(Ref(USER, key="k")) is not None
        with pytest.raises(StoreError, match="may not write the folder"):
            engine.store(note("k", "pear"))
        engine.close()


def test_a_store_is_read_through_a_link_from_another_folder(store: Path, tmp_path: Path) -> None:
    wanted = expected(store)
    (tmp_path / "link.db").symlink_to(store / "store.db")
    with sealed(store):
        engine = SqliteEngine.open(str(tmp_path / "link.db"), clock=lambda: NOW)
        assert answers(engine) == wanted
        engine.close()


def test_a_name_that_means_something_in_an_address_is_only_a_name(store: Path, tmp_path: Path) -> None:
    wanted = expected(store)
    odd = tmp_path / "100% sure?x=1#y"
    store.rename(odd)
    with sealed(odd):
        engine = opened(odd)
        assert answers(engine) == wanted
        engine.close()
    odd.rename(store)  # where the fixture looks for it


def test_a_forked_child_reads_and_is_refused_the_same(store: Path) -> None:
    with sealed(store):
        engine = opened(store)
        wanted = answers(engine)
        child = os.fork()
        if child == 0:
            try:
                same = answers(engine) == wanted
                engine.store(note("k", "text"))
                os._exit(1)
            except StoreError:
                os._exit(0 if same else 3)
            except BaseException:  # noqa: BLE001  # a child must not run on into the test session
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert answers(engine) == wanted
        engine.close()


def test_doctor_looks_over_what_it_may_not_write_and_repairs_nothing(store: Path) -> None:
    path = str(store / "store.db")
    with sealed(store):
        found = examine(path)
        assert found.ok
        assert found.facts["records"] == 21
        assert [str(finding) for finding in found.findings] == [
            "file: it is read-only: this process may not write the file"
        ]
        with pytest.raises(StoreError, match="read-only"):
            treat(path, remedies={"words"})


def test_a_backup_of_it_can_be_written_elsewhere(store: Path, tmp_path: Path) -> None:
    wanted = expected(store)
    (tmp_path / "kept").mkdir()
    with sealed(store):
        engine = opened(store)
        assert engine.backup(tmp_path / "kept" / "store.db").records == 21
        engine.close()
    engine = opened(tmp_path / "kept")
    assert answers(engine) == wanted
    assert engine.store(note("new", "text")).outcome == "created"
    engine.close()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[SqliteEngine]:
    """On a store that was closed, and that others may write by now."""
    engine = opened(tmp_path)
    engine.store(note("k", "apple"))
    engine.close()
    with sealed(tmp_path):
        engine = opened(tmp_path)
        assert engine.page(Query(USER)).total == 1
    yield engine
    engine.close()


def test_it_sees_what_a_writer_with_more_rights_saves_while_and_after_it_is_there(
    reader: SqliteEngine, tmp_path: Path
) -> None:
    assert manner(reader) == readonly.STILL
    finish(start(SAVES, tmp_path, "k2", "dies"))
    assert reader.page(Query(USER)).total == 2
    assert manner(reader) == readonly.SHARED
    (tmp_path / "store.db-shm").unlink()
    assert reader.page(Query(USER)).total == 2
    assert manner(reader) == readonly.ALONE
    finish(start(SAVES, tmp_path, "k3", "closes"))
    assert reader.page(Query(USER)).total == 3
    assert manner(reader) == readonly.STILL
    writer = opened(tmp_path)
    writer.store(note("k4", "apple"))
    assert reader.search(SearchQuery(USER, "apple")).total == 4
    assert manner(reader) == readonly.SHARED
    writer.close()
    assert reader.search(SearchQuery(USER, "apple")).total == 4


def manner(engine: SqliteEngine) -> str:
    """How an engine reads that cannot write."""
    assert isinstance(engine._readers, readonly.Watched)
    return str(engine._readers._look[0])


def test_a_read_that_a_writer_disturbs_is_made_again(reader: SqliteEngine, tmp_path: Path) -> None:
    counts: list[int] = []

    def work(conn: apsw.Connection) -> int:
        if not counts:
            finish(start(SAVES, tmp_path, "k2", "closes"))
        counts.append(conn.execute("SELECT count(*) FROM records WHERE space < 8").fetchall()[0][0])
        return counts[-1]

    assert reader._readers.run(work) == 2
    assert len(counts) == 2


def test_an_error_of_a_read_that_a_writer_disturbed_is_none(reader: SqliteEngine, tmp_path: Path) -> None:
    calls: list[int] = []

    def work(_: apsw.Connection) -> int:
        calls.append(1)
        if len(calls) == 1:
            os.utime(tmp_path / "store.db", ns=(1, 1))
            raise apsw.CorruptError
        return len(calls)

    assert reader._readers.run(work) == 2


def test_a_file_that_never_rests_is_unavailable(reader: SqliteEngine, tmp_path: Path) -> None:
    calls: list[int] = []

    def work(_: apsw.Connection) -> None:
        calls.append(1)
        os.utime(tmp_path / "store.db", ns=(len(calls), len(calls)))

    with pytest.raises(Unavailable, match="try again"):
        reader._readers.run(work)
    assert len(calls) == readonly.TRIES


def test_damage_is_told_as_what_it_is(reader: SqliteEngine, tmp_path: Path) -> None:
    data = (tmp_path / "store.db").read_bytes()
    (tmp_path / "store.db").write_bytes(data[:4096] + b"x" * (len(data) - 4096))
    with pytest.raises(StoreError, match="damaged"):
        reader.page(Query(USER))


def test_doctor_does_not_judge_a_file_that_changed_under_it(
    reader: SqliteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([(readonly.STILL, 1), (readonly.STILL, 2)])
    monkeypatch.setattr(readonly, "look", lambda _: next(looks))
    with sealed(tmp_path), pytest.raises(Unavailable, match="try again"):
        examine(str(tmp_path / "store.db"))


def refused(folder: Path) -> str:
    with sealed(folder), pytest.raises(StoreError) as caught:
        opened(folder)
    return str(caught.value)


def test_a_store_of_an_earlier_version_says_where_it_can_be_taken_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    word = refused(tmp_path)
    assert "earlier version" in word
    assert "open it once where it can be written" in word


def test_an_index_of_another_tokenizer_is_not_searched_and_the_rest_is_read(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "apple"))
    engine.close()
    sql(tmp_path, "UPDATE meta SET value = 0 WHERE name = 'tokenizer'")
    with sealed(tmp_path):
        engine = opened(tmp_path)
        assert engine.page(Query(USER)).total == 1
        with pytest.raises(StoreError, match="word index was made by another version"):
            engine.search(SearchQuery(USER, "apple"))
        engine.close()


def test_what_is_no_store_is_refused_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    assert "could not be made" in refused(tmp_path)
    path.touch()
    assert "is empty and read-only" in refused(tmp_path)
    path.write_text("These are notes, and no database at all. " * 100)
    assert "not a SQLite database" in refused(tmp_path)
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    assert "another program" in refused(tmp_path)
    sql(tmp_path, f"PRAGMA application_id = {schema.APPLICATION_ID}")
    sql(tmp_path, f"PRAGMA user_version = {schema.VERSION + 1}")
    assert "newer Keyfold" in refused(tmp_path)


def test_a_change_that_was_cut_short_is_not_passed_over(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "store.db-journal").write_bytes(b"what was there before")
    assert "cut short" in refused(tmp_path)


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-shm"])
def test_a_store_of_which_a_part_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    finish(start(SAVES, tmp_path, "k", "dies"))
    with sealed(tmp_path):
        (tmp_path / name).chmod(0o000)
        with pytest.raises(StoreError, match="read"):
            opened(tmp_path)
        (tmp_path / name).chmod(0o400)


def test_a_shortage_is_not_taken_for_a_store_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path).close()

    def too_many_files(*_: object) -> None:
        raise apsw.CantOpenError

    monkeypatch.setattr(connect, "_take_up", too_many_files)
    with modes_hold(), pytest.raises(StoreError, match="cannot be opened"):
        opened(tmp_path)


def test_a_read_only_mount_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mounted:
        f_flag = os.ST_RDONLY

    opened(tmp_path).close()
    monkeypatch.setattr(os, "statvfs", lambda _: Mounted)
    with sealed(tmp_path):
        engine = opened(tmp_path)
        with pytest.raises(StoreError, match="mounted read-only"):
            engine.store(note("k", "apple"))
        engine.close()
