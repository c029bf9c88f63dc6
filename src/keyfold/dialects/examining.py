"""What a look at all that a service holds finds, in plain words: ids stand for records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from keyfold.dialects.base import Dialect, Row, Shelf, newest_first
from keyfold.flow import Plan
from keyfold.model import TURN, Model

SHOWN: Final = 5  # ids that a finding names


@dataclass(frozen=True, slots=True)
class Finding(Model):
    """One thing that was found. A `fault` needs help."""

    area: str
    problem: str
    fault: bool
    count: int

    def __str__(self) -> str:
        return f"{self.area}: {self.problem}"


def examine(dialect: Dialect) -> Plan[list[Finding]]:
    """Read every row of every namespace, and say what is wrong with them or worth a word."""
    records: dict[tuple[Shelf, str], list[Row]] = {}
    for shelf, row in (yield from dialect.everything()):
        if shelf.holds(row.record):
            records.setdefault((shelf, row.payload.digest), []).append(row)
    twice, torn, double = [], [], []
    for (_, digest), rows in records.items():
        newest = newest_first(rows)[0]
        if newest.missing:
            torn.append(digest)
        if newest.record.kind == TURN and _texts(rows) > 1:
            twice.append(digest)
        elif len([row for row in rows if row.record.revision_count == newest.record.revision_count]) > 1:
            double.append(digest)
    return [
        *_told(
            twice,
            "turns",
            "{} logged with another text for the same thread and index; the first counts, and mem_update corrects it",
            fault=True,
        ),
        *_told(
            torn,
            "records",
            "{} incomplete: the service lost a piece; save it again, or forget it",
            fault=True,
        ),
        *_told(
            double,
            "records",
            "{} held twice (a race, or a lost answer); the newest counts, and the next save heals it",
            fault=False,
        ),
    ]


def _texts(rows: Sequence[Row]) -> int:
    """How many texts the first revision has."""
    return len({row.record.normalized_hash for row in rows if row.record.revision_count == 1})


def _told(ids: list[str], area: str, problem: str, *, fault: bool) -> list[Finding]:
    if not ids:
        return []
    shown = ", ".join(sorted(ids)[:SHOWN]) + (f" and {len(ids) - SHOWN:,} more" if len(ids) > SHOWN else "")
    count = f"{len(ids):,} {'is' if len(ids) == 1 else 'are'}"
    return [Finding(area, f"{problem.format(count)} ({shown})", fault, len(ids))]
