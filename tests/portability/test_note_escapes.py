"""Escapes in front matter are read as the characters that they stand for, and hidden notes are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.contract.intents import Query
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest
from keyfold.model import Record
from keyfold.portability import Report, import_markdown, import_path
from keyfold.portability.foreign import clean
from keyfold.portability.front_matter import parse


def _imported(folder: Path, front: str) -> tuple[Record, Report]:
    (folder / "n.md").write_text(f"---\n{front}\n---\ntext\n", "utf-8")
    engine = InMemoryEngine()
    report = import_path(engine, folder)
    (record,) = engine.page(Query("default", kinds=("document",))).items
    assert not import_path(engine, folder).changed
    return record, report


@given(text=st.text())
def test_whatever_is_written_as_json_is_read_as_it_was(text: str) -> None:
    found = parse(f"a: {json.dumps(text)}\nb: [{json.dumps(text)}]\n{json.dumps('k' + text[:3])}: 1")
    assert found.values["a"] == text
    if not set(text) & set("[]{}"):
        assert found.values["b"] == [text]


@pytest.mark.parametrize(
    ("written", "title"),
    [
        (r"\ud83d\ude00 smile", "😀 smile"),
        (r"\U0001F600 smile", "😀 smile"),
        (r"caf\xe9 \u00e9", "café é"),
        (r"a\_b\Nc", "a\xa0b\x85c"),
        (r"a\qb", r"a\qb"),
    ],
)
def test_an_escape_is_the_character_that_it_stands_for(written: str, title: str, tmp_path: Path) -> None:
    record, report = _imported(tmp_path, f'title: "{written}"')
    assert (record.title, report.notes) == (title, [])


@pytest.mark.parametrize(
    "written", [r"\ud83d", r"\ude00", r"\ude00\ud83d", r"\0", r"\x00", r"\u0000", r"\U0000D83D"]
)
@pytest.mark.parametrize("front", ['title: "a{}b"', 'tags: ["a{}b"]', 'other: ["a{}b", 1]', '"a{}b": 1'])
def test_what_no_store_holds_is_replaced_and_noted(written: str, front: str, tmp_path: Path) -> None:
    record, report = _imported(tmp_path, front.format(written))
    told = json.dumps([record.title, record.tags, record.metadata], ensure_ascii=False)
    assert told.count("\ufffd") == (2 if written == r"\ude00\ud83d" else 1)
    assert clean(told) == told
    assert [(item.where, "U+FFFD" in item.reason) for item in report.notes] == [("n.md", True)]


@pytest.mark.parametrize("front", [r'title: "\U00110000"', r'"\UFFFFFFFF": 1', r'tags: ["\UFFFFFFFF"]'])
def test_an_escape_beyond_unicode_is_kept_as_it_is_written(front: str, tmp_path: Path) -> None:
    record, report = _imported(tmp_path, front)
    assert record.metadata["front_matter_text"] == front
    assert [item.reason for item in report.notes] == [
        "1 line of front matter is kept as text: not understood"
    ]


def test_a_hidden_note_is_named_and_other_hidden_files_are_counted(tmp_path: Path) -> None:
    for name in (".draft.md", ".DS_Store", "._n.md", "n.md", "sub/.more.markdown"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    report = import_path(InMemoryEngine(), tmp_path)
    assert report.created == 1
    assert report.left_out == {"hidden files": 4}
    told = "a hidden note is left out"
    assert [(item.where, item.reason) for item in report.notes] == [
        (".draft.md", told),
        ("sub/.more.markdown", told),
    ]


def test_what_is_neither_a_note_nor_a_folder_is_told_as_that(tmp_path: Path, engine: Any) -> None:
    with pytest.raises(InvalidRequest, match="no regular file"):
        import_markdown(engine, Path("/dev/null"))
