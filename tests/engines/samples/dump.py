"""A store's file as SQL text, and back: how a sample of each schema version is kept.

Run it with the path of a store to print its sample. Everything is in it, the word index's own tables too, so
that what a later version opens is what an earlier one wrote.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

_ORDINARY = "name NOT LIKE 'words%' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"


def dump(path: str) -> Iterator[str]:
    """The statements that make the store again."""
    conn = apsw.Connection(path)
    try:
        for pragma in ("page_size", "application_id", "user_version"):
            yield f"PRAGMA {pragma} = {conn.execute(f'PRAGMA {pragma}').fetchall()[0][0]};"
        made = "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND "
        tables: list[Any] = conn.execute(f"{made} type = 'table' AND {_ORDINARY} ORDER BY rowid").fetchall()
        for _, sql in tables:
            yield f"{sql};"
        words: list[Any] = conn.execute(f"{made} name = 'words'").fetchall()
        yield f"{words[0][1]};"
        shadows: list[Any] = conn.execute(
            f"{made} name LIKE 'words\\_%' ESCAPE '\\' ORDER BY name"
        ).fetchall()
        for name in [*(name for name, _ in tables), *(name for name, _ in shadows), "sqlite_sequence"]:
            if name not in {name for name, _ in tables}:  # SQLite filled it by itself
                yield f"DELETE FROM {name};"
            for row in conn.execute(f"SELECT * FROM {name}"):
                yield f"INSERT INTO {name} VALUES ({', '.join(map(apsw.format_sql_value, row))});"
        indexes: list[Any] = conn.execute(f"{made} type = 'index' ORDER BY rowid").fetchall()
        for _, sql in indexes:
            yield f"{sql};"
    finally:
        conn.close()


def load(text: str, path: str) -> None:
    """Make a store's file of its sample."""
    conn = apsw.Connection(path)
    try:
        settings, _, rest = text.partition("CREATE")
        conn.execute(settings).fetchall()
        conn.execute(f"BEGIN; CREATE{rest} COMMIT").fetchall()
    finally:
        conn.close()


def sample(version: int) -> str:
    """The sample of a schema version."""
    return (Path(__file__).parent / f"schema-{version}.sql").read_text("utf-8")


def created(text: str) -> list[str]:
    """The statements of a sample that make tables and indexes."""
    return sorted(part.strip() for part in text.split(";\n") if part.startswith("CREATE"))


if __name__ == "__main__":
    sys.stdout.write("\n".join(dump(sys.argv[1])) + "\n")
