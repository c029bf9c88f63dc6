"""A search shows what a record says now, though a race or a lost answer left another state of it behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyfold.contract.filters import Filter
from keyfold.contract.intents import SearchQuery
from keyfold.faces.planned import PlannedEngine
from tests.remote.common import (
    COGNEE,
    COGNEE_UNPAGED,
    MEM0_OSS,
    MEM0_PLATFORM,
    SEEDED,
    Service,
    payload,
)

EACH = pytest.mark.parametrize(
    "service", [MEM0_OSS, MEM0_PLATFORM, COGNEE, COGNEE_UNPAGED], ids=lambda service: service.name
)
Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]


def found(engine: PlannedEngine, text: str, **more: Any) -> list[str]:
    return [item.record.content for item in engine.search(SearchQuery("ns", text, **more)).items]


@EACH
def test_of_two_states_only_the_newer_is_found(service: Service, running: Running, opened: Opened) -> None:
    assert service.put is not None
    double = running(service.double())
    service.put(double, payload("ns", "k", "a zebra with stripes", tags=("old",)))
    service.put(double, payload("ns", "k", "a lion with a mane", revision=2))
    engine = opened(service, double)
    assert "a zebra with stripes" not in found(engine, "zebra stripes")
    assert found(engine, "zebra stripes", where=Filter(tags=("old",))) == []
    assert found(engine, "lion mane") == ["a lion with a mane"]


@EACH
def test_an_older_state_does_not_come_back_in_a_search_when_the_newer_has_expired(
    service: Service, running: Running, opened: Opened
) -> None:
    assert service.put is not None
    double = running(service.double())
    over = datetime.now(UTC) - timedelta(days=1)
    service.put(double, payload("ns", "k", "a zebra with stripes"))
    service.put(double, payload("ns", "k", "a zebra with a mane", revision=2, expires_at=over))
    engine = opened(service, double)
    assert found(engine, "zebra stripes") == []
    again = {"created_at": over + timedelta(hours=1), "updated_at": over + timedelta(hours=1)}
    service.put(double, payload("ns", "k", "a zebra made anew", **again))
    assert found(engine, "zebra stripes") == ["a zebra made anew"]
    assert over > SEEDED
