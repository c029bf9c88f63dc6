"""Engines on doubles, closed when the test ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from keyfold import Memory
from keyfold.faces.planned import PlannedEngine
from tests.doubles.serving import Double
from tests.remote.common import Service


class Hasty:
    """The module `time`, in which nobody sleeps."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """A pause between tries is over at once."""


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pauses between the tries of a blocking engine take no time."""
    monkeypatch.setattr("keyfold.engines.remote.transport.time", Hasty())


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def opened(closing: ExitStack) -> Callable[..., PlannedEngine]:
    """`opened(service, double, **settings)`: a blocking engine."""

    def one(service: Service, double: Double, **settings: Any) -> PlannedEngine:
        engine = service.engine(double, **settings)
        closing.callback(engine.close)
        return engine

    return one


@pytest.fixture
def remembering(closing: ExitStack) -> Callable[..., Memory]:
    """`remembering(service, double, **settings)`: a memory."""

    def one(service: Service, double: Double, **settings: Any) -> Memory:
        memory = service.memory(double, **settings)
        closing.callback(memory.close)
        return memory

    return one


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries without a pause between them."""
    monkeypatch.setattr("keyfold.dialects.wire.PAUSES", (0.0, 0.0))
