"""Engines whose writes have one small fault each."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from keyfold.clock import EPOCH
from keyfold.contract.decide import past_of
from keyfold.contract.intents import Intent, Ref, Selector, SessionUse
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.engines.inmemory.state import Entry, Kept, State
from keyfold.errors import InvalidRequest, KeyfoldError
from keyfold.model import ACTIVE, OBSERVATION, SESSION, UNSET, DeleteResult, Receipt, Record
from tests.conformance.faulty import answers, broken, writes

answers("CountsFromNought", lambda r: replace(r, revision_count=r.revision_count - 1))
answers("NeverSaysReplayed", lambda r: replace(r, replayed=False))
answers("NamesNoSimilarKeys", lambda r: replace(r, similar_keys=()))
answers("InventsKeys", lambda r: replace(r, topic_key=r.topic_key or "key"))
writes("DropsObservedAt", lambda i: replace(i, observed_at=None))
writes("ComparesContentOnly", lambda i: replace(i, dedup_on="content"))
writes("ComparesEverything", lambda i: replace(i, dedup_on="material"))
writes("IgnoresExpectedRevisions", lambda i: replace(i, expect_revision=None))
writes("IgnoresExpectedTypes", lambda i: replace(i, expect_type=None))
writes("TrimsKeys", lambda i: replace(i, key=i.key and i.key.strip()))
writes("ForgetsKinds", lambda i: replace(i, kind=i.kind if i.kind == SESSION else OBSERVATION))
writes("AppendsOverwrite", lambda i: replace(i, mode="upsert" if i.mode == "append" else i.mode))
writes("WashesTaint", lambda i: replace(i, taint="internal"))
writes("StoresDuplicates", lambda i: replace(i, dedup_window=0))
writes("WindowIsAlwaysAMinute", lambda i: replace(i, dedup_window=60.0))
writes("WindowHasNoEnd", lambda i: replace(i, dedup_window=i.dedup_window and None))
writes("IgnoresIdempotency", lambda i: replace(i, idempotency=None))
writes("IgnoresSessions", lambda i: replace(i, session=None))
writes("ImportsAsNew", lambda i: replace(i, mode="upsert" if i.load else i.mode, load=None))
writes("ImportsMintedAsGiven", lambda i: replace(i, minted=False))
writes("ImportsWithoutPast", lambda i: replace(i, load=i.load and replace(i.load, past=())))
writes("NormalisesTexts", lambda i: replace(i, content=unicodedata.normalize("NFC", str(i.content))))
writes("CutsTexts", lambda i: replace(i, content=str(i.content)[:65_536]))
writes("TrimsTexts", lambda i: replace(i, content=str(i.content).strip() or "empty"))
writes("EscapesTexts", lambda i: replace(i, content=html.escape(str(i.content))))
writes("SortsTags", lambda i: replace(i, tags=tuple(sorted(i.tags)) if i.tags else i.tags))
writes("SortsMetadata", lambda i: replace(i, metadata=_sorted(i.metadata) if i.metadata else i.metadata))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return value


def _written(name: str) -> Any:
    """Make a fault in what a carried out write leaves behind: a function of the state and what was written."""

    def decorate(spoil: Any) -> Any:
        def store_many(self: Any, intents: Sequence[Intent]) -> list[Receipt]:
            receipts = InMemoryEngine.store_many(self, intents)
            with self._writing() as (state, now):
                for intent, receipt in zip(intents, receipts, strict=True):
                    spoil(self, state, now, intent, receipt)
            return receipts

        broken(type(name, (InMemoryEngine,), {"store_many": store_many}))
        return spoil

    return decorate


@_written("MovesTimesOnRepeats")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    if receipt.outcome == "deduped":
        entry = state.entries[receipt.id]
        state.put(Entry(replace(entry.record, updated_at=now + timedelta(seconds=1)), entry.past))


@_written("TouchesSessionsOnRepeats")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    if receipt.outcome == "deduped" and intent.session is not None:
        self._use_session(state, intent.namespace, replace(intent.session, explicit=True), now)


@_written("RecordsRepeats")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    if receipt.outcome == "deduped" and receipt.id in state.entries:
        entry = state.entries[receipt.id]
        state.put(Entry(entry.record, (*entry.past, past_of(entry.record))))


@_written("TrustsTheClock")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    if receipt.outcome == "updated" and intent.load is None:
        entry = state.entries[receipt.id]
        state.put(Entry(replace(entry.record, updated_at=now), entry.past))


@_written("ImportsOpenSessions")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    if intent.load is not None:
        self._use_session(state, intent.namespace, intent.session, now)


@_written("KeepsKeysForEver")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    state.kept = {key: replace(kept, at=now + timedelta(days=9)) for key, kept in state.kept.items()}


@_written("KeysOfAllOperations")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    for (namespace, _, key), kept in list(state.kept.items()):
        state.kept[namespace, "other", key] = kept


@_written("LosesTagsOfPastStates")
def _(self: Any, state: State, now: datetime, intent: Intent, receipt: Receipt) -> None:
    if receipt.outcome == "updated":
        entry = state.entries[receipt.id]
        state.put(Entry(entry.record, tuple(replace(past, tags=()) for past in entry.past)))


@broken
class AlwaysInserts(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        held = super()._held(state, intent, now)
        return held if intent.mode in ("update", "load", "append") else None


@broken
class ImportsTwice(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        return None if intent.mode == "load" else super()._held(state, intent, now)


@broken
class MindsTheOrderOfTags(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        held = super()._held(state, intent, now)
        return replace(held, tags=()) if held and intent.tags and held.tags != intent.tags else held


@broken
class DedupsAcrossKeys(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        held = super()._held(state, intent, now)
        if held or intent.mode != "upsert":
            return held
        mine = state.within(intent.namespace, "exact", [intent.kind], now)
        return next((e.record for e in mine if e.record.normalized_hash == intent.normalized_hash), None)


@broken
class DedupsAcrossNamespaces(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        held = super()._held(state, intent, now)
        if held or intent.key or intent.id:
            return held
        digest = intent.normalized_hash
        found = [entry.record for entry in state.live(now) if entry.record.normalized_hash == digest]
        return found[0] if found and intent.dedup_window else None


@broken
class WritesOverTheExpired(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        return super()._held(state, intent, EPOCH)


@broken
class ClearsWhatIsNotPassed(InMemoryEngine):
    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        fields = ("metadata", "tags", "pinned", "expires_at")
        return super().store_many(
            [replace(i, **{name: getattr(i, name) or None for name in fields}) for i in intents]
        )


@broken
class KeepsWhatIsCleared(InMemoryEngine):
    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        fields = ("metadata", "tags", "pinned", "expires_at")
        changed = []
        for intent in intents:
            cleared = {name: UNSET for name in fields if getattr(intent, name) is None}
            changed.append(replace(intent, **cleared))
        return super().store_many(changed)


@broken
class PatchesAreSaves(InMemoryEngine):
    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        changed = []
        for intent in intents:
            given = {key: value for key, value in (intent.metadata or {}).items() if value is not UNSET}
            upsert = replace(intent, mode="upsert", metadata=given or UNSET)
            changed.append(upsert if intent.mode == "update" else intent)
        return super().store_many(changed)


@broken
class ChangesNothingById(InMemoryEngine):
    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        return None if intent.id else super()._held(state, intent, now)


@broken
class SharesMetadata(InMemoryEngine):
    def get(self, ref: Ref) -> Record | None:
        with self._reading() as (state, now):
            entry = state.find(ref, now)
            return entry and entry.record


@broken
class BatchesBackwards(InMemoryEngine):
    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        return super().store_many(intents[::-1])[::-1]


@broken
class BatchesOneByOne(InMemoryEngine):
    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        return [InMemoryEngine.store_many(self, [intent])[0] for intent in intents]


@broken
class FailedWritesTakeKeys(InMemoryEngine):
    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        try:
            return super().store_many(intents)
        except KeyfoldError:
            with self._writing() as (state, now):
                for intent in intents:
                    nothing = DeleteResult(0)
                    state.keep_answer(intent.namespace, intent.idempotency, nothing, now)
            raise


@broken
class KeepsTheKeysOfTheForgotten(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        with self._reading() as (state, _):
            kept: dict[Any, Kept] = dict(state.kept)
        result = super().forget(selector)
        with self._writing() as (state, _):
            state.kept = {**kept, **state.kept}
        return result


@broken
class DropsTheKeysOfDeletes(InMemoryEngine):
    def forget(self, selector: Selector) -> DeleteResult:
        result = super().forget(selector)
        if selector.everything and not selector.dry_run:
            with self._writing() as (state, _):
                state.kept = {key: kept for key, kept in state.kept.items() if key[0] != selector.namespace}
        return result


@broken
class ReopensSessions(InMemoryEngine):
    def _use_session(self, state: State, namespace: str, use: SessionUse | None, now: datetime) -> None:
        super()._use_session(state, namespace, use, now)
        if use is not None:
            _alter_session(state, namespace, use, now, type=ACTIVE)


@broken
class TouchesAreRevisions(InMemoryEngine):
    def _use_session(self, state: State, namespace: str, use: SessionUse | None, now: datetime) -> None:
        super()._use_session(state, namespace, use, now)
        if use is not None:
            _alter_session(state, namespace, use, now, revision_count=2)


def _alter_session(state: State, namespace: str, use: SessionUse, now: datetime, **change: Any) -> None:
    entry = state.find(Ref(namespace, key=use.id, kind=SESSION), now)
    assert entry is not None
    state.put(Entry(replace(entry.record, **change), entry.past))


@broken
class NeverTouches(InMemoryEngine):
    def _use_session(self, state: State, namespace: str, use: SessionUse | None, now: datetime) -> None:
        before = use and state.find(Ref(namespace, key=use.id, kind=SESSION), now)
        super()._use_session(state, namespace, use, now)
        if before:
            state.put(before)


@broken
class OpensWhatHasLapsed(InMemoryEngine):
    def _use_session(self, state: State, namespace: str, use: SessionUse | None, now: datetime) -> None:
        super()._use_session(state, namespace, use and replace(use, explicit=True), now)


@broken
class OpensOnlyWhatIsNamed(InMemoryEngine):
    def _use_session(self, state: State, namespace: str, use: SessionUse | None, now: datetime) -> None:
        super()._use_session(state, namespace, use and replace(use, opens=False), now)


@broken
class DropsWhatDoesNotFit(InMemoryEngine):
    """What a patch cannot be merged with goes."""

    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        try:
            return super().store_many(intents)
        except InvalidRequest:
            return super().store_many([replace(intent, mode="upsert") for intent in intents])
