"""What a service says beside the records, its scores, pieces and answers, is made fit to be shown, whatever it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from keyfold import Memory
from tests.remote.answers import changed, inner
from tests.remote.common import (
    COGNEE,
    CORTEXDB,
    KEY,
    MEM0_OSS,
    MEM0_PLATFORM,
    SERVICES,
    SUPERMEMORY,
    TINYHUMANS,
    Service,
)

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
ANSWERING = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
SEARCHED = {"CortexDB": "/recall", "TinyHumans": "/recall", "Cognee": "/recall", "Cognee 1.6.0": "/recall"}
# What Python reads as a number in JSON and is none from 0 to 1, and a word that is no number.
ODD = ("1" + "0" * 400, "-1" + "0" * 400, "NaN", "Infinity", "-Infinity", "true", '"high"', "null", "[]")


def half(answer: Any) -> bytes:
    """The answer with half a character after each zebra."""
    return json.dumps(answer).replace("zebra", r"zebra \ud83d").encode()


@EACH
def test_half_a_character_in_what_a_search_returns_reaches_nobody(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    long = "".join(f"word{number} " for number in range(4000)) + "zebra"
    memory.mem_save("ana", long, type="decision", title="T", topic_key="long")
    memory.mem_save("ana", "zebra short", type="decision", title="T", topic_key="short")
    if service.scheme.startswith("cognee"):
        cognified(double)
    with changed(double, SEARCHED.get(service.name, "/search"), half):
        for hit in memory.mem_search("ana", "zebra"):
            hit.snippet.encode()
        str(memory.mem_context("ana", query="zebra")).encode()


def cognified(double: Any) -> None:
    with httpx2.Client(base_url=f"{double.url}/api/v1", headers={"X-Api-Key": KEY}) as client:
        homes = [item["id"] for item in client.get("/datasets").json()]
        assert client.post("/cognify", json={"datasetIds": homes}).status_code == 200


def test_a_piece_with_half_a_character_is_shown_with_a_mark_in_its_place(
    running: Running, remembering: Remembering
) -> None:
    double = running(SUPERMEMORY.double())
    memory = remembering(SUPERMEMORY, double)
    memory.mem_save("ana", "grass " * 2000 + "zebra", type="decision", title="T")
    with changed(double, "/v4/search", half):
        [hit] = memory.mem_search("ana", "zebra")
    assert "zebra \ufffd" in hit.snippet


@ANSWERING
def test_half_a_character_in_an_answer_is_a_mark(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save("ana", "zebra short", type="decision", title="T", topic_key="short")
    with changed(double, "/answer", half):
        answer = memory.mem_recall("ana", "zebra short?")
    assert "zebra \ufffd" in answer.text
    json.dumps(answer.to_dict(), ensure_ascii=False).encode()


@ANSWERING
@pytest.mark.parametrize("score", ODD, ids=lambda score: score[:9])
def test_a_citation_weighs_from_0_to_1_whatever_score_the_service_gives_it(
    service: Service, score: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save("ana", "zebra short", type="decision", title="T", topic_key="short")

    def scored(answer: Any) -> bytes:
        for citation in inner(answer)["citations"]:
            citation["score"] = "@"
        return json.dumps(answer).replace('"@"', score).encode()

    with changed(double, "/answer", scored):
        [citation] = memory.mem_recall("ana", "zebra short?").citations
    assert 0 <= citation.score <= 1


@pytest.mark.parametrize(
    ("service", "path", "name"),
    [
        (MEM0_OSS, "/search", "score"),
        (SUPERMEMORY, "/v4/search", "similarity"),
        (COGNEE, "/recall", "score"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("score", ODD, ids=lambda score: score[:9])
def test_a_score_that_is_no_number_from_0_to_1_ranks_nothing_above_a_true_match(
    service: Service, path: str, name: str, score: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save("ana", "zebra crossing", type="decision", title="T", topic_key="good")
    memory.mem_save("ana", "nothing alike zebra", type="decision", title="T", topic_key="odd")
    if service is COGNEE:
        cognified(double)

    def scored(answer: Any) -> bytes:
        for item in answer if service is COGNEE else answer["results"]:
            if "nothing" in str(item.get("text") or item.get("memory")):
                item[name] = "@"
        return json.dumps(answer).replace('"@"', score).encode()

    with changed(double, path, scored):
        hits = memory.mem_search("ana", "zebra crossing")
    assert all(0 <= hit.score <= 1 for hit in hits)
    # Those are as near, or as far, as can be. What has no number comes behind those that have one.
    if score not in (ODD[0], ODD[1], "Infinity", "-Infinity"):
        assert hits[0].topic_key == "good"


@pytest.mark.parametrize(
    ("service", "path", "name"),
    [
        (MEM0_OSS, "/search", "score"),
        (MEM0_PLATFORM, "/search", "score"),
        (SUPERMEMORY, "/search", "similarity"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@pytest.mark.parametrize(
    "score", ["", *(odd for odd in ODD if not odd.strip("-")[0].isdigit() and "Inf" not in odd)]
)
def test_hits_that_all_come_without_a_score_are_found_in_the_services_order(
    service: Service,
    path: str,
    name: str,
    score: str,
    awaited: bool,
    running: Running,
    remembering: Remembering,
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    for key, text in (("near", "zebra crossing"), ("far", "zebra grass"), ("none", "a lemon")):
        memory.mem_save("ana", text, type="decision", title="T", topic_key=key)

    def scored(answer: Any) -> bytes:
        answer["results"] = [item for item in answer["results"] if "lemon" not in str(item.get("memory"))]
        for item in answer["results"]:
            del item[name]
            if score:
                item[name] = "@"
        return json.dumps(answer).replace('"@"', score).encode()

    async def searched() -> Any:
        async with await service.async_memory(double) as other:
            return await other.mem_search("ana", "zebra crossing")

    with changed(double, path, scored):
        found = asyncio.run(searched()) if awaited else memory.mem_search("ana", "zebra crossing")
    assert [hit.topic_key for hit in found] == ["near", "far"]
    assert [hit.score for hit in found] == [1.0, 0.5]
