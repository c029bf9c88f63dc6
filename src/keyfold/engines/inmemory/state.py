"""What the reference engine holds. A write works on a copy of it, which replaces it when nothing was raised."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from keyfold.contract.decide import other_call, revision_of
from keyfold.contract.intents import IDEMPOTENCY_LIFE, Idempotency, Ref
from keyfold.contract.reach import within
from keyfold.model import SESSION, DeleteResult, Reach, Receipt, Record, Revision

Address = tuple[str, str, bool, str]
Answer = TypeVar("Answer", Receipt, DeleteResult)
R = TypeVar("R", Record, Revision)


def copied(item: R) -> R:
    """The same with metadata of its own: what a caller does to a dict it passed or got never reaches the store.

    By way of JSON, so that a tuple comes back as a list, as it does from engines that write it down.
    """
    return replace(item, metadata=json.loads(json.dumps(item.metadata)))


def address_of(record: Record) -> Address:
    """What no two records share."""
    return record.namespace, record.kind, record.minted, record.key


def expired(record: Record, now: datetime) -> bool:
    """Whether a record's time is over; it counts as absent from that very moment on."""
    return record.expires_at is not None and record.expires_at <= now


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and its earlier states, oldest first."""

    record: Record
    past: tuple[Revision, ...] = ()

    def states(self) -> list[Revision]:
        """Every state, newest first."""
        return [revision_of(self.record), *reversed(self.past)]


@dataclass(frozen=True, slots=True)
class Kept:
    """The first answer to an idempotency key."""

    body: bytes
    answer: Receipt | DeleteResult
    at: datetime


@dataclass(slots=True)
class State:
    """Everything, by id, by address and by (namespace, operation, idempotency key)."""

    entries: dict[str, Entry] = field(default_factory=dict)
    ids: dict[Address, str] = field(default_factory=dict)
    kept: dict[tuple[str, str, bytes], Kept] = field(default_factory=dict)
    last_id: int = 0

    def copy(self) -> State:
        """A state that can be changed without changing this one: entries are never changed in place."""
        return State(dict(self.entries), dict(self.ids), dict(self.kept), self.last_id)

    def live(self, now: datetime) -> Iterator[Entry]:
        """What has not expired."""
        return (entry for entry in self.entries.values() if not expired(entry.record, now))

    def within(self, namespace: str, reach: Reach, kinds: Iterable[str], now: datetime) -> list[Entry]:
        """What has not expired, in a reach, of some kinds."""
        return [
            entry
            for entry in self.live(now)
            if within(entry.record.namespace, namespace, reach) and entry.record.kind in kinds
        ]

    def find(self, ref: Ref, now: datetime) -> Entry | None:
        """The record that a reference names, unless it has expired."""
        entry = self.find_any(ref)
        return None if entry is None or expired(entry.record, now) else entry

    def find_any(self, ref: Ref) -> Entry | None:
        """The record that a reference names, expired or not, unless it is another namespace's."""
        identity = ref.id
        if identity is None:
            identity = self.ids.get((ref.namespace, ref.kind, ref.minted, ref.key or ""))
        entry = self.entries.get(identity) if identity is not None else None
        if entry is None or entry.record.namespace != ref.namespace:
            return None
        strayed = ref.id is not None and entry.record.kind == SESSION and ref.kind != SESSION
        return None if strayed else entry

    def insert(self, record: Record, past: tuple[Revision, ...] = ()) -> Record:
        """Add a record under a new id. One that expired at its address goes, with all that was its own."""
        expired_id = self.ids.get(address_of(record))
        if expired_id is not None:
            self.remove(expired_id)
        self.last_id += 1
        record = replace(record, id=str(self.last_id))
        self.ids[address_of(record)] = record.id
        self.put(Entry(record, past))
        return record

    def put(self, entry: Entry) -> None:
        """Set the record of an id and its past."""
        self.entries[entry.record.id] = Entry(
            copied(entry.record), tuple(copied(past) for past in entry.past)
        )

    def remove(self, identity: str) -> None:
        """Forget a record, its past and the idempotency keys that answer with it."""
        entry = self.entries.pop(identity)
        del self.ids[address_of(entry.record)]
        for key, kept in list(self.kept.items()):
            if isinstance(kept.answer, Receipt) and kept.answer.id == identity:
                del self.kept[key]

    def first_answer(
        self, namespace: str, use: Idempotency | None, kind: type[Answer], now: datetime
    ) -> Answer | None:
        """What the same call was answered first, marked as replayed; None when it is new (or a day old)."""
        if use is None:
            return None
        kept = self.kept.get((namespace, use.operation, use.key))
        if kept is None or now - kept.at >= IDEMPOTENCY_LIFE:
            return None
        if kept.body != use.body or not isinstance(kept.answer, kind):
            ids = (kept.answer.id,) if isinstance(kept.answer, Receipt) else kept.answer.ids
            raise other_call(ids[0] if ids else None)
        return replace(kept.answer, replayed=True)

    def keep_answer(
        self, namespace: str, use: Idempotency | None, answer: Receipt | DeleteResult, now: datetime
    ) -> None:
        """Remember what a call was answered, for the next one with the same key."""
        if use is not None:
            self.kept[namespace, use.operation, use.key] = Kept(use.body, answer, now)

    def forget_answers(self, namespace: str, reach: Reach) -> None:
        """Drop the idempotency keys of a reach, but for those of forgets: they outlive what was forgotten."""
        self.kept = {
            key: kept
            for key, kept in self.kept.items()
            if isinstance(kept.answer, DeleteResult) or not within(key[0], namespace, reach)
        }
