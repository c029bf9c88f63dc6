"""Answers of Cognee that no server gives: odd ids, odd scores, and adds that do not say what they did."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import SearchQuery, Selector
from keyfold.errors import OutcomeUnknown
from keyfold.faces.planned import PlannedEngine
from tests.doubles.cognee import CogneeDouble
from tests.remote.common import COGNEE, KEY, intent, ref

Opened = Callable[..., PlannedEngine]


@pytest.fixture
def double(running: Callable[[Any], Any]) -> CogneeDouble:
    found: CogneeDouble = running(COGNEE.double())
    return found


def test_what_an_add_did_is_unknown_when_it_does_not_say_that_each_file_was_stored(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    home = double.dataset("kf-ana").id
    entry = {"run_info": {"status": "PipelineRunErrored"}, "data_id": home, "echo": KEY}
    odd = {"run_info": {"status": "PipelineRunCompleted"}, "data_id": "../../x?y"}
    for infos in (None, [], [entry], [odd]):
        body = {"dataset_id": home, "data_ingestion_info": infos, "echo": KEY}
        double.faults.add("status", path="/add", code=200, body=body)
        with pytest.raises(OutcomeUnknown, match="same call again") as caught:
            engine.store(intent("ana", "k", "text"))
        assert KEY not in str(caught.value)
    double.faults.add("truncate", path="/add")
    with pytest.raises(OutcomeUnknown):
        engine.store(intent("ana", "k", "text"))
    assert engine.store(intent("ana", "k", "text")).outcome == "deduped"
    assert len(double.dataset("kf-ana").rows) == 1


@pytest.mark.parametrize("odd", ["..", "../../x?y", "", "a/b", "\ud800", ["x"], 7], ids=ascii)
def test_a_row_whose_id_is_no_plain_one_is_none_of_ours(
    double: CogneeDouble, opened: Opened, odd: Any
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    listed = double.store.listing(double.dataset("kf-ana"))[0]
    entry = {"id": odd, "name": listed.name, "externalMetadata": listed.metadata, "createdAt": "2026-01-01"}
    double.faults.add(
        "status", times=math.inf, method="GET", path="/data", code=200, body=json.dumps([entry])
    )
    assert engine.get(ref("ana", "k")) is None
    double.reset_counts()
    assert engine.forget(Selector("ana", ref("ana", "k"))).deleted == 0
    assert all(seen.method == "GET" for seen in double.recent)


@pytest.mark.parametrize("score", ["high", {}, None, 10**400, True], ids=lambda score: type(score).__name__)
def test_a_score_of_an_odd_type_is_still_within_its_bounds(
    double: CogneeDouble, opened: Opened, score: Any
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    [row] = double.dataset("kf-ana").rows
    answer = [{"text": "text", "score": score, "metadata": {"data_id": row}}]
    double.faults.add("status", path="/recall", code=200, body=answer)
    [hit] = engine.search(SearchQuery("ana", "k")).items  # by its key, however bad the match
    assert 0 <= hit.score <= 1


def test_a_search_never_shows_a_file_that_a_race_or_a_failed_deletion_left_behind(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "key", "zebra"))
    double.store.cognify(double.dataset("kf-ana"))
    double.faults.add("status", times=math.inf, method="DELETE", code=503)
    with pytest.raises(OutcomeUnknown):
        engine.store(intent("ana", "key", "lion"))
    assert len(double.dataset("kf-ana").rows) == 2

    def shown(words: str) -> list[str]:
        return [hit.record.content for hit in engine.search(SearchQuery("ana", words)).items]

    for cognified in (False, True):
        if cognified:
            double.store.cognify(double.dataset("kf-ana"))
        assert "zebra" not in shown("zebra")
        assert shown("lion") == ["lion"]
    double.faults.clear()
    assert engine.store(intent("ana", "key", "lion")).outcome == "deduped"
    assert len(double.dataset("kf-ana").rows) == 1


def test_a_slow_writers_file_keeps_its_revision_when_what_it_passed_is_removed(
    double: CogneeDouble, opened: Opened
) -> None:
    slow, quick = opened(COGNEE, double), opened(COGNEE, double)
    slow.store(intent("ana", "key", "first"))

    def pass_it() -> None:
        quick.store(intent("ana", "key", "second"))
        quick.store(intent("ana", "key", "third"))

    double.faults.add("call_before", path="/add", run=pass_it)
    slow.store(intent("ana", "key", "mine"))
    again = quick.store(intent("ana", "key", "mine"))
    assert (again.outcome, again.revision_count) == ("deduped", 4)
    assert len(double.dataset("kf-ana").rows) == 1
    for engine in (slow, quick, opened(COGNEE, double)):
        found = engine.get(ref("ana", "key"))
        assert found is not None
        assert (found.content, found.revision_count) == ("mine", 4)
