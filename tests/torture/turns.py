"""Ten thousand turns on a service that loses every twentieth answer, from writers at once."""

from __future__ import annotations

from tests.doubles.serving import served
from tests.remote.common import CORTEXDB
from tests.remote.cortexdb_service import hasty
from tests.remote.test_cortexdb_many import held_against, log_turns
from tests.torture.common import Run


def eight_writers(run: Run) -> None:
    turns = run.times(10_000, least=400)
    double = CORTEXDB.double()
    with served(double), CORTEXDB.memory(double) as memory:
        hasty(memory.engine)  # type: ignore[arg-type]
        receipts = log_turns(double, memory, turns)
        held_against(double, receipts, turns)
    run.count("turns", turns)
    run.count("events", len(double.events))  # type: ignore[attr-defined]
    run.count("replayed", sum(receipt.replayed for receipt in receipts))
