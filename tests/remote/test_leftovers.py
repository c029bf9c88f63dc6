"""What a race, or a rewrite that broke off, left beside a record goes with the next write, one that changes nothing too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import Idempotency
from keyfold.dialects.base import Shelf
from keyfold.errors import KeyfoldError
from keyfold.faces.planned import PlannedEngine
from keyfold.flow import drive
from tests.remote.common import (
    COGNEE,
    COGNEE_UNPAGED,
    CORTEXDB,
    SERVICES,
    TINYHUMANS,
    Service,
    intent,
    payload,
)

BRIEF = [service.with_options("history=none") for service in (CORTEXDB, TINYHUMANS)]
WITHOUT_HISTORY = [service for service in SERVICES if service not in (CORTEXDB, TINYHUMANS)] + BRIEF


def states(engine: PlannedEngine, namespace: str) -> list[str]:
    rows = drive(engine.plans.dialect.rows(Shelf(namespace)), engine.transport.perform)
    return sorted(row.record.content for row in rows)


@pytest.fixture(params=WITHOUT_HISTORY, ids=lambda service: service.name)
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.param
    return found


def test_a_save_that_changes_nothing_removes_what_was_left_over(
    service: Service, running: Callable[[Any], Any], opened: Callable[..., PlannedEngine]
) -> None:
    assert service.put is not None
    double = running(service.double())
    service.put(double, payload("ns", "k", "older"))
    service.put(double, payload("ns", "k", "newer", revision=2))
    service.put(double, payload("ns", "beside", "beside"))
    engine = opened(service, double)
    assert states(engine, "ns") == ["beside", "newer", "older"]
    receipt = engine.store(intent("ns", "k", "newer"))
    assert (receipt.outcome, receipt.revision_count) == ("deduped", 2)
    assert states(engine, "ns") == ["beside", "newer"]


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("service", [COGNEE, COGNEE_UNPAGED, *BRIEF], ids=lambda service: service.name)
@pytest.mark.parametrize("call", [None, Idempotency("save", b"k" * 32, b"b" * 32)], ids=["plain", "named"])
def test_a_rewrite_that_could_not_remove_the_older_state_is_finished_by_its_retry(
    service: Service,
    call: Idempotency | None,
    running: Callable[[Any], Any],
    opened: Callable[..., PlannedEngine],
) -> None:
    double = running(service.double())
    engine = opened(service, double)
    engine.store(intent("ns", "k", "older"))
    removes = {"method": "DELETE"} if service in (COGNEE, COGNEE_UNPAGED) else {"path": "forget"}
    fault = double.faults.add("status", code=503, times=99, **removes)
    with pytest.raises(KeyfoldError):
        engine.store(intent("ns", "k", "newer", idempotency=call))
    assert fault.struck
    double.faults.clear()
    assert states(engine, "ns") == ["newer", "older"]
    again = engine.store(intent("ns", "k", "newer", idempotency=call))
    assert (again.outcome, again.revision_count) == ("updated" if call else "deduped", 2)
    assert states(engine, "ns") == ["newer"]
