"""A history whose dates do not rise: importing it again changes nothing, and nothing in it is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keyfold import open_engine
from keyfold.clock import EPOCH, MICROSECOND, to_text
from keyfold.contract.intents import Ref
from keyfold.contract.protocols import Engine
from keyfold.portability import copy, export, import_keyfold

ENGINES = ["inmemory:", ":memory:"]
# Few moments and few texts, so that what is equal, and what is just beside it, is met often.
MOMENTS = st.integers(0, 6)
TEXTS = st.sampled_from("abc")
HISTORIES = st.lists(st.tuples(TEXTS, MOMENTS), min_size=1, max_size=5)


def _at(number: int) -> str:
    return to_text(EPOCH + number * MICROSECOND)


def _file(states: list[tuple[str, int]], created: int = 0) -> list[str]:
    """An export of one record with these states, oldest first."""
    forms = [
        {"revision": number, "type": "t", "title": "t", "content": text, "written_at": _at(at)}
        for number, (text, at) in enumerate(states, 1)
    ]
    last = forms.pop()
    form = {
        **last,
        "namespace": "u",
        "kind": "observation",
        "key": "k",
        "created_at": _at(created),
        "history": forms,
    }
    form["updated_at"] = form.pop("written_at")
    lines = [{"format": "keyfold", "version": 1}, form, {"end": "keyfold", "records": 1}]
    return [json.dumps(line) + "\n" for line in lines]


def _texts(engine: Engine) -> list[str]:
    """All the texts that a record had, oldest first."""
    return [state.content for state in reversed(engine.history(Ref("u", key="k")).revisions)]


@pytest.mark.parametrize("url", ENGINES)
@given(created=MOMENTS, states=HISTORIES)
@settings(max_examples=150, deadline=None)
def test_into_an_empty_store_everything_comes_once(
    url: str, created: int, states: list[tuple[str, int]]
) -> None:
    engine, other = open_engine(url), open_engine(url)
    assert import_keyfold(engine, _file(states, created)).created == 1
    assert _texts(engine) == [text for text, _ in states]
    held = list(export(engine))
    for _ in range(2):
        report = import_keyfold(engine, _file(states, created))
        assert (report.changed, report.skipped) == (False, [])
        assert list(export(engine)) == held
    assert copy(engine, other).created == 1
    assert list(export(other)) == held
    assert not copy(engine, other).changed
    engine.close()
    other.close()


@pytest.mark.parametrize("url", ENGINES)
@given(before=HISTORIES, states=HISTORIES)
@settings(max_examples=300, deadline=None)
def test_into_a_store_that_holds_another_state_the_second_time_changes_nothing(
    url: str, before: list[tuple[str, int]], states: list[tuple[str, int]]
) -> None:
    engine = open_engine(url)
    import_keyfold(engine, _file(before))
    import_keyfold(engine, _file(states))
    held = list(export(engine))
    for _ in range(2):
        report = import_keyfold(engine, _file(states))
        assert (report.changed, report.skipped) == (False, [])
        assert list(export(engine)) == held
    assert _texts(engine)[: len(before)] == [text for text, _ in before]
    engine.close()


@pytest.mark.parametrize("url", ENGINES)
@given(states=HISTORIES, cut=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_a_later_export_of_the_same_record_brings_what_came_since(
    url: str, states: list[tuple[str, int]], cut: int
) -> None:
    states = [one for number, one in enumerate(states) if number == 0 or one[0] != states[number - 1][0]]
    # where it says again what it said then, a store cannot tell which of the two it holds
    assume(cut >= len(states) or states[cut - 1][0] != states[-1][0])
    engine = open_engine(url)
    for some in (states[:cut], states, states):
        import_keyfold(engine, _file(some))
        assert _texts(engine) == [text for text, _ in some]
    engine.close()


@pytest.mark.parametrize("url", ENGINES)
def test_a_record_that_is_older_than_its_past_keeps_its_text(url: str) -> None:
    engine = open_engine(url)
    outcomes = []
    for _ in range(3):
        report = import_keyfold(engine, _file([("old", 9), ("current", 2)]))
        outcomes.append((report.created, report.updated, report.deduped))
    assert outcomes == [(1, 0, 0), (0, 0, 1), (0, 0, 1)]
    assert _texts(engine) == ["old", "current"]
    engine.close()
