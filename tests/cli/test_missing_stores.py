"""A store that is not there yet: reading neither makes it nor fails for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

READING = (
    ("search", "x"),
    ("get", "1"),
    ("topics",),
    ("history", "1"),
    ("list",),
    ("timeline", "1"),
    ("context",),
    ("stats",),
    ("session", "list"),
    ("restore", "1", "--revision", "1"),
    ("session", "end"),
    ("session", "end", "a last word", "--session", "s"),
    ("forget", "1", "--dry-run"),
    ("forget", "1", "--yes"),
    ("forget", "--all", "--dry-run"),
)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_a_store_that_is_not_there_is_as_reading_an_empty_one(
    keyfold: Any, words: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "nowhere" / "absent.db"
    empty = keyfold(*words, "--store", ":memory:")
    for url in (str(file), f"sqlite:///{file}"):
        answer = keyfold(*words, "--store", url)
        assert (answer.code, answer.out) == (empty.code, empty.out)
        assert answer.err == f"keyfold: there is no store at {file} yet; keyfold save makes it\n" + empty.err
    answer = keyfold(*words, "--store", str(file), "--json")
    assert (answer.code, answer.out) == (empty.code, keyfold(*words, "--store", ":memory:", "--json").out)
    assert f"there is no store at {file} yet" in answer.err
    assert answer.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [*READING, ("export",), ("doctor",), ("backup", "b.db")], ids=" ".join)
def test_reading_leaves_an_empty_file_empty(keyfold: Any, words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "empty.db"
    file.touch()
    answer = keyfold(*words, "--store", str(file))
    assert answer.err.startswith(f"keyfold: the file {file} is empty, and no store yet")
    assert answer.code in (0, 1)
    assert (list(tmp_path.iterdir()), file.stat().st_size) == ([file], 0)


def test_the_default_store_and_its_folder_are_not_made_by_reading(
    keyfold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEYFOLD_STORE")
    answer = keyfold("list")
    assert answer.code == 1
    assert f"there is no store at {tmp_path / 'data' / 'keyfold' / 'memory.db'} yet" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("export",), ("doctor",), ("export", "--output", "out.jsonl")])
def test_what_makes_no_sense_without_a_store_says_that_there_is_none(
    keyfold: Any, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = keyfold(*words)
    assert (answer.code, answer.out) == (1, "")
    assert (
        answer.err == f"keyfold: there is no store at {tmp_path / 'memory.db'} yet; keyfold save makes it\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_an_import_makes_no_store(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    file = tmp_path / "a.jsonl"
    keyfold("export", "--output", str(file))
    answer = keyfold("import", str(file), "--dry-run", "--store", str(tmp_path / "other.db"))
    assert answer.code == 0
    assert answer.out.startswith("2 records: 2 would be created")
    assert "there is no store at" in answer.err
    assert not (tmp_path / "other.db").exists()


def test_a_store_that_is_there_and_empty_is_exported_and_told_without_a_fault(
    keyfold: Any, saved: Any
) -> None:
    saved("one", topic="k")
    keyfold("forget", "--all", "--yes")
    exported = keyfold("export")
    assert (exported.code, exported.err) == (0, "")
    assert len(exported.out.splitlines()) == 2
    assert keyfold("export", "--json").code == 0
    told = keyfold("context")
    assert (told.code, told.out, told.err) == (0, "", "")
    told = keyfold("context", "--json")
    assert (told.code, told.document) == (0, {"text": "", "truncated": False})


def test_no_folder_for_the_default_store_names_the_other_ways(
    keyfold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("KEYFOLD_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file" / "below"))
    monkeypatch.setattr("sys.platform", "linux")
    answer = keyfold("save", "--type", "decision", "--title", "t", "x")
    assert (answer.code, answer.out) == (3, "")
    assert "--store" in answer.err
    assert "KEYFOLD_STORE" in answer.err
