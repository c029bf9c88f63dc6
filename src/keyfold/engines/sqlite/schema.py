"""The tables, and how a store's file comes to have them.

Records are clustered by namespace: `slot` is the namespace's number << 32 | a sequence within it, and it is
the row id of the text index too, so that a search touches only the postings of one namespace. Narrow
columns come before the texts: what is sorted and filtered by is read without the pages of a long text.

The index holds tokens only (contentless); whatever changes a record's text deletes and inserts its row in
the same transaction, never INSERT OR REPLACE, which would leave the old postings behind.
"""

from __future__ import annotations

from typing import Final

import apsw

from keyfold.errors import StoreError
from keyfold.text.tokens import TOKENIZER_VERSION

APPLICATION_ID: Final = 0x4B46_4C44  # "KFLD"
VERSION: Final = 2
# Half of it made a save 7 % quicker at the median, and a store of short texts 6 % larger: of five rows of 370 bytes
# a page, a tenth is left over. The pages of the index fit into it as FTS5 makes them.
PAGE_SIZE: Final = 4096

# Of each record that an import wrote last, and that its source alone says all of: a digest of what the source said.
MARKS: Final = "CREATE TABLE marks (slot INTEGER PRIMARY KEY, mark BLOB NOT NULL) STRICT"

# Spaces: kind index * 2 + minted (see rows.py), so sessions are 8 and 9, summaries 6 and 7.
# `records_time` carries space and expires_at so that counting a listing stays within the index.
# Active sessions are few and touched by every save, so their index has no time in it that would have to move.
TABLES: Final = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
CREATE TABLE namespaces (
    num INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    indexed INTEGER NOT NULL,
    docs INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;
CREATE TABLE records (
    slot INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL,
    space INTEGER NOT NULL,
    id INTEGER NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    observed_at INTEGER,
    pinned INTEGER NOT NULL,
    taint INTEGER NOT NULL,
    length INTEGER NOT NULL,
    folded INTEGER,
    hash ANY NOT NULL,
    key TEXT NOT NULL,
    type TEXT NOT NULL,
    session TEXT,
    title TEXT NOT NULL,
    tags TEXT,
    metadata TEXT,
    content TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_address ON records (ns, space, key);
CREATE INDEX records_time ON records (ns, updated_at, id, space, expires_at) WHERE space < 8;
CREATE INDEX records_summaries ON records (ns, updated_at, id) WHERE space >= 6 AND space < 8;
CREATE INDEX records_active ON records (ns) WHERE space >= 8 AND type = 'active';
CREATE INDEX records_closed ON records (ns, updated_at, id) WHERE space >= 8 AND type = 'completed';
CREATE INDEX records_folded ON records (folded) WHERE folded IS NOT NULL;
CREATE INDEX records_repeat ON records (ns, hash, updated_at) WHERE space % 2 = 1;
CREATE TABLE revisions (
    slot INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    expires_at INTEGER,
    pinned INTEGER NOT NULL,
    hash ANY NOT NULL,
    type TEXT NOT NULL,
    session TEXT,
    title TEXT NOT NULL,
    tags TEXT,
    metadata TEXT,
    content TEXT NOT NULL,
    PRIMARY KEY (slot, revision)
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency (
    ns INTEGER NOT NULL,
    operation TEXT NOT NULL,
    key BLOB NOT NULL,
    body BLOB NOT NULL,
    slot INTEGER,
    receipt TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (ns, operation, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_slot ON idempotency (slot) WHERE slot IS NOT NULL;
CREATE INDEX idempotency_age ON idempotency (created_at);
CREATE TABLE unindexed (slot INTEGER PRIMARY KEY, stale INTEGER NOT NULL) STRICT;
{MARKS};
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, tokenize = 'ascii');
"""

# last_id: the highest id that was ever deleted (the next one is above it and above all that are there).
# forgets counts the transactions that removed text, erased is that count when the bytes were last erased.
META: Final = (("last_id", 0), ("forgets", 0), ("erased", 0), ("tokenizer", TOKENIZER_VERSION))


def stands(conn: apsw.Connection, name: str) -> bool:
    """Whether the file holds a store, of this version or an earlier one; False when it is empty.

    StoreError for anything else.
    """
    application, version = number(conn, "application_id"), number(conn, "user_version")
    if application == APPLICATION_ID:
        if version > VERSION:
            raise StoreError(
                f"{name} was written by a newer Keyfold (schema {version}; this one reads up to {VERSION}): "
                "upgrade the keyfold package. Nothing was changed"
            )
        if version < 1:
            raise StoreError(f"{name} is a store without a version: restore a backup. Nothing was changed")
        return True
    if application or version or conn.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall():
        raise StoreError(
            f"{name} is a SQLite file of another program: choose another path. Nothing was changed"
        )
    return False


def number(conn: apsw.Connection, pragma: str) -> int:
    """An integer that a PRAGMA tells."""
    rows: list[tuple[int]] = conn.execute(f"PRAGMA {pragma}").fetchall()  # type: ignore[assignment]  # apsw cannot know
    return rows[0][0]


def create(conn: apsw.Connection, name: str) -> None:
    """Make the tables, unless another process did so first."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        if not stands(conn, name):
            conn.execute(TABLES)
            conn.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", META)
            conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            conn.execute(f"PRAGMA user_version = {VERSION}")
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
