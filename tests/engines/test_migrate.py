"""Earlier schemas are taken forward: whole or not at all, once, and with nothing lost.

The samples of all schemas there were are taken forward; what can go wrong is shown on steps of the tests' own, from
the present schema on.
"""

from __future__ import annotations

import signal
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import Config, Memory
from keyfold.engines.sqlite import SqliteEngine, migrate, schema
from keyfold.engines.sqlite.doctor import examine
from keyfold.errors import StoreError
from tests.engines.common import check_agreement, finish, sql, start
from tests.engines.samples.dump import created, dump, load, sample

BASE = schema.VERSION  # the tests' steps begin where the program's end
AFTER = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The sample of the present schema as a file."""
    load(sample(BASE), str(tmp_path / "store.db"))
    return str(tmp_path / "store.db")


def opened(store: str) -> Memory:
    return Memory.open(store, config=Config(clock=lambda: AFTER))


def read_sample(store: str) -> None:
    """All that the sample is known to hold."""
    with opened(store) as memory:
        auth = memory.mem_history("ana", topic_key="architecture/auth")
        assert [state.content for state in auth] == [
            "JWT, one hour, refresh tokens for 15 days.",
            "JWT, one hour.",
        ]
        assert [state.revision for state in auth] == [2, 1]
        record = memory.mem_get_observation("ana", "2")
        assert record is not None
        assert (record.tags, record.session_id) == (("auth", "security"), "monday")
        assert record.metadata == {"depth": {"n": 1}, "ratio": 0.5, "ok": True, "none": None}
        bug = memory.mem_get_observation("ana", 3)
        assert bug is not None
        assert (bug.pinned, bug.content[-14:]) == (True, "Kim for [REDACTED].".strip()[-14:])
        assert memory.mem_get_observation("ana", 5) is None, "it has expired"
        assert [hit.id for hit in memory.mem_search("ana", "corrió メモ")] == ["4"]
        assert memory.mem_search("ana", "memories keeps keyfold")[0].id == "8"
        stats = memory.mem_stats("ana")
        assert stats["by_kind"] == {"observation": 3, "document": 1, "turn": 2, "summary": 1, "session": 1}
        assert memory.mem_stats("team:acme/agent:writer")["total"] == 20
        found = memory.mem_search("team:acme/agent:writer", "style shorter sentences", limit=30)
        assert (found.total, found[0].id) == (20, "10")
        assert memory.mem_search("team:acme/agent:writer", "word7")[0].topic_key == "style/07"
        assert memory.mem_stats("bob")["total"] == 1
        # the id that was forgotten is not issued again
        assert memory.mem_save("bob", "new", type="discovery", title="t", session_id="s").id == "34"


def test_the_sample_of_each_schema_there_was_is_read_and_looks_healthy(tmp_path: Path) -> None:
    for version in range(1, schema.VERSION + 1):
        (tmp_path / str(version)).mkdir()
        path = str(tmp_path / str(version) / "store.db")
        load(sample(version), path)
        before = (sql(tmp_path / str(version), "SELECT count(*) FROM records"), examine(path).ok)
        assert before == ([(32,)], True)
        read_sample(path)
        assert examine(path).ok
        check_agreement(tmp_path / str(version))


def test_a_forget_takes_the_addresses_out_of_sessions_that_early_versions_closed(store: str) -> None:
    assert b'"summary_of":[["document","docs/readme.md"' in Path(store).read_bytes()
    with opened(store) as memory:
        session = memory.mem_session_list("ana").items[0]
        assert session.summary == "Done for Monday."
        assert memory.mem_delete("ana", topic_key="architecture/auth").erased is True
        assert memory.mem_session_list("ana").items[0].ended_at == session.ended_at
    for file in Path(store).parent.iterdir():
        for told in (b"architecture/auth", b'docs/readme.md",false', b"summary_of"):
            assert told not in file.read_bytes(), (file, told)
    assert examine(store).ok


def test_a_sample_is_the_whole_of_a_store(store: str) -> None:
    assert "\n".join(dump(store)) + "\n" == sample(BASE)


def test_the_schema_changes_only_with_a_new_version_a_step_and_a_sample(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    SqliteEngine.open(path).close()
    now = created("\n".join(dump(path)) + "\n")
    kept = created(sample(schema.VERSION))
    assert now == kept, (
        "the tables are not those of schema version "
        f"{schema.VERSION}: raise schema.VERSION, add a step to migrate.STEPS, and keep a sample of the new version"
    )
    assert sorted(migrate.STEPS) == list(range(1, schema.VERSION))


def first_step(conn: apsw.Connection) -> None:
    """A test's next schema: a table that counts how often it was made, and a column with what was there."""
    conn.execute("CREATE TABLE migrated (at ANY) STRICT; ALTER TABLE namespaces ADD COLUMN note TEXT")
    conn.execute("INSERT INTO migrated VALUES (1); UPDATE namespaces SET note = name")


