"""One write, inside the caller's transaction. What it means is decided in `contract.decide`; this carries it out.

No number of a namespace is remembered between calls: a name is looked up in the statement that needs it
(about half a microsecond), so there is nothing to go stale when another process forgets the namespace.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import apsw

import keyfold.engines.sqlite.idempotency as idempotency
import keyfold.engines.sqlite.index as index
from keyfold.clock import from_micros, to_micros
from keyfold.contract.decide import (
    Decision,
    check_revision,
    decide,
    find_duplicate,
    receipt_of,
)
from keyfold.contract.intents import Intent, SessionLapsed, SessionUse
from keyfold.contract.ulid import ulid
from keyfold.engines.sqlite.rows import (
    EXPIRES,
    FOREVER,
    RECORD,
    SESSION_SPACE,
    SLOT,
    UPDATED,
    Row,
    Rows,
    folded_hash,
    folded_of,
    id_number,
    is_session,
    pack_hash,
    pack_json,
    pack_time,
    record_of,
    space_of,
    state_row,
)
from keyfold.errors import NotFound
from keyfold.model import ACTIVE, SESSION, UNSET, Receipt, Record

_HELD: Final = f"SELECT {RECORD}, r.slot FROM records r WHERE "
_NS: Final = "(SELECT num FROM namespaces WHERE name = ?)"
_BY_ADDRESS: Final = f"{_HELD} r.ns = {_NS} AND r.space = ? AND r.key = ?"
_BY_ID: Final = f"{_HELD} r.id = ? AND r.ns = {_NS}"
_REPEATS: Final = (
    f"SELECT {RECORD}, r.slot FROM records r INDEXED BY records_repeat WHERE r.ns = {_NS} AND r.hash = ? "
    "AND r.space = ? AND r.space % 2 = 1 AND r.updated_at >= ? AND (r.expires_at IS NULL OR r.expires_at > ?)"
    "{} ORDER BY r.updated_at DESC"
)
_SIMILAR: Final = (
    f"SELECT slot, key, expires_at FROM records INDEXED BY records_folded WHERE folded = ? AND ns = {_NS}"
)
NEXT_ID: Final = "(SELECT 1 + max((SELECT value FROM meta WHERE name = 'last_id'), ifnull((SELECT max(id) FROM records), 0)))"
_LAST: Final = f"SELECT {index.LAST_SLOT}, num << 32 | indexed, {NEXT_ID} FROM namespaces WHERE name = ?"
_FIRST: Final = (
    "INSERT INTO namespaces (name, indexed, docs, tokens) VALUES (?, 0, 0, 0) "
    f"RETURNING num << 32, num << 32, {NEXT_ID}"
)
INSERT: Final = f"INSERT INTO records VALUES ({', '.join('?' * 21)})"
_REWRITE: Final = (
    "UPDATE records SET revision = ?, updated_at = ?, expires_at = ?, observed_at = ?, pinned = ?, taint = ?, "
    "hash = ?, type = ?, session = ?, title = ?, tags = ?, metadata = ?, content = ? WHERE slot = ?"
)
PAST: Final = f"INSERT INTO revisions VALUES ({', '.join('?' * 12)})"
_TOUCH: Final = (
    f"UPDATE records SET updated_at = max(updated_at, ?) WHERE ns = ? AND space = {SESSION_SPACE} AND key = ?"
)
_TOUCH_ALIVE: Final = f"{_TOUCH} AND type = '{ACTIVE}' AND updated_at >= ?"
_OTHER_ALIVE: Final = (
    f"SELECT 1 FROM records INDEXED BY records_active WHERE ns = ? AND space >= {SESSION_SPACE} "
    f"AND type = '{ACTIVE}' AND updated_at BETWEEN ? AND ? LIMIT 1"
)
_PRUNE: Final = (
    "DELETE FROM revisions WHERE slot = ?1 AND revision NOT IN "
    "(SELECT revision FROM revisions WHERE slot = ?1 ORDER BY revision DESC LIMIT ?2)"
)
MARK: Final = "INSERT OR REPLACE INTO marks VALUES (?, ?)"
_UNMARK: Final = "DELETE FROM marks WHERE slot = ?"
FORGETS: Final = "UPDATE meta SET value = value + 1 WHERE name = 'forgets'"
_RAISE_ID: Final = "UPDATE meta SET value = max(value, ?) WHERE name = 'last_id'"
_EMPTY_HASH: Final = pack_hash(sha256(b"").hexdigest())


def store_one(
    conn: apsw.Connection,
    intent: Intent,
    now: datetime,
    keep: int | None,
    prepared: index.Tokens | None = None,
) -> Receipt:
    """Carry out one write."""
    micros = to_micros(now)
    if intent.idempotency is not None:
        receipt = idempotency.first_receipt(conn, intent, micros)
        if receipt is not None:
            return receipt
    held: Record | None = None
    slot = 0
    row = _look_up(conn, intent)
    if row is not None:
        if row[EXPIRES] is None or row[EXPIRES] > micros:
            held, slot = record_of(row, intent.namespace), row[SLOT]
        elif intent.mode != "update":
            remove(conn, ((row[SLOT], row[0]),))
    if held is None and intent.id is not None:
        raise NotFound(f"there is no {intent.describe()}")
    if intent.id is None and intent.key is None and intent.mode != "update":
        repeat = _find_repeat(conn, intent, now, micros) if intent.mode == "upsert" else None
        if repeat is not None:
            record, slot = repeat
            return _deduped(conn, intent, Decision("deduped", record), slot, micros)
        intent = replace(intent, key=ulid(micros, os.urandom(10)), minted=True)
    decision = decide(held, intent, now)
    if decision.outcome == "created":
        return _create(conn, intent, decision, micros, keep, prepared)
    if held is None or decision.outcome == "deduped":
        return _deduped(conn, intent, decision, slot, micros)
    return _rewrite(conn, intent, held, decision, slot, micros, keep, prepared)


def _look_up(conn: apsw.Connection, intent: Intent) -> Row | None:
    if intent.id is not None:
        number = id_number(intent.id)
        rows = conn.execute(_BY_ID, (number, intent.namespace)).fetchall() if number else None
        if rows and is_session(rows[0]) and intent.kind != SESSION:
            return None
    elif intent.key is not None:
        address = (intent.namespace, space_of(intent.kind, intent.minted), intent.key)
        rows = conn.execute(_BY_ADDRESS, address).fetchall()
    else:
        rows = None
    return rows[0] if rows else None


def _find_repeat(
    conn: apsw.Connection, intent: Intent, now: datetime, micros: int
) -> tuple[Record, int] | None:
    """The unkeyed record that an unkeyed save repeats, and its slot."""
    window = intent.dedup_window
    if window is not None and window <= 0:
        return None
    since = -FOREVER if window is None else micros - int(min(window, 1e11) * 1_000_000) - 1
    space = space_of(intent.kind, True)
    asked = (intent.namespace, pack_hash(intent.normalized_hash or ""), space, since, micros)
    sql, values = _said_alike(intent)
    rows = conn.execute(_REPEATS.format(sql), (*asked, *values))
    for _, group in groupby(
        rows, key=itemgetter(UPDATED)
    ):  # newest first, and of one moment the first written
        found = [(record_of(row, intent.namespace), int(row[SLOT])) for row in reversed(list(group))]
        repeat = find_duplicate([record for record, _ in found], intent, now)
        if repeat is not None:
            if intent.expect_revision is not None:
                check_revision(repeat, intent)
            return next((record, slot) for record, slot in found if record is repeat)
    return None


def _said_alike(intent: Intent) -> tuple[str, tuple[Any, ...]]:
    """What `find_duplicate` asks of a record, as far as columns tell it: a text may be there ten thousand times.

    It is SQL to go on with, and its values.
    """
    if intent.dedup_on == "content":
        return "", ()
    pinned = int(intent.pinned is not UNSET and bool(intent.pinned))
    sql = " AND r.type = ? AND r.title = ? AND r.pinned = ?"
    expires = None if intent.expires_at is UNSET else pack_time(intent.expires_at)
    ends: tuple[Any, ...] = (expires,)
    if intent.expires_in is not None and expires is not None:  # a span: the same one names another moment now
        window = FOREVER if intent.dedup_window is None else int(intent.dedup_window * 1_000_000)
        ends = (expires - window, expires + window)
        sql += " AND r.expires_at BETWEEN ? AND ?"
    else:
        sql += " AND r.expires_at IS ?"
    for column, value in (("metadata", intent.metadata), ("tags", intent.tags)):
        given = value is not UNSET and bool(value)
        sql += f" AND r.{column} IS {'NOT NULL' if given else 'NULL'}"
    return sql, (intent.type, intent.title, pinned, *ends)


def _deduped(conn: apsw.Connection, intent: Intent, decision: Decision, slot: int, micros: int) -> Receipt:
    receipt = receipt_of(decision, decision.record.id)
    if intent.idempotency is not None:
        idempotency.remember(conn, intent.idempotency, slot, receipt, (), micros)
    return receipt


def _create(
    conn: apsw.Connection,
    intent: Intent,
    decision: Decision,
    micros: int,
    keep: int | None,
    prepared: index.Tokens | None,
) -> Receipt:
    record = decision.record
    namespace, topic = record.namespace, record.topic_key
    folded: int | None = None
    similar: list[tuple[str, int]] = []
    if topic is not None:
        folded_key = folded_of(topic)
        folded = folded_hash(namespace, folded_key)
        similar = find_similar(conn, namespace, folded_key, folded, micros)
    last, indexed, number = allocate(conn, namespace)
    slot = last + 1
    conn.execute(INSERT, record_row(slot, number, record, folded))
    mark = mark_of(intent, record)
    if mark is not None:
        conn.execute(MARK, (slot, mark))
    if record.kind != SESSION:
        index.add(conn, slot, record, prepared, slot - indexed)
    if decision.past:
        _keep_past(conn, slot, decision, keep)
    if intent.session is not None and intent.mode != "load":
        use_session(conn, namespace, slot >> 32, intent.session, micros)
    receipt = receipt_of(decision, str(number), tuple([key for key, _ in similar]))
    if intent.idempotency is not None:
        idempotency.remember(conn, intent.idempotency, slot, receipt, [at for _, at in similar], micros)
    return receipt


def mark_of(intent: Intent, record: Record) -> bytes | None:
    """The mark of an import, where the record says what its source says and will go on to."""
    load = intent.load
    return load.mark if load is not None and load.current is not None and record.expires_at is None else None


def find_similar(
    conn: apsw.Connection, namespace: str, folded_key: str, folded: int, micros: int
) -> list[tuple[str, int]]:
    """The existing keys, and their slots, that differ from a new one only as `folded_of` says."""
    rows: Rows = conn.execute(_SIMILAR, (folded, namespace)).fetchall()
    if not rows:
        return []
    return sorted(
        (key, slot)
        for slot, key, expires in rows
        if folded_of(key) == folded_key and (expires is None or expires > micros)
    )


def allocate(conn: apsw.Connection, namespace: str) -> tuple[int, int, int]:
    """The last slot taken, the last that is indexed and the next public id; a namespace is made when it is the first.

    Nothing is counted up: the row that is inserted takes its slot.
    """
    rows: Rows = conn.execute(_LAST, (namespace,)).fetchall()
    if not rows:
        first: Rows = conn.execute(_FIRST, (namespace,)).fetchall()
        rows = first
    last, indexed, number = rows[0]
    return last, indexed, number


def record_row(slot: int, number: int, record: Record, folded: int | None, length: int = 0) -> Row:
    """A new record as a row, in the order of the table's columns; `length` is that of its words in the index."""
    updated = to_micros(record.updated_at)
    expires, observed, tags, metadata = record.expires_at, record.observed_at, record.tags, record.metadata
    return (
        slot,
        slot >> 32,
        space_of(record.kind, record.minted),
        number,
        record.revision_count,
        updated,
        updated if record.created_at is record.updated_at else to_micros(record.created_at),
        None if expires is None else to_micros(expires),
        None if observed is None else to_micros(observed),
        1 if record.pinned else 0,
        1 if record.taint == "external" else 0,
        length,
        folded,
        pack_hash(record.normalized_hash),
        record.key,
        record.type,
        record.session_id,
        record.title,
        pack_json(tags) if tags else None,
        pack_json(metadata) if metadata else None,
        record.content,
    )


