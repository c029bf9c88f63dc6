"""docs/cases.md tells the truth: every case has its row, every covered one its test and its break, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases.broken import BREAKS
from tests.cases.seen_failing import ROOT, SOURCES, named_after

PAGE = (ROOT / "docs" / "cases.md").read_text("utf-8")
ROW = re.compile(r"^\| (C\d{3}) \| ([^|]+) \| ([^|]*) \| ([^|]*) ?\|$", re.MULTILINE)
ROWS = {case: (state, what.strip(), broken.strip()) for case, state, what, broken in ROW.findall(PAGE)}
CASES = [f"C{number:03}" for number in range(1, 122)]
STATES = ("covered", "waiting", "not applicable")


def in_state(state: str) -> list[str]:
    return [case for case in CASES if ROWS[case][0] == state]


def test_every_case_has_one_row_in_a_known_state() -> None:
    assert [case for case, *_ in ROW.findall(PAGE)] == CASES
    assert {state for state, _, _ in ROWS.values()} == set(STATES)


def test_the_numbers_of_the_heading_add_up() -> None:
    told = re.search(r"^# Cases: (\d+) covered, (\d+) waiting, (\d+) not applicable$", PAGE, re.MULTILINE)
    assert told is not None
    assert [int(number) for number in told.groups()] == [len(in_state(state)) for state in STATES]


def test_every_covered_case_names_its_test_and_what_was_broken() -> None:
    for case in in_state("covered"):
        (test,) = named_after(case)
        _, what, broken = ROWS[case]
        assert (what, broken) == (f"`{test.split('::')[1]}`", BREAKS[case].words)


def test_every_test_named_after_a_case_belongs_to_a_covered_row() -> None:
    named: set[str] = set()
    for path in Path(__file__).parent.glob("test_cases_*.py"):
        named |= {
            found.upper()
            for found in re.findall(r"^def test_(c\d{3})_", path.read_text("utf-8"), re.MULTILINE)
        }
    assert named == set(in_state("covered")) == set(BREAKS)


@pytest.mark.parametrize("state", STATES[1:])
def test_a_case_that_is_not_covered_says_why(state: str) -> None:
    for case in in_state(state):
        _, why, broken = ROWS[case]
        assert len(why) > 10, case
        assert broken == ""


def test_a_break_changes_something() -> None:
    assert all(broken.there != broken.instead and broken.words for broken in BREAKS.values())


@pytest.mark.parametrize("case", BREAKS)
def test_what_a_break_replaces_stands_in_the_sources(case: str) -> None:
    assert BREAKS[case].there in (SOURCES / BREAKS[case].file).read_text("utf-8")