def second_step(conn: apsw.Connection) -> None:
    conn.execute("INSERT INTO migrated VALUES (2)")


Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Make this the program of a later schema."""

    def later(*steps: Callable[[apsw.Connection], None]) -> None:
        monkeypatch.setattr(schema, "VERSION", BASE + len(steps))
        monkeypatch.setattr(migrate, "STEPS", dict(enumerate(steps, BASE)))

    return later


def leftovers(store: str) -> list[str]:
    return sorted(path.name for path in Path(store).parent.iterdir() if "backup" in path.name)


def test_a_store_is_taken_forward_on_opening_and_nothing_is_lost(store: str, install: Install) -> None:
    install(first_step)
    read_sample(store)
    folder = Path(store).parent
    assert sql(folder, "PRAGMA user_version") == [(BASE + 1,)]
    assert sql(folder, "SELECT * FROM migrated") == [(1,)]
    assert sql(folder, "SELECT count(*) FROM namespaces WHERE note = name") == [(3,)]
    assert leftovers(store) == []
    check_agreement(folder)


def test_several_steps_follow_one_another_with_one_copy_of_the_first_version(
    store: str, install: Install
) -> None:
    seen: list[Any] = []

    def looking(step: Callable[[apsw.Connection], None]) -> Callable[[apsw.Connection], None]:
        def look(conn: apsw.Connection) -> None:
            seen.append([name for name in leftovers(store) if name.endswith("backup")])
            copy = apsw.Connection(f"{store}.v{BASE}-backup", apsw.SQLITE_OPEN_READONLY)
            seen.append(copy.execute("PRAGMA user_version").fetchall())
            seen.append(copy.execute("SELECT count(*) FROM records").fetchall())
            copy.close()
            seen.append(stat.S_IMODE(Path(f"{store}.v{BASE}-backup").stat().st_mode))
            step(conn)

        return look

    install(looking(first_step), looking(second_step))
    opened(store).close()
    assert seen == [[f"store.db.v{BASE}-backup"], [(BASE,)], [(32,)], 0o600] * 2
    assert sql(Path(store).parent, "SELECT * FROM migrated") == [(1,), (2,)]
    assert leftovers(store) == []


def fails(conn: apsw.Connection) -> None:
    first_step(conn)
    conn.execute("INSERT INTO nowhere VALUES (1)")


def loses(conn: apsw.Connection) -> None:
    conn.execute("DELETE FROM revisions WHERE slot = (SELECT max(slot) FROM revisions)")


def forgets_the_index(conn: apsw.Connection) -> None:
    conn.execute("DELETE FROM unindexed")


@pytest.mark.parametrize("step", [fails, loses, forgets_the_index])
def test_a_step_that_goes_wrong_leaves_the_store_as_it_was(
    store: str, install: Install, monkeypatch: pytest.MonkeyPatch, step: Callable[[apsw.Connection], None]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", BASE + 1)
        patch.setattr(migrate, "STEPS", {BASE: step})
        with pytest.raises(StoreError) as caught:
            opened(store)
        assert "INSERT" not in str(caught.value)
    assert leftovers(store) == []
    assert "\n".join(dump(store)) + "\n" == sample(BASE)
    install(first_step)
    read_sample(store)
    assert leftovers(store) == []


def test_when_a_later_step_goes_wrong_the_copy_of_the_first_version_stays(
    store: str, install: Install
) -> None:
    install(first_step, loses)
    with pytest.raises(StoreError, match="could not be brought forward"):
        opened(store)
    assert sql(Path(store).parent, "PRAGMA user_version") == [(BASE + 1,)]
    assert leftovers(store) == [f"store.db.v{BASE}-backup"]
    install(first_step, second_step)
    read_sample(store)
    assert leftovers(store) == []


def test_a_version_without_a_step_is_refused_with_what_to_do(store: str, install: Install) -> None:
    install(first_step, second_step)
    migrate.STEPS.clear()  # a dictionary of the test's own
    before = Path(store).read_bytes()
    with pytest.raises(StoreError, match="open it with an earlier one"):
        opened(store)
    assert Path(store).read_bytes()[100:] == before[100:]
    assert leftovers(store) == []


def test_a_newer_store_is_refused_and_left_as_it_is(store: str, install: Install) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "VERSION", BASE + 1)
        patch.setattr(migrate, "STEPS", {BASE: first_step})
        opened(store).close()
    before = Path(store).read_bytes()
    with pytest.raises(StoreError, match="newer Keyfold"):
        opened(store)
    assert Path(store).read_bytes() == before
    with pytest.raises(StoreError, match="newer Keyfold"):
        examine(store)


def test_a_program_whose_store_a_newer_one_took_forward_says_so_and_writes_nothing(store: str) -> None:
    with opened(store) as memory:
        other = apsw.Connection(store)
        other.execute("ALTER TABLE namespaces RENAME COLUMN indexed TO later")
        before = other.execute("SELECT count(*) FROM records").fetchall()
        for call in (
            lambda: memory.mem_save("ana", "new", type="discovery", title="t"),
            lambda: memory.mem_search("ana", "auth"),
        ):
            with pytest.raises(StoreError, match="restart this program"):
                call()
        assert other.execute("SELECT count(*) FROM records").fetchall() == before
        other.close()


def test_no_room_for_the_copy_is_told_and_changes_nothing(
    store: str, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    install(first_step)
    monkeypatch.setattr(migrate, "copy_pages", full)
    with pytest.raises(StoreError, match="free as much space"):
        opened(store)
    assert "\n".join(dump(store)) + "\n" == sample(BASE)
    assert leftovers(store) == []


LATER = """
import signal
import sys
from keyfold.engines.sqlite import SqliteEngine, migrate, schema
from tests.engines.test_migrate import BASE, first_step, second_step

