"""A folder of notes comes in as documents, once, and its changes as revisions."""

from __future__ import annotations

import os
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import Config, Memory
from keyfold.contract.intents import Query, Ref
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest, NotFound
from keyfold.model import Record
from keyfold.portability import detect, import_markdown, import_path
from keyfold.portability.front_matter import parse, split
from keyfold.portability.markdown import heading

WRITTEN = datetime(2026, 4, 1, 8, tzinfo=UTC)


@pytest.fixture
def vault(tmp_path: Path) -> Any:
    """A folder of notes: a mapping of paths to texts, all last written on the first of April."""
    root = tmp_path / "notes"

    def make(**files: str | bytes) -> Path:
        root.mkdir(exist_ok=True)
        for name, text in files.items():
            write(root, name, text)
        return root

    return make


def write(root: Path, name: str, text: str | bytes, at: datetime = WRITTEN) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (at.timestamp(), at.timestamp()))


def held(engine: InMemoryEngine, namespace: str = "default") -> list[Record]:
    return list(engine.page(Query(namespace, kinds=("document",), order="key", limit=1000)).items)


def document(engine: InMemoryEngine, key: str) -> Record:
    record = engine.get(Ref("default", key=key, kind="document"))
    assert record is not None
    return record


def test_a_note_is_a_document_under_its_path(engine: InMemoryEngine, vault: Any) -> None:
    root = vault(**{"a/b.md": "# The heading #\n\nText.", "c.MARKDOWN": "No heading.", "d.txt": "no note"})
    report = import_path(engine, root)
    assert (report.format, report.kinds, report.skipped) == ("markdown", {"document": 2}, [])
    assert report.left_out == {"files that are no notes": 1}
    first, second = held(engine)
    assert (first.key, first.title, first.type, first.taint) == (
        "a/b.md",
        "The heading",
        "document",
        "external",
    )
    assert (first.content, first.created_at, first.updated_at) == (
        "# The heading #\n\nText.",
        WRITTEN,
        WRITTEN,
    )
    assert first.metadata == {"source": "a/b.md", "mime": "text/markdown"}
    assert (second.key, second.title) == ("c.MARKDOWN", "c")


def test_front_matter_says_title_tags_dates_and_the_rest(engine: InMemoryEngine, vault: Any) -> None:
    front = (
        "---\ntitle: 'It''s: here'\ntags:\n  - one\n  - \"#two\"\ncreated: 2024-02-03\nupdated: 2024-03-04T05:06:07+01:00\n"
        "status: done # so far\nstars: 4\nsource: https://example.org/x\nnested:\n  a: b\n---\n"
    )
    root = vault(**{"n.md": front + "Text.\n"})
    report = import_markdown(engine, root)
    note = document(engine, "n.md")
    assert (note.title, note.tags, note.content) == ("It's: here", ("one", "two"), "Text.\n")
    assert note.created_at == datetime(2024, 2, 3, tzinfo=UTC)
    assert note.updated_at == datetime(2024, 3, 4, 4, 6, 7, tzinfo=UTC)
    assert note.metadata == {
        "source": "n.md",
        "mime": "text/markdown",
        "status": "done",
        "stars": 4,
        "front_matter": {"source": "https://example.org/x"},
        "front_matter_text": "nested:\n  a: b",
    }
    assert [item.where for item in report.notes] == ["n.md"]
    assert "not understood" in report.notes[0].reason


def test_again_writes_nothing_even_when_the_files_are_newer(engine: InMemoryEngine, vault: Any) -> None:
    files = {f"n{number}.md": f"# Note {number}" for number in range(20)}
    import_markdown(engine, vault(**files))
    before = held(engine)
    for name, text in files.items():
        write(vault(), name, text, WRITTEN + timedelta(days=3))
    report = import_markdown(engine, vault())
    assert (report.deduped, report.changed) == (20, False)
    assert held(engine) == before


