"""Many new records at once: what an import and a large batch mostly consist of.

A run of intents of which each makes a record at an address of its own is written statement by statement instead
of record by record: one allocation a namespace, one statement for all rows, and the words at once, because the
index takes hundreds of texts in one transaction for little more than one. Everything else (what is there
already, what has an idempotency key or expects a revision, two intents for one address) goes through
`store_one`, in order. The records and the receipts are the same either way.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

import apsw

import keyfold.engines.sqlite.index as index
import keyfold.engines.sqlite.write as write
from keyfold.clock import to_micros
from keyfold.contract.decide import decide, receipt_of
from keyfold.contract.intents import Intent
from keyfold.engines.sqlite.rows import SESSION_SPACE, Row, Rows, folded_hash, folded_of, space_of, state_row
from keyfold.engines.sqlite.unswept import unswept
from keyfold.model import OBSERVATION, SESSION, Receipt

# A shorter run is not worth a write of the index: its words are noted, as those of single saves are.
WORTH: Final = index.BATCH

_HELD: Final = (
    "SELECT key FROM records WHERE ns = (SELECT num FROM namespaces WHERE name = ?) AND space = ? "
    "AND key IN (SELECT value FROM json_each(?))"
)
_ALIKE: Final = (
    "SELECT folded FROM records INDEXED BY records_folded WHERE folded IN (SELECT value FROM json_each(?))"
)

Address = tuple[str, int, str]


@dataclass(slots=True)
class _Plain:
    """An intent that makes a record, and nothing but a record, where none is held: where, and what stands for its key."""

    address: Address
    folded_key: str
    folded: int | None
    session: Address | None


class _New(NamedTuple):
    """A record that will be made. What it says is decided as it is written: a thousand decisions are not kept."""

    place: int
    intent: Intent
    now: datetime
    folded: int | None
    similar: tuple[str, ...]
    tokens: index.Tokens | None


@dataclass(slots=True)
class _Run:
    """New records that are not written yet, and what a later one may not share with them."""

    new: list[_New] = field(default_factory=list)
    addresses: set[Address] = field(default_factory=set)
    folded: set[int] = field(default_factory=set)


class _Known:
    """Where the store holds something already, of all that a batch writes to: looked up in a few statements.

    What the batch writes is noted, so that it stays true. It may name what is there no more.
    """

    def __init__(self, conn: apsw.Connection, plains: Sequence[_Plain | None]) -> None:
        keys: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        folded: list[int] = []
        for plain in plains:
            if plain is None:
                continue
            for address in (plain.address, plain.session) if plain.session else (plain.address,):
                namespace, space, key = address
                keys[namespace, space].add(key)
            if plain.folded is not None:
                folded.append(plain.folded)
        self.held: set[Address] = set()
        for (namespace, space), names in keys.items():
            rows: Rows = conn.execute(_HELD, (namespace, space, json.dumps(list(names)))).fetchall()
            self.held.update([(namespace, space, key) for (key,) in rows])
        alike: Rows = conn.execute(_ALIKE, (json.dumps(folded),)).fetchall()
        self.alike: set[int] = {number for (number,) in alike}

    def wrote(self, intent: Intent) -> None:
        """Note where a write of its own may have made something."""
        if intent.key is not None:
            self.held.add((intent.namespace, space_of(intent.kind, intent.minted), intent.key))
            if intent.kind == OBSERVATION and not intent.minted:
                self.alike.add(folded_hash(intent.namespace, folded_of(intent.key)))
        if intent.session is not None:
            self.held.add((intent.namespace, SESSION_SPACE, intent.session.id))

    def wrote_run(self, run: _Run) -> None:
        """Note what a run has made."""
        self.held |= run.addresses
        self.alike |= run.folded


def prepare(intents: Sequence[Intent]) -> list[index.Tokens | None]:
    """The tokens of the texts that will be indexed at once, made before the write lock is taken."""
    many = len(intents) >= WORTH
    with unswept():
        return [index.prepare(intent, short=many and intent.mode == "load") for intent in intents]


def store_all(
    conn: apsw.Connection,
    intents: Sequence[Intent],
    prepared: Sequence[index.Tokens | None],
    clock: Callable[[], datetime],
    keep: int | None,
) -> list[Receipt]:
    """Carry out writes in order, in the caller's transaction; a receipt each."""
    if len(intents) < WORTH:
        return [
            write.store_one(conn, intent, clock(), keep, tokens)
            for intent, tokens in zip(intents, prepared, strict=True)
        ]
    with unswept():
        return _store_many(conn, intents, prepared, clock, keep)


