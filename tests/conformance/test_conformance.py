"""Every engine that needs no server passes every clause, blocking and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from keyfold.conformance import CHECKS, CLAUSES, Clause, Outcome, SteppedClock, arun, faults, run
from keyfold.conformance.registry import check
from keyfold.conformance.runner import NEEDS
from keyfold.conformance.world import World
from keyfold.contract.intents import Capabilities
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import Unsupported
from keyfold.faces import Threaded
from keyfold.model import Config, Receipt
from keyfold.registry import open_async_engine, open_engine

CLOCKED = ["E-08", "I-08", "U-04", "U-06", "W-27"]


def inmemory(_: Path) -> list[Outcome]:
    return run(InMemoryEngine, clock=SteppedClock())


def inmemory_awaited(_: Path) -> list[Outcome]:
    return asyncio.run(arun(lambda config: Threaded(InMemoryEngine(config)), clock=SteppedClock()))


def sqlite(folder: Path) -> list[Outcome]:
    numbers = count()
    return run(
        lambda config: open_engine(str(folder / f"{next(numbers)}.db"), config=config), clock=SteppedClock()
    )


def sqlite_awaited(folder: Path) -> list[Outcome]:
    numbers = count()

    def opened(config: Config):  # type: ignore[no-untyped-def]  # an awaitable of an engine
        return open_async_engine(str(folder / f"awaited-{next(numbers)}.db"), config=config)

    return asyncio.run(arun(opened, clock=SteppedClock()))


SUBJECTS: list[Callable[[Path], list[Outcome]]] = [inmemory, inmemory_awaited]
SUBJECTS += [sqlite, sqlite_awaited]


@pytest.fixture(scope="session")
def outcome_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outcome]:
    """How a clause came out on an engine; the engine is run once for all of them."""

    @cache
    def outcomes(subject: Callable[[Path], list[Outcome]]) -> dict[str, Outcome]:
        folder = tmp_path_factory.mktemp("conformance")
        return {outcome.id: outcome for outcome in subject(folder)}

    return lambda subject, identity: outcomes(subject)[identity]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
@pytest.mark.parametrize("clause", CLAUSES, ids=lambda clause: clause.id)
def test_an_engine_keeps_a_clause(
    subject: Callable[[Path], list[Outcome]], clause: Clause, outcome_of: Callable[..., Outcome]
) -> None:
    outcome = outcome_of(subject, clause.id)
    assert outcome.status == "passed", str(outcome)


def test_every_clause_has_a_check_and_every_check_a_clause_in_order() -> None:
    assert faults(CLAUSES) == []


def test_the_registry_finds_what_does_not_fit() -> None:
    twice = (*CLAUSES[1:], CLAUSES[-1], Clause("Z-99", "A clause without a check."))
    last = CLAUSES[-1].id
    assert faults(twice) == [
        f"{last} stands before {last}",
        "clause Z-99 has no check",
        f"check {CLAUSES[0].id} has no clause",
    ]
    with pytest.raises(ValueError, match="two checks"):
        check(last)(CHECKS[last].steps)


def test_a_clause_is_one_sentence_and_its_needs_are_known() -> None:
    assert [clause.id for clause in CLAUSES if not set(clause.needs) <= NEEDS] == []
    assert [
        clause.id for clause in CLAUSES if not clause.sentence.endswith(".") or ". " in clause.sentence
    ] == []


def test_without_a_clock_the_clauses_that_step_it_are_skipped_and_say_so() -> None:
    outcomes = run(InMemoryEngine)
    skipped = [(outcome.id, outcome.detail) for outcome in outcomes if outcome.status != "passed"]
    assert skipped == [(identity, "needs a clock") for identity in CLOCKED]


def test_a_factory_that_heeds_no_configuration_skips_what_needs_it() -> None:
    outcomes = run(lambda _: InMemoryEngine(), configurable=False, only=["H-05", "H-01"])
    assert [(outcome.id, outcome.status) for outcome in outcomes] == [("H-01", "passed"), ("H-05", "skipped")]
    assert "configuration" in outcomes[1].detail


def test_what_an_engine_declares_it_cannot_do_is_skipped() -> None:
    class Forgetful(InMemoryEngine):
        @property
        def capabilities(self) -> Capabilities:
            return Capabilities("forgetful", history=False, search=False, erasure=False)

    skipped = {outcome.id: outcome.detail for outcome in run(Forgetful) if outcome.status == "skipped"}
    assert skipped["H-01"] == "the engine declares no history"
    assert skipped["Q-01"] == "the engine declares no search"


def test_what_an_engine_refuses_as_unsupported_is_skipped_with_its_words() -> None:
    class Refusing(InMemoryEngine):
        def namespaces(self, prefix: str = "") -> list[str]:
            raise Unsupported("names cannot be listed here; use count")

    (outcome,) = run(Refusing, only=["R-07"])
    assert (outcome.status, outcome.detail) == (
        "skipped",
        "the engine refuses it: names cannot be listed here; use count",
    )


def test_an_engine_that_raises_something_of_its_own_fails_the_clause_and_the_rest_is_run() -> None:
    class Raising(InMemoryEngine):
        def store(self, intent: object) -> Receipt:
            raise ZeroDivisionError("by nought")

    first, second = run(Raising, only=["W-01", "P-18"])
    assert (second.id, second.status, second.detail) == ("W-01", "failed", "ZeroDivisionError: by nought")
    assert (first.id, first.status) == ("P-18", "passed")


def test_a_run_leaves_nothing_behind_and_touches_nothing_else() -> None:
    store, closed = InMemoryEngine(), InMemoryEngine()
    closed.close()
    store.store(World("mine", store.capabilities, None).intent("text", "key"))

    class Handle:
        """One store, whoever opens it; closing a handle closes no other."""

        def __init__(self) -> None:
            self.engine = store

        def close(self) -> None:
            self.engine = closed

        def __getattr__(self, name: str) -> object:
            return getattr(self.engine, name)

    outcomes = run(lambda _: Handle(), configurable=False, prefix="check")  # type: ignore[arg-type, return-value]
    assert [str(outcome) for outcome in outcomes if outcome.status == "failed"] == []
    assert store.namespaces() == ["mine/a"]
    assert store.count("mine/a").total == 1


def test_the_namespaces_of_a_run_lie_below_its_prefix() -> None:
    seen: set[str] = set()

    class Watching(InMemoryEngine):
        def store_many(self, intents):  # type: ignore[no-untyped-def]
            seen.update(intent.namespace for intent in intents)
            return super().store_many(intents)

    run(Watching, prefix="check")
    assert seen
    assert all(namespace.startswith("check/") for namespace in seen)


def test_a_clause_that_does_not_exist_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="Z-00"):
        run(InMemoryEngine, only=["Z-00"])


def test_an_outcome_reads_as_a_line() -> None:
    (outcome,) = run(InMemoryEngine, only=["P-18"])
    assert str(outcome) == "P-18 passed: An engine that serves says that it is well, and its name."
    assert outcome.to_dict()["status"] == "passed"
