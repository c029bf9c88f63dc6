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
import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

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
COUNT_MANY = "UPDATE users SET records = records + ? WHERE number=?"
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

    def save_many(self, user: str, type: str, batch: list[tuple[str, str, str]]) -> None:
        """New keyed saves (key, title, content) in one transaction: statements 3 to 5 of `save` once a record."""
        run = self.db.execute
        now = time.time_ns() // 1000
        run("BEGIN IMMEDIATE")
        (number,) = run(SELECT_USER, (user,)).fetchone()
        for key, title, content in batch:
            digest = hashlib.sha256(content.encode()).digest()
            assert run(SELECT_KEY, (number, key)).fetchone() is None
            run(INSERT_RECORD, (number, key, type, title, content, digest, "s", now, now))
            run(INSERT_WORDS, (self.db.last_insert_rowid(), f"{title}\n{content}\n{key}"))
        run(COUNT_MANY, (len(batch), number))
        run(TOUCH, (now, "s"))
        run("COMMIT")

    def get(self, user: str, key: str) -> object:
        """A read by key."""
        return self.db.execute(READ, (user, key)).fetchone()

    def close(self) -> None:
        """Close the file."""
        self.db.close()


# An import of keyfold JSON Lines, in transactions of `batch` records. A batch is seven statements, three of them
# carried out once a record:
#
# 1. BEGIN IMMEDIATE
# 2. SELECT the user's number by name, or INSERT the user (when the name differs from the line before)
# 3. SELECT the record at (user, key) (once a record: an import may be repeated)
# 4. INSERT the record                (executemany: once a record)
# 5. INSERT its words into the index  (executemany: once a record)
# 6. UPDATE the user's counters       (once a user)
# 7. COMMIT
IMPORT_USER = (
    "INSERT INTO users(name, records) VALUES(?, 0) ON CONFLICT DO UPDATE SET name=name RETURNING number"
)
IMPORT_RECORD = (
    "INSERT INTO records(id, user, key, type, title, content, hash, session, revision, created_at, updated_at) "
    "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class RawImport(Raw):
    """The raw program's import."""

    def load(self, path: Path, batch: int) -> int:
        """Import an export; the number of records."""
        self._last = self._number = 0
        self._user = ""
        waiting: list[dict[str, Any]] = []
        with path.open("rb") as lines:
            for line in lines:
                value = json.loads(line)
                if "namespace" not in value:  # the header and the closing line
                    continue
                waiting.append(value)
                if len(waiting) == batch:
                    self._store(waiting)
                    waiting = []
        self._store(waiting)
        return self._last

    def _store(self, waiting: list[dict[str, Any]]) -> None:
        run = self.db.execute
        records, words = [], []
        counts: dict[int, int] = {}
        run("BEGIN IMMEDIATE")
        for value in waiting:
            if value["namespace"] != self._user:
                self._user = value["namespace"]
                (self._number,) = run(IMPORT_USER, (self._user,)).fetchone()
            number = self._number
            counts[number] = counts.get(number, 0) + 1
            self._last += 1
            key, title, content = value["key"], value["title"], value["content"]
            assert run(SELECT_KEY, (number, key)).fetchone() is None
            records.append((
                self._last, number, key, value["type"], title, content, hashlib.sha256(content.encode()).digest(),
                value["session_id"], value["revision"], micros(value["created_at"]), micros(value["updated_at"]),
            ))  # fmt: skip
            words.append((self._last, f"{title}\n{content}\n{key}"))
        self.db.executemany(IMPORT_RECORD, records)
        self.db.executemany(INSERT_WORDS, words)
        self.db.executemany(COUNT_MANY, [(count, number) for number, count in counts.items()])
        run("COMMIT")


def micros(moment: str) -> int:
    """A time as whole microseconds."""
    return int(datetime.fromisoformat(moment).timestamp() * 1e6)
