"""The clauses on a CortexDB server of somebody's, one at a time: any forget there drops what answers rest on."""

from __future__ import annotations

import os

import pytest

from keyfold.conformance import run
from keyfold.registry import open_engine


@pytest.mark.timeout(3600)
def test_the_clauses_hold_on_a_live_server() -> None:
    url = os.environ.get("KEYFOLD_LIVE_CORTEXDB_URL", "")
    if not url:
        pytest.skip("KEYFOLD_LIVE_CORTEXDB_URL is not set")
    outcomes = run(lambda config: open_engine(url, config=config))
    assert [str(outcome) for outcome in outcomes if outcome.status == "failed"] == []
