"""Many new records at once: what an import and a large batch mostly consist of.

A run of intents of which each makes a record at an address of its own is written statement by statement instead
of record by record: one allocation a namespace, one statement for all rows, and the words at once, because the
index takes hundreds of texts in one transaction for little more than one. Everything else (what is there
already, what has an idempotency key or expects a revision, two intents for one address) goes through
`store_one`, in order. The records and the receipts are the same either way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import apsw

import keyfold.engines.sqlite.index as index
import keyfold.engines.sqlite.write as write
from keyfold.clock import to_micros
from keyfold.contract.decide import Decision, decide, receipt_of
from keyfold.contract.intents import Intent
from keyfold.engines.sqlite.rows import SESSION_SPACE, Row, Rows, folded_hash, folded_of, space_of, state_row
from keyfold.model import SESSION, Receipt

# A shorter run is not worth a write of the index: its words are noted, as those of single saves are.
WORTH: Final = index.BATCH

_NUMBER: Final = "SELECT num FROM namespaces WHERE name = ?"
_HELD: Final = "SELECT 1 FROM records WHERE ns = ? AND space = ? AND key = ?"
_ALLOCATE: Final = f"UPDATE namespaces SET next_seq = next_seq + ?2 WHERE name = ?1 RETURNING num << 32 | next_seq, {write.NEXT_ID}"
_FIRST: Final = (
    "INSERT INTO namespaces (name, next_seq, docs, tokens) VALUES (?, ?, 0, 0) "
    f"RETURNING num << 32 | next_seq, {write.NEXT_ID}"
)

Address = tuple[str, int, str]


@dataclass(slots=True)
class _New:
    """A record that will be made."""

    place: int
    intent: Intent
    now: datetime
    decision: Decision
    folded: int | None
    similar: tuple[str, ...]
    tokens: index.Tokens | None


@dataclass(slots=True)
class _Run:
    """New records that are not written yet, and what a later one may not share with them."""

    new: list[_New] = field(default_factory=list)
    addresses: set[Address] = field(default_factory=set)
    sessions: set[Address] = field(default_factory=set)
    folded: set[int] = field(default_factory=set)
    numbers: dict[str, int | None] = field(default_factory=dict)


def prepare(intents: Sequence[Intent]) -> list[index.Tokens | None]:
    """The tokens of the texts that will be indexed at once, made before the write lock is taken."""
    many = len(intents) >= WORTH
    return [index.prepare(intent, short=many and intent.mode == "load") for intent in intents]


def store_all(
    conn: apsw.Connection,
    intents: Sequence[Intent],
    prepared: Sequence[index.Tokens | None],
    clock: Callable[[], datetime],
    keep: int | None,
) -> list[Receipt]:
    """Carry out writes in order, in the caller's transaction; a receipt each."""
    receipts: list[Receipt | None] = [None] * len(intents)
    run = _Run()
    many = len(intents) >= WORTH
    for place, (intent, tokens) in enumerate(zip(intents, prepared, strict=True)):
        now = clock()
        new = None
        if many and _plain(intent, keep):
            new = _foresee(conn, run, place, intent, now, tokens)
        if new is None:  # it may depend on what the run holds
            _write(conn, run, receipts, keep)
            run = _Run()
            receipts[place] = write.store_one(conn, intent, now, keep, tokens)
        else:
            run.new.append(new)
    _write(conn, run, receipts, keep)
    return [receipt for receipt in receipts if receipt is not None]


def _plain(intent: Intent, keep: int | None) -> bool:
    """Whether an intent makes a record, and nothing but a record, where none is held."""
    return (
        intent.key is not None
        and intent.id is None
        and intent.mode != "update"
        and intent.idempotency is None
        and intent.expect_revision is None
        and (keep is None or intent.load is None)
    )