def _rewrite(
    conn: apsw.Connection,
    intent: Intent,
    held: Record,
    decision: Decision,
    slot: int,
    micros: int,
    keep: int | None,
    prepared: index.Tokens | None,
) -> Receipt:
    record = decision.record
    row = (
        record.revision_count,
        to_micros(record.updated_at),
        pack_time(record.expires_at),
        pack_time(record.observed_at),
        1 if record.pinned else 0,
        1 if record.taint == "external" else 0,
        pack_hash(record.normalized_hash),
        record.type,
        record.session_id,
        record.title,
        pack_json(record.tags),
        pack_json(record.metadata),
        record.content,
        slot,
    )
    conn.execute(_REWRITE, row)
    conn.execute(_UNMARK, (slot,))
    mark = mark_of(intent, record)
    if mark is not None:
        conn.execute(MARK, (slot, mark))
    if record.kind != SESSION and (
        record.content != held.content or record.title != held.title or record.tags != held.tags
    ):
        index.change(conn, slot, record, prepared)
    _keep_past(conn, slot, decision, keep)
    if intent.session is not None and intent.mode != "load":
        use_session(conn, record.namespace, slot >> 32, intent.session, micros)
    receipt = receipt_of(decision, record.id)
    if intent.idempotency is not None:
        idempotency.remember(conn, intent.idempotency, slot, receipt, (), micros)
    return receipt


