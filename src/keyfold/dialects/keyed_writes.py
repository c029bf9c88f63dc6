"""Writing through a dialect: the same decision as on every engine, on what a look-up returned.

A service has no transaction, so the decision is made between a read and a write. What that cannot promise
(two first writes of one key at once may leave two rows) heals: the newest row counts, and the next write
removes the rest. A repeated call finds what the first one wrote, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Final, TypeVar

from keyfold.contract.decide import Decision, decide, find_duplicate, other_call, receipt_of
from keyfold.contract.filters import matches
from keyfold.contract.intents import Intent, Ref, Selector
from keyfold.dialects.base import Dialect, Replays, Row, Shelf, under
from keyfold.dialects.held import LOOKS, Held, address, grouped, held_at, moving, of_this_user, whole
from keyfold.dialects.keyed_reads import shelves_of
from keyfold.dialects.names import DIGEST_KEY, digest_key, digest_of
from keyfold.dialects.payload import (
    KeptCall,
    Payload,
    first_call,
    first_receipt,
    remembered,
    with_id,
)
from keyfold.dialects.wire import AGAIN
from keyfold.errors import Conflict, InvalidRequest, KeyfoldError, NotFound, OutcomeUnknown, Unsupported
from keyfold.flow import Plan
from keyfold.model import (
    KINDS,
    READABLE_KINDS,
    SESSION,
    TURN,
    UNSET,
    DeleteResult,
    Outcome,
    Receipt,
    Record,
    Revision,
)

T = TypeVar("T")

SAME_TEXTS: Final = 8  # unkeyed records whose text was changed later, that a save may step over
WORTH_A_LISTING: Final = (
    8  # writes of a batch to one shelf, from which on it is read once instead of record by record
)
ONCE: Final = (
    "; the write may or may not have been carried out: look whether it is there before you make the same call again, "
    "which would write it twice; with a topic_key or an idempotency_key it is safe to repeat"
)


@dataclass(slots=True)
class Writer:
    """One call's writes. `mint` makes a key for an unkeyed record where repeats shall not be recognised."""

    dialect: Dialect
    now: datetime
    mint: Callable[[], str]
    together: bool = False  # new records wait, and are inserted many in one request
    known: dict[Shelf, dict[str, Held]] = field(default_factory=dict)
    partly: set[Shelf] = field(default_factory=set)  # of which only the known addresses were read
    waiting: dict[Shelf, dict[str, list[Payload]]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    replayed: set[str] = field(default_factory=set)  # what the service said that it had already
    once: bool = False  # whether any of it would be written twice, were the call made again

    def store(self, intent: Intent) -> Plan[Receipt]:
        """Carry out one write and say what it did."""
        return (yield from self._worded(self._store(intent)))

    def _worded(self, plan: Plan[T]) -> Plan[T]:
        """A plan whose error does not ask for a repeat that would write twice."""
        try:
            return (yield from plan)
        except OutcomeUnknown as error:
            if self.once and str(error).endswith(AGAIN):
                raise OutcomeUnknown(str(error).removesuffix(AGAIN) + ONCE) from None
            raise

    def _store(self, intent: Intent) -> Plan[Receipt]:
        if not self.together and self.dialect.appends_blindly and _hot(intent):
            return (yield from self._append(intent))
        shelf, held, intent = yield from self._resolve(intent)
        row = _mendable(held.row(self.now), intent, shelf)
        if intent.id is not None and row is None:
            raise NotFound(f"there is no {intent.describe()}")
        calls = row.payload.calls if row is not None else ()
        first = first_call(calls, intent.idempotency, self.now)
        if row is not None and first is not None and intent.idempotency is not None:
            if first.body != intent.idempotency.body.hex():
                raise other_call(row.record.id)
            yield from self._tidy(shelf, held, row)
            return first_receipt(row.record, first)
        for other in held.others:
            if first_call(other.payload.calls, intent.idempotency, self.now) is not None:
                raise other_call(other.record.id)
        decision = decide(row.record if row is not None else None, intent, self.now)
        decision = self._bare(decision, intent)
        record = with_id(decision.record)
        receipt = receipt_of(decision, record.id)
        if decision.outcome != "deduped":
            payload = self._payload(record, intent, remembered(calls, intent.idempotency, receipt, self.now))
            past = decision.past if self.dialect.capabilities.history else ()
            yield from self._write(shelf, held, payload, _states(payload, past, row))
            receipt = self._told(receipt)
        elif row is not None and row.missing:
            yield from self._flush()
            yield from self.dialect.mend(shelf, row, row.payload)
            receipt = replace(receipt, outcome="updated" if row.record.revision_count > 1 else "created")
            receipt = replace(receipt, replayed=False)
        elif intent.idempotency is not None and row is not None:
            # The one write that a repeat may make: the caller's key, so that another body under it is told.
            payload = replace(row.payload, calls=remembered(calls, intent.idempotency, receipt, self.now))
            yield from self._write(shelf, held, payload)
        elif row is not None:
            yield from self._tidy(shelf, held, row)
        return receipt

    def _tidy(self, shelf: Shelf, held: Held, counting: Row) -> Plan[None]:
        """Remove what a race or a write that broke off left beside the row that counts: a search would find it."""
        rest = [row for row in held.rows if row.remote != counting.remote]
        if rest and not self.dialect.appends:
            if counting.lifted:  # what shows that it counts would go with the rest
                yield from self.dialect.rewrite(shelf, [counting, *rest], counting.payload)
            else:
                yield from self.dialect.remove(shelf, rest)
            self.written.add(counting.payload.digest)  # what was read ahead of it holds no longer

    def store_many(self, intents: Sequence[Intent]) -> Plan[list[Receipt]]:
        """Carry out writes in order. New records of a shelf are inserted together. Before one that fails, all are."""
        self.together = True
        return (yield from self._worded(self._store_many(intents)))

    def _store_many(self, intents: Sequence[Intent]) -> Plan[list[Receipt]]:
        yield from self._read_ahead(intents)
        receipts: list[Receipt] = []
        try:
            for intent in intents:
                receipts.append((yield from self._store(intent)))  # noqa: PERF401  # a comprehension cannot yield
        except KeyfoldError:
            yield from self._flush()  # what came before it stays, as if each were written by itself
            raise
        yield from self._flush()
        return [self._told(receipt) for receipt in receipts]

    def _told(self, receipt: Receipt) -> Receipt:
        """A receipt, marked as replayed when the service said that it had all of it already."""
        had = receipt.id in self.replayed and not receipt.replayed
        return replace(receipt, replayed=True) if had else receipt

    def _append(self, intent: Intent) -> Plan[Receipt]:
        """Log a turn in one request: whether it is a repeat, the service knows."""
        decision = self._bare(decide(None, intent, self.now), intent)
        record = with_id(decision.record)
        had = yield from self.dialect.append(Shelf(intent.namespace), self._payload(record, intent, ()))
        outcome: Outcome = "deduped" if had else "created"
        return receipt_of(replace(decision, outcome=outcome), record.id)

    def _bare(self, decision: Decision, intent: Intent) -> Decision:
        """A turn that is logged says, on a log, what the caller passed: its session only when it was named."""
        bare = self.dialect.bare_turns and decision.outcome == "created" and _logs(intent)
        named = intent.session is not None and intent.session.explicit
        return (
            replace(decision, record=replace(decision.record, session_id=None))
            if bare and not named
            else decision
        )

    def _payload(self, record: Record, intent: Intent, calls: tuple[KeptCall, ...]) -> Payload:
        bare = self.dialect.bare_turns and _logs(intent) and record.revision_count == 1
        return Payload(record, calls, bare, intent.derive, intent.wait)

    def _read_ahead(self, intents: Sequence[Intent]) -> Plan[None]:
        """Read what is at the places that these writes go to, or where many go the whole shelf, once."""
        places: dict[Shelf, list[str | None]] = {}
        for intent in intents:
            shelf = Shelf(intent.namespace, intent.kind == SESSION)
            places.setdefault(shelf, []).append(self._place(intent))
        for shelf, found in places.items():
            digests = list(dict.fromkeys(digest for digest in found if digest is not None))
            rows = (yield from self.dialect.lookup_many(shelf, digests)) if len(digests) > 1 else None
            if rows is not None:
                held = grouped(rows, shelf)
                self.known[shelf] = {digest: held.get(digest, Held()) for digest in digests}
                self.partly.add(shelf)
            elif len(found) >= WORTH_A_LISTING:
                listed = yield from self.dialect.rows(shelf, texts=not self.dialect.bares)
                self.known[shelf] = grouped(listed, shelf)

    def _place(self, intent: Intent) -> str | None:
        """The digest that an intent will look up first; None when that is not known before."""
        if intent.key is None and intent.id is None:
            if intent.dedup_window == 0 and intent.idempotency is None:
                return None
            return digest_of(intent.namespace, self._base(intent), intent.kind, minted=True)
        where = address(Ref(intent.namespace, intent.id, intent.key, intent.kind, intent.minted))
        return where[1] if where is not None else None

    def _resolve(self, intent: Intent) -> Plan[tuple[Shelf, Held, Intent]]:
        """Where an intent writes, what is held there, and the intent with its key."""
        if intent.key is not None or intent.id is not None:
            where = address(Ref(intent.namespace, intent.id, intent.key, intent.kind, intent.minted))
            if where is None:
                raise NotFound(f"there is no {intent.describe()}")
            return where[0], (yield from self._held(*where, intent)), intent
        shelf = Shelf(intent.namespace, intent.kind == SESSION)
        base = self._base(intent)
        for number in range(SAME_TEXTS):
            keyed = replace(intent, key=f"{base}{f'.{number}' if number else ''}", minted=True)
            where = address(Ref(intent.namespace, None, keyed.key, keyed.kind, minted=True))
            assert where is not None
            held = yield from self._held(*where, intent)
            row = held.row(self.now)
            if row is None or find_duplicate([row.record], replace(intent, dedup_window=None), self.now):
                return shelf, held, keyed
        raise Conflict(
            f"{SAME_TEXTS} records that began with this text were changed since: give it a topic_key"
        )

    def _base(self, intent: Intent) -> str:
        """The key of an unkeyed record, but for what tells it from one that was changed since."""
        use = intent.idempotency
        called = use is not None and intent.expires_in is not None  # its end is another instant in each retry
        self.once |= use is None and (intent.expires_in is not None or intent.dedup_window == 0)
        if not called and (intent.dedup_window is None or intent.dedup_window > 0):
            return digest_key(intent)
        # repeats are no duplicates here, but a retry of one call is
        return (
            self.mint() if use is None else sha256(use.operation.encode() + use.key).hexdigest()[:DIGEST_KEY]
        )

    def _held(self, shelf: Shelf, digest: str, intent: Intent) -> Plan[Held]:
        if digest in self.waiting.get(shelf, {}):
            yield from self._flush()
        for _ in range(LOOKS):
            known = self.known.get(shelf, {}).get(digest)
            ahead = shelf in self.known and digest not in self.written
            if ahead and (known is not None or shelf not in self.partly):
                held = known or Held()
            else:
                held = yield from held_at(self.dialect, shelf, digest, call=intent.idempotency)
            row = held.row(self.now)
            if row is None or not row.bare:
                return held
            for read in (yield from self._texts(shelf, row, intent)):
                return Held(tuple(read if each is row else each for each in held.rows))
            self.written.add(digest)  # it went after it was read ahead
        raise moving(shelf)

    def _texts(self, shelf: Shelf, row: Row, intent: Intent) -> Plan[list[Row]]:
        """A bare row with its content, which is not asked for where its hash says enough."""
        if not isinstance(intent.content, str) or not intent.content:
            return (yield from self.dialect.texts(shelf, [row]))
        record = row.record
        if record.normalized_hash == intent.normalized_hash:
            record = replace(record, content=intent.content)
        # Else it is some other text, which this one replaces: that it differs is all that a decision asks.
        return [replace(row, payload=replace(row.payload, record=record), bare=False)]

    def _write(
        self, shelf: Shelf, held: Held, payload: Payload, earlier: Sequence[Payload] = ()
    ) -> Plan[None]:
        self.written.add(payload.digest)  # what was read ahead of it holds no longer
        logged = self.dialect.appends and (not held.rows or held.row(self.now) is not None)
        replays: Replays = None
        if self.together and (logged or not (held.rows or earlier)):
            for state in (*earlier, payload):
                self.dialect.check(shelf, state)
            self.waiting.setdefault(shelf, {})[payload.digest] = [*earlier, payload]
            return
        yield from self._flush()  # what came before it is there before it
        if earlier:
            replays = yield from self.dialect.grow(shelf, held.rows, [*earlier, payload])
        elif held.rows:
            replays = yield from self.dialect.rewrite(shelf, held.rows, payload)
        else:
            replays = yield from self.dialect.insert(shelf, [payload])
        self.replayed |= set(replays or ())

    def _flush(self) -> Plan[None]:
        """Insert what waits."""
        while self.waiting:
            shelf = next(iter(self.waiting))
            states = self.waiting.pop(
                shelf
            ).values()  # before it is sent: what became of it may never be known
            waiting = [payload for found in states for payload in found]
            self.replayed |= set((yield from self.dialect.insert(shelf, waiting)) or ())


def _states(payload: Payload, past: Sequence[Revision], row: Row | None) -> list[Payload]:
    """The states that an import brings along and that the service has not: oldest first, without the present one."""
    held = row.record.revision_count if row is not None else 0
    return [
        Payload(
            replace(
                payload.record,
                type=state.type,
                title=state.title,
                content=state.content,
                metadata=state.metadata,
                tags=state.tags,
                session_id=state.session_id,
                revision_count=state.revision,
                normalized_hash=state.normalized_hash,
                updated_at=state.written_at,
                expires_at=state.expires_at,
                pinned=state.pinned,
            )
        )
        for state in past
        if state.revision > held
    ]


def _logs(intent: Intent) -> bool:
    return intent.mode == "append" and intent.kind == TURN


def _hot(intent: Intent) -> bool:
    """Whether an intent logs one turn and neither waits for anything nor says what is there."""
    plain = intent.key is not None and intent.id is None and not intent.minted and intent.idempotency is None
    return _logs(intent) and plain and intent.wait == "accepted" and intent.expect_revision is None


def _mendable(row: Row | None, intent: Intent, shelf: Shelf) -> Row | None:
    """A row to decide on. One that lost a piece is made whole by a save that brings its text; else it is refused."""
    if row is None or not row.missing:
        return row
    if isinstance(intent.content, str) and intent.normalized_hash == row.record.normalized_hash:
        return under(row, payload=replace(row.payload, record=replace(row.record, content=intent.content)))
    if intent.content is UNSET:
        whole(row, shelf)
    return row


def forget(dialect: Dialect, selector: Selector, now: datetime) -> Plan[DeleteResult]:
    """Remove what a selector names: every row of it, older states and duplicates too."""
    given = (selector.ref is not None, selector.where is not None, selector.everything)
    if sum(given) != 1:
        raise InvalidRequest(
            "selector", "say what to forget in exactly one way: a record, a filter or everything"
        )
    if selector.idempotency is not None and not selector.dry_run:
        raise Unsupported(
            f"the {dialect.capabilities.engine} engine keeps no idempotency keys of deletes; leave it out: "
            "deleting what is gone is no error"
        )
    told: list[str] = []
    for shelf, chosen in (yield from _chosen(dialect, selector, now)):
        if not selector.dry_run:
            rows = [row for held in chosen for row in held.rows]
            yield from (dialect.erase(shelf, rows) if selector.everything else dialect.remove(shelf, rows))
        told += [row.record.id for row in (held.row(now) for held in chosen) if row and not shelf.sessions]
        if selector.ref is not None and shelf.sessions:
            told += [held.rows[0].record.id for held in chosen]
    erased = dialect.erases if told and not selector.dry_run else False
    return DeleteResult(len(told), tuple(sorted(told)), erased, selector.dry_run)


def _chosen(dialect: Dialect, selector: Selector, now: datetime) -> Plan[list[tuple[Shelf, list[Held]]]]:
    """What a selector names, expired or not, by shelf."""
    if selector.ref is not None:
        where = address(selector.ref)
        held = (yield from held_at(dialect, *where, every=True)) if where is not None else Held()
        return [(where[0], [held])] if where is not None and held.rows else []
    kinds = KINDS if selector.everything else READABLE_KINDS
    found: list[tuple[Shelf, list[Held]]] = []
    for shelf in (yield from shelves_of(dialect, selector.namespace, selector.reach, kinds)):
        chosen: list[Held] = []
        rows = of_this_user((yield from dialect.rows(shelf, texts=False)), shelf)
        for held in grouped(rows, shelf).values():
            row: Row = held.row(now) or held.rows[0]
            if selector.where is None or matches(row.record, selector.where):
                chosen.append(held)
        if chosen or selector.everything:  # a name may outlive its records
            found.append((shelf, chosen))
    return found