def _foresee(
    conn: apsw.Connection, run: _Run, place: int, intent: Intent, now: datetime, tokens: index.Tokens | None
) -> _New | None:
    """The record that an intent will make; None when there is one already, or the run may have a say in it."""
    namespace, key = intent.namespace, intent.key
    assert key is not None
    address = (namespace, space_of(intent.kind, intent.minted), key)
    if address in run.addresses or address in run.sessions:
        return None
    use = intent.session if intent.mode != "load" else None
    used = (namespace, SESSION_SPACE, use.id) if use is not None else None
    if used in run.addresses:
        return None
    number = _number(conn, run, namespace)
    if number is not None and conn.execute(_HELD, (number, *address[1:])).fetchall():
        return None
    decision = decide(None, intent, now)
    topic = decision.record.topic_key
    folded: int | None = None
    similar: tuple[str, ...] = ()
    if topic is not None:
        folded_key = folded_of(topic)
        folded = folded_hash(namespace, folded_key)
        if folded in run.folded:
            return None
        if number is not None:
            found = write.find_similar(conn, namespace, folded_key, folded, to_micros(now))
            similar = tuple([name for name, _ in found])
        run.folded.add(folded)
    run.addresses.add(address)
    if used is not None:
        run.sessions.add(used)
    return _New(place, intent, now, decision, folded, similar, tokens)


def _number(conn: apsw.Connection, run: _Run, namespace: str) -> int | None:
    """The number of a namespace, looked up once a run: nobody else writes meanwhile."""
    if namespace not in run.numbers:
        rows: Rows = conn.execute(_NUMBER, (namespace,)).fetchall()
        run.numbers[namespace] = rows[0][0] if rows else None
    return run.numbers[namespace]


def _write(conn: apsw.Connection, run: _Run, receipts: list[Receipt | None], keep: int | None) -> None:
    """Make the records of a run."""
    if len(run.new) < WORTH:
        for new in run.new:
            receipts[new.place] = write.store_one(conn, new.intent, new.now, keep, new.tokens)
        return
    slots, number = _allocate(conn, run.new)
    rows: list[Row] = []
    words: list[tuple[int, str]] = []
    past: list[Row] = []
    docs: Counter[int] = Counter()
    counted: Counter[int] = Counter()
    for new in run.new:
        record = new.decision.record
        slot = slots[record.namespace]
        slots[record.namespace] += 1
        length = 0
        if record.kind != SESSION:
            tokens = new.tokens or index.Tokens(index.text_of(record))
            words.append((slot, tokens.joined))
            length = tokens.count
            docs[slot >> 32] += 1
            counted[slot >> 32] += length
        rows.append(write.record_row(slot, number, record, new.folded, length))
        past += [state_row(slot, state) for state in new.decision.past]
        receipts[new.place] = receipt_of(new.decision, str(number), new.similar)
        number += 1
    # In the order of row ids: FTS5 writes a segment for each step back.
    conn.executemany(write.INSERT, sorted(rows))
    conn.executemany(index.INSERT, sorted(words))
    conn.executemany(write.PAST, past)
    conn.executemany(index.STATISTICS, [(docs[num], counted[num], num) for num in docs])
    _use_sessions(conn, run.new, slots)


def _allocate(conn: apsw.Connection, new: Sequence[_New]) -> tuple[dict[str, int], int]:
    """The first slot for each namespace, and the first id."""
    slots: dict[str, int] = {}
    number = 0
    for namespace, size in Counter([item.intent.namespace for item in new]).items():
        rows: Rows = conn.execute(_ALLOCATE, (namespace, size)).fetchall()
        if not rows:
            first: Rows = conn.execute(_FIRST, (namespace, size)).fetchall()
            rows = first
        slots[namespace] = rows[0][0] - size + 1
        number = rows[0][1]
    return slots, number


def _use_sessions(conn: apsw.Connection, new: Sequence[_New], slots: dict[str, int]) -> None:
    """Touch or open the sessions that the records belong to: as the first asks for it, then at the time of the last."""
    used: dict[tuple[str, str], list[_New]] = {}
    for item in new:
        use = item.intent.session
        if use is not None and item.intent.mode != "load":
            ends = used.setdefault((item.intent.namespace, use.id), [item])
            ends[1:] = [item]
    for (namespace, _), ends in used.items():
        for item in ends[:1] if ends[0].now == ends[-1].now else ends:
            assert item.intent.session is not None
            write.use_session(
                conn, namespace, slots[namespace] >> 32, item.intent.session, to_micros(item.now)
            )