def _keep_past(conn: apsw.Connection, slot: int, decision: Decision, keep: int | None) -> None:
    """Put former states into the history, and drop those beyond what is kept."""
    for state in decision.past:
        conn.execute(PAST, state_row(slot, state))
    if keep is not None:
        conn.execute(_PRUNE, (slot, max(keep - 1, 0)))
        if conn.changes():
            conn.execute(FORGETS)


def use_session(conn: apsw.Connection, namespace: str, num: int, use: SessionUse, micros: int) -> None:
    """Touch or open the session of a write. SessionLapsed when it had to be alive and is not, or be the first."""
    if not (use.explicit or use.opens):
        since = to_micros(use.alive_since) if use.alive_since is not None else -FOREVER
        conn.execute(_TOUCH_ALIVE, (micros, num, use.id, since))
        if not conn.changes():
            raise SessionLapsed(use.id)
        return
    conn.execute(_TOUCH, (micros, num, use.id))
    if conn.changes():
        return
    if use.opens and use.alive_since is not None:
        since = to_micros(use.alive_since)
        # as far ahead as behind: one that lies in the far future is not joined when a session is looked for either
        if conn.execute(_OTHER_ALIVE, (num, since, 2 * micros - since)).fetchall():
            raise SessionLapsed(use.id)
    last, _, number = allocate(conn, namespace)
    now = from_micros(micros)
    record = Record(
        "", namespace, SESSION, use.id, False, ACTIVE, "Session", "", {}, (), None, 1, "", now, now, None,
        False, "internal", None,
    )  # fmt: skip  # one line a field says less
    row = record_row(last + 1, number, record, None)
    conn.execute(INSERT, (*row[:13], _EMPTY_HASH, *row[14:]))


def remove(conn: apsw.Connection, gone: tuple[tuple[int, int], ...] | list[tuple[int, int]]) -> None:
    """Remove records, given as (slot, id), with all that hangs on them: words, history, keys, statistics."""
    if not gone:
        return
    slots = [(slot,) for slot, _ in gone]
    for slot, _ in gone:
        rows: Rows = conn.execute("SELECT space, length FROM records WHERE slot = ?", (slot,)).fetchall()
        space, length = rows[0]
        if space < SESSION_SPACE:
            index.drop(conn, slot, length)
    conn.executemany("DELETE FROM revisions WHERE slot = ?", slots)
    conn.executemany("DELETE FROM idempotency WHERE slot = ?", slots)
    conn.executemany(_UNMARK, slots)
    conn.executemany("DELETE FROM records WHERE slot = ?", slots)
    conn.execute(_RAISE_ID, (max(number for _, number in gone),))
    conn.execute(FORGETS)
