"""Engines whose histories, forgets or clocks have one small fault each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from keyfold.clock import EPOCH
from keyfold.contract.filters import EVERYTHING
from keyfold.contract.intents import Past, Ref, Selector
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.engines.inmemory.state import State
from keyfold.errors import InvalidRequest, NotFound
from keyfold.model import SESSION, Config, DeleteResult
from tests.conformance.faulty import broken, forgets


def _parent(namespace: str) -> str:
    return namespace.rpartition("/")[0]


forgets("ForgetsNothing", lambda s: replace(s, dry_run=True))
forgets("DryRunsForReal", lambda s: replace(s, dry_run=False))
forgets("ForgetsTwice", lambda s: replace(s, idempotency=None))
forgets("ForgetsWithoutFilter", lambda s: replace(s, where=s.where and EVERYTHING))
forgets("ForgetsTheSubtree", lambda s: replace(s, reach="subtree"))
forgets("ForgetsExactly", lambda s: replace(s, reach="exact"))
forgets("KeepsSessions", lambda s: replace(s, everything=False, where=EVERYTHING) if s.everything else s)
forgets(
    "ForgetsSiblings",
    lambda s: replace(s, namespace=_parent(s.namespace), reach="subtree") if s.everything else s,
)


@broken
class KeepsEveryState(InMemoryEngine):
    def __init__(self, config: Config) -> None:
        super().__init__(replace(config, keep_revisions=None))


@broken
class HistoryOldestFirst(InMemoryEngine):
    def history(self, ref: Ref) -> Past:
        past = super().history(ref)
        return replace(past, revisions=past.revisions[::-1])


@broken
class HistoryForAnyone(InMemoryEngine):
    def history(self, ref: Ref) -> Past:
        with self._reading() as (state, _):
            entry = state.entries.get(ref.id or "")
        return super().history(replace(ref, namespace=entry.record.namespace) if entry else ref)


@broken
class KeepsTheHistoryOfTheForgotten(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        past = super().history(selector.ref) if selector.ref else Past(None, ())
        self._buried = {**getattr(self, "_buried", {}), selector.ref: past} if past.record else {}
        return super().forget(selector)

    def history(self, ref: Ref) -> Past:
        past = super().history(ref)
        return past if past.record else getattr(self, "_buried", {}).get(ref, past)


@broken
class ReusesIds(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        result = super().forget(selector)
        with self._writing() as (state, _):
            state.last_id = max(map(int, state.entries), default=0)
        return result


@broken
class ForgetsAnyId(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        with self._reading() as (state, _):
            entry = state.entries.get((selector.ref and selector.ref.id) or "")
        if entry and selector.ref:
            selector = replace(selector, ref=replace(selector.ref, namespace=entry.record.namespace))
        return super().forget(selector)


@broken
class MissesLoudly(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        result = super().forget(selector)
        if not result.deleted:
            raise NotFound("there is nothing to forget")
        return result


@broken
class ForgetsAllWhenNotTold(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        try:
            return super().forget(selector)
        except InvalidRequest:
            return super().forget(Selector(selector.namespace, everything=True))


@broken
class ForgetsWhatLiesBelow(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        if selector.ref and selector.ref.key and not selector.dry_run:
            where = replace(EVERYTHING, topic_prefix=selector.ref.key + "/")
            super().forget(Selector(selector.namespace, where=where))
        return super().forget(selector)


@broken
class SessionsTakeTheirRecords(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        if selector.ref and selector.ref.kind == SESSION:
            super().forget(
                Selector(selector.namespace, where=replace(EVERYTHING, session_id=selector.ref.key))
            )
        return super().forget(selector)


@broken
class ReadsTheExpired(InMemoryEngine):
    @contextmanager
    def _reading(self) -> Iterator[tuple[State, datetime]]:
        with super()._reading() as (state, _):
            yield state, EPOCH

    @contextmanager
    def _writing(self) -> Iterator[tuple[State, datetime]]:
        with super()._writing() as (state, _):
            yield state, self._clock()


@broken
class ExpiresLate(InMemoryEngine):
    @contextmanager
    def _reading(self) -> Iterator[tuple[State, datetime]]:
        with super()._reading() as (state, now):
            yield state, now - timedelta(microseconds=1)
