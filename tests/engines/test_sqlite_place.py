"""Where the store's file is, and stays: a path that the process walks away from, a file that goes or is another's."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold.contract.intents import Idempotency, Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine, forget, schema
from keyfold.engines.sqlite import engine as engine_module
from keyfold.engines.sqlite.doctor import examine
from keyfold.errors import InvalidRequest, StoreError, Unavailable
from tests.engines.common import USER, note, opened, sql

CALLS: dict[str, Callable[[SqliteEngine], Any]] = {
    "store": lambda engine: engine.store(note("new", "a new text")),
    "store_many": lambda engine: engine.store_many([note("new", "a new text")]),
    "forget": lambda engine: engine.forget(Selector(USER, ref=Ref(USER, key="k"))),
    "forget everything": lambda engine: engine.forget(Selector(USER, everything=True)),
    "get": lambda engine: engine.get(Ref(USER, key="k")),
    "page": lambda engine: engine.page(Query(USER)),
    "search": lambda engine: engine.search(SearchQuery(USER, "text")),
    "erase": lambda engine: engine.erase(),
}


def take_away(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def replace(folder: Path) -> None:
    take_away(folder)
    other = opened(folder)
    other.store(note("k", "text of the other store"))
    other.close()


def point_elsewhere(folder: Path) -> None:
    """The path was a link; now it leads to another store."""
    other = SqliteEngine.open(str(folder / "other.db"))
    other.store(note("k", "text of the other store"))
    other.close()
    (folder / "store.db").unlink()
    (folder / "store.db").symlink_to(folder / "other.db")


def test_a_relative_path_means_the_same_file_after_the_process_went_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    other = opened(there)
    other.store(note("k", "text of the other store"))
    other.close()
    monkeypatch.chdir(here)
    engine = SqliteEngine.open("store.db")
    engine.store(note("k", "text"))
    for folder in (there, tmp_path):
        monkeypatch.chdir(folder)
        record = engine.get(Ref(USER, key="k"))
        assert record is not None
        assert record.content == "text"
        assert engine.page(Query(USER)).total == 1
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if engine.store(note("child", "text")).outcome == "created" else 1)
        except BaseException:  # noqa: BLE001  # a child must not run on into the test session
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert engine.get(Ref(USER, key="child")) is not None
    assert engine.forget(Selector(USER, everything=True)).erased is True
    engine.close()
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == ["store.db", "store.db"]


def test_messages_name_the_path_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store.db").write_text("no database at all, but a text. " * 100)
    with pytest.raises(StoreError, match=r"^store\.db is not"):
        SqliteEngine.open("store.db")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("change", [take_away, replace, point_elsewhere])
def test_a_file_that_is_gone_or_another_is_noticed_by_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], name: str
) -> None:
    monkeypatch.setattr(engine_module, "LOOK_AGAIN", 0.0, raising=False)
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    engine.get(Ref(USER, key="k"))
    change(tmp_path)
    before = sorted((path, path.read_bytes()) for path in tmp_path.iterdir())
    with pytest.raises(StoreError, match="moved, removed or replaced"):
        CALLS[name](engine)
    with pytest.raises(StoreError, match="open it again"):
        CALLS[name](engine)
    engine.close()
    assert sorted((path, path.read_bytes()) for path in tmp_path.iterdir()) == before


def test_a_read_notices_a_moment_later_that_the_file_is_another(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    replace(tmp_path)
    engine._looked = 0.0  # as if the last look were long ago
    with pytest.raises(StoreError, match="replaced"):
        engine.get(Ref(USER, key="k"))
    engine.close()


def test_a_forked_child_does_not_take_up_a_file_that_came_instead(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    replace(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            engine.store(note("child", "text"))
            os._exit(1)
        except StoreError:
            os._exit(0)
        except BaseException:  # noqa: BLE001  # a child must not run on into the test session
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    engine.close()
    assert sql(tmp_path, "SELECT count(*) FROM records") == [(1,)]


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


ERASURE_FAULTS = [
    ("erase", apsw.FullError(), "disk is full"),
    ("erase", apsw.IOError(), "could not be rewritten"),
    ("erase", apsw.CantOpenError(), "could not be rewritten"),
    ("size", FileNotFoundError(2, "gone"), "could not be rewritten"),
    ("size", PermissionError(13, "no"), "could not be rewritten"),
    ("erase", Unavailable("the store is closed: open it again"), "closed"),
]


@pytest.mark.parametrize(("step", "fault", "word"), ERASURE_FAULTS)
def test_a_forget_whose_erasure_fails_says_what_it_did_and_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, fault: Exception, word: str
) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    selector = Selector(USER, ref=Ref(USER, key="k"), idempotency=Idempotency("delete", b"1", b"body"))
    monkeypatch.setattr(forget, step, failing(fault))
    first = engine.forget(selector)
    assert first.deleted == 1
    assert str(first.erased).startswith("waiting: ")
    assert word in str(first.erased)
    again = engine.forget(selector)
    assert (again.deleted, again.ids, again.replayed) == (1, first.ids, True)
    engine.close()
    monkeypatch.undo()
    assert engine_of(tmp_path).erase() is True


def engine_of(folder: Path) -> SqliteEngine:
    engine = opened(folder)
    engine.close()  # erases what waits
    return opened(folder)


def test_a_forget_on_a_disk_without_room_to_rewrite_the_store_is_done_and_says_so(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store_many([note(f"k{number}", f"text {number} " * 300) for number in range(50)])
    writer = engine._writer
    assert writer is not None
    pages = writer.execute("PRAGMA page_count").fetchall()[0][0]
    writer.execute(f"PRAGMA max_page_count = {pages}")  # VACUUM heeds it in what it builds
    result = engine.forget(Selector(USER, ref=Ref(USER, key="k0")))
    assert (result.deleted, result.erased) == (1, forget.FULL)
    assert engine.get(Ref(USER, key="k0")) is None
    engine.close()


def test_a_store_made_by_another_between_two_looks_is_no_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "store.db")
    real = schema.number
    once = [True]

    def slow(conn: apsw.Connection, pragma: str) -> int:
        value = real(conn, pragma)
        if pragma == "application_id" and once:
            once.clear()
            SqliteEngine.open(path).close()
        return value

    monkeypatch.setattr(schema, "number", slow)
    engine = SqliteEngine.open(path)
    assert engine.store(note("k", "text")).outcome == "created"
    engine.close()


@pytest.mark.parametrize("size", [1, 2, 15, 16, 99, 100, 511, 512, 513])
@pytest.mark.parametrize("content", [b"x", b"\0", b"SQLite format 3\0"])
def test_a_file_that_holds_anything_at_all_is_never_made_into_a_store(
    tmp_path: Path, size: int, content: bytes
) -> None:
    path = tmp_path / "store.db"
    held = (content * size)[:size]
    path.write_bytes(held)
    with pytest.raises(StoreError, match="not a SQLite database"):
        SqliteEngine.open(str(path))
    assert path.read_bytes() == held
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    engine = opened(tmp_path)
    assert engine.store(note("k", "text")).outcome == "created"
    engine.close()


def test_a_path_that_is_no_text_is_refused_in_words_that_can_be_printed(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        SqliteEngine.open(f"{tmp_path}/\udcff.db")
    str(caught.value).encode()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(StoreError):
        SqliteEngine.open("store.db")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "store.db-wal", "store.db-shm", "store.db-journal", "other-journal", "A.DB-WAL",
        "store.db.v1-backup", "other.db.v12-backup", "store.db.v1-backup.partial",
    ],
)  # fmt: skip  # one a line says less
def test_a_name_that_would_be_removed_beside_a_store_is_no_name_of_one(tmp_path: Path, name: str) -> None:
    engine = opened(tmp_path)
    engine.store(note("k", "text"))
    with pytest.raises(InvalidRequest, match="kept beside a store"):
        engine.backup(tmp_path / name, force=True)
    engine.close()
    (tmp_path / "link.db").symlink_to(tmp_path / name)
    before = sorted(tmp_path.iterdir())
    for path in (tmp_path / name, tmp_path / "link.db"):
        with pytest.raises(StoreError, match="choose another name"):
            SqliteEngine.open(str(path))
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / name).write_bytes((tmp_path / "store.db").read_bytes())
    with pytest.raises(StoreError, match="renamed"):
        SqliteEngine.open(str(tmp_path / name))


def test_a_new_store_behind_links_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / "store.db").symlink_to("link.db")
    (tmp_path / "link.db").symlink_to(there / "real.db")
    umask = os.umask(0o022)
    try:
        engine = opened(tmp_path)
        engine.store(note("k", "text"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in there.iterdir()}
        engine.close()
    finally:
        os.umask(umask)
    assert modes == dict.fromkeys(("real.db", "real.db-wal", "real.db-shm"), 0o600)


def test_a_name_that_is_no_utf_8_is_told_as_that_by_backup_and_doctor(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    with pytest.raises(InvalidRequest, match=r"^FILE: .*no UTF-8: choose another path") as caught:
        engine.backup(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.db"))
    str(caught.value).encode()
    engine.close()
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xfe.db")
    Path(place).touch()
    with pytest.raises(StoreError, match="no UTF-8"):
        examine(place)
