"""A header that says what no record can is no record: it never breaks a call on the records beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import Query
from keyfold.dialects.payload import FIELD, header, read
from keyfold.faces.planned import PlannedEngine
from tests.remote.common import MEM0_OSS, contents, intent, payload, put_mem0, ref

GOOD = json.loads(header(payload("ns", "k", "text", metadata={"a": 1}, tags=("t",))))
CALL = ["save", "k", "b", "2026-01-01T00:00:00Z", "created", 1, "d", None]
ENDLESS = "1e999"
DAMAGED: dict[str, Any] = {
    "a revision without end": {"rev": float("inf")},
    "revision 0": {"rev": 0},
    "a revision that is too large": {"rev": 2**63},
    "a revision that is a text": {"rev": "7"},
    "a revision that is a truth": {"rev": True},
    "a call's revision without end": {"calls": [[*CALL[:5], float("inf"), *CALL[6:]]]},
    "a time before all time": {"created": "0001-01-01T00:00:00+14:00"},
    "a time after all time": {"updated": "9999-12-31T23:59:59-14:00"},
    "half a character": {"title": "\ud800"},
    "half a character in the metadata": {"meta": {"a": "\udfff"}},
    "a number without end in the metadata": {"meta": {"a": float("inf")}},
    "no number in the metadata": {"meta": {"a": float("nan")}},
    "metadata that is a list": {"meta": [["a", 1]]},
    "tags that are a text": {"tags": "abc"},
    "a tag that is a number": {"tags": [1]},
    "a title that is a list": {"title": ["a"]},
    "a session that is a list": {"session": ["a"]},
    "a kind that is none": {"kind": ["observation"]},
    "no namespace": {"ns": ""},
    "no key": {"key": ""},
}


def damaged(change: dict[str, Any]) -> str:
    return json.dumps(GOOD | change).replace("Infinity", ENDLESS)


def test_a_header_as_it_is_written_is_read() -> None:
    assert read(json.dumps(GOOD), "text") == payload("ns", "k", "text", metadata={"a": 1}, tags=("t",))
    assert read(json.dumps(GOOD | {"calls": [CALL], "rev": 2**63 - 1}), "text") is not None


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED)
def test_what_no_record_can_say_is_none(change: dict[str, Any]) -> None:
    assert read(damaged(change), "text") is None


def test_a_content_with_half_a_character_is_none() -> None:
    assert read(json.dumps(GOOD), "text \ud800") is None


@pytest.mark.parametrize("change", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_row_leaves_its_namespace_usable(
    change: dict[str, Any], running: Callable[[Any], Any], opened: Callable[..., PlannedEngine]
) -> None:
    double = running(MEM0_OSS.double())
    put_mem0(double, payload("ns", "beside", "beside"))
    ids = {"user_id": "kf:ns", "agent_id": "keyfold", "run_id": payload("ns", "k", "").digest}
    double.seed("text", metadata={FIELD: damaged(change)}, **ids)
    engine = opened(MEM0_OSS, double)
    assert engine.get(ref("ns", "k")) is None
    assert contents(engine.page(Query("ns", limit=10)).items) == ["beside"]
    assert engine.store(intent("ns", "k", "new")).outcome == "created"
    assert contents(engine.page(Query("ns", limit=10)).items) == ["beside", "new"]
