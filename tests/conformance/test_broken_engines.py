"""The suite finds faults: every clause fails on some engine with a small fault, and every such engine fails."""

from __future__ import annotations

from functools import cache

from keyfold.conformance import CLAUSES, Outcome, SteppedClock, run
from tests.conformance import faulty_forgets, faulty_reads, faulty_writes
from tests.conformance.faulty import BROKEN

assert all((faulty_forgets, faulty_reads, faulty_writes))  # importing them fills BROKEN

SMALL = 20  # clauses
STUMBLES = ("IndexError", "KeyError", "TypeError", "AttributeError", "ValueError", "AssertionError")


@cache
def failures() -> dict[str, list[Outcome]]:
    """How each broken engine fails."""
    return {
        name: [outcome for outcome in run(engine, clock=SteppedClock()) if outcome.status == "failed"]
        for name, engine in BROKEN.items()
    }


def test_every_clause_fails_on_an_engine_whose_fault_is_small() -> None:
    """An engine that fails everything would prove nothing about a single clause."""
    found = {outcome.id for failed in failures().values() if len(failed) <= SMALL for outcome in failed}
    assert sorted({clause.id for clause in CLAUSES} - found) == []


def test_every_broken_engine_is_found_out() -> None:
    assert [name for name, failed in failures().items() if not failed] == []


def test_a_fault_is_told_in_words_and_not_by_a_check_that_stumbles() -> None:
    stumbled = [
        f"{name}: {outcome}"
        for name, failed in failures().items()
        for outcome in failed
        if outcome.detail.startswith(STUMBLES)
    ]
    assert stumbled == []
