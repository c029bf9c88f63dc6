"""A key that changes while a program runs: what was remembered was learned with the old one, and counts no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest

from keyfold import KeyfoldError, Memory
from keyfold.engines.remote.endpoint import endpoint
from keyfold.engines.remote.transport import AwaitedTransport, BlockingTransport
from keyfold.faces.planned import PlannedEngine
from tests.doubles.cognee import CogneeDouble
from tests.doubles.faults import Seen
from tests.doubles.serving import Double
from tests.remote.common import COGNEE, KEY, SERVICES, Service

BOBS = "bobs-key-1234567"
ALL = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)


class Keys:
    """A credential that changes when it is told."""

    def __init__(self) -> None:
        self.now = KEY

    def __call__(self) -> str:
        return self.now


def renew(double: Any) -> str:
    """Give the user another key; returns it."""
    renewed = "renewed-key-1234567"
    if isinstance(double, CogneeDouble):
        double.users = [replace(user, key=renewed) for user in double.users]
    if hasattr(double, "tokens"):
        double.tokens = dict.fromkeys((renewed,), double.tokens[KEY])
    if hasattr(double, "tenants"):
        double.tenants[renewed] = double.tenant(KEY)
    double.key = renewed
    return renewed


def requests(double: Double) -> list[tuple[str, str]]:
    return [(seen.method, seen.path) for seen in double.recent]


@pytest.fixture
def keys() -> Keys:
    return Keys()


@pytest.fixture
def shared(running: Callable[[Any], Any]) -> CogneeDouble:
    """A Cognee where bob may do everything with every dataset of the first user's that is made by `share`."""
    double: CogneeDouble = running(COGNEE.double())
    double.user("bob", BOBS)
    return double


def share(double: CogneeDouble) -> None:
    """Let everybody read and write every dataset."""
    for dataset in double.store.datasets.values():
        dataset.shared_with.update(user.id for user in double.users)


def test_a_key_of_another_user_reads_and_writes_nothing_of_the_first_ones(
    shared: CogneeDouble, remembering: Any, keys: Keys
) -> None:
    memory: Memory = remembering(COGNEE, shared, credential=keys)
    memory.mem_save("ana", "The first user's.", type="decision", title="T", topic_key="k")
    share(shared)
    keys.now = BOBS
    assert list(memory.mem_list("ana").items) == []
    assert memory.mem_search("ana", "first").total == 0
    assert memory.mem_stats("ana")["total"] == 0
    assert memory.mem_delete("ana", topic_key="k").deleted == 0
    saved = memory.mem_save("ana", "Bob's.", type="decision", title="T", topic_key="k")
    assert (saved.outcome, saved.revision_count) == ("created", 1)
    for key, text in ((KEY, "The first user's."), (BOBS, "Bob's."), (KEY, "The first user's.")):
        keys.now = key
        assert [found.content for found in memory.mem_list("ana").items] == [text]


def test_two_threads_with_keys_of_their_own_see_each_only_their_own(
    shared: CogneeDouble, remembering: Any
) -> None:
    own: ContextVar[str] = ContextVar("own")
    memory: Memory = remembering(COGNEE, shared, credential=own.get)
    seen: dict[str, set[str]] = {KEY: set(), BOBS: set()}
    together = threading.Barrier(2, timeout=30)

    def work(key: str) -> None:
        own.set(key)
        memory.mem_save("ana", f"of {key}", type="decision", title="T", topic_key="k")
        together.wait()
        share(shared)
        together.wait()
        for _ in range(10):
            seen[key].update(found.content for found in memory.mem_list("ana").items)
            seen[key].update(past.record.content for past in memory.engine.everything() if past.record)

    threads = [threading.Thread(target=work, args=(key,)) for key in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {key: {f"of {key}"} for key in seen}


@ALL
def test_what_a_changed_key_asks_is_what_a_fresh_process_with_it_asks(
    service: Service, running: Any, opened: Any, keys: Keys
) -> None:
    """Whatever was remembered shows in the requests that it saves."""
    double: Double = running(service.double())
    memory = Memory(opened(service, double, credential=keys))

    def work(on: Memory) -> list[tuple[str, str]]:
        double.reset_counts()
        for _ in range(2):
            try:
                on.mem_list("ana")
                on.mem_save("ana", "text", type="decision", title="T", topic_key="k")
            except KeyfoldError:
                pass
        return requests(double)

    work(memory)
    warm = work(memory)
    keys.now = renew(double)
    changed = work(memory)
    fresh = work(Memory(opened(service, double, credential=keys)))
    assert changed == fresh
    assert len(warm) <= len(fresh)
    assert work(memory) == warm


@ALL
def test_a_dialect_is_kept_while_the_key_is_the_same_and_made_afresh_when_it_changes(
    service: Service, running: Any, opened: Any, keys: Keys
) -> None:
    engine: PlannedEngine = opened(service, running(service.double()), credential=keys)
    first = engine.plans
    for _ in range(2):
        engine.namespaces()
    assert engine.plans is first
    made = [first]
    for key in (BOBS, KEY, BOBS):
        keys.now = key
        try:
            engine.namespaces()
        except KeyfoldError:
            assert key == BOBS
        made.append(engine.plans)
    assert len({id(plans) for plans in made}) == 4
    assert {type(plans.dialect) for plans in made} == {type(first.dialect)}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_an_awaited_memory_starts_afresh_too(service: Service, running: Any, keys: Keys) -> None:
    double: Double = running(service.double())

    async def run() -> None:
        engine = await service.async_engine(double, credential=keys)
        first = engine.plans
        await engine.namespaces()
        assert engine.plans is first
        keys.now = renew(double)
        assert await engine.namespaces() == []
        assert engine.plans is not first
        await engine.close()

    asyncio.run(run())


@pytest.mark.parametrize("face", [BlockingTransport, AwaitedTransport])
def test_a_transport_counts_the_keys_and_shows_none(face: Any, keys: Keys) -> None:
    transport = face(endpoint("mem0://127.0.0.1:1", scheme=""), lambda: {"x-api-key": keys()})
    numbers: list[int] = []
    for key in (KEY, KEY, BOBS, BOBS, KEY):
        keys.now = key
        numbers.append(transport.key_number())
        assert key not in repr(vars(transport))
    assert numbers == [0, 0, 1, 1, 2]
    asyncio.run(transport.close()) if face is AwaitedTransport else transport.close()


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
@ALL
def test_no_cookie_of_a_service_is_kept_or_sent(
    service: Service, awaited: bool, running: Any, keys: Keys
) -> None:
    double: Double = running(service.double())
    inner: Any = double._carry_out

    async def carried(seen: Seen, scope: Any) -> Any:
        start, *rest = await inner(seen, scope)
        for cookie in (b"auth_token=the-first-users; Path=/", b"b=1; Domain=127.0.0.1; Max-Age=999"):
            start["headers"].append((b"set-cookie", cookie))
        return [start, *rest]

    double._carry_out = carried  # type: ignore[method-assign]

    async def ask() -> None:
        engine = await service.async_engine(double, credential=keys)
        await engine.namespaces()
        await engine.namespaces()
        keys.now = renew(double)
        await engine.namespaces()
        await engine.close()

    if awaited:
        asyncio.run(ask())
    else:
        with service.memory(double, credential=keys) as memory:
            memory.mem_list("ana")
            memory.mem_list("ana")
            keys.now = renew(double)
            memory.mem_list("ana")
    assert len(double.seen) >= 3
    assert [seen.headers["cookie"] for seen in double.seen if "cookie" in seen.headers] == []
