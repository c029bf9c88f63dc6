"""Export, import, copy and the tour."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from keyfold import Config, Memory


def test_an_export_imported_elsewhere_exports_the_same(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    for text in ("one", "two", "trés ünïcode 日本"):
        saved(text, topic="k")
    saved("loose", "--user", "bob")
    told = keyfold("export").out
    assert told.splitlines()[0] == '{"format":"keyfold","version":1}'
    file, other = tmp_path / "a.jsonl", str(tmp_path / "other.db")
    written = keyfold("export", "--output", str(file))
    assert (written.code, written.out) == (0, "")
    assert file.read_bytes() == told.encode()
    answer = keyfold("import", str(file), "--store", other)
    assert answer.code == 0
    assert answer.out.startswith(
        "4 records: 4 created, 0 updated, 0 there already\n"
    )  # two of them are sessions
    assert keyfold("export", "--store", other).out == told
    assert keyfold("import", str(file), "--store", other).out.startswith(
        "nothing changed: all 4 records are there already\n"
    )
    assert keyfold("import", "-", "--store", other, stdin=told).code == 0


def test_an_export_is_of_everybody_unless_a_user_is_named(
    keyfold: Any, saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("a", "--user", "alice")
    saved("b", "--user", "bob")
    monkeypatch.setenv("KEYFOLD_USER", "alice")
    everybody = keyfold("export", "--json").document
    assert {item["namespace"] for item in everybody["items"]} == {"alice", "bob"}
    assert everybody["total"] == 4
    one = keyfold("export", "--user", "bob", "--json").document
    assert {item["namespace"] for item in one["items"]} == {"bob"}


def test_a_bad_line_is_told_and_the_code_says_it(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    lines = keyfold("export").out.splitlines()
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join([lines[0], "{SECRET", *lines[1:]]), "utf-8")
    answer = keyfold("import", str(file), "--store", str(tmp_path / "other.db"))
    assert answer.code == 2
    assert answer.out.startswith("2 records: 2 created")
    assert "skipped line 2: not JSON" in answer.err
    assert "SECRET" not in answer.err
    report = keyfold("import", str(file), "--dry-run", "--json").document
    assert (report["dry_run"], report["deduped"], report["skipped"][0]["line"]) == (True, 2, 2)


def test_engrams_export_goes_to_the_user_named(
    keyfold: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = "2026-03-01 10:00:00"
    entry = {"id": 1, "sync_id": "obs-1", "session_id": "s", "type": "feature", "title": "t", "content": "c"}
    entry |= {"project": "shop", "topic_key": "k", "created_at": at, "updated_at": at}
    file = tmp_path / "engram.json"
    file.write_text(json.dumps({"sessions": None, "observations": [entry], "prompts": None}))
    monkeypatch.setenv("KEYFOLD_USER", "dev")
    assert keyfold("import", str(file)).code == 0
    assert keyfold("topics", "--user", "dev", "--json").document["total"] == 1
    assert keyfold("import", str(file), "--namespace-per", "project", "--from", "engram").code == 0
    assert keyfold("topics", "--user", "shop", "--json").document["total"] == 1
    assert "input: " not in keyfold("import", "-", "--from", "engram").out


def test_a_copy_brings_everything_over_and_again_nothing(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    for text in ("one", "two"):
        saved(text, topic="k")
    source, target = str(tmp_path / "memory.db"), f"sqlite:///{tmp_path}/copy.db"
    assert keyfold("copy", source, target).out.startswith("2 records: 2 created")
    assert keyfold("copy", source, target, "--resume").out.startswith("nothing changed")
    assert keyfold("export", "--store", target).out == keyfold("export").out
    absent = tmp_path / "absent.db"
    assert keyfold("copy", f"sqlite:///{absent}", target).code == 1
    assert not absent.exists()


@pytest.mark.parametrize("built_in", [False, True])
def test_the_tour_shows_the_main_job_and_leaves_nothing(
    keyfold: Any, built_in: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("KEYFOLD_USER", "somebody")
    if built_in:
        monkeypatch.setattr("keyfold.cli.tour.DECISIONS", tmp_path / "absent")
    before = dict(os.environ)
    answer = keyfold("tour")
    assert (answer.code, answer.err) == (0, "")
    steps = [line for line in answer.out.splitlines() if line[:1].isdigit()]
    assert [line[0] for line in steps] == ["1", "2", "3", "4", "5", "6", "7"]
    for told in (
        "$ keyfold save --type decision --topic decisions/sqlite-through-apsw",
        "created  id 1",
        "deduped  id 1",
        "updated  id 1  decisions/sqlite-through-apsw  revision 2",
        "+Still right",
        "~  20",
        "The key is [REDACTED], ask Kim.",
        "forgot 1 record",
        "with Memory.open() as memory:",
        "keyfold context --budget 4000",
    ):
        assert told in answer.out, told
    assert list(tmp_path.iterdir()) == []
    assert dict(os.environ) == before
    document = keyfold("tour", "--json").document
    assert document["total"] == 7
    assert list(tmp_path.iterdir()) == []


def test_a_real_memory_of_engrams_makes_the_whole_way(keyfold: Any, tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    folder = Path(os.environ.get("KEYFOLD_SHARED", root.parent / "shared")) / "data" / "engram-export"
    if not folder.is_dir():
        pytest.skip(
            "engram-export is not there: set KEYFOLD_SHARED to the folder that holds data/engram-export"
        )
    assert keyfold("import", str(folder)).out.startswith("1,602 records: 1,602 created")
    assert keyfold("import", str(folder)).out.startswith("nothing changed")
    assert keyfold("search", "arquitectura", "--json").document["total"] > 0
    assert keyfold("search", "installer pipeline rollback", "--json").document["total"] > 0
    history = keyfold("history", "--topic", "sdd/opencode-sdd-profiles/apply-progress", "--json").document
    assert history["total"] == 3
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    other = str(tmp_path / "other.db")
    assert keyfold("export", "--output", str(first)).code == 0
    assert keyfold("import", str(first), "--store", other).code == 0
    assert keyfold("export", "--output", str(second), "--store", other).code == 0
    assert first.read_bytes() == second.read_bytes()


def test_an_export_counts_records_and_sessions_apart(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("one", topic="k")
    saved("two", topic="other")
    file = str(tmp_path / "a.jsonl")
    assert keyfold("export", "--output", file).err == f"keyfold: wrote 2 records and 1 session to {file}\n"
    document = keyfold("export", "--output", file, "--json").document
    assert document == {"records": 3, "kinds": {"observation": 2, "session": 1}, "output": file}


def test_an_import_that_changes_nothing_tells_of_no_revisions_and_stubs(keyfold: Any, tmp_path: Path) -> None:
    at = "2026-03-01 10:00:0"
    entries = [
        {"id": n, "sync_id": f"obs-{n}", "session_id": "s", "type": "feature", "title": "t", "content": f"c{n}",
         "project": "shop", "topic_key": "k", "created_at": f"{at}{n}", "updated_at": f"{at}{n}"}
        for n in (1, 2)
    ]  # fmt: skip
    file = tmp_path / "engram.json"
    file.write_text(json.dumps({"sessions": None, "observations": entries, "prompts": None}))
    first, again = (keyfold("import", str(file)).out for _ in range(2))
    assert "past revision" in first
    assert "a stub each" in first
    assert again.startswith("nothing changed")
    assert "past revision" not in again
    assert "a stub each" not in again


def test_notes_are_imported_for_the_user_and_what_vanished_is_told(keyfold: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("# A\ntext")
    (notes / "b.md").write_text("# B\ntext")
    (notes / "empty.md").write_text("")
    answer = keyfold("import", str(notes), "--user", "alice")
    assert answer.code == 2
    assert answer.out.startswith("2 records: 2 created")
    assert "skipped empty.md: it is empty" in answer.err
    (notes / "empty.md").unlink()
    (notes / "a.md").unlink()
    answer = keyfold("import", str(notes), "--user", "alice", "--from", "markdown")
    assert (answer.code, answer.out.split(":")[0]) == (0, "nothing changed")
    assert "note: a.md: it is in the store and no longer in the folder" in answer.err
    report = keyfold("import", str(notes), "--user", "alice", "--json", "--dry-run").document
    assert (report["format"], report["deduped"], report["notes_count"]) == ("markdown", 1, 1)
    assert keyfold("import", str(notes), "--from", "mcp-memory").code == 3
    assert "regular file" in keyfold("import", str(notes), "--from", "mcp-memory").err
    assert keyfold("import", str(notes / "absent.md")).code == 1
    assert keyfold("import", "-", "--from", "chatgpt", stdin="[]").code == 2


@pytest.mark.parametrize(
    "name",
    [
        "memory.db",
        "memory.db-wal",
        "memory.db-shm",
        "memory.db-journal",
        "link.db",
        "later.db-wal",
        "memory.db.v1-backup",
    ],
)
def test_an_export_never_replaces_a_store_or_what_belongs_to_it(
    keyfold: Any, saved: Any, tmp_path: Path, name: str
) -> None:
    saved("kept", topic="k")
    (tmp_path / "link.db").symlink_to(tmp_path / "memory.db")
    answer = keyfold("export", "--output", str(tmp_path / name))
    assert answer.code == 2
    assert answer.err.startswith("keyfold: --output: ")
    with Memory.open(tmp_path / "memory.db") as other:  # while it is open its log is there
        assert keyfold("export", "--output", str(tmp_path / name)).code == 2
        other.mem_save("default", "more", type="decision", title="t")
    assert "kept" in keyfold("get", "--topic", "k").out
    assert keyfold("doctor").code == 0


@pytest.mark.parametrize("side", ["-wal", "-shm", "-journal"])
def test_no_command_makes_a_store_where_sqlite_would_remove_it(
    keyfold: Any, saved: Any, tmp_path: Path, side: str
) -> None:
    saved("kept", topic="k")
    store, taken = str(tmp_path / "memory.db"), str(tmp_path / f"memory.db{side}")
    copied = keyfold("copy", store, taken)
    assert (copied.code, copied.out) == (3, "")
    assert f"ends in {side}" in copied.err
    assert keyfold("save", "--store", taken, "--type", "decision", "--title", "t", "x").code == 3
    assert keyfold("backup", taken).code == 2
    assert [path.name for path in tmp_path.glob("memory.db*")] == ["memory.db"]


def test_an_export_replaces_an_earlier_export_and_nothing_else(
    keyfold: Any, saved: Any, tmp_path: Path
) -> None:
    saved("kept", topic="k")
    out, notes, pipe = tmp_path / "out.jsonl", tmp_path / "notes.md", tmp_path / "pipe"
    out.touch()
    notes.write_text("my notes\n")
    os.mkfifo(pipe)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    assert keyfold("export", "--output", str(out)).code == 0
    first = out.read_bytes()
    saved("another", topic="l")
    assert keyfold("export", "--output", str(out)).code == 0
    assert out.read_bytes() != first
    for place in (notes, pipe, dangling):
        assert keyfold("export", "--output", str(place)).code == 2, place
    assert keyfold("export", "--output", str(tmp_path)).code == 3
    assert (notes.read_text(), pipe.is_fifo(), dangling.is_symlink()) == ("my notes\n", True, True)
    assert [item.name for item in tmp_path.glob(".*.part")] == []


@pytest.fixture
def long_texts(tmp_path: Path) -> str:
    """A store that a program wrote with a higher limit."""
    path = str(tmp_path / "long.db")
    with Memory.open(path, config=Config(max_text_bytes=4 << 20)) as memory:
        memory.mem_save("u", "x" * (2 << 20), type="decision", title="t", topic_key="k")
        memory.mem_add_document("u", source="s", text="y" * (2 << 20))
    return path


def test_texts_over_the_usual_limit_are_brought_over_when_a_higher_one_is_named(
    keyfold: Any, tmp_path: Path, long_texts: str
) -> None:
    file, other = str(tmp_path / "long.jsonl"), str(tmp_path / "other.db")
    assert keyfold("export", "--output", file, "--store", long_texts).code == 0
    for command in (["copy", long_texts, other], ["import", file, "--store", other]):
        answer = keyfold(*command)
        assert answer.code == 2
        assert answer.err.count("takes 2,097,152 bytes as UTF-8; at most 1,048,576 are allowed") == 2
        assert "--max-text-bytes N" in answer.err
    for number, command in enumerate((["copy", long_texts], ["import", file, "--store"])):
        target = str(tmp_path / f"{number}.db")
        answer = keyfold(*command, target, "--max-text-bytes", "2097152")
        assert (answer.code, answer.err) == (0, "")
        assert keyfold("export", "--store", target).out == Path(file).read_text("utf-8")


def test_a_note_over_the_usual_limit_is_read_when_a_higher_one_is_named(keyfold: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("x" * (2 << 20), "utf-8")
    answer = keyfold("import", str(tmp_path / "notes"))
    assert answer.code == 2
    assert "--max-text-bytes N" in answer.err
    assert keyfold("import", str(tmp_path / "notes"), "--max-text-bytes", "3000000").code == 0


def test_a_limit_that_is_none_is_refused_by_its_flag(keyfold: Any, tmp_path: Path, long_texts: str) -> None:
    answer = keyfold("copy", long_texts, str(tmp_path / "other.db"), "--max-text-bytes", "0")
    assert answer.code == 2
    assert "--max-text-bytes: must be a whole number from 1" in answer.err
    assert not (tmp_path / "other.db").exists()
