"""Text that no store can hold, wherever it stands in another tool's file, costs a character and a note."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyfold import open_engine
from keyfold.contract.intents import Query
from keyfold.contract.protocols import Engine
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest
from keyfold.model import KINDS
from keyfold.portability import Report, export, import_path
from keyfold.portability.foreign import cleaned, is_repaired

AT = "2026-03-01T10:00:00Z"


def _claude(content: Any, kind: str = "user", **more: Any) -> dict[str, Any]:
    fields = {"type": kind, "sessionId": "s", "timestamp": AT, "cwd": "/x", "gitBranch": "b", "version": "1"}
    return {**fields, "uuid": "u", "slug": "g", "message": {"role": kind, "content": content}, **more}


CLAUDE = [
    _claude("said"),
    _claude([{"type": "tool_use", "id": "t", "name": "Bash", "input": {"a": ["b"]}}], "assistant", uuid="v"),
    _claude(
        [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]}], uuid="w"
    ),
    _claude("<command-name>/go</command-name><command-args>far</command-args>", uuid="x"),
    {"type": "summary", "summary": "A title", "leafUuid": "u"},
    {"type": "custom-title", "customTitle": "Another", "sessionId": "s"},
]
GRAPH = [
    {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["tea", {"content": "c", "at": "x"},
     {"odd": ["y"]}], "createdAt": "when", "more": {"a": ["b"]}},
    {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works at", "since": {"a": "b"}},
]  # fmt: skip  # a field a line says less
ENGRAM = {
    "version": "0.1", "exported_at": AT,
    "sessions": [{"id": "s", "project": "p", "directory": "/x", "started_at": AT, "ended_at": AT, "summary": "z"}],
    "observations": [
        {"id": 1, "sync_id": "o", "session_id": "s", "type": "decision", "title": "t", "content": "c", "project": "p",
         "scope": "x", "topic_key": "k", "created_at": AT, "updated_at": AT, "other": {"a": ["b"]}},
        {"id": 2, "session_id": "s2", "type": "session_summary", "title": "t", "content": "c", "created_at": AT},
    ],
    "prompts": [{"id": 1, "sync_id": "p", "session_id": "s", "content": "c", "project": "p", "created_at": AT}],
    "mutations": [{"op": "delete", "entity": "observation", "entity_key": "gone"}],
}  # fmt: skip  # a field a line says less


def _said(role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    return {"author": {"role": role}, "create_time": 1.75e9, "content": content, **more}


CHATGPT = [
    {
        "conversation_id": "c", "title": "A title", "default_model_slug": "m", "gizmo_id": "g", "update_time": 1.75e9,
        "current_node": "n2",
        "mapping": {
            "n0": {"parent": None, "message": _said("user", "p", {"content_type": "image_x"}, metadata={
                "attachments": [{"name": "a.txt"}]})},
            "n1": {"parent": "n0", "message": _said("assistant", "q", {"text": "r"}, recipient="browser")},
            "n2": {"parent": "n1", "message": _said("tool", "s")},
        },
    }
]  # fmt: skip  # a field a line says less
NOTE = {"title": "A title", "tags": ["a", "b"], "date": "2026-01-01", "other": "x", "list": ["y"]}

FORMS: dict[str, Any] = {
    "claude-code": CLAUDE,
    "mcp-memory": GRAPH,
    "engram": ENGRAM,
    "chatgpt": CHATGPT,
    "markdown": NOTE,
}


def places_in(value: Any) -> Iterator[tuple[Any, ...]]:
    """The ways to every text in a JSON value; to a key with KEY at the end."""
    if isinstance(value, str):
        yield ()
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(key, str):
            yield (key, KEY)
        for rest in places_in(item):
            yield (key, *rest)


KEY = object()


def broken_at(value: Any, way: tuple[Any, ...], bad: str) -> Any:
    """The value with something unstorable at one place in it."""
    if not way:
        return value[:1] + bad + value[1:]
    found = copy.copy(value)
    if way[1:] == (KEY,):
        found[broken_at(way[0], (), bad)] = found.pop(way[0])
    else:
        found[way[0]] = broken_at(value[way[0]], way[1:], bad)
    return found


def write_form(form: str, value: Any, folder: Path) -> Path:
    if form == "markdown":
        lines = [f"{key}: {json.dumps(item)}" for key, item in value.items()]
        path = folder / "note.md"
        path.write_text("\n".join(["---", *lines, "---", "text"]), "utf-8", "surrogatepass")
        return path
    path = folder / ("conversations.json" if form == "chatgpt" else "memory.jsonl")
    lined = form in ("claude-code", "mcp-memory")
    path.write_text("\n".join(map(json.dumps, value)) if lined else json.dumps(value))
    return path


def engine_for(form: str) -> Engine:
    """A store that keeps marks where the importer gives them; else the quickest."""
    return open_engine(":memory:" if form in ("mcp-memory", "markdown") else "inmemory:")


def _check(report: Report, engine: Engine) -> None:
    """What is told and what is held are text; what was repaired is told."""
    json.dumps(report.to_dict(), ensure_ascii=False).encode()
    held = "".join(export(engine))
    held.encode()
    if "\ufffd" in held:
        assert any("U+FFFD" in item.reason for item in report.notes), held


@pytest.mark.parametrize("bad", ["\udfff", "\0"])
@pytest.mark.parametrize("form", FORMS)
def test_a_character_that_no_store_holds_costs_itself_wherever_it_stands(
    form: str, bad: str, tmp_path: Path
) -> None:
    places = list(places_in(FORMS[form]))
    assert len(places) > 7
    whole = import_path(InMemoryEngine(), write_form(form, FORMS[form], tmp_path), source=form)  # type: ignore[arg-type]
    for way in places:
        path = write_form(form, broken_at(FORMS[form], way, bad), tmp_path)
        engine = engine_for(form)
        report = import_path(engine, path, source=form)  # type: ignore[arg-type]
        _check(report, engine)
        if way[-1] is not KEY and report.skipped_count:
            assert set(way) & {"created_at", "started_at", "ended_at", "updated_at"}, (way, report.skipped)
        if "\ufffd" in "".join(export(engine)) and way[-1] is not KEY:
            assert report.records >= whole.records, way
        again = import_path(engine, path, source=form)  # type: ignore[arg-type]
        assert (again.changed, again.records) == (False, report.records), way
        assert [item for item in report.notes if item not in again.notes] == [], way
        engine.close()


def test_two_sessions_that_are_one_once_repaired_are_one_thread(tmp_path: Path) -> None:
    lines = [_claude("one", sessionId="s\ud800"), _claude("two", sessionId="s\udfff", uuid="v")]
    engine = InMemoryEngine()
    import_path(engine, write_form("claude-code", lines, tmp_path))
    turns = engine.page(Query("default", kinds=("turn",), order="key")).items
    assert [turn.content for turn in turns] == ["one", "two"]
    same = [copy.deepcopy(CHATGPT[0]) | {"conversation_id": f"c{bad}"} for bad in ("\ud800", "\udfff")]
    report = import_path(InMemoryEngine(), write_form("chatgpt", same, tmp_path))
    assert ["same conversation_id" in item.reason for item in report.skipped] == [True]


def test_names_that_are_one_once_repaired_are_numbered() -> None:
    given = json.loads('{"a\\ud800": 1, "a\\ud801": {"": [2], "(empty)": 3}, "a\\ufffd": 4}')
    assert cleaned(given) == {
        "a\ufffd (2)": 1,
        "a\ufffd (3)": {"(empty) (2)": [2], "(empty)": 3},
        "a\ufffd": 4,
    }
    assert is_repaired(given)
    assert not is_repaired({"a": [{"": "b"}], "c": 1})


@pytest.mark.parametrize("form", ["claude-code", "mcp-memory", "engram", "chatgpt"])
def test_what_is_nested_as_deeply_as_it_can_be_read_is_kept_as_text(form: str, tmp_path: Path) -> None:
    places = {"claude-code": '["b"]', "mcp-memory": '["b"]', "engram": '["b"]', "chatgpt": '"A title"'}
    path = write_form(form, FORMS[form], tmp_path)
    text = path.read_text()
    assert places[form] in text
    for depth in (10, 20, 100, *range(850, 1000)):
        path.write_text(text.replace(places[form], "[" * depth + r'"\u00e9"' + "]" * depth, 1))
        with contextlib.suppress(InvalidRequest):  # too deep to be Engram's
            report = import_path(open_engine(":memory:"), path, source=form)  # type: ignore[arg-type]
            assert (report.records > 0, report.skipped_count) in ((True, 0), (depth > 800, 1), (False, 1))


def test_a_file_whose_name_is_no_text_is_told_in_text(tmp_path: Path) -> None:
    for folder, name, text in (
        ("a", "s\udcff.jsonl", json.dumps(_claude("x"))),
        ("b", "chunks/c\udcff.jsonl", "{}"),
    ):
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f"{text}\n{{bad")
        told = json.dumps(import_path(InMemoryEngine(), tmp_path / folder).to_dict(), ensure_ascii=False)
        assert "\\\\udcff.jsonl" in told.encode().decode()


def test_a_tools_name_is_repaired_and_its_turn_stays(tmp_path: Path) -> None:
    lines = [_claude([{"type": "tool_use", "id": "t\0", "name": "Ba\ud800sh", "input": {}}], "assistant")]
    engine = InMemoryEngine()
    report = import_path(engine, write_form("claude-code", lines, tmp_path))
    (turn,) = engine.page(Query("default", kinds=("turn",))).items
    assert turn.metadata["tool_calls"] == [{"id": "t\ufffd", "name": "Ba\ufffdsh", "input": {}}]
    assert [item.line for item in report.notes] == [1]
    assert engine.page(Query("default", kinds=KINDS)).total == 2
