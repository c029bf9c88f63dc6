"""A caller's idempotency keys: the first receipt again for the same call, for 24 hours.

Rows hold digests and receipts. A save's row goes with its record. A forget's row outlives what it removed, the
name of the namespace included, so it stands under number 0 and its key is a digest over the name; it
holds counts and ids.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import apsw

from keyfold.contract.decide import other_call
from keyfold.contract.intents import Idempotency, Intent, Selector
from keyfold.engines.sqlite.rows import Rows, words_in
from keyfold.model import DeleteResult, Receipt

KEPT: Final = 24 * 3600 * 1_000_000  # microseconds

_FIND: Final = (
    "SELECT body, receipt, slot FROM idempotency "
    "WHERE ns = (SELECT num FROM namespaces WHERE name = ?) AND operation = ? AND key = ? AND created_at > ?"
)
_FIND_FORGET: Final = (
    "SELECT body, receipt FROM idempotency WHERE ns = 0 AND operation = ? AND key = ? AND created_at > ?"
)
_REMEMBER: Final = "INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)"
_EXPIRE: Final = "DELETE FROM idempotency WHERE created_at <= ?"
_KEY_AT: Final = "SELECT key FROM records WHERE slot = ?"


def first_receipt(conn: apsw.Connection, intent: Intent, micros: int) -> Receipt | None:
    """The receipt of the first call with this key, or None. IdempotencyConflict when the body was another."""
    given = intent.idempotency
    assert given is not None
    asked = (intent.namespace, given.operation, given.key, micros - KEPT)
    rows: Rows = conn.execute(_FIND, asked).fetchall()
    if not rows:
        return None
    body, text, slot = rows[0]
    held: dict[str, Any] = json.loads(text)
    if body != given.body:
        raise other_call(held["id"])
    keys = [key for at in held["similar"] for key in _key_at(conn, at)]
    topic = _key_at(conn, slot)[0] if held["keyed"] else None
    return Receipt(
        held["id"], topic, held["outcome"], held["revision"], True, held["session"], held["hash"], tuple(keys)
    )


def _key_at(conn: apsw.Connection, slot: int) -> list[str]:
    rows: Rows = conn.execute(_KEY_AT, (slot,)).fetchall()
    return [words_in(row[0]) for row in rows]


def remember(
    conn: apsw.Connection,
    given: Idempotency,
    slot: int,
    receipt: Receipt,
    similar: Sequence[int],
    micros: int,
) -> None:
    """Keep the receipt of a write. Other records' keys are kept as slots: they must not outlive their record."""
    text = {
        "id": receipt.id,
        "outcome": receipt.outcome,
        "revision": receipt.revision_count,
        "session": receipt.session_id,
        "hash": receipt.normalized_hash,
        "keyed": receipt.topic_key is not None,
        "similar": list(similar),
    }
    conn.execute(_EXPIRE, (micros - KEPT,))
    row = (slot >> 32, given.operation, given.key, given.body, slot, json.dumps(text), micros)
    conn.execute(_REMEMBER, row)


def first_forget(conn: apsw.Connection, selector: Selector, micros: int) -> DeleteResult | None:
    """What the first forget with this key did, or None."""
    given = selector.idempotency
    assert given is not None
    asked = (given.operation, _forget_key(selector.namespace, given), micros - KEPT)
    rows: Rows = conn.execute(_FIND_FORGET, asked).fetchall()
    if not rows:
        return None
    body, text = rows[0]
    held: dict[str, Any] = json.loads(text)
    if body != given.body:
        raise other_call(held["ids"][0] if held["ids"] else None)
    return DeleteResult(held["deleted"], tuple(held["ids"]), replayed=True)


def remember_forget(conn: apsw.Connection, selector: Selector, result: DeleteResult, micros: int) -> None:
    """Keep what a forget did."""
    given = selector.idempotency
    assert given is not None
    text = json.dumps({"deleted": result.deleted, "ids": result.ids})
    conn.execute(_EXPIRE, (micros - KEPT,))
    row = (0, given.operation, _forget_key(selector.namespace, given), given.body, None, text, micros)
    conn.execute(_REMEMBER, row)


def _forget_key(namespace: str, given: Idempotency) -> bytes:
    return sha256(namespace.encode() + b"\0" + given.key).digest()
