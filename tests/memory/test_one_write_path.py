"""Invariants of the write path, read from the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "keyfold"


def calls_in(path: Path) -> Iterator[tuple[str, ast.Call, str]]:
    """(name called, the call, the function it stands in) of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Call):
                    called = node.func
                    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                    yield name, node, function.name


def test_the_hash_of_a_text_has_one_caller_and_is_fed_redacted_text() -> None:
    callers = [
        (path.name, function, ast.unparse(call.args[0]))
        for path in SOURCE.rglob("*.py")
        for name, call, function in calls_in(path)
        if name == "normalized_hash"
    ]
    assert callers == [("prepare.py", "prepare", "redacted")]


def test_every_write_of_the_face_goes_through_one_function() -> None:
    """Sessions open and close through the engine themselves; everything that saves a text goes through `stored`."""
    stores = {
        (path.name, function)
        for path in (SOURCE / "memory").rglob("*.py")
        for name, call, function in calls_in(path)
        if name in ("store", "store_many") and isinstance(call.func, ast.Attribute)
    }
    assert stores == {
        ("writes.py", "stored"),
        ("sessions.py", "_open"),
        ("sessions.py", "close_stale"),
        ("sessions.py", "mem_session_end"),
    }


def test_search_and_context_scores_never_meet() -> None:
    users = {
        path.name
        for path in SOURCE.rglob("*.py")
        for name, _, _ in calls_in(path)
        if name == "context_score" and path.name != "ranking.py"
    }
    assert users == {"context.py"}
