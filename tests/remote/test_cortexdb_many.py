"""Many turns from writers at once, on a service that loses every twentieth answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from keyfold import Memory
from keyfold.dialects.cortexdb_rows import rows_of
from keyfold.errors import OutcomeUnknown
from keyfold.model import SaveResult
from tests.remote.common import CORTEXDB
from tests.remote.cortexdb_service import hasty

WRITERS = 8
TURNS = 1_200  # `make torture` logs 10,000


def log_turns(double: Any, memory: Memory, turns: int, writers: int = WRITERS) -> list[SaveResult]:
    """Log turns from writers at once, each writer's own; a call whose outcome stays unknown is made again."""

    def one(writer: int) -> list[SaveResult]:
        receipts = []
        for index in range(writer, turns, writers):
            turn = {"thread_id": f"t{writer}", "index": index, "role": "user", "text": f"turn {index}"}
            while True:
                try:
                    receipts.append(memory.mem_log_turn("ana", **turn))
                    break
                except OutcomeUnknown:
                    continue
        return receipts

    double.knobs.apply_then_fail_every = 20
    with ThreadPoolExecutor(writers) as pool:
        return [receipt for found in pool.map(one, range(writers)) for receipt in found]


def held_against(double: Any, receipts: list[SaveResult], turns: int) -> None:
    """One event a turn; and what each receipt says is what the log says."""
    assert len(double.events) == turns
    rows = rows_of([event.rendered() for event in double.events])
    assert len(rows) == turns
    assert {row.record.content for row in rows} == {f"turn {index}" for index in range(turns)}
    assert {row.record.id for row in rows} == {receipt.id for receipt in receipts}
    # A receipt is replayed just when the turn's event was there before the request that was answered.
    sent = Counter(body["idempotency_key"] for body in double.writes)
    repeated = {event.id for event in double.events if sent[event.key] > 1}
    digests = {row.record.id for row in rows if row.remote in repeated}
    assert {receipt.id for receipt in receipts if receipt.replayed} == digests
    assert 0.03 * turns < len(digests) < 0.08 * turns
    assert {receipt.outcome for receipt in receipts if receipt.replayed} == {"deduped"}


def test_every_turn_of_eight_writers_is_there_once_and_every_receipt_is_true(
    running: Callable[[Any], Any], remembering: Callable[..., Memory]
) -> None:
    double = running(CORTEXDB.double())
    memory = remembering(CORTEXDB, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    held_against(double, log_turns(double, memory, TURNS), TURNS)
    assert memory.mem_list("ana", limit=1).total == TURNS
