"""Any sequence of calls means the same on the embedded engine as on the reference: answers, errors and state."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from keyfold.conformance import SteppedClock
from keyfold.conformance.world import digest, once
from keyfold.contract.filters import Filter, conditions
from keyfold.contract.intents import (
    FoundPage,
    Intent,
    Load,
    Page,
    Query,
    Ref,
    SearchQuery,
    Selector,
    SessionLapsed,
    SessionUse,
)
from keyfold.contract.protocols import Engine
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import KeyfoldError
from keyfold.model import KINDS, UNSET, Config, DeleteResult, Receipt
from keyfold.registry import open_engine

SPACES = ("team", "team/a", "team/a/b", "Team", "teammate", "t%m")
KEYS = ("auth/model", "Auth Model", "auth-model", "a", "ключ", "a%b")
TEXTS = (
    "apple pear",
    "Apple apple and plum",
    "to be or not to be",
    "東京都の天気",
    "crème brûlée",
    "state-of-the-art",
    "!",
    "pear",
)
QUERIES = (
    "apple",
    "apple pear",
    "plum weather",
    "to be",
    "東京",
    "creme",
    "art",
    "decision",
    "auth",
    '"',
    "red",
    "to apple",
)
TAGS: tuple[Any, ...] = (UNSET, None, (), ("red",), ("red", "blue"), ("blue", "red"))
METADATA: tuple[Any, ...] = (
    UNSET,
    None,
    {},
    {"n": 1},
    {"n": 10, "s": "x"},
    {"n": "10"},
    {"n": True, "o": {"p": [1]}},
)
FILTERS = (
    Filter(),
    Filter(types=("decision",)),
    Filter(types_exclude=("decision",)),
    Filter(tags=("red", "blue")),
    Filter(tags_any=("blue",)),
    Filter(pinned=True),
    Filter(topic_prefix="a"),
    Filter(topic_prefix="a%"),
    Filter(session_id="s1"),
    Filter(metadata=conditions({"n": {"gte": 1}})),
    Filter(metadata=conditions({"n": {"ne": 1}}), types=("decision", "profile")),
    Filter(metadata=conditions({"o.p": {"eq": [1]}})),
)


class Pair:
    """Two engines that are asked the same."""

    def __init__(self, path: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = SteppedClock()
        config = Config(clock=self.clock, keep_revisions=self.random.choice((None, None, 3, 1)))
        self.engines: tuple[Engine, Engine] = (InMemoryEngine(config), open_engine(path, config=config))
        self.ids = ["1"]

    def same(self, call: Callable[[Engine], Any], what: object) -> None:
        reference, other = (self._answer(engine, call) for engine in self.engines)
        assert other == reference, what
        for item in other if isinstance(other, list) else [other]:
            if isinstance(item, Receipt):
                self.ids.append(item.id)

    def _answer(self, engine: Engine, call: Callable[[Engine], Any]) -> Any:
        try:
            answer = call(engine)
        except (KeyfoldError, SessionLapsed) as error:
            return type(error), getattr(error, "current_revision", None), getattr(error, "existing_id", None)
        return _comparable(answer)

    def close(self) -> None:
        for engine in self.engines:
            engine.close()


def _comparable(answer: Any) -> Any:
    """Without what differs by nature: minted keys are random, and erasure is a matter of files."""
    if isinstance(answer, DeleteResult):
        return replace(answer, erased=bool(answer.erased))
    if isinstance(answer, Page):
        items = [replace(record, key="minted" if record.minted else record.key) for record in answer.items]
        return items, answer.total, None if answer.position is None else "more"
    if isinstance(answer, FoundPage):
        return [(hit.record.id, round(hit.score, 9)) for hit in answer.items], answer.total
    return answer


def _intent(pair: Pair) -> Intent:
    pick = pair.random.choice
    now = pair.clock()
    text = pick(TEXTS)
    mode = pick(("upsert", "upsert", "upsert", "upsert", "update", "append", "load"))
    kind = pick(("observation", "observation", "observation", "document", "turn", "session"))
    key = pick(KEYS) if mode != "upsert" or kind != "observation" else pick((*KEYS, None, None, None))
    update_by_id = mode == "update" and pick((True, False))
    return Intent(
        pick(SPACES),
        kind=kind,
        mode=mode,
        key=None if update_by_id else key,
        id=pick(pair.ids) if update_by_id else None,
        type=pick(("decision", "profile")),
        title=pick(("One", "Two")),
        content=text,
        normalized_hash=digest(text),
        metadata=pick(METADATA),
        tags=pick(TAGS),
        pinned=pick((UNSET, UNSET, True, False, None)),
        expires_at=pick(
            (UNSET, UNSET, UNSET, UNSET, None, now + timedelta(seconds=20), now - timedelta(seconds=1))
        ),
        observed_at=pick((None, None, now)),
        taint=pick(("internal", "internal", "external")),
        session=pick((None, _session(pair))),
        dedup_window=pick((60.0, 60.0, 0, None)),
        dedup_on=pick(("material", "material", "content")),
        expect_revision=pick((None, None, None, None, 0, 1, 2)),
        expect_type=pick((None, None, None, None, None, "decision")) if key or update_by_id else None,
        idempotency=pick((None, None, None, once(pick("kl"), pick(("b1", "b2")), pick(("save", "log"))))),
        load=Load(now - timedelta(days=1), now - timedelta(seconds=pick((0, 5, 50))))
        if mode == "load"
        else None,
    )


def _session(pair: Pair) -> SessionUse:
    pick = pair.random.choice
    alive = pick((None, pair.clock() - timedelta(seconds=30)))
    return SessionUse(
        pick(("s1", "s2")), explicit=pick((True, True, False)), opens=pick((True, False)), alive_since=alive
    )


def _selector(pair: Pair) -> Selector:
    pick = pair.random.choice
    space = pick(SPACES)
    how: dict[str, Any] = pick(
        (
            {"ref": Ref(space, id=pick(pair.ids))},
            {"ref": Ref(space, key=pick(KEYS), kind=pick(KINDS))},
            {"where": pick(FILTERS[1:])},
            {"everything": True, "reach": pick(("exact", "subtree"))},
        )
    )
    use = pick((None, once(pick("kl"), pick(("b1", "b2")), "delete")))
    return Selector(space, dry_run=pick((True, False)), idempotency=use, **how)


def _write(pair: Pair) -> None:
    pick = pair.random.choice
    if pick((True,) + (False,) * 8):
        selector = _selector(pair)
        pair.same(lambda engine: engine.forget(selector), selector)
        return
    batch = [_intent(pair) for _ in range(pick((1, 1, 1, 3)))]
    if len(batch) == 1:
        pair.same(lambda engine: engine.store(batch[0]), batch)
    else:
        pair.same(lambda engine: engine.store_many(batch), batch)


def _read(pair: Pair) -> None:
    """Everything that can be read, of one namespace and reach."""
    pick = pair.random.choice
    space, reach, where = pick(SPACES), pick(("exact", "inherit", "subtree")), pick(FILTERS)
    kinds = pick((KINDS, KINDS[:4], KINDS[:1], KINDS[1:3]))
    base = Query(space, reach, kinds, where, keyed_only=pick((False, False, True)), limit=pick((1, 3, 100)))
    # By key only what is keyed: minted keys are random, and so is their order.
    for query in (base, replace(base, order="oldest"), replace(base, order="key", keyed_only=True)):
        pair.same(lambda engine, query=query: engine.page(query), query)  # type: ignore[misc]
        pair.same(lambda engine, query=query: _pages(engine, query), query)  # type: ignore[misc]
    search = SearchQuery(space, pick(QUERIES), reach, kinds[:4], where, pick((1, 3, 100)))
    pair.same(lambda engine: engine.search(search), search)
    pair.same(lambda engine: engine.count(space, reach), ("count", space, reach))
    pair.same(lambda engine: engine.namespaces(), "namespaces")
    pair.same(lambda engine: engine.namespaces(space), ("namespaces", space))
    for ref in (Ref(space, id=pick(pair.ids)), Ref(space, key=pick(KEYS), kind=pick(KINDS))):
        pair.same(lambda engine, ref=ref: engine.history(ref).revisions, ref)  # type: ignore[misc]


def _pages(engine: Engine, query: Query) -> list[str]:
    ids: list[str] = []
    position: str | None = None
    while True:
        page = engine.page(replace(query, position=position, limit=2))
        ids += [record.id for record in page.items]
        position = page.position
        if position is None:
            return ids


@pytest.mark.parametrize("seed", range(15))
def test_engines_agree_on_any_sequence_of_calls(seed: int, tmp_path: Any) -> None:
    pair = Pair(str(tmp_path / "memory.db"), seed)
    try:
        for _ in range(150):
            _write(pair)
            if pair.random.random() < 0.3:
                pair.clock.step(pair.random.choice((0.0, 0.5, 7.0, 61.0, -3.0, 90_000.0)))
            if pair.random.random() < 0.3:
                _read(pair)
        _read(pair)
    finally:
        pair.close()
