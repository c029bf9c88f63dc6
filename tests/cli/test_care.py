"""The commands that look after a store: doctor, backup and check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold.conformance import CLAUSES
from keyfold.engines.sqlite import SqliteEngine


def hurt(tmp_path: Path, statement: str) -> None:
    conn = apsw.Connection(str(tmp_path / "memory.db"))
    conn.execute(statement).fetchall()
    conn.close()


def test_doctor_looks_repairs_and_says_what_it_did(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    assert keyfold("doctor").code == 0
    hurt(tmp_path, "UPDATE namespaces SET indexed = 2")
    answer = keyfold("doctor")
    assert (answer.code, answer.err) == (1, "")
    assert answer.out.startswith("sqlite: 2 faults found\n")
    assert "fault  index: 1 record that no search finds (id 1)\n" in answer.out
    assert answer.out.endswith("keyfold doctor --repair makes again what can be made again\n")
    assert keyfold("doctor").out == answer.out, "looking repairs nothing"
    answer = keyfold("doctor", "--repair")
    assert answer.code == 0
    assert "sqlite: healthy" in answer.out
    assert "repaired: made the word index again from 1 record\n" in answer.out
    assert keyfold("search", "one").code == 0
    assert "there was no fault" in keyfold("doctor", "--repair").out


def test_doctor_says_what_it_cannot_repair(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    hurt(tmp_path, "UPDATE records SET metadata = '{' WHERE id = 1")
    answer = keyfold("doctor", "--repair")
    assert answer.code == 1
    assert "cannot be read (id 1)" in answer.out
    assert "restore a backup" in answer.out


def test_doctor_as_json(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    found = keyfold("doctor", "--json").document
    assert (found["ok"], found["engine"], found["findings"], found["erased"]) == (True, "sqlite", [], None)
    assert found["repaired"] is None
    hurt(tmp_path, "DELETE FROM meta WHERE name = 'last_id'")
    found = keyfold("doctor", "--json", "--quick").document
    assert found["ok"] is False
    (finding,) = found["findings"]
    assert (finding["area"], finding["fault"], finding["remedy"]) == ("counters", True, "counters")
    found = keyfold("doctor", "--json", "--repair", "--purge", "--erase").document
    assert (found["ok"], found["purged"], found["erased"]) == (True, 0, True)
    assert found["repaired"][0] == "set the counter last_id to 2"
    assert found["not_repaired"] == []


def test_doctor_purges_what_has_expired(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("doomedword", topic="k")
    saved("keptword", topic="l")
    hurt(tmp_path, "UPDATE records SET expires_at = 5 WHERE key = 'k'")
    answer = keyfold("doctor")
    assert answer.code == 0
    assert (
        "note   rows: 1 expired, no longer shown and still in the file: --purge removes them\n" in answer.out
    )
    assert keyfold("doctor", "--purge").out.endswith(
        "purged: 1 expired record\nerased: no file of the store holds forgotten text\n"
    )
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert (b"doomedword" in files, b"keptword" in files) == (False, True)


def test_doctor_tells_of_a_file_that_is_no_database_any_more(
    keyfold: Any, saved: Any, tmp_path: Path
) -> None:
    saved("one", topic="k")
    (tmp_path / "memory.db").write_bytes(b"\0" * 4096)
    answer = keyfold("doctor", "--json")
    assert (answer.code, answer.err) == (1, "")
    assert "no SQLite database" in answer.document["findings"][0]["problem"]
    answer = keyfold("doctor", "--repair")
    assert (answer.code, answer.out) == (3, "")
    assert "not a SQLite database" in answer.err


def test_doctor_makes_no_store(keyfold: Any, tmp_path: Path) -> None:
    answer = keyfold("doctor")
    assert (answer.code, answer.out) == (1, "")
    assert "there is no store at" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_doctor_asks_other_engines_and_says_that_this_is_all(keyfold: Any) -> None:
    answer = keyfold("doctor", "--store", "inmemory:")
    assert (answer.code, answer.out.partition("\n")[0]) == (0, "inmemory: healthy, by its own word")
    assert "in a store in a file only" in answer.err
    assert keyfold("doctor", "--store", "inmemory:", "--json").document["findings"] is None
    for option in ("--repair", "--purge", "--erase"):
        answer = keyfold("doctor", "--store", "inmemory:", option)
        assert (answer.code, answer.out) == (2, "")


def test_a_backup_says_what_it_holds_and_is_a_store(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    saved("two", topic="k")
    target = str(tmp_path / "copy.db")
    answer = keyfold("backup", target)
    assert answer.code == 0
    assert answer.out.startswith(f"wrote {target}: 1 record, 1 session, 1 past state, 1 user, ")
    assert answer.out.endswith(
        "bytes\nverified: read back whole, all counts compared, and all of the records letter for letter\n"
    )
    answer = keyfold("backup", target)
    assert (answer.code, answer.out) == (3, "")
    assert "--force" in answer.err
    found = keyfold("backup", target, "--force", "--json").document
    assert (found["records"], found["revisions"], found["path"]) == (1, 1, target)
    first = keyfold("history", "--topic", "k", "--json").out
    assert keyfold("history", "--topic", "k", "--json", "--store", target).out == first


def test_a_lost_store_is_brought_back_by_the_backup_of_its_backup(
    keyfold: Any, saved: Any, tmp_path: Path
) -> None:
    saved("one", topic="k")
    first = keyfold("get", "--topic", "k", "--json").out
    copy, store = str(tmp_path / "copy.db"), tmp_path / "memory.db"
    assert keyfold("backup", copy).code == 0
    store.write_bytes(b"\0" * 5000)
    assert keyfold("get", "--topic", "k").code == 3
    assert keyfold("backup", str(store), "--store", copy, "--force").code == 0
    assert keyfold("get", "--topic", "k", "--json").out == first
    assert keyfold("copy", copy, str(tmp_path / "third.db")).code == 0
    assert keyfold("get", "--topic", "k", "--store", str(tmp_path / "third.db")).code == 0


def test_there_is_a_backup_only_of_a_store_in_a_file_that_is_there(keyfold: Any, tmp_path: Path) -> None:
    answer = keyfold("backup", str(tmp_path / "a.db"), "--store", "inmemory:")
    assert (answer.code, "keyfold export" in answer.err) == (2, True)
    answer = keyfold("backup", str(tmp_path / "a.db"))
    assert (answer.code, "there is no store" in answer.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def rows(tmp_path: Path) -> list[Any]:
    conn = apsw.Connection(str(tmp_path / "memory.db"))
    try:
        return [
            conn.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in ("records", "revisions", "namespaces", "unindexed", "words_docsize")
        ]
    finally:
        conn.close()


def test_check_tries_a_store_in_use_and_leaves_nothing_in_it(
    keyfold: Any, saved: Any, tmp_path: Path
) -> None:
    saved("one", topic="k")
    saved("two", topic="k")
    before = (rows(tmp_path), keyfold("export").out)
    store = str(tmp_path / "memory.db")
    answer = keyfold("check", store)
    lines = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    skipped = [line for line in lines if " skipped: " in line]
    assert skipped
    assert all("[needs a clock]" in line for line in skipped)
    assert (
        lines[-2]
        == f"{len(CLAUSES)} clauses: {len(CLAUSES) - len(skipped)} passed, 0 failed, {len(skipped)} skipped"
    )
    assert lines[-1] == "cleaned up: nothing of the check is left in the store"
    assert (rows(tmp_path), keyfold("export").out) == before
    assert b"keyfold-check" not in b"".join(path.read_bytes() for path in tmp_path.glob("memory.db*"))
    assert keyfold("doctor").code == 0


def test_check_as_json_has_every_clause(keyfold: Any) -> None:
    answer = keyfold("check", "inmemory:", "--json")
    assert answer.code == 0
    found = answer.document
    assert [item["id"] for item in found["items"]] == [clause.id for clause in CLAUSES]
    assert (found["failed"], found["left_behind"], found["total"]) == (0, [], len(CLAUSES))
    assert found["passed"] + found["skipped"] == len(CLAUSES)


def test_check_ends_with_1_and_names_the_clauses_that_fail(
    keyfold: Any, saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("one", topic="k")

    def none(*_: object) -> list[Any]:
        from keyfold.contract.intents import Past

        return Past(None, ())  # type: ignore[return-value]  # broken on purpose

    monkeypatch.setattr(SqliteEngine, "history", none)
    answer = keyfold("check", str(tmp_path / "memory.db"))
    assert answer.code == 1
    assert "\nH-01 failed: History lists every state" in f"\n{answer.out}"
    assert "nothing of the check is left" in answer.out


def test_check_ends_with_3_when_something_of_it_stays_in_the_store(
    keyfold: Any, saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("one", topic="k")
    monkeypatch.setattr(SqliteEngine, "namespaces", lambda self, prefix="": [f"{prefix}/D-01/a"])
    answer = keyfold("check", str(tmp_path / "memory.db"), "--json")
    assert answer.code == 3
    assert len(json.loads(answer.out)["left_behind"]) == 1
    assert "still names 1 namespace" in answer.err


def test_check_makes_no_store_and_ends_with_3_when_there_is_none_to_open(
    keyfold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = keyfold("check", str(tmp_path / "absent.db"))
    assert (answer.code, "there is no store" in answer.err) == (1, True)
    (tmp_path / "memory.db").write_bytes(b"no database" * 100)
    answer = keyfold("check", str(tmp_path / "memory.db"))
    assert (answer.code, answer.out) == (3, "")
    assert list(tmp_path.glob("absent*")) == []


def test_check_cleans_up_when_it_is_interrupted(
    keyfold: Any, saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("one", topic="k")
    before = rows(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SqliteEngine, "history", interrupted)
    assert keyfold("check", str(tmp_path / "memory.db")).code == 130
    assert rows(tmp_path) == before
