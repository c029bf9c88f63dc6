"""What a search found stays found when the service then fails: it is shown, and said to be not all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold import KeyfoldError, Memory
from keyfold.errors import Unauthorized, Unavailable
from tests.remote.common import CORTEXDB, MEM0_OSS, MEM0_PLATFORM, SUPERMEMORY, TINYHUMANS, Service, payload
from tests.remote.cortexdb_service import hasty
from tests.remote.test_search_whole import put

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

ENDED = datetime(2026, 1, 2, tzinfo=UTC)
SEARCHES = {
    MEM0_PLATFORM: "/search",
    MEM0_OSS: "/search",
    SUPERMEMORY: "/v4/search",
    CORTEXDB: "/recall",
    TINYHUMANS: "/recall",
}
LISTINGS = {
    MEM0_PLATFORM: "/v3/memories/",
    MEM0_OSS: "/memories",
    SUPERMEMORY: "/v4/memories/list",
    CORTEXDB: "/events",
    TINYHUMANS: "/events",
}
EACH = pytest.mark.parametrize("service", SEARCHES, ids=lambda service: service.name)
FACES = pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")


def seeded(service: Service, double: Any) -> Any:
    """A double with two living memories that match best, and more expired ones than are asked for at first."""
    put(
        service,
        double,
        *(payload("ana", f"good{one}", "zebra crossing", type="preference") for one in range(2)),
    )
    put(service, double, *(payload("ana", f"k{n}", f"zebra grass {n}", expires_at=ENDED) for n in range(60)))
    return double


def searched(service: Service, double: Any, *, awaited: bool) -> Any:
    """What a search gives, its keys and whether there is more, or the error that it raises, on either face."""

    def told(found: Any) -> Any:
        return sorted(hit.topic_key for hit in found), found.truncated

    async def search() -> Any:
        async with await service.async_memory(double, timeout=3.0) as memory:
            try:
                return told(await memory.mem_search("ana", "zebra crossing", limit=5))
            except KeyfoldError as error:
                return error

    if awaited:
        return asyncio.run(search())
    memory = service.memory(double, timeout=3.0)
    try:
        return told(memory.mem_search("ana", "zebra crossing", limit=5))
    except KeyfoldError as error:
        return error
    finally:
        memory.close()


@EACH
@FACES
@pytest.mark.parametrize("code", [0, 400, 401, 422, 429, 502])
def test_what_was_found_is_shown_when_the_service_cannot_be_asked_for_more(
    service: Service, code: int, awaited: bool, running: Running
) -> None:
    double = seeded(service, running(service.double()))
    kind, how = ("status", {"code": code}) if code else ("drop", {})
    double.faults.add(kind, path=SEARCHES[service], skip=1, times=99, **how)
    keys, more = searched(service, double, awaited=awaited)
    assert keys == ["good0", "good1"]
    # Where only more than so many is refused, the listing tells the rest: there is none.
    assert more is (code not in (400, 401, 422))


@EACH
@FACES
@pytest.mark.parametrize("code", [400, 401, 503])
def test_what_was_found_is_shown_when_the_listing_cannot_be_read(
    service: Service, code: int, awaited: bool, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = seeded(service, running(service.double()))
    monkeypatch.setattr("keyfold.dialects.cortexdb.CortexDB.most_hits", 50)
    monkeypatch.setattr("keyfold.dialects.mem0_oss.Mem0Oss.most_hits", 50)
    monkeypatch.setattr("keyfold.dialects.mem0_platform.Mem0Platform.most_hits", 50)
    monkeypatch.setattr("keyfold.dialects.supermemory.Supermemory.most_hits", 50)
    looked_up = int(service in (CORTEXDB, TINYHUMANS))  # what a recall finds is looked up in a listing too
    fault = double.faults.add("status", path=LISTINGS[service], code=code, times=99, skip=looked_up)
    if service in (MEM0_PLATFORM, MEM0_OSS):
        fault.path = None
        fault.skip = 1
    assert searched(service, double, awaited=awaited) == (["good0", "good1"], True)
    assert fault.struck


@EACH
@FACES
@pytest.mark.parametrize(("code", "kind"), [(503, Unavailable), (401, Unauthorized)])
def test_a_search_that_has_nothing_to_show_says_that_the_service_failed(
    service: Service, code: int, kind: type[KeyfoldError], awaited: bool, running: Running
) -> None:
    double = running(service.double())
    put(service, double, *(payload("ana", f"k{n}", f"zebra grass {n}", expires_at=ENDED) for n in range(60)))
    double.faults.add("status", path=SEARCHES[service], skip=1, times=99, code=code)
    assert isinstance(searched(service, double, awaited=awaited), kind)


@pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)
def test_what_a_recall_found_is_shown_when_what_was_written_last_cannot_be_waited_for(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    for key in ("a", "b"):
        if key == "b":
            memory.mem_search("ana", "zebra")
            double.knobs.recall_lag, double.knobs.recall_lag_seconds = 99, float("inf")
        memory.mem_save("ana", f"zebra {key}", type="decision", title="T", topic_key=key)
    double.faults.add("status", path="/recall", code=502, skip=1, times=999)
    found = memory.mem_search("ana", "zebra")
    assert ([hit.topic_key for hit in found], found.truncated) == (["a"], True)
