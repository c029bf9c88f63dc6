"""CortexDB as tests see it: doubles that list late, engines that do not sleep meanwhile, and records to send."""

from __future__ import annotations

from typing import Any

from keyfold.dialects.wire import Wait
from keyfold.engines.remote.transport import AwaitedTransport, BlockingTransport
from keyfold.faces.planned import AsyncPlannedEngine, PlannedEngine


class Hasty(BlockingTransport):
    """A transport for which waits take no time. What is waited for on a double comes by being asked for."""

    def perform(self, request: Any) -> Any:
        return None if isinstance(request, Wait) else super().perform(request)


class HastyAwaited(AwaitedTransport):
    async def perform(self, request: Any) -> Any:
        return None if isinstance(request, Wait) else await super().perform(request)


def hasty(engine: PlannedEngine) -> PlannedEngine:
    """The engine, whose waits take no time."""
    engine.transport.__class__ = Hasty
    return engine


def hasty_async(engine: AsyncPlannedEngine) -> AsyncPlannedEngine:
    engine.transport.__class__ = HastyAwaited
    return engine


def late(double: Any) -> Any:
    """A double whose listings show an event only at the second look, and whose recalls another look later."""
    double.knobs.listing_lag = double.knobs.recall_lag = 1
    double.knobs.listing_lag_seconds = double.knobs.recall_lag_seconds = float("inf")
    return double