def _store_many(
    conn: apsw.Connection,
    intents: Sequence[Intent],
    prepared: Sequence[index.Tokens | None],
    clock: Callable[[], datetime],
    keep: int | None,
) -> list[Receipt]:
    receipts: list[Receipt | None] = [None] * len(intents)
    run = _Run()
    plains = [_plain(intent, keep) for intent in intents]
    known = _Known(conn, plains)
    for place, (intent, plain, tokens) in enumerate(zip(intents, plains, prepared, strict=True)):
        now = clock()
        if plain is not None and _apart(plain, run, known):
            similar = _note(conn, run, known, intent, plain, now)
            run.new.append(_New(place, intent, now, plain.folded, similar, tokens))
            continue
        _write(conn, run, receipts, keep)  # it may depend on what the run holds
        known.wrote_run(run)
        run = _Run()
        receipts[place] = write.store_one(conn, intent, now, keep, tokens)
        known.wrote(intent)
    _write(conn, run, receipts, keep)
    return [receipt for receipt in receipts if receipt is not None]


def _plain(intent: Intent, keep: int | None) -> _Plain | None:
    """What a batch needs to know of an intent that makes a record where none is held; None for any other."""
    key, namespace = intent.key, intent.namespace
    if (
        key is None
        or intent.id is not None
        or intent.mode == "update"
        or intent.idempotency is not None
        or intent.expect_revision is not None
        or (keep is not None and intent.load is not None)
    ):
        return None
    address = (namespace, space_of(intent.kind, intent.minted), key)
    used = intent.session if intent.mode != "load" else None
    session = None if used is None else (namespace, SESSION_SPACE, used.id)
    if intent.kind != OBSERVATION or intent.minted:
        return _Plain(address, "", None, session)
    folded_key = folded_of(key)
    return _Plain(address, folded_key, folded_hash(namespace, folded_key), session)


def _apart(plain: _Plain, run: _Run, known: _Known) -> bool:
    """Whether nothing is there that the intent would meet, and nothing in the run has a say in what it does.

    The session it belongs to is there: the first save of a session opens it, and the session's id follows its own.
    """
    return not (
        plain.address in known.held
        or plain.address in run.addresses
        or (plain.session is not None and plain.session not in known.held)
        or plain.folded in run.folded
    )


def _note(
    conn: apsw.Connection, run: _Run, known: _Known, intent: Intent, plain: _Plain, now: datetime
) -> tuple[str, ...]:
    """Put a record that an intent will make into the run's books; the existing keys that are like its own."""
    run.addresses.add(plain.address)
    if plain.folded is None:
        return ()
    run.folded.add(plain.folded)
    if plain.folded not in known.alike:
        return ()
    found = write.find_similar(conn, intent.namespace, plain.folded_key, plain.folded, to_micros(now))
    return tuple([name for name, _ in found])


def _write(conn: apsw.Connection, run: _Run, receipts: list[Receipt | None], keep: int | None) -> None:
    """Make the records of a run."""
    if len(run.new) < WORTH or not index.is_current(conn):
        for new in run.new:
            receipts[new.place] = write.store_one(conn, new.intent, new.now, keep, new.tokens)
        return
    slots, number = _allocate(conn, run.new)
    rows: list[Row] = []
    words: list[tuple[int, str]] = []
    past: list[Row] = []
    marks: list[tuple[int, bytes]] = []
    docs: Counter[int] = Counter()
    counted: Counter[int] = Counter()
    for place, intent, now, folded, similar, tokens in run.new:
        decision = decide(None, intent, now)
        record = decision.record
        slot = slots[record.namespace]
        slots[record.namespace] = slot + 1
        length = 0
        if record.kind != SESSION:
            made = tokens or index.Tokens(index.text_of(record))
            words.append((slot, made.joined))
            length = made.count
            docs[slot >> 32] += 1
            counted[slot >> 32] += length
        rows.append(write.record_row(slot, number, record, folded, length))
        mark = write.mark_of(intent, record)
        if mark is not None:
            marks.append((slot, mark))
        if decision.past:
            past += [state_row(slot, state) for state in decision.past]
        receipts[place] = receipt_of(decision, str(number), similar)
        number += 1
    # In the order of row ids: FTS5 writes a segment for each step back.
    conn.executemany(write.INSERT, sorted(rows))
    conn.executemany(index.INSERT, sorted(words))
    conn.executemany(write.PAST, past)
    conn.executemany(write.MARK, marks)
    numbers = dict.fromkeys([slot >> 32 for slot in slots.values()])
    conn.executemany(index.SETTLE, [(docs[num], counted[num], num) for num in numbers])
    _use_sessions(conn, run.new, slots)


def _allocate(conn: apsw.Connection, new: Sequence[_New]) -> tuple[dict[str, int], int]:
    """The first slot for each namespace, and the first id."""
    slots: dict[str, int] = {}
    number = 0
    for namespace in dict.fromkeys([item.intent.namespace for item in new]):
        last, indexed, number = write.allocate(conn, namespace)
        if last > indexed:  # what is indexed ends without a gap
            index.flush(conn, last >> 32)
        slots[namespace] = last + 1
    return slots, number


def _use_sessions(conn: apsw.Connection, new: Sequence[_New], slots: dict[str, int]) -> None:
    """Touch the sessions that the records belong to: as the first asks for it, then at the time of the last."""
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
