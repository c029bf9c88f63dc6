"""What a look at a store finds, in plain words. Ids stand for records: no finding holds a text, a key or a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import apsw

from keyfold.model import Model

SHOWN: Final = 5  # ids that a finding names


@dataclass(frozen=True, slots=True)
class Finding(Model):
    """One thing that was found. A `fault` needs help: `remedy` names what --repair does, "" where nothing can."""

    area: str
    problem: str
    fault: bool
    count: int
    remedy: str

    def __str__(self) -> str:
        return f"{self.area}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Look:
    """What the checks share: the connection, how thorough to be, and the time."""

    conn: apsw.Connection
    quick: bool
    now: int


def fault(area: str, problem: str, *, count: int = 1, remedy: str = "") -> Finding:
    """Something that is wrong."""
    return Finding(area, problem, True, count, remedy)


def note(area: str, problem: str, *, count: int = 1) -> Finding:
    """Something worth a word."""
    return Finding(area, problem, False, count, "")


def named(ids: Iterable[int | None]) -> str:
    """` (ids 4, 7 and 12 more)`, or nothing where no id is known."""
    known = sorted(number for number in ids if number is not None)
    if not known:
        return ""
    shown = ", ".join(map(str, known[:SHOWN]))
    more = f" and {len(known) - SHOWN:,} more" if len(known) > SHOWN else ""
    return f" ({'id' if len(known) == 1 else 'ids'} {shown}{more})"