def stopping(step, where):
    def stop(conn):
        if where == "before":
            print("here", flush=True)
            signal.pause()
        step(conn)
        if where == "after":
            print("here", flush=True)
            signal.pause()
    return stop

schema.VERSION = BASE + 2
first, second = sys.argv[2], sys.argv[3]
migrate.STEPS = {BASE: stopping(first_step, first), BASE + 1: stopping(second_step, second)}
if len(sys.argv) > 4:
    migrate.tidy = lambda path: (print("here", flush=True), signal.pause())
print("opening", flush=True)
SqliteEngine.open(sys.argv[1]).close()
"""


@pytest.mark.parametrize(
    ("where", "steps"),
    [
        (("before", ""), 0),
        (("after", ""), 0),
        (("", "before"), 1),
        (("", "after"), 1),
        (("", "", "tidying"), 2),
    ],
)
def test_kill_9_during_a_migration_leaves_one_version_or_the_next_and_opening_goes_on(
    store: str, install: Install, where: tuple[str, ...], steps: int
) -> None:
    process = start(LATER, store, *where)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["opening\n", "here\n"]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    folder = Path(store).parent
    assert sql(folder, "PRAGMA user_version") == [(BASE + steps,)]
    assert leftovers(store) == [f"store.db.v{BASE}-backup"]
    install(first_step, second_step)
    read_sample(store)
    assert sql(folder, "SELECT * FROM migrated") == [(1,), (2,)]
    assert leftovers(store) == []
    check_agreement(folder)


def test_processes_that_open_an_older_store_at_once_take_it_forward_once(store: str) -> None:
    processes = [start(LATER, store, "", "") for _ in range(6)]
    assert [finish(process) for process in processes] == ["opening\n"] * 6
    folder = Path(store).parent
    assert sql(folder, "SELECT * FROM migrated") == [(1,), (2,)]
    assert sql(folder, "PRAGMA user_version") == [(BASE + 2,)]
    assert leftovers(store) == []
    check_agreement(folder)
