"""The word index, which is written in batches: one write of FTS5 costs as much as all else of a save.

A save of a short text only notes its slot in `unindexed`; every BATCH-th of a namespace puts them all into the
index, in its own transaction. A search reads what is noted from the records themselves, so that it is never
behind (see search.py). A long text is indexed at once, by tokens made before the write lock was taken.

`stale` says that the index still holds an earlier state of the record. `records.length` and the namespace's
`docs` and `tokens` are those of what the index holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import apsw

from keyfold.contract.indexed_text import indexed_text
from keyfold.contract.intents import Intent
from keyfold.engines.sqlite.rows import RECORD, Rows, namespace_slots, record_of
from keyfold.model import OBSERVATION, SESSION, UNSET, Record
from keyfold.text.tokens import TOKENIZER_VERSION, joined_tokens

BATCH: Final = 16
SHORT: Final = 4096  # characters; longer texts are indexed at once

_NOTE: Final = "INSERT OR IGNORE INTO unindexed (slot, stale) VALUES (?, ?)"
_HOW_MANY: Final = "SELECT count(*) FROM unindexed WHERE slot BETWEEN ? AND ?"
_NOTED: Final = (
    f"SELECT {RECORD}, u.slot, u.stale, r.length FROM unindexed u CROSS JOIN records r ON r.slot = u.slot "
    "WHERE u.slot BETWEEN ? AND ?"
)
_UNNOTE: Final = "DELETE FROM unindexed WHERE slot = ? RETURNING stale"
_UNNOTE_ONE: Final = "DELETE FROM unindexed WHERE slot = ?"
_UNNOTE_ALL: Final = "DELETE FROM unindexed WHERE slot BETWEEN ? AND ?"
INSERT: Final = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_DELETE: Final = "DELETE FROM words WHERE rowid = ?"
_LENGTH: Final = "UPDATE records SET length = ? WHERE slot = ?"
STATISTICS: Final = "UPDATE namespaces SET docs = docs + ?, tokens = tokens + ? WHERE num = ?"
_START_OVER: Final = (
    "INSERT INTO words (words) VALUES ('delete-all')",
    "UPDATE records SET length = 0",
    "UPDATE namespaces SET docs = 0, tokens = 0",
    "INSERT OR REPLACE INTO unindexed SELECT slot, 0 FROM records WHERE space < 8",
)


class Tokens:
    """The tokens of a text, as the index takes them."""

    __slots__ = ("count", "joined", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.joined, self.count = joined_tokens(text)


def text_of(record: Record) -> str:
    """What of a record is indexed."""
    return indexed_text(record.title, record.content, record.topic_key, record.tags)


def prepare(intent: Intent, *, short: bool = False) -> Tokens | None:
    """The tokens of a long text (or of a `short` one), where the intent says all that will be indexed."""
    content = intent.content
    if (
        content is UNSET
        or (len(content) <= SHORT and not short)
        or intent.title is UNSET
        or intent.kind == SESSION
    ):
        return None
    topic = intent.key if intent.kind == OBSERVATION and not intent.minted else None
    return Tokens(indexed_text(intent.title, content, topic, intent.tags or ()))


def add(conn: apsw.Connection, slot: int, record: Record, prepared: Tokens | None) -> None:
    """Have a new record found. It was inserted with length 0."""
    if len(record.content) <= SHORT:
        _note(conn, slot, 0)
    else:
        _put(conn, slot, held=False, length=0, tokens=_tokens(record, prepared))


def change(conn: apsw.Connection, slot: int, record: Record, length: int, prepared: Tokens | None) -> None:
    """Have a record found by its new text; `length` is that of the text that the index holds."""
    if len(record.content) <= SHORT:
        _note(conn, slot, 1)
        return
    noted: Rows = conn.execute(_UNNOTE, (slot,)).fetchall()
    held = bool(noted[0][0]) if noted else True
    _put(conn, slot, held=held, length=length, tokens=_tokens(record, prepared))


def drop(conn: apsw.Connection, slot: int, length: int) -> None:
    """Take a record out of the index."""
    noted: Rows = conn.execute(_UNNOTE, (slot,)).fetchall()
    if not noted or noted[0][0]:
        conn.execute(_DELETE, (slot,))
        conn.execute(STATISTICS, (-1, -length, slot >> 32))


def flush(conn: apsw.Connection, num: int) -> None:
    """Index all that is noted of a namespace."""
    slots = namespace_slots(num)
    docs = tokens = 0
    noted: Rows = conn.execute(_NOTED, slots).fetchall()
    for row in noted:
        slot, stale, length = row[-3:]
        made = Tokens(text_of(record_of(row, "")))
        if stale:
            conn.execute(_DELETE, (slot,))
        else:
            docs += 1
        conn.execute(INSERT, (slot, made.joined))
        conn.execute(_LENGTH, (made.count, slot))
        tokens += made.count - length
    conn.execute(STATISTICS, (docs, tokens, num))
    conn.execute(_UNNOTE_ALL, slots)


def is_current(conn: apsw.Connection) -> bool:
    """Whether the index was made by this version's tokenizer."""
    rows: Rows = conn.execute("SELECT value FROM meta WHERE name = 'tokenizer'").fetchall()
    return rows == [(TOKENIZER_VERSION,)]


def rebuild(conn: apsw.Connection, without: Iterable[int] = ()) -> None:
    """Index everything anew, in the caller's transaction: after a change of the tokenizer, or a fault.

    `without` are slots to leave out, because what stands there cannot be read.
    """
    for statement in _START_OVER:
        conn.execute(statement)
    conn.executemany(_UNNOTE_ONE, [(slot,) for slot in without])
    numbers: Rows = conn.execute("SELECT num FROM namespaces").fetchall()
    for (num,) in numbers:
        flush(conn, num)
    conn.execute("UPDATE meta SET value = ? WHERE name = 'tokenizer'", (TOKENIZER_VERSION,))


def _note(conn: apsw.Connection, slot: int, stale: int) -> None:
    conn.execute(_NOTE, (slot, stale))
    count: Rows = conn.execute(_HOW_MANY, namespace_slots(slot >> 32)).fetchall()
    if count[0][0] >= BATCH:
        flush(conn, slot >> 32)


def _put(conn: apsw.Connection, slot: int, *, held: bool, length: int, tokens: Tokens) -> None:
    if held:
        conn.execute(_DELETE, (slot,))
    conn.execute(INSERT, (slot, tokens.joined))
    conn.execute(_LENGTH, (tokens.count, slot))
    conn.execute(STATISTICS, (0 if held else 1, tokens.count - length, slot >> 32))


def _tokens(record: Record, prepared: Tokens | None) -> Tokens:
    """What was prepared, unless the record kept a title, tags or content that the intent did not pass."""
    text = text_of(record)
    return prepared if prepared is not None and prepared.text == text else Tokens(text)
