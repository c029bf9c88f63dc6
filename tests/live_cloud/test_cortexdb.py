"""The clauses on a CortexDB server of somebody's, one at a time: any forget there drops what answers rest on.

Both faces, and what the calls cost in requests there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import pytest

from keyfold.conformance import Outcome, arun, run
from keyfold.contract.intents import Ref, Selector
from keyfold.dialects.cortexdb import CortexDB
from keyfold.dialects.wire import Http
from keyfold.engines.remote.transport import BlockingTransport
from keyfold.faces.planned import PlannedEngine
from keyfold.registry import open_async_engine, open_engine
from tests.remote.common import intent


@pytest.fixture
def url() -> str:
    url = os.environ.get("KEYFOLD_LIVE_CORTEXDB_URL", "")
    if not url:
        pytest.skip("KEYFOLD_LIVE_CORTEXDB_URL is not set")
    return url


def assert_held(outcomes: Sequence[Outcome]) -> None:
    assert [str(outcome) for outcome in outcomes if outcome.status == "failed"] == []


@pytest.mark.timeout(3600)
def test_the_clauses_hold_on_a_live_server(url: str) -> None:
    assert_held(run(lambda config: open_engine(url, config=config)))


@pytest.mark.timeout(3600)
def test_the_clauses_hold_awaited_on_a_live_server(url: str) -> None:
    async def opened(config: Any) -> Any:
        return await open_async_engine(url, config=config)

    assert_held(asyncio.run(arun(opened)))


class Counted(BlockingTransport):
    """A transport that notes its exchanges."""

    sent: list[str]

    def perform(self, request: Any) -> Any:
        if isinstance(request, Http):
            self.sent.append(f"{request.method} {request.path}")
        return super().perform(request)


@pytest.mark.timeout(600)
def test_calls_cost_on_a_live_server_what_is_written_of_them(url: str) -> None:
    engine = open_engine(url)
    assert isinstance(engine, PlannedEngine)
    assert isinstance(engine.plans.dialect, CortexDB)
    hosted = engine.plans.dialect.wire.hosted
    engine.transport.__class__ = Counted
    sent: list[str] = []
    engine.transport.sent = sent  # type: ignore[attr-defined]
    namespace = f"keyfold-live-{uuid4().hex}"

    def cost(key: str, **fields: Any) -> tuple[int, str]:
        sent.clear()
        told = engine.store(intent(namespace, key, f"the text of {key}", **fields))
        return len(sent), told.outcome

    turn = {"kind": "turn", "mode": "append", "wait": "accepted"}
    try:
        engine.health()  # who acts is asked once
        assert cost("t/0", **turn) == (2 if hosted else 1, "created")
        assert (
            engine.get(Ref(namespace, key="t/0", kind="turn")) is not None
        )  # which waits until it is listed
        assert cost("t/0", **turn) == (1, "deduped")
        number, outcome = cost("a.md", kind="document")
        assert (number >= 3, outcome) == (True, "created")
        assert sent[0].startswith("GET")
        assert sent[1].startswith("POST")
        assert all(one.startswith("GET") for one in sent[2:]), "one write, and then only waits"
        assert cost("a.md", kind="document") == (1, "deduped")
    finally:
        engine.forget(Selector(namespace, everything=True))
        engine.close()
