"""The baseline: the fewest statements with which a careful program on apsw stores the same memory.

It has no validation, no redaction, no history, no sessions to resolve and one fixed schema. A new keyed save
is eight statements:

1. BEGIN IMMEDIATE
2. SELECT the user's number by name
3. SELECT the record at (user, key)
4. INSERT the record
5. INSERT its words into a contentless FTS5 index (SQLite's own porter tokenizer)
6. UPDATE the user's counters
7. UPDATE the session's last activity
8. COMMIT

A read by key is one SELECT.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import apsw

SCHEMA = """
CREATE TABLE users(number INTEGER PRIMARY KEY, name TEXT UNIQUE, records INTEGER);
CREATE TABLE sessions(id TEXT PRIMARY KEY, user INTEGER, active_at INTEGER) WITHOUT ROWID;
CREATE TABLE records(
    id INTEGER PRIMARY KEY AUTOINCREMENT, user INTEGER, key TEXT, type TEXT, title TEXT, content TEXT,
    hash BLOB, session TEXT, revision INTEGER, created_at INTEGER, updated_at INTEGER);
CREATE UNIQUE INDEX record_key ON records(user, key);
CREATE INDEX record_time ON records(user, updated_at);
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='porter unicode61');
"""
SELECT_USER = "SELECT number FROM users WHERE name=?"
SELECT_KEY = "SELECT id, revision, hash FROM records WHERE user=? AND key=?"
INSERT_RECORD = (
    "INSERT INTO records(user, key, type, title, content, hash, session, revision, created_at, updated_at) "
    "VALUES(?, ?, ?, ?, ?, ?, ?, 1, ?, ?)"
)
INSERT_WORDS = "INSERT INTO words(rowid, text) VALUES(?, ?)"
COUNT_UP = "UPDATE users SET records = records + 1 WHERE number=?"
TOUCH = "UPDATE sessions SET active_at=? WHERE id=?"
READ = (
    "SELECT id, type, title, content, hash, session, revision, created_at, updated_at FROM records "
    "WHERE user=(SELECT number FROM users WHERE name=?) AND key=?"
)


class Raw:
    """The raw program."""

    def __init__(self, path: Path, durability: str) -> None:
        self.db = apsw.Connection(str(path))
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute(f"PRAGMA synchronous={'FULL' if durability == 'full' else 'NORMAL'}")
        self.db.execute(SCHEMA)
        self.db.execute("INSERT INTO users VALUES(1, 'alice', 0)")
        self.db.execute("INSERT INTO sessions VALUES('s', 1, 0)")

    def save(self, user: str, key: str, type: str, title: str, content: str) -> int:
        """A new keyed save."""
        run = self.db.execute
        now = time.time_ns() // 1000
        digest = hashlib.sha256(content.encode()).digest()
        run("BEGIN IMMEDIATE")
        (number,) = run(SELECT_USER, (user,)).fetchone()
        assert run(SELECT_KEY, (number, key)).fetchone() is None
        run(INSERT_RECORD, (number, key, type, title, content, digest, "s", now, now))
        identity = self.db.last_insert_rowid()
        run(INSERT_WORDS, (identity, f"{title}\n{content}\n{key}"))
        run(COUNT_UP, (number,))
        run(TOUCH, (now, "s"))
        run("COMMIT")
        return identity

    def get(self, user: str, key: str) -> object:
        """A read by key."""
        return self.db.execute(READ, (user, key)).fetchone()

    def close(self) -> None:
        """Close the file."""
        self.db.close()
