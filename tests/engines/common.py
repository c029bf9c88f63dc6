"""What the tests of the embedded engine share: short ways to write intents, and a look inside the file."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw

from keyfold.contract.intents import Intent, SessionUse
from keyfold.engines.sqlite import SqliteEngine
from keyfold.engines.sqlite.index import BATCH
from keyfold.model import Config

USER = "alice"


def note(key: str | None, text: str, namespace: str = USER, **more: Any) -> Intent:
    """A save of an observation."""
    digest = sha256(text.encode()).hexdigest()
    given = {"type": "decision", "title": "Title", "content": text, "normalized_hash": digest, **more}
    return Intent(namespace, key=key, **given)


def session(identity: str = "s", **more: Any) -> SessionUse:
    """A session that the caller names."""
    return SessionUse(identity, explicit=True, **more)


def opened(folder: Path, **settings: Any) -> SqliteEngine:
    """The engine on the one store of a folder."""
    return SqliteEngine.open(str(folder / "store.db"), config=Config(**settings))


def sql(folder: Path, statement: str, *values: Any) -> list[Any]:
    """What a connection of its own finds in the file."""
    conn = apsw.Connection(str(folder / "store.db"))
    try:
        return conn.execute(statement, values).fetchall()
    finally:
        conn.close()


def check_agreement(folder: Path) -> None:
    """Rows, index and statistics say the same, and SQLite finds no fault in the file."""
    assert sql(folder, "PRAGMA integrity_check") == [("ok",)]
    sql(folder, "INSERT INTO words (words) VALUES ('integrity-check')")
    settled = "(SELECT num << 32 | indexed FROM namespaces WHERE num = ns)"
    indexed = f"space < 8 AND slot <= {settled} AND slot NOT IN (SELECT slot FROM unindexed WHERE stale = 0)"
    rows = sql(folder, f"SELECT slot FROM records WHERE {indexed} ORDER BY slot")
    assert sql(folder, "SELECT id FROM words_docsize ORDER BY id") == rows
    counted = f"SELECT ns, count(*), sum(length) FROM records WHERE {indexed} GROUP BY ns ORDER BY ns"
    kept = "SELECT num, docs, tokens FROM namespaces WHERE docs > 0 ORDER BY num"
    assert sql(folder, kept) == sql(folder, counted)
    assert sql(folder, "SELECT count(*) FROM unindexed WHERE slot NOT IN (SELECT slot FROM records)") == [
        (0,)
    ]
    waiting = "SELECT max(n) FROM (SELECT count(*) AS n FROM unindexed GROUP BY slot >> 32)"
    assert (sql(folder, waiting)[0][0] or 0) < BATCH
    new = f"SELECT max(n) FROM (SELECT count(*) AS n FROM records WHERE slot > {settled} GROUP BY ns)"
    assert (sql(folder, new)[0][0] or 0) < BATCH
    assert sql(
        folder, f"SELECT count(*) FROM unindexed JOIN records USING (slot) WHERE slot > {settled}"
    ) == [(0,)]


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Another Python process with a script of ours."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed; its error is ours."""
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return output