@pytest.mark.parametrize("days", [-30, 0, 30])
def test_a_changed_note_is_a_revision_whatever_its_date(
    engine: InMemoryEngine, vault: Any, days: int
) -> None:
    import_markdown(engine, vault(**{"a.md": "first", "b.md": "stays"}))
    write(vault(), "a.md", "second", WRITTEN + timedelta(days=days))
    report = import_markdown(engine, vault())
    assert (report.updated, report.deduped) == (1, 1)
    note = document(engine, "a.md")
    assert (note.content, note.revision_count, note.created_at) == ("second", 2, WRITTEN)
    assert note.updated_at == (
        WRITTEN + timedelta(days=30) if days > 0 else WRITTEN + timedelta(microseconds=1)
    )
    write(vault(), "a.md", "first")
    assert import_markdown(engine, vault()).updated == 1
    assert import_markdown(engine, vault()).changed is False


def test_pins_stay_when_a_note_changes(vault: Any) -> None:
    with Memory.open("inmemory:") as memory:
        import_markdown(memory.engine, vault(**{"a.md": "first"}), namespace="alice")
        memory.mem_update("alice", memory.mem_list("alice")[0].id, pinned=True)
        assert import_markdown(memory.engine, vault(), namespace="alice").changed is False
        write(vault(), "a.md", "second")
        import_markdown(memory.engine, vault(), namespace="alice")
        (note,) = memory.mem_list("alice")
        assert (note.content, note.pinned) == ("second", True)


def test_a_note_that_vanished_is_named_and_kept(engine: InMemoryEngine, vault: Any) -> None:
    root = vault(**{"a.md": "one", "b.md": "two", "c.md": "three"})
    import_markdown(engine, root)
    (root / "b.md").unlink()
    for dry in (True, False):
        report = import_markdown(engine, root, dry_run=dry)
        assert [(item.where, "no longer" in item.reason) for item in report.notes] == [("b.md", True)]
        assert report.changed is False
    assert [note.key for note in held(engine)] == ["a.md", "b.md", "c.md"]


def test_a_document_added_by_its_source_and_a_note_meet(vault: Any) -> None:
    with Memory.open("inmemory:") as memory:
        added = memory.mem_add_document("alice", source="a/b.md", text="# T", title="T", mime="text/markdown")
        report = import_markdown(memory.engine, vault(**{"a/b.md": "# T"}), namespace="alice")
        assert (report.deduped, report.changed) == (1, False)
        again = memory.mem_add_document("alice", source="a/b.md", text="# T", title="T", mime="text/markdown")
        assert (again.outcome, again.id) == ("deduped", added.id)


def test_accents_are_keyed_in_one_form_whatever_the_system_stores(engine: InMemoryEngine, vault: Any) -> None:
    composed, apart = "caf\u00e9.md", unicodedata.normalize("NFD", "caf\u00e9.md")
    root = vault(**{apart: "text"})
    import_markdown(engine, root)
    assert [note.key for note in held(engine)] == [composed]
    (root / apart).unlink()
    write(root, composed, "text")
    assert import_markdown(engine, root).deduped == 1
    write(root, apart, "another")
    if len(list(root.iterdir())) == 2:
        report = import_markdown(engine, root)
        assert ["accents" in item.reason for item in report.skipped] == [True]


