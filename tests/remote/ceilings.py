"""What a call may cost in requests, for each service: the table that `make requests` holds the counts against.

To add a service: put it into `tests.remote.common.SERVICES`, and its ceilings here under the same name. A call
without a ceiling is shown and not judged. `stated` is for what is known to cost more and said so in the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Sizes(NamedTuple):
    """How much there is: in the namespace asked about, in all, in how many namespaces; and how many are imported."""

    n: int
    total: int
    namespaces: int
    imported: int = 0


Ceiling = Callable[[Sizes], int]


@dataclass(frozen=True)
class Ceilings:
    cold: Mapping[str, Ceiling]
    warm: Mapping[str, Ceiling] = field(default_factory=dict)  # where it is lower than cold
    # higher ones, cold and warm, and why
    stated: Mapping[str, tuple[Ceiling, Ceiling, str]] = field(default_factory=dict)

    def of(self, call: str, sizes: Sizes) -> tuple[int | None, int | None, str]:
        """What a call may cost cold and warm, and what is stated when that is more than it should."""
        limit = self.cold.get(call)
        if limit is None:
            return None, None, ""
        cold = limit(sizes)
        warm = self.warm.get(call, limit)(sizes)
        if call in self.stated:
            more_cold, more_warm, why = self.stated[call]
            if more_cold(sizes) > cold or more_warm(sizes) > warm:
                return more_cold(sizes), more_warm(sizes), why
        return cold, warm, ""


def pages(rows: int, page: int) -> int:
    return max(1, -(-rows // page))


def fixed(number: int) -> Ceiling:
    return lambda _: number


CUT = "stated: a listing of 1,000 rows may be a cut one, so the server is asked how many there are"

# Supermemory lists what was superseded or forgotten too: what the counting itself has written before.
OLD = 8


def listing(sizes: Sizes) -> int:
    """The pages of a namespace on Supermemory."""
    return pages(sizes.n + OLD, 200)


P = 1000  # rows of a page on Cognee


def strides(rows: int) -> int:
    """Requests that read a whole listing on Cognee: each page begins with the last row of the one before, and with
    more than two pages the front is looked at again."""
    return 1 if rows < P else 2 + (rows - P) // (P - 1) + (rows >= P)


def surely(other: int) -> Ceiling:
    """So many requests beside those of a whole listing."""
    return lambda s: other + strides(s.n)


ASKED_WHO = "stated: who acts is asked once a process"
MOVING = "a full page may not be the last, and pages may have moved while they were read"
COUNTED = "from 1,000 rows on they are counted, not read"
_COGNEE: dict[str, Ceiling] = {
    "get": lambda s: 2 + pages(s.n, P),
    "store new": lambda s: 2 + pages(s.n, P),
    "store unchanged": lambda s: 1 + pages(s.n, P),
    "store rewritten": lambda s: 3 + pages(s.n, P),
    "forget": lambda s: 2 + pages(s.n, P),
    "list": lambda s: 1 + pages(s.n, P) + s.n,
    "count": fixed(2),
    "namespaces": lambda s: 1 + s.namespaces,
    "search": lambda s: 2 + pages(s.n, P),
    "export": lambda s: 1 + s.namespaces + s.total,
    "import": lambda s: s.imported + pages(s.n, P),
}
_COGNEE_WARM: dict[str, Ceiling] = {
    **_COGNEE,
    "get": lambda s: 1 + pages(s.n, P),
    "store rewritten": lambda s: 2 + pages(s.n, P),
    "list": lambda s: pages(s.n, P) + s.n,
}
_OTHERWISE: dict[str, tuple[Ceiling, Ceiling]] = {
    "store new": (surely(3), surely(1)),
    "store unchanged": (surely(2), _COGNEE["store unchanged"]),
    "store rewritten": (surely(4), surely(2)),
    "forget": (surely(3), surely(1)),
    "search": (surely(3), surely(1)),
    "count": (lambda s: 3 if s.n < P else 4, fixed(2)),
    "list": (lambda s: 2 + pages(s.n, P) + s.n, _COGNEE_WARM["list"]),
    "namespaces": (lambda s: 2 + s.namespaces, _COGNEE["namespaces"]),
    "export": (lambda s: 2 + s.namespaces + s.total, _COGNEE["export"]),
    "import": (lambda s: 1 + _COGNEE["import"](s), _COGNEE["import"]),
}
_COGNEE_CEILINGS = Ceilings(
    cold=_COGNEE,
    warm=_COGNEE_WARM,
    stated={
        call: (cold, warm, f"{ASKED_WHO}; {COUNTED if call == 'count' else MOVING}")
        for call, (cold, warm) in _OTHERWISE.items()
    },
)

# CortexDB keeps old revisions in the listing too, and shows every event twice: 100 events a page of 200.


def log_pages(events: int) -> int:
    return pages(events, 100)


FOUND = "stated: what is found is looked up, because an event may say what a record said once"


def cortexdb(*, whoami: int, imported: Ceiling, turn: int, batch: int, history: bool = True) -> Ceilings:
    """The ceilings of a wire. A wait is one look at the listing here: the double lists at once."""
    warm: dict[str, Ceiling] = {
        "get": fixed(1),
        "store new": fixed(2 + 1),
        "store unchanged": fixed(1),
        "store rewritten": fixed(2 + 1 if history else 3 + 1),
        "forget": fixed(2),
        "list": lambda s: log_pages(s.n + OLD),
        "count": lambda s: log_pages(s.n + OLD),
        "namespaces": fixed(1),
        "search": fixed(1),
        "export": lambda s: 1 + s.namespaces + log_pages(s.total + OLD),
        "import": imported,
        "log a turn": fixed(turn),
        "log it again": fixed(1),
        "new document": fixed(2 + 1),
        "unchanged document": fixed(1),
        "store 100": fixed(2 + batch + 1),
    }

    def more(limit: Ceiling) -> Ceiling:
        return lambda s: limit(s) + whoami

    return Ceilings(
        cold=warm,
        stated={
            **{call: (more(limit), limit, ASKED_WHO) for call, limit in warm.items()},
            "import": (more(imported), more(imported), ASKED_WHO),  # both are imports of a new engine
            "search": (more(fixed(2)), fixed(2), FOUND),
        },
    )


def direct(*, history: bool = True) -> Ceilings:
    return cortexdb(whoami=1, imported=lambda s: 3 * pages(s.imported, 50), turn=1, batch=1, history=history)


def hosted(*, history: bool = True) -> Ceilings:
    return cortexdb(
        whoami=0,
        imported=lambda s: 2 * pages(s.imported, 50) + s.imported,
        turn=2,
        batch=100,
        history=history,
    )


CEILINGS: dict[str, Ceilings] = {
    "CortexDB": direct(),
    "TinyHumans": hosted(),
    "CortexDB, no history": direct(history=False),
    "TinyHumans, no history": hosted(history=False),
    "Mem0 platform": Ceilings(
        cold={
            "get": fixed(1),
            "store new": fixed(2),
            "store unchanged": fixed(1),
            "store rewritten": fixed(2),
            "forget": fixed(2),
            "list": lambda s: pages(s.n, 200),
            "count": fixed(1),
            "namespaces": lambda s: pages(s.total, 200),
            "search": fixed(1),
            "export": lambda s: pages(s.total, 200) + 1,
            "import": lambda s: 2 * s.imported,
        },
        # Here cold is into a namespace that holds nothing, warm into one that holds others.
        warm={"import": lambda s: s.imported + pages(s.n, 200)},
    ),
    "Mem0 open source": Ceilings(
        cold={
            "get": fixed(1),
            "store new": fixed(2),
            "store unchanged": fixed(1),
            "store rewritten": fixed(2),
            "forget": fixed(2),
            "list": lambda s: 1 if s.n <= 1000 else 2,
            "count": fixed(1),
            "namespaces": fixed(1),
            "search": fixed(1),
            "export": lambda s: s.namespaces + 1,
            "import": lambda s: 2 * s.imported,
        },
        stated={
            "list": (
                lambda s: 1 if s.n < 1000 else 2 if s.n == 1000 else 3,
                lambda s: 1 if s.n < 1000 else 2,
                CUT,
            ),
            "count": (
                lambda s: 1 if s.n < 1000 else 2,
                lambda s: 2 if s.n == 1000 else 1,
                CUT,
            ),
        },
    ),
    "Supermemory": Ceilings(
        cold={
            "get": fixed(1),
            "store new": lambda s: 1 + listing(s) + 1,
            "store unchanged": fixed(1),
            "store rewritten": fixed(2),
            "forget": fixed(2),
            "list": listing,
            "count": listing,
            "namespaces": lambda s: 1 + s.namespaces,
            "search": fixed(1),
            "export": lambda s: pages(s.total + OLD, 200) + s.namespaces,
            "import": lambda s: pages(s.imported, 100) + 2 * listing(s),
        },
    ),
    "Cognee": _COGNEE_CEILINGS,
    "Cognee 1.6.0": _COGNEE_CEILINGS,
}
