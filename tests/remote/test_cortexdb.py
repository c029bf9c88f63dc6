"""The engine on CortexDB conforms, on both wires and both faces, on a service that lists and finds late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from keyfold.conformance import Outcome, arun, run
from keyfold.conformance.world import SteppedClock
from tests.doubles.cortexdb import Cortex
from tests.remote.common import CORTEXDB, TINYHUMANS, configured
from tests.remote.cortexdb_service import hasty, hasty_async, late

LACKS = {
    "transactions",
    "dedup_window",
    "session_activity",
    "delete_idempotency",
    "word_search",
    "similar_keys",
    "fresh_ids",
    "names_expire",
}


def assert_conforms(outcomes: Sequence[Outcome], *also: str) -> None:
    assert [str(outcome) for outcome in outcomes if outcome.status == "failed"] == []
    skipped = {outcome.detail for outcome in outcomes if outcome.status == "skipped"}
    declared = {reason for reason in skipped if "keeps no idempotency keys of deletes" not in reason}
    assert declared <= {f"the engine declares no {name}" for name in (*LACKS, *also)}


def test_every_clause_holds_on_a_service_that_lists_late(running: Callable[[Cortex], Cortex]) -> None:
    double: Any = running(late(CORTEXDB.double()))
    outcomes = run(
        lambda config: hasty(CORTEXDB.engine(double, **_settings(config))), clock=SteppedClock(), prefix="c"
    )
    assert_conforms(outcomes)


def test_every_clause_holds_awaited_on_a_hosted_service_that_lists_late(
    running: Callable[[Cortex], Cortex],
) -> None:
    double: Any = running(late(TINYHUMANS.double()))

    async def opened(config: Any) -> Any:
        return hasty_async(await TINYHUMANS.async_engine(double, **_settings(config)))

    assert_conforms(asyncio.run(arun(opened, clock=SteppedClock(), prefix="c")))


def test_every_clause_holds_or_is_declared_without_a_history(running: Callable[[Cortex], Cortex]) -> None:
    double: Any = running(late(CORTEXDB.double()))
    service = CORTEXDB.with_options("history=none")
    outcomes = run(lambda config: hasty(service.engine(double, **_settings(config))), clock=SteppedClock())
    assert_conforms(outcomes, "history")


def _settings(config: Any) -> dict[str, Any]:
    return {
        "clock": config.clock,
        "keep_revisions": config.keep_revisions,
        "credential": configured().credential,
    }
