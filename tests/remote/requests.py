"""`make requests`: what each call costs in requests, counted on the sockets of the doubles, beside what it may cost.

Every call is counted cold (in an engine that has done nothing yet) and warm (in one that has read the record, or
has made the same call, before). The exit status is 1 when a count is above its ceiling, or grows with the size of
namespaces that the call does not look at.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.faces.planned import PlannedEngine
from keyfold.portability import export, import_keyfold
from keyfold.registry import open_engine
from tests.doubles.serving import Double, served
from tests.remote.ceilings import CEILINGS, Ceilings, Sizes
from tests.remote.common import CORTEXDB, SERVICES, TINYHUMANS, Service, intent, ref

COUNTED = (
    *SERVICES,
    *(
        replace(service, name=f"{service.name}, no history", options="history=none")
        for service in (CORTEXDB, TINYHUMANS)
    ),
)


@dataclass(frozen=True)
class Scale:
    """How many records the three namespaces hold, and how many are imported."""

    small: int = 10
    middle: int = 1000
    large: int = 5000
    imported: int = 1000


@dataclass(frozen=True)
class Cell:
    """What one call cost."""

    service: str
    call: str
    n: int
    cold: int
    warm: int
    ceiling_cold: int | None
    ceiling_warm: int | None
    stated: str = ""
    grown: str = ""  # what it costs when other namespaces are larger, if that differs

    @property
    def fits(self) -> bool:
        below_cold = self.ceiling_cold is None or self.cold <= self.ceiling_cold
        below_warm = self.ceiling_warm is None or self.warm <= self.ceiling_warm
        return below_cold and below_warm and not self.grown


@dataclass
class Counting:
    """A double, what was put on it, and the counts taken from it."""

    service: Service
    double: Double
    ceilings: Ceilings
    held: dict[str, int] = field(default_factory=dict)
    unique: int = 0

    def fill(self, namespace: str, number: int) -> None:
        self.service.fill(self.double, namespace, number)
        self.held[namespace] = number

    def fresh(self, word: str) -> str:
        self.unique += 1
        return f"{word}/{self.unique}"

    def cost(self, call: Callable[[], Any]) -> int:
        self.double.reset_counts()
        call()
        return self.double.count

    def engine(self) -> PlannedEngine:
        return self.service.engine(self.double)

    def cell(self, call: str, namespace: str, cold: int, warm: int, imported: int = 0) -> Cell:
        sizes = Sizes(self.held.get(namespace, 0), sum(self.held.values()), len(self.held), imported)
        limits = self.ceilings.of(call, sizes)
        records = imported or (sizes.n if namespace else sizes.total)
        return Cell(self.service.name, call, records, cold, warm, *limits)

    def both(self, call: str, namespace: str, act: Callable[[PlannedEngine], object]) -> Cell:
        """A call in a new engine, and the same again."""
        engine = self.engine()
        try:
            counts = [self.cost(lambda: act(engine)) for _ in range(2)]
        finally:
            engine.close()
        return self.cell(call, namespace, *counts)

    def write(
        self, call: str, namespace: str, act: Callable[[PlannedEngine, str], object], *keys: str
    ) -> Cell:
        """A write to one key in a new engine; and to another in an engine that has read that one."""
        counts = []
        for key, warm in zip(keys, (False, True), strict=True):
            engine = self.engine()
            try:
                if warm:
                    engine.get(ref(namespace, key))
                counts.append(self.cost(lambda: act(engine, key)))  # noqa: B023  # called at once
            finally:
                engine.close()
        return self.cell(call, namespace, *counts)


def same(actual: object, expected: object) -> None:
    """A count is worth nothing when the call did something else."""
    if actual != expected:
        raise AssertionError(f"{actual!r:.200} where {expected!r:.200} was expected")


def keyed(counting: Counting, namespace: str) -> Iterator[Cell]:
    """The calls that look at one record."""
    last = counting.held[namespace] - 1

    def get(engine: PlannedEngine) -> None:
        record = engine.get(ref(namespace, f"key/{last}"))
        same(record and record.content, f"content {last}")

    def unchanged(engine: PlannedEngine, key: str) -> None:
        content = f"content {key.removeprefix('key/')}"
        same(engine.store(intent(namespace, key, content)).outcome, "deduped")

    def rewritten(engine: PlannedEngine, key: str) -> None:
        same(engine.store(intent(namespace, key, counting.fresh("rewritten"))).outcome, "updated")

    def new(engine: PlannedEngine, key: str) -> None:
        same(engine.store(intent(namespace, key, f"the text of {key}")).outcome, "created")

    def forget(engine: PlannedEngine, key: str) -> None:
        same(engine.forget(Selector(namespace, ref(namespace, key))).deleted, 1)

    fresh = [counting.fresh("new"), counting.fresh("new")]
    yield counting.both("get", namespace, get)
    yield counting.write("store unchanged", namespace, unchanged, "key/0", "key/1")
    yield counting.write("store rewritten", namespace, rewritten, "key/2", "key/3")
    yield counting.write("store new", namespace, new, *fresh)
    yield counting.write("forget", namespace, forget, *fresh)


def listed(counting: Counting, namespace: str) -> Iterator[Cell]:
    """The calls that look at one namespace."""
    n = counting.held[namespace]

    def listing(engine: PlannedEngine) -> None:
        same(len(engine.page(Query(namespace, limit=n + 1)).items), n)

    def count(engine: PlannedEngine) -> None:
        same(engine.count(namespace).total, n)

    def search(engine: PlannedEngine) -> None:
        engine.search(SearchQuery(namespace, "content", limit=5))

    yield counting.both("list", namespace, listing)
    yield counting.both("count", namespace, count)
    yield counting.both("search", namespace, search)


def whole(counting: Counting) -> Iterator[Cell]:
    """The calls that look at everything."""

    def namespaces(engine: PlannedEngine) -> None:
        same(engine.namespaces(), sorted(counting.held))

    def exported(engine: PlannedEngine) -> None:
        same(len(list(export(engine))), sum(counting.held.values()) + 2)

    yield counting.both("namespaces", "", namespaces)
    yield counting.both("export", "", exported)


def imported(counting: Counting, number: int) -> Cell:
    """An import of new records: into a namespace that holds none, and into one that holds as many others."""
    counts = []
    for first, namespace in ((0, "imported"), (number, "imported")):
        source = open_engine("inmemory:")
        source.store_many(
            [intent(namespace, f"key/{first + one}", f"content {first + one}") for one in range(number)]
        )
        lines = list(export(source))
        source.close()
        engine = counting.engine()
        try:
            report: list[Any] = []
            counting.held[namespace] = first
            counts.append(counting.cost(lambda: report.append(import_keyfold(engine, lines))))  # noqa: B023  # called at once
            same(report[0].created, number)
        finally:
            engine.close()
    cell = counting.cell("import", "imported", *counts, imported=number)
    counting.held["imported"] = 2 * number
    return cell


def logged(counting: Counting, namespace: str) -> Iterator[Cell]:
    """Documents, turns that are logged, and many records at once."""
    counting.held[namespace] = 0
    turn: dict[str, Any] = {"kind": "turn", "mode": "append", "wait": "accepted"}

    def log(outcome: str) -> Callable[[PlannedEngine, str], None]:
        def act(engine: PlannedEngine, key: str) -> None:
            same(engine.store(intent(namespace, key, f"the turn {key}", **turn)).outcome, outcome)

        return act

    def batch(engine: PlannedEngine, key: str) -> None:
        intents = [intent(namespace, f"{key}/{one}", f"content {one}") for one in range(100)]
        same({receipt.outcome for receipt in engine.store_many(intents)}, {"created"})

    def document(outcome: str) -> Callable[[PlannedEngine, str], None]:
        def act(engine: PlannedEngine, key: str) -> None:
            told = engine.store(intent(namespace, key, f"# Title\n\nthe text of {key}", kind="document"))
            same(told.outcome, outcome)

        return act

    documents = [counting.fresh("a.md"), counting.fresh("a.md")]
    yield counting.write("new document", namespace, document("created"), *documents)
    yield counting.write("unchanged document", namespace, document("deduped"), *documents)
    turns = [counting.fresh("turn"), counting.fresh("turn")]
    yield counting.write("log a turn", namespace, log("created"), *turns)
    yield counting.write("log it again", namespace, log("deduped"), *turns)
    yield counting.write("store 100", namespace, batch, counting.fresh("one"), counting.fresh("two"))


def grown(before: Sequence[Cell], after: Sequence[Cell]) -> list[Cell]:
    """The cells of before, each with what it costs now that other namespaces have grown, where that differs."""
    found = []
    for old, new in zip(before, after, strict=True):
        differs = (old.cold, old.warm) != (new.cold, new.warm)
        told = f"{new.cold} and {new.warm} beside larger namespaces" if differs else ""
        found.append(Cell(*[getattr(old, name) for name in list(Cell.__dataclass_fields__)[:-1]], told))
    return found


def measure(service: Service, scale: Scale) -> list[Cell]:
    """All cells of a service."""
    double = service.double()
    with served(double):
        counting = Counting(service, double, CEILINGS.get(service.name, Ceilings({})))
        counting.fill("small", scale.small)
        small = list(keyed(counting, "small"))
        counting.fill("middle", scale.middle)
        middle = [*keyed(counting, "middle"), *listed(counting, "middle")]
        everything = list(whole(counting))
        import_ = imported(counting, scale.imported)
        counting.fill("large", scale.large)
        again = [*keyed(counting, "middle"), *listed(counting, "middle")]
        large = [*keyed(counting, "large"), *listed(counting, "large")]
        turns = list(logged(counting, "turns"))
    return [*small, *grown(middle, again), *large, *everything, import_, *turns]


def table(cells: Sequence[Cell]) -> str:
    """The cells as a table of text."""
    rows = [("service", "call", "records", "ceiling", "cold", "warm", "")]
    for cell in cells:
        limits = [cell.ceiling_cold, cell.ceiling_warm]
        ceiling = "none" if limits[0] is None else " / ".join(dict.fromkeys(map(str, limits)))
        note = cell.grown or cell.stated
        rows.append(
            (
                cell.service,
                cell.call,
                f"{cell.n:,}",
                ceiling,
                str(cell.cold),
                str(cell.warm),
                ("" if cell.fits else "TOO MANY ") + note,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        "  ".join([text.ljust(width) for text, width in zip(row, widths, strict=False)] + [row[-1]]).rstrip()
        for row in rows
    )


def main(services: Sequence[Service] = COUNTED, scale: Scale | None = None) -> int:
    """Print the table of all services; 1 when one of its cells is above its ceiling."""
    cells = [cell for service in services for cell in measure(service, scale or Scale())]
    print(table(cells))
    over = [cell for cell in cells if not cell.fits]
    print(f"\n{len(cells)} calls counted, {len(over)} above their ceilings")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