def test_hidden_folders_and_links_that_lead_outside_are_left(
    engine: InMemoryEngine, vault: Any, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("SECRET")
    (tmp_path / "notes2").mkdir()  # a name that begins as the folder's does
    (tmp_path / "notes2" / "near.md").write_text("SECRET")
    root = vault(**{"a/n.md": "in", ".obsidian/x.md": "hidden", ".git/y.md": "hidden", "._n.md": b"\0\1"})
    (root / "l1.md").symlink_to(tmp_path / "outside" / "secret.md")
    (root / "l2").symlink_to(tmp_path / "outside")
    (root / "l3.md").symlink_to(tmp_path / "notes2" / "near.md")
    (root / "l4.md").symlink_to(root / "a" / "n.md")
    (root / "l5").symlink_to(root)
    (root / "l6.md").symlink_to(root / ".git" / "y.md")
    (root / "l7.md").symlink_to(root / "absent.md")
    report = import_markdown(engine, root)
    assert [note.key for note in held(engine)] == ["a/n.md", "l4.md"]
    assert {item.where: item.reason for item in report.skipped}.keys() == {
        "l1.md",
        "l2",
        "l3.md",
        "l6.md",
        "l7.md",
    }
    assert report.left_out["hidden folders"] == 2
    assert report.left_out["hidden files"] == 1
    assert sorted(item.where for item in report.notes) == [".git", ".obsidian"]


def test_what_is_no_text_is_reported_and_the_rest_goes_in(
    engine: InMemoryEngine, vault: Any, tmp_path: Path
) -> None:
    files: dict[str, str | bytes] = {
        "bom.md": b"\xef\xbb\xbf# With a mark",
        "empty.md": "",
        "blank.md": " \n\n",
        "nul.md": b"a\0b",
        "latin.md": b"caf\xe9",
        "large.md": "x" * 2001,
        "ok.md": "x" * 2000,
    }
    root = vault(**files)
    os.mkfifo(root / "pipe.md")
    write(root, f"{'d' * 200}/{'e' * 200}/{'f' * 120}/n.md", "far")
    report = import_markdown(engine, root, config=Config(max_text_bytes=2000))
    assert [note.key for note in held(engine)] == ["bom.md", "ok.md"]
    reasons = {item.where: item.reason for item in report.skipped}
    assert reasons["empty.md"] == reasons["blank.md"] == "it is empty"
    assert "NUL" in reasons["nul.md"]
    assert "UTF-8" in reasons["latin.md"]
    assert "2,000" in reasons["large.md"]
    assert "no regular file" in reasons["pipe.md"]
    assert len(reasons) == 7
    assert document(engine, "bom.md").title == "With a mark"


def test_a_name_that_is_not_utf8_is_reported(engine: InMemoryEngine, vault: Any) -> None:
    root = vault(**{"a.md": "text"})
    try:
        with Path(os.fsdecode(os.fsencode(root) + b"/\xff.md")).open("wb") as file:
            file.write(b"text")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    report = import_markdown(engine, root)
    assert ["UTF-8" in item.reason for item in report.skipped] == [True]


def test_private_text_goes_even_when_it_begins_in_the_front_matter(
    engine: InMemoryEngine, vault: Any
) -> None:
    root = vault(
        **{
            "a.md": "---\nkey: <private>SECRET\n---\nmore SECRET</private> open\n",
            "b.md": "# T\n<private>SECRET</private> and <private>SECRET</private>",
        }
    )
    report = import_markdown(engine, root)
    assert report.redacted == 3
    assert "SECRET" not in repr(held(engine))
    assert document(engine, "b.md").content == "# T\n[REDACTED] and [REDACTED]"
    assert import_markdown(engine, root).changed is False


def test_a_folder_with_nothing_of_what_the_store_holds_says_how_much_that_is(
    engine: InMemoryEngine, vault: Any
) -> None:
    root = vault(**{"a.md": "one", "b.md": "two"})
    import_markdown(engine, root)
    for path in ("a.md", "b.md"):
        (root / path).unlink()
    write(root, "c.md", "three")
    for dry in (True, False):
        (note,) = import_markdown(engine, root, dry_run=dry).notes
        assert note.where == "."
        assert note.reason.startswith("none of the 2 note(s) that the store holds is in this folder")
    (root / "c.md").unlink()
    (note,) = import_markdown(engine, root).notes
    assert note.reason.startswith("none of the 3 note(s)")
    assert import_markdown(InMemoryEngine(), root).notes == []


def test_a_dry_run_foresees_what_an_import_does(engine: InMemoryEngine, vault: Any) -> None:
    import_markdown(engine, vault(**{"a.md": "one", "b.md": "two"}))
    root = vault(**{"b.md": "changed", "c.md": "new", "d.md": ""})
    dry = import_markdown(engine, root, dry_run=True)
    assert len(held(engine)) == 2
    real = import_markdown(engine, root)
    assert dry.to_dict() | {"dry_run": False} == real.to_dict()
    assert (real.created, real.updated, real.deduped, real.skipped_count) == (1, 1, 1, 1)


def test_one_note_alone_can_be_imported_and_others_do_not_vanish(engine: InMemoryEngine, vault: Any) -> None:
    root = vault(**{"a.md": "one", "b.md": "two"})
    import_markdown(engine, root)
    assert detect(root / "a.md") == "markdown"
    report = import_path(engine, root / "a.md")
    assert (report.deduped, report.notes) == (1, [])
    with pytest.raises(NotFound):
        import_path(engine, root / "absent.md")
    with pytest.raises(InvalidRequest, match=r"\.md"):
        import_markdown(engine, __file__)


def test_a_title_is_the_first_heading_that_is_none_of_a_code_block() -> None:
    assert heading("```sh\n# no\n```\n## no\n#no\n# Yes ##\n# Later") == "Yes"
    assert heading("~~~\n# no\n```\n~~~\n# C#") == "C#"
    assert heading("text") is None
    assert heading("# " + "x" * 5000) is None


@pytest.mark.parametrize(
    ("text", "values", "rest"),
    [
        ("a: 1\nb: -2.5\nc: true\nd: ~\ne:", {"a": 1, "b": -2.5, "c": True, "d": None, "e": None}, 0),
        ("a: [x, 'y, z', \"w\\n\"]", {"a": ["x", "y, z", "w\n"]}, 0),
        ("a: []\nb: [ ]", {"a": [], "b": []}, 0),
        ("a:\n- x\n- y # note\n# z\nb: c", {"a": ["x", "y"], "b": "c"}, 0),
        ("a: |\n  one\n\n  two\nb: >\n  one\n  two", {"a": "one\n\ntwo", "b": "one two"}, 0),
        ("a: b\r\nc: d\r\n", {"a": "b", "c": "d"}, 0),
        ("'a b': c\nurl: http://x/#y", {"a b": "c", "url": "http://x/#y"}, 0),
        ("a: one\n  two", {"a": "one two"}, 0),
        ("a: {b: c}\nd: &x y\ne: [[f]]\ng: 'open", {}, 4),
        ("a: 1\na: 2", {"a": 1}, 1),
        ("a:\n  b: c\n- d", {}, 3),
        ("just text", {}, 1),
        (
            "a: 99999999999999999999\nb: 007\nc: 1e400",
            {"a": "99999999999999999999", "b": "007", "c": "1e400"},
            0,
        ),
    ],
)
def test_front_matter_is_read_as_people_write_it(text: str, values: dict[str, Any], rest: int) -> None:
    found = parse(text)
    assert found.values == values
    assert len(found.rest) == rest


def test_what_only_looks_like_front_matter_is_text() -> None:
    for text in ("---\nno end\n", "----\na: b\n---\n", " ---\na: b\n---\n", "text\n---\na: b\n---\n"):
        assert split(text) == (None, text)
    assert split("---\n---\nx") == ("", "x")
    assert split("---\r\na: b\r\n...\r\nx") == ("a: b\r\n", "x")
    assert split("---\na: b\n---") == ("a: b\n", "")


@given(st.text(st.sampled_from("ab:- #\n\"'[],{}|>&*\\~1.\t\r"), max_size=80) | st.text(max_size=60))
def test_front_matter_never_fails_and_loses_no_line(text: str) -> None:
    found = parse(text)
    assert all(isinstance(name, str) and name for name in found.values)
    lines = text.replace("\r\n", "\n").split("\n")
    assert all(line in lines for line in found.rest)


@given(st.text(max_size=200))
def test_a_note_is_split_without_losing_a_character(text: str) -> None:
    for given_text in (text, "---\n" + text, "---\n" + text + "\n---\nbody"):
        front, body = split(given_text)
        assert given_text.endswith(body)
        assert front is None or front in given_text


def test_front_matter_of_one_long_line_takes_no_time() -> None:
    for text in (
        " " * 15_000 + "a",
        "a: [" + " " * 15_000 + "{",
        "a" * 15_000,
        "a: '" + "'" * 14_001,
        "- " * 7_000,
    ):
        found = parse(text)
        assert found.values or found.rest
