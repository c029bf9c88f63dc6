"""The reference engine. Obvious by inspection before anything else; see DESIGN 2 and 3 for what it must do."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock
from typing import Any

from keyfold.clock import Clock, clock_of, to_micros
from keyfold.contract.decide import decide, find_duplicate, receipt_of
from keyfold.contract.filters import matches
from keyfold.contract.intents import (
    Capabilities,
    Counts,
    FoundPage,
    Health,
    Intent,
    Order,
    Page,
    Past,
    Query,
    Ref,
    SearchQuery,
    Selector,
    SessionLapsed,
    SessionUse,
    position_of,
    read_position,
)
from keyfold.contract.reach import within
from keyfold.contract.ulid import ulid
from keyfold.engines.inmemory.search import search
from keyfold.engines.inmemory.state import Entry, State, copied, expired
from keyfold.errors import InvalidRequest, NotFound, Unavailable
from keyfold.model import (
    ACTIVE,
    KINDS,
    OBSERVATION,
    READABLE_KINDS,
    SESSION,
    Config,
    DeleteResult,
    Reach,
    Receipt,
    Record,
    Revision,
)
from keyfold.text.keys import fold_key


class InMemoryEngine:
    """Records in dicts behind one lock. `clock` defaults to the config's, then to the machine's."""

    def __init__(self, config: Config = Config(), clock: Clock | None = None) -> None:  # noqa: B008  # frozen
        self._config = config
        self._clock: Clock = clock or clock_of(config.clock)
        self._lock = Lock()
        self._state: State | None = State()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("inmemory")

    def store(self, intent: Intent) -> Receipt:
        return self.store_many([intent])[0]

    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        with self._writing() as (state, now):
            return [self._write(state, intent, now) for intent in intents]

    def get(self, ref: Ref) -> Record | None:
        with self._reading() as (state, now):
            entry = state.find(ref, now)
            return copied(entry.record) if entry is not None else None

    def page(self, query: Query) -> Page:
        with self._reading() as (state, now):
            passing = [
                entry.record
                for entry in state.within(query.namespace, query.reach, query.kinds, now)
                if matches(entry.record, query.where)
                and (entry.record.topic_key is not None or not query.keyed_only)
            ]
        passing.sort(key=lambda record: _place(record, query.order), reverse=query.order == "newest")
        rest = passing
        if query.position is not None:
            start = _read_place(query.position, query.order)
            rest = [record for record in passing if _after(_place(record, query.order), start, query.order)]
        items = tuple(copied(record) for record in rest[: query.limit])
        more = len(rest) > len(items) > 0
        return Page(items, len(passing), position_of(items[-1], query.order) if more else None)

    def search(self, query: SearchQuery) -> FoundPage:
        with self._reading() as (state, now):
            return search(state, query, now)

    def forget(self, selector: Selector) -> DeleteResult:
        use = None if selector.dry_run else selector.idempotency  # a dry run is no write
        with self._writing() as (state, now):
            first = state.first_answer(selector.namespace, use, DeleteResult, now)
            if first is not None:
                return replace(first, erased=first.deleted > 0)
            chosen = _chosen(state, selector)
            told = [record for record in chosen if not expired(record, now)]
            if selector.everything:  # sessions go along, and are not what the caller counts
                told = [record for record in told if record.kind != SESSION]
            ids = sorted((record.id for record in told), key=int)
            if not selector.dry_run:
                for record in chosen:  # what has expired goes too, though nobody is told of it
                    state.remove(record.id)
                if selector.everything:
                    state.forget_answers(selector.namespace, selector.reach)
            erased = bool(chosen) and not selector.dry_run  # there is no file that could still hold them
            result = DeleteResult(len(ids), tuple(ids), erased, selector.dry_run)
            state.keep_answer(selector.namespace, use, result, now)
            return result

    def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        with self._reading() as (state, now):
            entries = state.within(namespace, reach, KINDS, now)
        readable = [entry.record for entry in entries if entry.record.kind != SESSION]
        return Counts(
            total=len(readable),
            by_kind=dict(Counter(entry.record.kind for entry in entries)),
            by_type=dict(Counter(record.type for record in readable)),
            keyed=sum(record.topic_key is not None for record in readable),
            pinned=sum(record.pinned for record in readable),
            revisions=sum(len(entry.states()) for entry in entries if entry.record.kind != SESSION),
            oldest=min((record.created_at for record in readable), default=None),
            newest=max((record.updated_at for record in readable), default=None),
        )

    def namespaces(self, prefix: str = "") -> list[str]:
        with self._reading() as (state, now):
            names = {entry.record.namespace for entry in state.live(now)}
        return sorted(name for name in names if not prefix or within(name, prefix, "subtree"))

    def history(self, ref: Ref) -> Past:
        with self._reading() as (state, now):
            entry = state.find(ref, now)
            if entry is None:
                return Past(None, ())
            return Past(copied(entry.record), tuple(copied(past) for past in entry.states()))

    def health(self) -> Health:
        with self._reading() as (state, _):
            return Health(True, "inmemory", {"records": len(state.entries)})

    def close(self) -> None:
        with self._lock:
            self._state = None

    @contextmanager
    def _reading(self) -> Iterator[tuple[State, datetime]]:
        with self._lock:
            if self._state is None:
                raise Unavailable("this store was closed; open it again")
            yield self._state, self._clock().astimezone(UTC)

    @contextmanager
    def _writing(self) -> Iterator[tuple[State, datetime]]:
        """A copy of the state, which becomes the state if the block ends well: a failed call changes nothing."""
        with self._reading() as (state, now):
            changed = state.copy()
            yield changed, now
            self._state = changed

    def _write(self, state: State, intent: Intent, now: datetime) -> Receipt:
        first = state.first_answer(intent.namespace, intent.idempotency, Receipt, now)
        if first is not None:
            return first
        held = self._held(state, intent, now)
        if held is None and intent.id is not None:
            raise NotFound(f"there is no {intent.describe()}")
        if held is None and intent.key is None:
            intent = replace(intent, key=ulid(to_micros(now), os.urandom(10)), minted=True)
        decision = decide(held, intent, now)
        record = decision.record
        similar: tuple[str, ...] = ()
        if decision.outcome == "created":
            similar = _similar_keys(state, record, now)
            record = state.insert(record, self._readable(decision.past))
        elif decision.outcome == "updated":
            past = state.entries[record.id].past + decision.past
            state.put(Entry(record, self._readable(past)))
        if decision.outcome != "deduped" and intent.mode != "load":  # an import is no work in a session
            self._use_session(state, intent.namespace, intent.session, now)
        receipt = receipt_of(decision, record.id, similar)
        state.keep_answer(intent.namespace, intent.idempotency, receipt, now)
        return receipt

    def _held(self, state: State, intent: Intent, now: datetime) -> Record | None:
        """The record that an intent is about: by id, by key, or the one that an unkeyed save repeats."""
        if intent.id is not None or intent.key is not None:
            ref = Ref(intent.namespace, intent.id, intent.key, intent.kind, intent.minted)
            entry = state.find(ref, now)
            return entry.record if entry is not None else None
        if intent.mode != "upsert":
            return None
        candidates = [
            entry.record
            for entry in state.within(intent.namespace, "exact", [intent.kind], now)
            if entry.record.minted and entry.record.normalized_hash == intent.normalized_hash
        ]
        return find_duplicate(candidates, intent, now)

    def _readable(self, past: tuple[Revision, ...]) -> tuple[Revision, ...]:
        """The past states that are kept: with the current one they are `keep_revisions`."""
        kept = self._config.keep_revisions
        return past if kept is None else past[max(0, len(past) - (kept - 1)) :]

    def _use_session(self, state: State, namespace: str, use: SessionUse | None, now: datetime) -> None:
        """Touch the session that a write belongs to, or open it. A touch is no revision, and reopens nothing."""
        if use is None:
            return
        entry = state.find(Ref(namespace, key=use.id, kind=SESSION), now)
        if not use.explicit and not use.opens:
            alive = entry is not None and entry.record.type == ACTIVE
            recent = (
                alive
                and entry is not None
                and (use.alive_since is None or entry.record.updated_at >= use.alive_since)
            )
            if not recent:
                raise SessionLapsed(use.id)
        if entry is None:
            if use.opens and use.alive_since is not None and _another_is_alive(state, namespace, use, now):
                raise SessionLapsed(use.id)
            state.insert(_new_session(namespace, use.id, now))
        else:
            touched = replace(entry.record, updated_at=max(entry.record.updated_at, now))
            state.put(Entry(touched, entry.past))


def _another_is_alive(state: State, namespace: str, use: SessionUse, now: datetime) -> bool:
    """Whether the user has an active session, no further ahead of now than it may lie behind."""
    since = use.alive_since
    return since is not None and any(
        entry.record.type == ACTIVE and since <= entry.record.updated_at <= now + (now - since)
        for entry in state.within(namespace, "exact", [SESSION], now)
    )


def _chosen(state: State, selector: Selector) -> list[Record]:
    """What a selector names, expired or not."""
    given = (selector.ref is not None, selector.where is not None, selector.everything)
    if sum(given) != 1:
        raise InvalidRequest(
            "selector", "say what to forget in exactly one way: a record, a filter or everything"
        )
    if selector.ref is not None:
        entry = state.find_any(selector.ref)
        return [entry.record] if entry is not None else []
    reached = [
        entry.record
        for entry in state.entries.values()
        if within(entry.record.namespace, selector.namespace, selector.reach)
    ]
    if selector.where is None:
        return reached
    return [record for record in reached if record.kind in READABLE_KINDS and matches(record, selector.where)]


def _new_session(namespace: str, identity: str, now: datetime) -> Record:
    return Record(
        id="",
        namespace=namespace,
        kind=SESSION,
        key=identity,
        minted=False,
        type=ACTIVE,
        title="Session",
        content="",
        metadata={},
        tags=(),
        session_id=None,
        revision_count=1,
        normalized_hash=sha256(b"").hexdigest(),
        created_at=now,
        updated_at=now,
        expires_at=None,
        pinned=False,
        taint="internal",
        observed_at=None,
    )


def _similar_keys(state: State, record: Record, now: datetime) -> tuple[str, ...]:
    """Keys that differ from a new one only in case, spaces, `-` or `_`: the usual way a topic splits in two."""
    if record.topic_key is None:
        return ()
    topics = state.within(record.namespace, "exact", [OBSERVATION], now)
    keys = {entry.record.key for entry in topics if not entry.record.minted}
    return tuple(sorted(key for key in keys - {record.key} if fold_key(key) == fold_key(record.key)))


def _place(record: Record, order: Order) -> tuple[Any, ...]:
    """Where a record stands in an order, as `read_position` gives it, with ids as numbers."""
    if order == "key":
        return record.namespace, KINDS.index(record.kind), int(record.minted), record.key
    return to_micros(record.updated_at), int(record.id)


def _read_place(position: str, order: Order) -> tuple[Any, ...]:
    place = read_position(position, order)
    if order == "key":
        return place
    if not (place[1].isdecimal() and len(place[1]) < 20):
        raise InvalidRequest("cursor", "it is not one that a listing of this order gave")
    return place[0], int(place[1])


def _after(place: tuple[Any, ...], start: tuple[Any, ...], order: Order) -> bool:
    return place < start if order == "newest" else place > start
