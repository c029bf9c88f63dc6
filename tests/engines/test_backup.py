"""A backup is whole, is the store at one moment, holds nothing forgotten, and is there in full or not at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import apsw
import pytest

from keyfold.contract.intents import Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine
from keyfold.engines.sqlite.doctor import examine
from keyfold.errors import InvalidRequest, StoreError
from tests.engines.common import USER, check_agreement, finish, note, opened, session, sql, start


def filled(folder: Path, number: int = 50) -> SqliteEngine:
    engine = opened(folder)
    engine.store_many([note(f"k{at}", f"first word{at}", session=session()) for at in range(number)])
    engine.store_many([note(f"k{at}", f"second word{at}") for at in range(0, number, 3)])
    return engine


def state(engine: SqliteEngine) -> list[object]:
    """All records with their pasts."""
    records = engine.page(Query(USER, kinds=("observation", "session"), limit=1000, order="key")).items
    return [(record, engine.history(Ref(USER, id=record.id, kind=""))) for record in records]


def test_a_backup_holds_all_the_store_does_with_the_same_ids_and_only_its_owner_reads_it(
    tmp_path: Path,
) -> None:
    engine = filled(tmp_path)
    target = tmp_path / "copies" / "a.db"
    target.parent.mkdir()
    made = engine.backup(target)
    assert (made.records, made.sessions, made.revisions, made.namespaces) == (50, 1, 17, 1)
    assert (made.path, made.bytes, made.compared) == (str(target), target.stat().st_size, 51)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == ["a.db"]
    copy = SqliteEngine.open(str(target))
    assert state(copy) == state(engine)
    assert copy.search(SearchQuery(USER, "second", limit=50)).total == 17
    assert copy.store(note("new", "text")).id == engine.store(note("new", "text")).id
    copy.close()
    engine.close()


def test_a_backup_while_others_write_is_the_store_at_one_moment(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    other = opened(tmp_path, durability="process")
    stop, faults, written = threading.Event(), [], 0

    def work() -> None:
        nonlocal written
        while not stop.is_set():
            # two records in one transaction: a backup holds both or neither
            try:
                other.store_many([note(f"a{written}", "left"), note(f"b{written}", "right")])
            except BaseException as error:  # noqa: BLE001  # told to the main thread
                faults.append(error)
                return
            written += 1

    writer = threading.Thread(target=work)
    writer.start()
    held = []
    try:
        for turn in range(8):
            before = written
            made = engine.backup(tmp_path / f"copy{turn}.db")
            held.append((before, made.records, written))
    finally:
        stop.set()
        writer.join()
    assert faults == []
    for turn, (before, records, after) in enumerate(held):
        assert (records - 50) % 2 == 0
        assert 2 * before <= records - 50 <= 2 * (after + 1)
        assert examine(str(tmp_path / f"copy{turn}.db")).ok
    assert written > held[0][0], "the writer went on meanwhile"
    other.close()
    engine.close()


def test_a_backup_carries_no_forgotten_text_even_while_the_store_still_does(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    doomed = [f"doomed{at:04}x" for at in range(300)]
    for start_at in range(0, 3000, 100):
        engine.store_many(
            [
                note(
                    f"k{at}",
                    f"{doomed[at // 10]} filler text" if at % 10 == 0 else f"kept{at:04}x filler text",
                )
                for at in range(start_at, start_at + 100)
            ]
        )
    reader = apsw.Connection(str(tmp_path / "store.db"))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM records").fetchall() == [(3000,)]
    for at in range(0, 3000, 10):
        engine._write(  # the delete alone: each forget would try to erase
            lambda conn, at=at: __import__("keyfold.engines.sqlite.write", fromlist=["remove"]).remove(
                conn, conn.execute("SELECT slot, id FROM records WHERE key = ?", (f"k{at}",)).fetchall()
            )
        )
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert all(word.encode() in files for word in doomed)
    target = tmp_path / "copies" / "a.db"
    target.parent.mkdir()
    assert engine.backup(target).records == 2700
    copied = b"".join(path.read_bytes() for path in target.parent.iterdir())
    assert [word for word in doomed if word.encode() in copied] == []
    assert all(f"kept{at:04}x".encode() in copied for at in range(3000) if at % 10)
    assert examine(str(target)).findings == ()
    reader.execute("COMMIT")
    reader.close()
    engine.close()


def test_what_is_there_is_kept_unless_force_is_said_and_never_touched_by_a_failure(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    target = tmp_path / "a.db"
    target.write_bytes(b"something else")
    with pytest.raises(StoreError, match="--force"):
        engine.backup(target)
    assert target.read_bytes() == b"something else"
    engine.backup(target, force=True)
    copy = SqliteEngine.open(str(target))
    assert state(copy) == state(engine)
    copy.close()
    engine.close()


def test_a_path_that_can_take_no_backup_is_refused_with_its_reason(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    for path, error, word in (
        (tmp_path / "store.db", InvalidRequest, "the store itself"),
        (tmp_path / "absent" / "a.db", StoreError, "does not exist"),
        (tmp_path, StoreError, "is a folder"),
        (tmp_path / ("n" * 300), StoreError, "could not be written"),
        (tmp_path / "a\0b", InvalidRequest, "no name"),
    ):
        with pytest.raises(error, match=word):
            engine.backup(path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    engine.close()


def test_a_store_that_is_open_is_not_replaced_by_a_backup(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    (tmp_path / "other").mkdir()
    other = opened(tmp_path / "other")
    other.store(note("k", "its log is not empty"))
    with pytest.raises(StoreError, match="is open, or was not closed"):
        engine.backup(tmp_path / "other" / "store.db", force=True)
    assert other.get(Ref(USER, key="k")) is not None
    other.close()
    engine.backup(tmp_path / "other" / "store.db", force=True)
    engine.close()


FULL = """
import resource, sys
from pathlib import Path
from keyfold.errors import StoreError
from tests.engines.common import opened
engine = opened(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    engine.backup(sys.argv[2])
except StoreError as error:
    print(error)
"""


def test_a_full_disk_leaves_neither_half_a_backup_nor_a_harmed_store(tmp_path: Path) -> None:
    filled(tmp_path).close()
    target = tmp_path / "copies" / "a.db"
    target.parent.mkdir()
    said = finish(start(FULL, tmp_path, target))
    assert str(target.parent) in said
    assert list(target.parent.iterdir()) == []
    check_agreement(tmp_path)
    assert sql(tmp_path, "SELECT count(*) FROM records") == [(51,)]


@pytest.mark.parametrize("fault", ["lost", "changed", "torn"])
def test_a_copy_that_is_not_the_store_is_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    from keyfold.engines.sqlite import backup

    engine = filled(tmp_path)
    clean = backup._clean

    def spoiled(path: str) -> None:
        clean(path)
        copy = apsw.Connection(path)
        if fault == "lost":
            copy.execute(
                "DELETE FROM revisions WHERE revision = 1 AND slot IN (SELECT min(slot) FROM revisions)"
            )
        elif fault == "changed":
            copy.execute(
                "UPDATE revisions SET content = 'other' WHERE slot IN (SELECT min(slot) FROM revisions)"
            )
        copy.close()
        if fault == "torn":
            with Path(path).open("r+b") as file:
                file.seek(3 * 2048)
                file.write(os.urandom(2048 * 4))

    monkeypatch.setattr(backup, "_clean", spoiled)
    with pytest.raises(StoreError):
        engine.backup(tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()
    assert not list(tmp_path.glob(".*"))
    engine.close()


def test_a_store_in_memory_can_be_kept_as_a_file(tmp_path: Path) -> None:
    engine = SqliteEngine.open(":memory:")
    engine.store(note("k", "text"))
    engine.backup(tmp_path / "store.db")
    engine.close()
    kept = opened(tmp_path)
    record = kept.get(Ref(USER, key="k"))
    assert record is not None
    assert record.content == "text"
    assert kept.forget(Selector(USER, ref=Ref(USER, key="k"))).erased is True
    kept.close()
    check_agreement(tmp_path)


def test_a_backup_of_a_backup_over_a_lost_store_brings_it_back_with_its_ids(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    before = state(engine)
    engine.backup(tmp_path / "kept.db")
    engine.close()
    (tmp_path / "store.db").unlink()
    kept = SqliteEngine.open(str(tmp_path / "kept.db"))
    kept.backup(tmp_path / "store.db")
    kept.close()
    back = opened(tmp_path)
    assert state(back) == before
    back.close()


def test_a_plain_copy_of_a_backup_is_a_store_too(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    before = state(engine)
    engine.backup(tmp_path / "kept.db")
    engine.close()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "store.db").write_bytes((tmp_path / "kept.db").read_bytes())
    moved = opened(tmp_path / "there")
    assert state(moved) == before
    moved.close()


def test_a_backup_goes_into_no_device_no_pipe_and_no_file_of_the_store(tmp_path: Path) -> None:
    engine = filled(tmp_path)
    store = engine._path
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for target in (
        tmp_path / "pipe",
        tmp_path / "dangling",
        *(f"{store}{side}" for side in ("", "-wal", "-shm")),
    ):
        with pytest.raises(InvalidRequest):
            engine.backup(str(target), force=True)
    assert (tmp_path / "pipe").is_fifo()
    assert engine.count(USER).total == 50
    engine.close()
