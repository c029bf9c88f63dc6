"""Whatever is written in whatever order, the embedded engine answers as the reference engine does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyfold.contract.filters import Filter
from keyfold.contract.intents import (
    Intent,
    Load,
    Query,
    Ref,
    SearchQuery,
    Selector,
    SessionLapsed,
    SessionUse,
)
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.engines.sqlite import SqliteEngine, bulk, index
from keyfold.engines.sqlite.index import SHORT
from keyfold.errors import KeyfoldError
from keyfold.model import KINDS, UNSET, Config, Revision
from tests.engines.common import note

WORDS = [
    "apple",
    "apples",
    "pie",
    "naïve",
    "Café",
    "state-of-the-art",
    "the",
    "of",
    "東京",
    "userName",
    "v1.14.0",
    "a-b",
]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
long_texts = texts.map(lambda text: text + " filler" * (SHORT // 7 + 1))
names = st.sampled_from(["me", "me", "me", "me", "me/below", "me/below/deep", "mean", "%"])
keys = st.sampled_from(["a", "A", "b-b", "B_b", "c"])
sessions = st.one_of(
    st.none(),
    st.builds(SessionUse, st.sampled_from("st"), explicit=st.booleans(), opens=st.booleans()),
)
FORMER = Revision(
    1, "apple pie", "Former", "decision", {}, (), None, datetime(2025, 1, 1, tzinfo=UTC), False, "0" * 64
)
saves = st.builds(
    note,
    st.one_of(st.none(), keys),
    st.one_of(texts, texts, texts, long_texts),
    names,
    title=texts,
    kind=st.sampled_from(["observation", "observation", "document", "summary"]),
    type=st.sampled_from(["decision", "pattern"]),
    tags=st.sampled_from([UNSET, (), ("x",), ("x", "apple")]),
    metadata=st.sampled_from([UNSET, None, {"a": 1}, {"a": [True, None], "b": {"c": "d"}}]),
    pinned=st.sampled_from([UNSET, True, None]),
    expires_at=st.sampled_from([UNSET, UNSET, datetime(2026, 1, 1, 0, 1, tzinfo=UTC)]),
    session=sessions,
    expect_revision=st.sampled_from([None, None, None, 0, 1, 2]),
)
patches = st.builds(
    lambda key, namespace, **more: Intent(namespace, key=key, mode="update", **more),
    keys,
    names,
    title=st.one_of(st.just(UNSET), texts),
    tags=st.sampled_from([UNSET, ("pie",)]),
    metadata=st.sampled_from([UNSET, {"a": UNSET, "n": 2}]),
)
forgets = st.one_of(
    st.builds(lambda name, key: Selector(name, ref=Ref(name, key=key)), names, keys),
    st.builds(lambda name: Selector(name, where=Filter(types=("pattern",))), names),
    st.builds(
        lambda name, tags: Selector(name, where=Filter(tags=tags), reach="subtree"), names, st.just(("x",))
    ),
    st.builds(lambda name: Selector(name, everything=True), names),
)
moments = st.datetimes(datetime(2025, 1, 1), datetime(2026, 2, 1), timezones=st.just(UTC))  # noqa: DTZ001  # aware by timezones
loads = st.builds(
    lambda save, load: replace(save, mode="load", key=save.key or "0", expect_revision=None, load=load),
    saves,
    st.builds(
        lambda one, two, past: Load(*sorted([one, two]), past=past, revision=len(past) + 1),
        moments,
        moments,
        st.sampled_from([(), (), (FORMER,)]),
    ),
)
batches = st.lists(st.one_of(loads, saves, patches), min_size=2, max_size=20)
steps = st.lists(st.one_of(saves, saves, saves, patches, forgets, batches), min_size=12, max_size=50)


def answer(engine: Any, step: Any) -> Any:
    """What a write answers, an error by its class."""
    try:
        if isinstance(step, list):
            results = engine.store_many(step)
        else:
            results = [engine.forget(step) if isinstance(step, Selector) else engine.store(step)]
    except (KeyfoldError, SessionLapsed) as error:
        return type(error).__name__
    return [
        {name: value for name, value in result.to_dict().items() if name != "topic_key"} for result in results
    ]


def view(record: Any) -> dict[str, Any]:
    """A record but for what is random: a minted key."""
    given = record.to_dict()
    return {**given, "key": None if record.minted else record.key}


def state(engine: Any) -> list[Any]:
    """All that reads can tell."""
    seen: list[Any] = [engine.namespaces(), engine.namespaces("me")]
    for name in ("me", "me/below", "mean", "%"):
        for reach in ("exact", "inherit", "subtree"):
            seen.append(
                engine.count(name, reach).to_dict()
                if hasattr(engine.count(name), "to_dict")
                else engine.count(name, reach)
            )
            for where in (Filter(), Filter(tags=("x",)), Filter(topic_prefix="b"), Filter(pinned=True)):
                for order in ("newest", "oldest"):
                    seen.append(pages(engine, Query(name, reach, KINDS, where, order, limit=3)))  # noqa: PERF401
            seen.append(pages(engine, Query(name, reach, order="key", keyed_only=True, limit=2)))
    for key in ("a", "A", "b-b"):
        past = engine.history(Ref("me", key=key))
        seen.append([revision.to_dict() for revision in past.revisions])
    return seen


def pages(engine: Any, query: Query) -> list[Any]:
    """A listing, page by page."""
    found: list[Any] = []
    position: str | None = None
    while True:
        page = engine.page(
            Query(
                query.namespace,
                query.reach,
                query.kinds,
                query.where,
                query.order,
                query.keyed_only,
                position,
                query.limit,
            )
        )
        found += [page.total, *map(view, page.items)]
        position = page.position
        if position is None:
            return found


def searches(engine: Any) -> list[Any]:
    """What searches find, with their scores."""
    found = []
    for text in ("apple", "pie naive cafe", "the of", "東京 state of the art", "???", "user 1.14.0"):
        for name, reach in (("me", "exact"), ("me", "subtree"), ("me/below/deep", "inherit")):
            page = engine.search(SearchQuery(name, text, reach, limit=5))
            found.append((page.total, [(hit.record.id, pytest.approx(hit.score)) for hit in page.items]))
            page = engine.search(SearchQuery(name, text, reach, where=Filter(tags=("x",)), limit=5))
            found.append((page.total, [(hit.record.id, pytest.approx(hit.score)) for hit in page.items]))
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps, batch=st.sampled_from([1, 2, 16]))
def test_the_embedded_engine_answers_as_the_reference_engine(steps: list[Any], batch: int) -> None:
    moment = [datetime(2026, 1, 1, tzinfo=UTC)]
    config = Config(clock=lambda: moment[0], keep_revisions=3)
    reference, engine = InMemoryEngine(config), SqliteEngine.open(":memory:", config=config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "BATCH", batch)
        patch.setattr(bulk, "WORTH", batch)
        for step in steps:
            moment[0] += timedelta(seconds=3)
            assert answer(engine, step) == answer(reference, step), step
        assert state(engine) == state(reference)
        assert searches(engine) == searches(reference)
        engine.reindex()
        assert searches(engine) == searches(reference)
    engine.close()
