"""Doubles that run, and clients that speak to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.doubles.cortexdb import CortexDirect
    from tests.doubles.cortexdb_asking import Asking, Clock
    from tests.doubles.cortexdb_hosted import CortexHosted


@pytest.fixture
def moment() -> Clock:
    from tests.doubles.cortexdb_asking import Clock

    return Clock()


@pytest.fixture
def cortex(running: Callable[[Any], Any], moment: Clock) -> CortexDirect:
    """CortexDB on its direct wire; its clock stands still."""
    from tests.doubles.cortexdb import CortexDirect

    double: CortexDirect = running(CortexDirect())
    double.clock = moment
    return double


@pytest.fixture
def ask(cortex: CortexDirect) -> Iterator[Asking]:
    from tests.doubles.cortexdb_asking import Asking

    asking = Asking(cortex)
    yield asking
    asking.close()


@pytest.fixture
def hosted(running: Callable[[Any], Any], moment: Clock) -> CortexHosted:
    """CortexDB behind the TinyHumans backend; its clock stands still."""
    from tests.doubles.cortexdb_hosted import CortexHosted

    double: CortexHosted = running(CortexHosted())
    double.clock = moment
    return double


@pytest.fixture
def ask_hosted(hosted: CortexHosted) -> Iterator[Asking]:
    from tests.doubles.cortexdb_asking import Asking

    asking = Asking(hosted, "/memory")
    yield asking
    asking.close()
