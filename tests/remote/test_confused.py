"""A service that takes one user for another: nothing of theirs is shown, and nobody is told to have nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from keyfold import Memory
from keyfold.contract.intents import Query
from keyfold.dialects.cortexdb_envelope import item_label
from keyfold.dialects.names import digest_of
from keyfold.errors import StoreError
from keyfold.portability import export
from tests.doubles.faults import Seen
from tests.doubles.serving import Double
from tests.remote.common import KEY, MEM0_PLATFORM, SERVICES, Service

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]

EACH = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
OURS, THEIRS = "aunt", "bert"
KEYS = ("one", "two")


def confuse(service: Service, double: Double) -> None:
    """Let the double answer every read about one user as if the other had been named."""
    names = [(OURS, THEIRS)]
    for key in KEYS:
        ours, theirs = digest_of(OURS, key), digest_of(THEIRS, key)
        names += [(ours, theirs), (item_label(ours), item_label(theirs))]
    if service.scheme.startswith("cognee"):
        with httpx2.Client(base_url=double.url, headers={"X-Api-Key": KEY}) as client:
            homes = {item["name"]: item["id"] for item in client.get("/api/v1/datasets").json()}
        names.append((homes[f"kf-{OURS}"], homes[f"kf-{THEIRS}"]))
    whole = double._carry_out

    def other(text: str) -> str:
        for ours, theirs in names:
            text = text.replace(ours, theirs)
        return text

    async def carried_out(seen: Seen, scope: Any) -> Any:
        posted = ("search", "/list", "/recall", "/v3/memories")
        reads = seen.method == "GET" or (seen.path.rstrip("/").endswith(posted) and seen.method == "POST")
        if reads and not seen.path.endswith(("/datasets", "/entities")):
            body, path = other(seen.body.decode()).encode(), other(scope["path"])
            headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
            headers.append((b"content-length", str(len(body)).encode()))
            query = other(scope["query_string"].decode()).encode()
            seen = dataclasses.replace(seen, body=body)
            scope = {**scope, "path": path, "raw_path": path.encode(), "query_string": query}
            scope["headers"] = headers
        return await whole(seen, scope)

    double._carry_out = carried_out  # type: ignore[method-assign]


@EACH
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_listing_of_other_users_alone_is_an_error_and_changes_nothing(
    service: Service, warm: bool, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    for user in (OURS, THEIRS):
        for key in KEYS:
            memory.mem_save(user, f"{user}'s {key} zebra", type="decision", title="T", topic_key=key)
    whole = double._carry_out
    confuse(service, double)
    confused = memory if warm else remembering(service, double)
    calls: dict[str, Callable[[], object]] = {
        "list": lambda: confused.mem_list(OURS),
        "topics": lambda: confused.mem_topics(OURS),
        "search": lambda: confused.mem_search(OURS, "zebra"),
        "count": lambda: confused.mem_stats(OURS),
        "forget all": lambda: confused.mem_delete(OURS, all=True),
        "forget by a filter": lambda: confused.mem_delete(OURS, filter={"types": ["decision"]}),
    }
    for name, call in calls.items():
        with pytest.raises(StoreError, match=rf"'{OURS}' and listed 2 memories of other users"):
            pytest.fail(f"{name} gave {call()!r:.200}")
    double._carry_out = whole
    fresh = remembering(service, double)
    for user in (OURS, THEIRS):
        assert {record.content for record in fresh.mem_list(user)} == {
            f"{user}'s {key} zebra" for key in KEYS
        }
    assert len(list(export(fresh.engine))) == 4 + 2


@pytest.mark.parametrize(
    "service",
    # Mem0's platform lists all users at once, and each row says whose it is.
    [service for service in SERVICES if service is not MEM0_PLATFORM],
    ids=lambda service: service.name,
)
def test_an_export_does_not_leave_out_a_user_whose_listing_is_anothers(
    service: Service, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    for user in (OURS, THEIRS):
        for key in KEYS:
            memory.mem_save(user, f"{user}'s {key}", type="decision", title="T", topic_key=key)
    engine = memory.engine
    assert engine.page(Query(OURS)).total == 2
    confuse(service, double)
    with pytest.raises(StoreError, match=r"of other users|does not add up"):
        list(export(engine))
