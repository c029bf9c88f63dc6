"""Every service passes the clauses that every engine passes, blocking and awaited; it skips what it says it cannot do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from keyfold import Config
from keyfold.conformance import Outcome, arun, run
from keyfold.conformance.world import SteppedClock
from keyfold.registry import open_async_engine, open_engine
from tests.remote.common import COGNEE_UNPAGED, KEY, SERVICES, TINYHUMANS, Service

Running = Callable[[Any], Any]


def judged(outcomes: Sequence[Outcome], lacking: set[str]) -> None:
    """No clause failed, and each that was skipped names a capability that the engine declares it lacks."""
    assert [str(outcome) for outcome in outcomes if outcome.status == "failed"] == []
    unexplained = [
        str(outcome)
        for outcome in outcomes
        if outcome.status == "skipped" and not declared(outcome.detail, lacking)
    ]
    assert unexplained == []
    assert Counter(outcome.status for outcome in outcomes)["passed"] >= 100


def declared(reason: str, lacking: set[str]) -> bool:
    """Whether a reason to skip is a capability that is lacking, or the engine's own word for one."""
    refused = {"keeps no idempotency keys of deletes": "delete_idempotency"}
    return any(reason == f"the engine declares no {name}" for name in lacking) or any(
        words in reason and name in lacking for words, name in refused.items()
    )


def lacking(service: Service, double: Any) -> set[str]:
    engine = service.engine(double)
    engine.close()
    capabilities = engine.capabilities
    return {name for name in capabilities.__dataclass_fields__ if getattr(capabilities, name) is False}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_passes_the_clauses(
    service: Service, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYFOLD_API_KEY", KEY)
    double = running(service.double())

    def opened(config: Config) -> Any:
        return open_engine(service.url(double), config=config)

    judged(run(opened, clock=SteppedClock()), lacking(service, double))
    assert getattr(double, "inferred", []) == []


# Cognee's second wire is looked at through the other face alone, and CortexDB hosted, awaited, in test_cortexdb.
AWAITED = [service for service in SERVICES if service not in (COGNEE_UNPAGED, TINYHUMANS)]


@pytest.mark.parametrize("service", AWAITED, ids=lambda service: service.name)
def test_a_service_passes_the_clauses_awaited(
    service: Service, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYFOLD_API_KEY", KEY)
    double = running(service.double())

    def opened(config: Config) -> Any:
        return open_async_engine(service.url(double), config=config)

    judged(asyncio.run(arun(opened, clock=SteppedClock())), lacking(service, double))
