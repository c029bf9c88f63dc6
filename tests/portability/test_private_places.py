"""Private text, wherever it stands in another tool's file: it is not kept, and importing again changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyfold.contract.intents import Query
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.portability import export, import_path
from tests.portability.test_unstorable import FORMS, broken_at, engine_for, places_in, write_form

SECRET = "<private>SECRET</private>"
AT = "2026-03-01T10:00:00Z"


@pytest.mark.parametrize("form", FORMS)
def test_private_text_is_never_kept_and_importing_it_again_changes_nothing(form: str, tmp_path: Path) -> None:
    for way in places_in(FORMS[form]):
        path = write_form(form, broken_at(FORMS[form], way, SECRET), tmp_path)
        engine = engine_for(form)
        report = import_path(engine, path, source=form)  # type: ignore[arg-type]
        held = list(export(engine))
        assert "SECRET" not in "".join(held), way
        assert "SECRET" not in json.dumps(report.to_dict()), way
        again = import_path(engine, path, source=form)  # type: ignore[arg-type]
        assert (again.changed, again.records) == (False, report.records), way
        assert list(export(engine)) == held
        engine.close()


def _prompts(*names: Any) -> dict[str, Any]:
    return {
        "observations": [],
        "prompts": [
            {"sync_id": name, "session_id": "s", "content": f"said {n}", "created_at": AT}
            for n, name in enumerate(names)
        ],
    }


def test_prompts_whose_names_are_private_or_blank_keep_their_places(tmp_path: Path) -> None:
    names = [f"{SECRET} one", f"{SECRET} one", "", "  ", None, "plain"]
    path = write_form("engram", _prompts(*names), tmp_path)
    engine = InMemoryEngine()
    first = import_path(engine, path)
    assert (first.created, first.redacted) == (len(names) + 1, 2)  # and the session
    turns = engine.page(Query("default", kinds=("turn",), order="key")).items
    assert {turn.content for turn in turns} == {f"said {n}" for n in range(len(names))}
    kept = {turn.content: turn.metadata["engram"]["sync_id"] for turn in turns}
    assert (kept["said 0"], kept["said 5"]) == ("[REDACTED] one", "plain")
    assert all(kept[f"said {n}"].startswith("engram-") for n in (2, 3, 4))
    more = write_form("engram", _prompts(*names, f"{SECRET} new"), tmp_path)
    assert import_path(engine, more).created == 1
    assert import_path(engine, path).changed is False


def test_an_observation_whose_name_is_private_is_known_by_its_text(tmp_path: Path) -> None:
    entry = {"sync_id": SECRET, "session_id": "s", "type": "decision", "title": "t", "created_at": AT}
    path = write_form("engram", {"observations": [{**entry, "content": text} for text in "ab"]}, tmp_path)
    engine = InMemoryEngine()
    assert import_path(engine, path).created == 3
    assert import_path(engine, path).changed is False
