"""The table of `make requests` counts what it says, and fails when a call costs too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from keyfold.dialects.base import Looked, Shelf
from keyfold.faces.planned import PlannedEngine
from keyfold.flow import Plan
from tests.doubles.serving import Double
from tests.remote.ceilings import CEILINGS
from tests.remote.common import MEM0_OSS, Service
from tests.remote.requests import COUNTED, Scale, main, measure, table

SMALL = Scale(small=5, middle=12, large=30, imported=12)


class Worse:
    """A dialect that makes one request more, to `extra`, whenever it looks something up."""

    def __init__(self, dialect: Any, *, only_large: int | None = None) -> None:
        self._dialect = dialect
        self._only_large = only_large

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def lookup_every(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        return self.lookup(shelf, digest)

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        if self._only_large is None:
            yield from self._dialect.probe()
        else:  # it reads more when the service holds more
            every = yield from self._dialect.everything()
            if len(every) > self._only_large:
                yield from self._dialect.probe()
        return (yield from self._dialect.lookup(shelf, digest))


@dataclass(frozen=True)
class Slower(Service):
    only_large: int | None = None

    def engine(self, double: Double, **settings: Any) -> PlannedEngine:
        engine = super().engine(double, **settings)
        engine.plans.dialect = Worse(engine.plans.dialect, only_large=self.only_large)  # type: ignore[assignment]
        return engine


def slower(**more: Any) -> Slower:
    return Slower(MEM0_OSS.name, MEM0_OSS.scheme, MEM0_OSS.double, MEM0_OSS.put, **more)


@pytest.mark.parametrize("service", COUNTED, ids=lambda service: service.name)
def test_every_service_stays_below_its_ceilings(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    assert service.name in CEILINGS, "a service without ceilings is not judged"
    assert main([service], SMALL) == 0, capsys.readouterr().out


def test_a_dialect_that_makes_one_request_more_is_told_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([slower()], SMALL) == 1
    lines = capsys.readouterr().out.splitlines()
    told = {line.split("  ")[1].strip() for line in lines if "TOO MANY" in line}
    assert told == {"get", "store new", "store unchanged", "store rewritten", "forget"}


def test_a_call_that_costs_more_beside_larger_namespaces_is_told() -> None:
    cells = measure(slower(only_large=SMALL.small + SMALL.middle + 2 * SMALL.imported), SMALL)
    told = [cell for cell in cells if cell.grown]
    assert {cell.call for cell in told} >= {"get", "forget"}
    assert not any(cell.fits for cell in told)
    assert "beside larger namespaces" in table(told)


def test_a_call_that_did_something_else_is_not_counted() -> None:
    double = MEM0_OSS.double()
    forgetful = Service(MEM0_OSS.name, MEM0_OSS.scheme, lambda: double, lambda *_: None)
    with pytest.raises(AssertionError, match="was expected"):
        measure(forgetful, SMALL)
