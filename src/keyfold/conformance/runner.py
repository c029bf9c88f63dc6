"""Runs the clauses on an engine, blocking or awaited, and says how each came out."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Final, Literal

from keyfold.conformance.manifest import CLAUSES
from keyfold.conformance.registry import CHECKS, Check, Clause
from keyfold.conformance.world import Failure, SteppedClock, World
from keyfold.contract import calls
from keyfold.contract.intents import Capabilities, Selector
from keyfold.contract.protocols import AsyncEngine, Engine
from keyfold.errors import Unsupported
from keyfold.flow import Plan, adrive, drive
from keyfold.model import Config, Model

Status = Literal["passed", "failed", "skipped"]

# What a clause can need: see `Clause`.
NEEDS: Final = frozenset({"clock", "config", *(item.name for item in fields(Capabilities))})


@dataclass(frozen=True, slots=True)
class Outcome(Model):
    """How one clause came out. `detail` says what went wrong, or why it was skipped."""

    id: str
    sentence: str
    status: Status
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.id} {self.status}: {self.sentence}" + (f" [{self.detail}]" if self.detail else "")


def run(
    open_engine: Callable[[Config], Engine],
    *,
    clock: SteppedClock | None = None,
    configurable: bool = True,
    prefix: str | None = None,
    only: Collection[str] | None = None,
) -> list[Outcome]:
    """Run the clauses (or `only` some, by id) on a blocking engine, in namespaces below `prefix`.

    `open_engine` is given a configuration; say so with `configurable=False` if it does not heed it. Pass a
    `clock` when the engine takes its time from it (it is the configuration's clock); without, the clauses
    that step it are skipped. What the run wrote it forgets, so it may look at a store that is in use.
    """
    suite = _Suite(clock, configurable, prefix)
    outcomes = []
    engine = open_engine(suite.config())
    try:
        for clause in _chosen(only):
            reason = suite.reason_to_skip(clause, engine.capabilities)
            if reason is not None:
                outcomes.append(Outcome(clause.id, clause.sentence, "skipped", reason))
                continue
            check = CHECKS[clause.id]
            subject = engine if check.config is None else open_engine(suite.config(check))
            try:
                plan = suite.examine(clause, subject.capabilities)
                outcomes.append(drive(plan, calls.performer(subject)))
            finally:
                if subject is not engine:
                    subject.close()
    finally:
        engine.close()
    return outcomes


async def arun(
    open_engine: Callable[[Config], AsyncEngine | Awaitable[AsyncEngine]],
    *,
    clock: SteppedClock | None = None,
    configurable: bool = True,
    prefix: str | None = None,
    only: Collection[str] | None = None,
) -> list[Outcome]:
    """The same as `run`, on an async engine."""

    async def opened(config: Config) -> AsyncEngine:
        engine = open_engine(config)
        return await engine if inspect.isawaitable(engine) else engine

    suite = _Suite(clock, configurable, prefix)
    outcomes = []
    engine = await opened(suite.config())
    try:
        for clause in _chosen(only):
            reason = suite.reason_to_skip(clause, engine.capabilities)
            if reason is not None:
                outcomes.append(Outcome(clause.id, clause.sentence, "skipped", reason))
                continue
            check = CHECKS[clause.id]
            subject = engine if check.config is None else await opened(suite.config(check))
            try:
                plan = suite.examine(clause, subject.capabilities)
                outcomes.append(await adrive(plan, calls.aperformer(subject)))
            finally:
                if subject is not engine:
                    await subject.close()
    finally:
        await engine.close()
    return outcomes


def _chosen(only: Collection[str] | None) -> list[Clause]:
    if only is not None and not set(only) <= CHECKS.keys():
        raise ValueError(f"there is no clause {sorted(set(only) - CHECKS.keys())}")
    return [clause for clause in CLAUSES if only is None or clause.id in only]


class _Suite:
    """What both faces of a run share."""

    def __init__(self, clock: SteppedClock | None, configurable: bool, prefix: str | None) -> None:
        self._clock = clock
        self._configurable = configurable
        self._prefix = prefix or f"keyfold-check-{uuid.uuid4().hex}"

    def config(self, check: Check | None = None) -> Config:
        """The configuration to open an engine with."""
        settings = check.config if check is not None and check.config is not None else {}
        return Config(clock=self._clock, **settings)

    def reason_to_skip(self, clause: Clause, capabilities: Capabilities) -> str | None:
        """Why a clause cannot be tried on this engine, or None."""
        for need in clause.needs:
            if need == "clock":
                if self._clock is None:
                    return "needs a clock"
            elif need == "config":
                if not self._configurable:
                    return "needs a factory that heeds its configuration"
            elif not getattr(capabilities, need):
                return f"the engine declares no {need}"
        return None

    def examine(self, clause: Clause, capabilities: Capabilities) -> Plan[Outcome]:
        """Try one clause and forget what it wrote."""
        world = World(f"{self._prefix}/{clause.id}", capabilities, self._clock)
        status: Status = "passed"
        detail = ""
        try:
            yield from CHECKS[clause.id].steps(world)
        except Failure as failure:
            status, detail = "failed", str(failure)
        except Unsupported as refusal:  # an engine may refuse what it cannot do; it may not do something else
            status, detail = "skipped", f"the engine refuses it: {refusal}"
        except Exception as error:  # noqa: BLE001  # whatever an engine raises is its fault to report
            status, detail = "failed", f"{type(error).__name__}: {error}"
        yield from _tidy(world)
        return Outcome(clause.id, clause.sentence, status, detail)


def _tidy(world: World) -> Plan[None]:
    for namespace in sorted(world.spaces):
        with suppress(Exception):  # the outcome is known by now, and a closed engine can forget nothing
            yield from calls.forget(Selector(namespace, everything=True))
