"""The word index, which is written in batches: one write of FTS5 costs as much as all else of a save.

A save of a short text leaves the index alone. What waits for it follows from the slots: those above the namespace's
`indexed` are new; a record below that was rewritten is noted in `unindexed`, where `stale` says that the index
still holds its earlier state. Every BATCH-th of a kind puts all that waits into the index, in its own transaction.
A search reads what waits from the records themselves, so that it is never behind (see search.py). A long text
is indexed at once, with all that waits, by tokens made before the write lock was taken.

`records.length` and the namespace's `docs` and `tokens` are those of what the index holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import apsw

from keyfold.contract.indexed_text import indexed_text
from keyfold.contract.intents import Intent
from keyfold.engines.sqlite.rows import RECORD, SESSION_SPACE, Rows, namespace_slots, record_of
from keyfold.errors import StoreError
from keyfold.model import OBSERVATION, SESSION, UNSET, Record
from keyfold.text.tokens import TOKENIZER_VERSION, joined_tokens

BATCH: Final = 16
SHORT: Final = 4096  # characters; longer texts are indexed at once

# The highest slot of a namespace's records, or of all that was ever indexed there: the next one is above it.
LAST_SLOT: Final = (
    "max(num << 32 | indexed, ifnull((SELECT max(slot) FROM records "
    "WHERE slot BETWEEN num << 32 AND num << 32 | 0xffffffff), 0))"
)
_NOTE: Final = (
    "INSERT OR IGNORE INTO unindexed (slot, stale) "
    "SELECT ?1, 1 FROM namespaces WHERE num = ?1 >> 32 AND num << 32 | indexed >= ?1"
)
_IS_SETTLED: Final = "SELECT 1 FROM namespaces WHERE num = ?1 >> 32 AND num << 32 | indexed >= ?1"
_HOW_MANY: Final = "SELECT count(*) FROM unindexed WHERE slot BETWEEN ? AND ?"
# In the order of slots: FTS5 writes a segment for each step back.
_WAITING: Final = (
    f"SELECT {RECORD}, u.slot, u.stale, r.length FROM unindexed u CROSS JOIN records r ON r.slot = u.slot "
    "WHERE u.slot BETWEEN ?1 << 32 AND ?1 << 32 | 0xffffffff UNION ALL "
    f"SELECT {RECORD}, r.slot, 0, 0 FROM namespaces n CROSS JOIN records r "
    "ON r.slot BETWEEN (n.num << 32 | n.indexed) + 1 AND n.num << 32 | 0xffffffff "
    f"WHERE n.num = ?1 AND r.space < {SESSION_SPACE}"
)
_UNNOTE: Final = "DELETE FROM unindexed WHERE slot = ? RETURNING stale"
_UNNOTE_ONE: Final = "DELETE FROM unindexed WHERE slot = ?"
_UNNOTE_ALL: Final = "DELETE FROM unindexed WHERE slot BETWEEN ? AND ?"
INSERT: Final = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_DELETE: Final = "DELETE FROM words WHERE rowid = ?"
_LENGTH: Final = "UPDATE records SET length = ? WHERE slot = ?"
SETTLE: Final = f"UPDATE namespaces SET docs = docs + ?, tokens = tokens + ?, indexed = {LAST_SLOT} & 0xffffffff WHERE num = ?"
_STATISTICS: Final = "UPDATE namespaces SET docs = docs + ?, tokens = tokens + ? WHERE num = ?"
_START_OVER: Final = (
    "INSERT INTO words (words) VALUES ('delete-all')",
    "UPDATE records SET length = 0",
    # from the records alone: the index holds nothing, and what the column said may be damaged
    (
        "UPDATE namespaces SET docs = 0, tokens = 0, indexed = ifnull((SELECT max(slot) FROM records "
        "WHERE slot BETWEEN num << 32 AND num << 32 | 0xffffffff), 0) & 0xffffffff"
    ),
    f"INSERT OR REPLACE INTO unindexed SELECT slot, 0 FROM records WHERE space < {SESSION_SPACE}",
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


def add(conn: apsw.Connection, slot: int, record: Record, prepared: Tokens | None, waiting: int) -> None:
    """Have a new record found. It was inserted with length 0; `waiting` slots, its own among them, are not indexed."""
    if len(record.content) > SHORT or waiting >= BATCH:
        flush(conn, slot >> 32, slot, prepared)


def change(conn: apsw.Connection, slot: int, record: Record, prepared: Tokens | None) -> None:
    """Have a record found by its new text."""
    conn.execute(_NOTE, (slot,))
    noted = conn.changes()
    if len(record.content) > SHORT or (noted and _noted(conn, slot) >= BATCH):
        flush(conn, slot >> 32, slot, prepared)


def drop(conn: apsw.Connection, slot: int, length: int) -> None:
    """Take a record out of the index."""
    noted: Rows = conn.execute(_UNNOTE, (slot,)).fetchall()
    if noted[0][0] if noted else conn.execute(_IS_SETTLED, (slot,)).fetchall():
        conn.execute(_DELETE, (slot,))
        conn.execute(_STATISTICS, (-1, -length, slot >> 32))


def flush(conn: apsw.Connection, num: int, at: int = 0, prepared: Tokens | None = None) -> None:
    """Index all that waits in a namespace. `prepared` is of the text at the slot `at`, unless a field was kept there.

    A program of another tokenizer may have made the index anew meanwhile: then all that waits is left to it.
    """
    if not is_current(conn):
        return
    docs = tokens = 0
    waiting: Rows = conn.execute(_WAITING, (num,)).fetchall()
    for row in waiting:
        slot, stale, length = row[-3:]
        text = text_of(record_of(row, ""))
        made = prepared if slot == at and prepared is not None and prepared.text == text else Tokens(text)
        if stale:
            conn.execute(_DELETE, (slot,))
        else:
            docs += 1
        conn.execute(INSERT, (slot, made.joined))
        conn.execute(_LENGTH, (made.count, slot))
        tokens += made.count - length
    conn.execute(SETTLE, (docs, tokens, num))
    conn.execute(_UNNOTE_ALL, namespace_slots(num))


def is_current(conn: apsw.Connection) -> bool:
    """Whether the index was made by this version's tokenizer."""
    rows: Rows = conn.execute("SELECT value FROM meta WHERE name = 'tokenizer'").fetchall()
    return rows == [(TOKENIZER_VERSION,)]


