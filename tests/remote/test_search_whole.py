"""A search misses nothing in silence: what does not count takes no places, and what may be missing is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyfold import Memory
from tests.conftest import SteppedClock
from tests.remote.answers import changed, inner
from tests.remote.common import (
    COGNEE,
    COGNEE_UNPAGED,
    CORTEXDB,
    MEM0_OSS,
    MEM0_PLATFORM,
    SERVICES,
    SUPERMEMORY,
    TINYHUMANS,
    Service,
    payload,
)

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
LOGS = pytest.mark.parametrize(
    "service", [CORTEXDB, TINYHUMANS, SUPERMEMORY], ids=lambda service: service.name
)
KEY = "wanted/one"
TEXT = "zebra crossing near the river bank today"
ENDED = datetime(2026, 1, 2, tzinfo=UTC)
FILTERS: dict[str, dict[str, Any]] = {
    "type": {"types": ["preference"]},
    "other types": {"types_exclude": ["decision"]},
    "tag": {"tags": ["wanted"]},
    "key": {"topic_prefix": "wanted/"},
    "metadata": {"filter": {"score": {"gte": 7}}},
}


def put(service: Service, double: Any, *payloads: Any) -> None:
    assert service.put is not None
    for one in payloads:
        service.put(double, one)
    if hasattr(double, "settle"):
        double.settle()


def many(number: int, **fields: Any) -> list[Any]:
    """Memories that match better than the one that is wanted."""
    return [payload("ana", f"k{one}", f"zebra zebra {one}", **fields) for one in range(number)]


def wanted() -> Any:
    return payload("ana", KEY, TEXT, type="preference", tags=("wanted",), metadata={"score": 8})


@EACH
def test_a_filter_finds_the_one_that_matches_behind_hundreds_that_do_not(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    put(service, double, wanted(), *many(300))
    memory = remembering(service, double)
    for name, given in FILTERS.items():
        found = memory.mem_search("ana", "zebra", limit=5, **given)
        told = ([hit.topic_key for hit in found], found.total, found.truncated)
        assert told == ([KEY], 1, False), name


@EACH
def test_expired_memories_take_no_places_of_living_ones(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    put(service, double, wanted(), *many(120, expires_at=ENDED))
    memory = remembering(service, double)
    found = memory.mem_search("ana", "zebra", limit=5)
    assert ([hit.topic_key for hit in found], found.total, found.truncated) == ([KEY], 1, False)
    assert "zebra crossing" in memory.mem_context("ana", query="zebra")


@LOGS
@pytest.mark.parametrize("options", ["", "history=none"])
def test_earlier_revisions_of_one_memory_hide_none_beside_it(
    service: Service, options: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service if service is SUPERMEMORY else service.with_options(options), double)
    memory.mem_save("ana", TEXT, type="decision", title="Title", topic_key=KEY)
    for number in range(60):
        memory.mem_save("ana", f"zebra zebra {number}", type="decision", title="Title", topic_key="often")
    found = memory.mem_search("ana", "zebra")
    assert {hit.topic_key for hit in found} == {KEY, "often"}
    assert (found.total, found.truncated) == (2, False)
    assert [hit.snippet for hit in found if hit.topic_key == "often"] == ["zebra zebra 59"]


@EACH
def test_the_pieces_of_a_long_document_hide_no_short_memory(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    memory.mem_save("ana", TEXT, type="decision", title="Title", topic_key=KEY)
    section = "zebra zebra grass " * 540
    text = "".join(f"# zebra {number}\n\n{section}\n\n" for number in range(100))
    memory.mem_add_document("ana", source="big.md", text=text)
    assert KEY in [hit.topic_key for hit in memory.mem_search("ana", "zebra")]


@EACH
def test_a_search_that_shows_as_many_as_it_saw_says_that_there_may_be_more(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    put(service, double, *many(250))
    memory = remembering(service, double)
    for limit in (50, 100, 200):
        found = memory.mem_search("ana", "zebra", limit=limit)
        assert (len(found), found.truncated) == (limit, True)
    if service.scheme.startswith("cognee"):
        return  # its long contents are none here, so what has the words is all that there is
    everything = memory.mem_search("ana", "zebra", limit=250)
    assert (len(everything), everything.total) == (250, 250)
    assert {hit.topic_key for hit in everything} == {f"k{one}" for one in range(250)}


@pytest.mark.parametrize(
    ("service", "path", "name"),
    [
        (MEM0_PLATFORM, "/search", "results"),
        (MEM0_OSS, "/search", "results"),
        (SUPERMEMORY, "/v4/search", "results"),
        (CORTEXDB, "/recall", "layers"),
        (TINYHUMANS, "/recall", "layers"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_service_that_gives_fewer_than_it_is_asked_for_is_not_taken_at_its_word(
    service: Service, path: str, name: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    put(service, double, wanted(), *many(120))
    memory = remembering(service, double)

    def fifty(answer: Any) -> Any:  # as many as are asked for at first, and never more
        told = inner(answer) if name == "layers" else answer
        if name == "layers":
            told[name]["events"] = told[name]["events"][:50]
        else:
            told[name] = told[name][:50]
        return answer

    with changed(double, path, fifty):
        found = memory.mem_search("ana", "zebra", limit=5, types=["preference"])
    assert ([hit.topic_key for hit in found], found.total, found.truncated) == ([KEY], 1, False)


@pytest.mark.parametrize("service", [SUPERMEMORY, CORTEXDB, MEM0_PLATFORM], ids=lambda service: service.name)
def test_what_only_the_meaning_could_find_behind_a_full_answer_is_told_as_more(
    service: Service, running: Running, remembering: Remembering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyfold.dialects.cortexdb.CortexDB.most_hits", 100)
    monkeypatch.setattr("keyfold.dialects.mem0_platform.Mem0Platform.most_hits", 100)
    double = running(service.double())
    quiet = payload("ana", "quiet", "an animal with stripes", type="preference")
    put(service, double, wanted(), quiet, *many(150))
    memory = remembering(service, double)
    found = memory.mem_search("ana", "zebra", limit=5, types=["preference"])
    assert ([hit.topic_key for hit in found], found.total, found.truncated) == ([KEY], 1, True)
    other = memory.mem_search("ana", "zebra", limit=5, tags=["wanted"])
    assert ([hit.topic_key for hit in other], other.truncated) == ([KEY], False)
    text = memory.mem_context("ana", query="zebra", budget=100_000)
    assert text.truncated


def test_a_listing_that_cannot_be_read_whole_leaves_a_search_that_says_so(
    running: Running, remembering: Remembering
) -> None:
    double = running(SUPERMEMORY.double())
    put(SUPERMEMORY, double, wanted(), *many(150))
    memory = remembering(SUPERMEMORY, double)

    def less(answer: Any) -> Any:
        answer["pagination"]["totalItems"] += 5
        return answer

    with changed(double, "/v4/memories/list", less):
        found = memory.mem_search("ana", "zebra", limit=5, types=["preference"])
    assert (len(found), found.total, found.truncated) == (0, 0, True)


@EACH
def test_an_ordinary_search_costs_what_it_did_and_a_filtered_one_is_bounded(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    put(service, double, wanted(), *many(300))
    memory = remembering(service, double)
    memory.mem_search("ana", "zebra", limit=5)
    double.reset_counts()
    assert len(memory.mem_search("ana", "zebra", limit=5)) == 5
    ordinary = double.count
    assert ordinary == {CORTEXDB.name: 2, TINYHUMANS.name: 2}.get(service.name, 2 if _cognee(service) else 1)
    double.reset_counts()
    assert len(memory.mem_search("ana", "zebra", limit=5, types=["decision"])) == 5
    assert double.count == ordinary
    double.reset_counts()
    assert len(memory.mem_search("ana", "zebra", limit=5, types=["preference"])) == 1
    # asked again for more; on Supermemory, which gives 100, two pages of 200 follow; what is found is looked up
    assert double.count <= {SUPERMEMORY.name: 2 + 2, CORTEXDB.name: 3, TINYHUMANS.name: 3}.get(
        service.name, 2
    )


def _cognee(service: Service) -> bool:
    return service.scheme == COGNEE.scheme


def test_a_memory_made_anew_where_one_expired_is_found_on_cognee(
    running: Running, remembering: Remembering
) -> None:
    double = running(COGNEE.double())
    later = ENDED + timedelta(days=1)
    put(COGNEE, double, payload("ana", KEY, "zebra old", revision=9, expires_at=ENDED))
    put(COGNEE, double, payload("ana", KEY, "zebra new", created_at=later, updated_at=later))
    found = remembering(COGNEE, double).mem_search("ana", "zebra")
    assert [hit.snippet for hit in found] == ["zebra new"]


def test_an_older_state_that_a_filter_lets_through_is_not_shown_for_the_newer_on_cognee(
    running: Running, remembering: Remembering
) -> None:
    double = running(COGNEE.double())
    put(COGNEE, double, payload("ana", KEY, "zebra old", type="preference"))
    put(COGNEE, double, payload("ana", KEY, "zebra new", revision=2))
    memory = remembering(COGNEE, double, clock=SteppedClock())
    assert len(memory.mem_search("ana", "zebra", types=["preference"])) == 0
    assert [hit.snippet for hit in memory.mem_search("ana", "zebra", types=["decision"])] == ["zebra new"]


@pytest.mark.parametrize("service", [COGNEE, COGNEE_UNPAGED], ids=lambda service: service.name)
@pytest.mark.parametrize("code", [404, 422])
def test_long_contents_that_no_server_searched_are_told_as_more_and_asked_for_once_on_cognee(
    service: Service, code: int, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    put(service, double, payload("ana", "short", "a lemon"))
    memory = remembering(service, double)
    if code == 422:
        double.faults.add("status", path="/recall", code=422, times=99)

    async def searched() -> Any:
        async with await service.async_memory(double) as other:
            return await other.mem_search("ana", "zebra")

    for there in (False, True):
        if there:
            put(service, double, payload("ana", "long", "zebra " + "grass " * 400))
        double.reset_counts()
        found = memory.mem_search("ana", "zebra")
        asked = [seen for seen in double.recent if seen.path.endswith("/recall")]
        assert (len(found), found.truncated, len(asked)) == (0, there, 1)
        assert asyncio.run(searched()).truncated is there
    assert [hit.topic_key for hit in memory.mem_search("ana", "lemon")] == ["short"]
