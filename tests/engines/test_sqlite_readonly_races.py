"""A reader without rights makes no file beside a store, and bears with a writer who goes and comes meanwhile."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from keyfold.contract.intents import Query
from keyfold.engines.sqlite import readonly
from keyfold.engines.sqlite.doctor import examine
from keyfold.errors import StoreError, Unavailable
from tests.engines.common import USER, finish, note, opened, start
from tests.engines.test_sqlite_readonly import SAVES
from tests.modes import modes_hold

Reads = Callable[[Path], int]


def reads_in_engine(folder: Path) -> int:
    """How many records an engine that may not write sees in a folder."""
    engine = opened(folder)
    try:
        assert engine.health().facts["read_only"] is True
        return engine.page(Query(USER)).total
    finally:
        engine.close()


def reads_in_doctor(folder: Path) -> int:
    return int(examine(str(folder / "store.db")).facts["records"])


each_reader = pytest.mark.parametrize("reads", [reads_in_engine, reads_in_doctor])


def before_the_opening(monkeypatch: pytest.MonkeyPatch, *events: Callable[[], object]) -> list[str]:
    """Let one event after the other happen between a reader's look at the files and its opening of them."""
    coming, manners, open_in = list(events), list[str](), readonly.open_in

    def late(manner: str, path: str) -> apsw.Connection:
        manners.append(manner)
        if coming:
            coming.pop(0)()
        return open_in(manner, path)

    monkeypatch.setattr(readonly, "open_in", late)
    monkeypatch.setattr(readonly, "pause", lambda _: None)
    return manners


@each_reader
def test_a_reader_makes_no_file_when_the_last_writer_closes_between_its_look_and_its_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads
) -> None:
    writer = opened(tmp_path)
    writer.store(note("k", "apple"))
    (tmp_path / "store.db").chmod(0o400)
    manners = before_the_opening(monkeypatch, writer.close)
    with modes_hold():
        assert reads(tmp_path) == 1
    assert manners == [readonly.SHARED, readonly.STILL]
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


@each_reader
def test_a_reader_makes_no_file_when_a_log_that_lay_alone_is_taken_in_before_its_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads
) -> None:
    path = tmp_path / "store.db"
    finish(start(SAVES, tmp_path, "k", "dies"))
    (tmp_path / "store.db-shm").unlink()
    path.chmod(0o400)

    def take_in() -> None:
        path.chmod(0o600)
        other = sqlite3.connect(path)
        assert other.execute("SELECT count(*) FROM records").fetchone()[0] >= 1
        other.close()
        path.chmod(0o400)

    manners = before_the_opening(monkeypatch, take_in)
    with modes_hold():
        assert reads(tmp_path) == 1
    assert manners == [readonly.ALONE, readonly.STILL]
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


@each_reader
def test_a_reader_makes_no_index_of_a_log_that_lost_its_own_before_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads
) -> None:
    finish(start(SAVES, tmp_path, "k", "dies"))
    (tmp_path / "store.db").chmod(0o400)
    manners = before_the_opening(monkeypatch, (tmp_path / "store.db-shm").unlink)
    with modes_hold():
        assert reads(tmp_path) == 1
    assert manners == [readonly.SHARED, readonly.ALONE]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.db", "store.db-wal"]


def failing(error: type[Exception]) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@each_reader
@pytest.mark.parametrize("error", [apsw.ReadOnlyError, apsw.CantOpenError])
def test_an_opening_that_meets_a_writer_who_goes_and_comes_is_made_again_though_the_files_look_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: Reads, error: type[Exception]
) -> None:
    writer = opened(tmp_path)
    writer.store(note("k", "apple"))
    (tmp_path / "store.db").chmod(0o400)
    manners = before_the_opening(monkeypatch, *[failing(error)] * (readonly.TRIES - 1))
    with modes_hold():
        assert reads(tmp_path) == 1
    assert manners == [readonly.SHARED] * readonly.TRIES
    writer.close()


def test_a_writer_who_goes_and_comes_all_the_time_is_not_taken_for_a_lack_of_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(tmp_path)
    writer.store(note("k", "apple"))
    (tmp_path / "store.db").chmod(0o400)
    manners = before_the_opening(monkeypatch, *[failing(apsw.ReadOnlyError)] * readonly.TRIES)
    with modes_hold(), pytest.raises(Unavailable, match="try again"):
        opened(tmp_path)
    assert len(manners) == readonly.TRIES
    writer.close()


def test_a_pause_before_another_opening_grows_and_stays_short(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    for turn in range(1, readonly.TRIES + 1):
        readonly.pause(turn)
    assert pauses == sorted(set(pauses))
    assert sum(pauses) < 0.2


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_writer_is_told_which_file_beside_the_store_it_may_not_write(tmp_path: Path, mode: int) -> None:
    finish(start(SAVES, tmp_path, "k", "dies"))
    for name in ("store.db-wal", "store.db-shm"):
        (tmp_path / name).chmod(mode)
    with modes_hold(), pytest.raises(StoreError) as caught, closing(opened(tmp_path)) as engine:
        engine.store(note("k2", "pear"))
    both = f"{tmp_path / 'store.db-wal'} and {tmp_path / 'store.db-shm'}"
    assert f"this process may not write {both}: make it writable" in str(caught.value)
    for name in ("store.db-wal", "store.db-shm"):
        (tmp_path / name).chmod(0o600)
    assert reads_in_doctor(tmp_path) == 1
