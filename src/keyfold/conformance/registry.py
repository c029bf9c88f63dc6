"""Clauses and their checks: one cannot be without the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from keyfold.conformance.world import World
from keyfold.flow import Plan

Steps = Callable[[World], Plan[None]]


@dataclass(frozen=True, slots=True)
class Clause:
    """One thing that an engine must do, in a sentence.

    `needs` names what a run must have for it: capabilities, "clock" (one that can be stepped) or "config"
    (a factory that heeds the configuration it is given).
    """

    id: str
    sentence: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """How a clause is checked. With `config`, on an engine of its own that was opened with these settings."""

    id: str
    steps: Steps
    config: Mapping[str, Any] | None = None


CHECKS: Final[dict[str, Check]] = {}


def check(identity: str, *, config: Mapping[str, Any] | None = None) -> Callable[[Steps], Steps]:
    """Register a plan as the check of a clause."""

    def register(steps: Steps) -> Steps:
        if identity in CHECKS:
            raise ValueError(f"clause {identity} has two checks")
        CHECKS[identity] = Check(identity, steps, config)
        return steps

    return register


def faults(clauses: tuple[Clause, ...]) -> list[str]:
    """What is wrong with a manifest: ids twice or out of order, clauses without checks, checks without clauses."""
    ids = [clause.id for clause in clauses]
    return [
        *(f"{one} stands before {other}" for one, other in pairwise(ids) if one >= other),
        *(f"clause {identity} has no check" for identity in ids if identity not in CHECKS),
        *(f"check {identity} has no clause" for identity in CHECKS if identity not in ids),
    ]
