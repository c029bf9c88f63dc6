"""A peer at work: run by bench_peers.py with the Python of .venv-peers, and told over stdin what to do.

Its `synchronous` is FULL or NORMAL, in WAL mode, or empty for what it does as installed. It answers each line `START COUNT` with a JSON list: the microseconds of COUNT saves, one call each, of the texts
from number START on. It shares the texts with the bench and nothing else with Keyfold.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from common import each, texts

Save = Callable[[str, str, str], object]


def langgraph(path: str, synchronous: str) -> Save:
    """LangGraph's long-term memory: a JSON value under (namespace, key)."""
    from langgraph.store.sqlite import SqliteStore

    # as its own from_conn_string opens it: journal mode DELETE, synchronous FULL
    conn = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    if synchronous:
        conn.execute("PRAGMA journal_mode=WAL")
        conn.execute(f"PRAGMA synchronous={synchronous}")
    store = SqliteStore(conn)
    store.setup()

    def save(key: str, title: str, content: str) -> object:
        value = {"type": "decision", "title": title, "content": content}
        return store.put(("memories", "alice"), key, value)

    return save


def agno(path: str, synchronous: str) -> Save:
    """Agno's user memories: a text with topics under an id. It switches to WAL itself, and leaves FULL."""
    from agno.db.schemas import UserMemory
    from agno.db.sqlite import SqliteDb
    from sqlalchemy import event

    db = SqliteDb(db_file=path)

    @event.listens_for(db.db_engine, "connect")
    def _durable(conn: Any, _record: Any) -> None:
        if synchronous:
            conn.execute(f"PRAGMA synchronous={synchronous}")

    def save(key: str, title: str, content: str) -> object:
        memory = UserMemory(memory=f"{title}\n{content}", memory_id=key, topics=["decision"], user_id="alice")
        return db.upsert_user_memory(memory)

    return save


PEERS = {"langgraph": ("langgraph-checkpoint-sqlite", langgraph), "agno": ("agno", agno)}


def main(name: str, path: str, synchronous: str, count: int) -> None:
    package, opened = PEERS[name]
    save = opened(path, synchronous)
    body = list(texts(count))
    print(json.dumps(version(package)), flush=True)
    for line in sys.stdin:
        start, block = map(int, line.split())
        taken = each(
            lambda number, at=start: save(
                f"topic/key-{at + number}", f"Title {at + number}", body[at + number]
            ),
            block,
        )
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