def check(conn: apsw.Connection, name: str, *, readonly: bool) -> None:
    """StoreError where a search would answer from the words of another tokenizer."""
    if is_current(conn):
        return
    if readonly:
        raise StoreError(
            f"{name} is read-only, and its word index was made by another version of Keyfold: open it once where it "
            "can be written, which makes the index again. All but a search works"
        )
    raise StoreError(
        f"the word index of {name} was made anew by another version of Keyfold while this program had the store open: "
        "restart it with that version. All but a search works"
    )


def rebuild(conn: apsw.Connection, without: Iterable[int] = ()) -> None:
    """Index everything anew, in the caller's transaction: after a change of the tokenizer, or a fault.

    `without` are slots to leave out, because what stands there cannot be read.
    """
    for statement in _START_OVER:
        conn.execute(statement)
    conn.execute("INSERT OR REPLACE INTO meta VALUES ('tokenizer', ?)", (TOKENIZER_VERSION,))
    conn.executemany(_UNNOTE_ONE, [(slot,) for slot in without])
    numbers: Rows = conn.execute("SELECT num FROM namespaces").fetchall()
    for (num,) in numbers:
        flush(conn, num)


def _noted(conn: apsw.Connection, slot: int) -> int:
    count: Rows = conn.execute(_HOW_MANY, namespace_slots(slot >> 32)).fetchall()
    return int(count[0][0])
