"""What tests share: a clock that they move, and a memory on every engine that needs no server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import settings as hypothesis_settings

from keyfold import Config, Memory

if TYPE_CHECKING:
    from tests.doubles.serving import Double

    D = TypeVar("D", bound=Double)

ROOT = Path(__file__).resolve().parent.parent

# The same examples each run: a fault is found by whoever looks for it (KEYFOLD_FUZZ=1 looks at others, each time
# new ones), not by whoever happens to run the tests.
hypothesis_settings.register_profile("same", derandomize=True, deadline=None)
hypothesis_settings.register_profile("fuzz", derandomize=False, deadline=None)
hypothesis_settings.load_profile("fuzz" if os.environ.get("KEYFOLD_FUZZ") else "same")


class SteppedClock:
    """A clock that moves only when told, or by `step` at each look."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC), step: float = 0.0) -> None:
        self.moment = start
        self.step = timedelta(seconds=step)

    def __call__(self) -> datetime:
        self.moment += self.step
        return self.moment

    def forward(self, **span: float) -> None:
        self.moment += timedelta(**span)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture(params=["inmemory", "sqlite"])
def open_memory(
    request: pytest.FixtureRequest, tmp_path: Path, clock: SteppedClock
) -> Iterator[Callable[..., Memory]]:
    """Opens memories on one store of an engine, with the stepped clock; `name` tells stores apart."""
    opened: list[Memory] = []

    def open_one(name: str = "memory", **settings: Any) -> Memory:
        url = "inmemory:" if request.param == "inmemory" else str(tmp_path / f"{name}.db")
        opened.append(Memory.open(url, config=Config(clock=clock, **settings)))
        return opened[-1]

    yield open_one
    for memory in opened:
        memory.close()


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    return open_memory()


@pytest.fixture
def shared() -> Path:
    """The folder of real data beside the project; tests that use it skip by name when it is absent."""
    folder = Path(os.environ.get("KEYFOLD_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip("shared data is absent")
    return folder


@pytest.fixture
def running() -> Iterator[Callable[[D], D]]:
    """Serves doubles of services until the test ends: `double = running(SomeDouble())`, then `double.url`."""
    from tests.doubles.serving import served  # here: most tests need no server's packages

    with ExitStack() as stack:

        def run(double: D) -> D:
            stack.enter_context(served(double))
            return double

        yield run
