"""The suite finds faults: every clause fails on some engine with a small fault, and every such engine fails."""

from __future__ import annotations

from functools import cache

import pytest

from keyfold.conformance import CLAUSES, SteppedClock, run
from tests.conformance import faulty_reads, faulty_writes
from tests.conformance.faulty import BROKEN

SMALL = 20  # clauses

assert faulty_reads, faulty_writes  # importing them fills BROKEN


@cache
def failed_on(name: str) -> frozenset[str]:
    """The clauses that a broken engine fails."""
    outcomes = run(BROKEN[name], clock=SteppedClock())
    assert [outcome.id for outcome in outcomes if outcome.status == "skipped"] == []
    return frozenset(outcome.id for outcome in outcomes if outcome.status == "failed")


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_broken_engine_is_found_out(name: str) -> None:
    assert failed_on(name)


def test_every_clause_fails_on_an_engine_whose_fault_is_small() -> None:
    """An engine that fails everything would prove nothing about a single clause."""
    small = [failed for failed in map(failed_on, BROKEN) if len(failed) <= SMALL]
    found = frozenset[str]().union(*small)
    assert sorted({clause.id for clause in CLAUSES} - found) == []


def test_a_fault_is_told_in_words_and_not_by_a_check_that_stumbles() -> None:
    stumbles = ("IndexError", "KeyError", "TypeError", "AttributeError", "ValueError", "AssertionError")
    found = [
        f"{name}: {outcome}"
        for name in sorted(BROKEN)
        for outcome in run(BROKEN[name], clock=SteppedClock())
        if outcome.detail.startswith(stumbles)
    ]
    assert found == []
