"""Pages of the file that cannot be read: of which table or index they are, and making those again that can be.

An index follows from its table, the word index from the records. But neither REINDEX nor DROP clears a tree with a
page that cannot be read. So its entry is taken out of the schema, its pages are left where they are (VACUUM leaves
them behind), and it is made anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import apsw

import keyfold.engines.sqlite.schema as schema
from keyfold.engines.sqlite.rows import Rows

# What can be made again without losing anything: the rest holds what nothing else does.
REMADE: Final = ("unindexed", "words", "idempotency", "marks")
LIMIT: Final = 1000  # lines that SQLite is asked for: a page that is lost costs one for each below it
_TREE: Final = re.compile(r"Tree (\d+) page")
_WHERE: Final = re.compile(r" WHERE (.+)$", re.DOTALL)
_SPARE: Final = "keyfold_spare_"


def verdict(conn: apsw.Connection, *, quick: bool = False) -> tuple[list[str], bool]:
    """What SQLite finds wrong with the file, line by line, and whether it could look at all of it.

    Its words name tables, indexes and pages, never what is in them.
    """
    lines: list[str] = []
    try:
        for (text,) in conn.execute(f"PRAGMA {'quick_check' if quick else 'integrity_check'}({LIMIT})"):
            lines += [line.strip() for line in str(text).split("\n") if not line.startswith("***")]
    except apsw.CorruptError:
        return lines, False
    return [line for line in lines if line != "ok"], True


def names_page(line: str) -> bool:
    """Whether a line of SQLite's is about a page of one table or index."""
    return _TREE.match(line) is not None


def damaged(conn: apsw.Connection, lines: Iterable[str], *, whole: bool) -> dict[str, str]:
    """The tables and indexes with a page that cannot be read: `table` or `index`, by name.

    Where SQLite did not get to the end (not `whole`), each index is read too: a page may be in form, and not its rows.
    """
    rows: Rows = conn.execute(
        "SELECT rootpage, name, type FROM sqlite_schema WHERE rootpage > 0 ORDER BY name"
    ).fetchall()
    trees = {root: (name, kind) for root, name, kind in rows}
    found = [trees.get(int(match[1])) for line in lines if (match := _TREE.match(line))]
    if not whole:
        found += [
            (name, kind)
            for name, kind in trees.values()
            if (kind == "index" or name.startswith("words_")) and not _reads(conn, name, kind)
        ]
    return dict(filter(None, found))


def remedy(name: str, kind: str) -> str:
    """What --repair does about a damaged table or index; "" where nothing can."""
    if name.startswith("words"):
        return "words"
    return "pages" if kind == "index" or name in REMADE else ""


def _reads(conn: apsw.Connection, name: str, kind: str) -> bool:
    """Whether an index or a table can be read from end to end."""
    rows: Rows = conn.execute("SELECT tbl_name, sql FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    table, sql = rows[0]
    only = _WHERE.search(sql or "")
    how = f" INDEXED BY {name}{only[0] if only else ''}" if kind == "index" else ""
    columns = _columns(conn, name) if kind == "index" else _table_columns(conn, table)
    asked = ", ".join(f"max({column})" for column in columns)
    try:
        conn.execute(f"SELECT {asked} FROM {table}{how}").fetchall()
    except (apsw.CorruptError, UnicodeDecodeError):
        return False
    return True


def _columns(conn: apsw.Connection, index: str) -> list[str]:
    rows: Rows = conn.execute(f"PRAGMA index_info({index})").fetchall()
    return [name for _, _, name in rows]


def _table_columns(conn: apsw.Connection, table: str) -> list[str]:
    rows: Rows = conn.execute(f"PRAGMA table_info({table})").fetchall()
    return [row[1] for row in rows]


def make_again(conn: apsw.Connection, names: Iterable[str]) -> list[str]:
    """Make tables and indexes again whose pages cannot be read, in the caller's transaction: those that are.

    `words` stands for the whole word index, which is then empty. Needs VACUUM afterwards.
    """
    wanted = set(names)
    if any(name.startswith("words") for name in wanted):
        wanted |= {name for name in _everything() if name.startswith("words")}
    own = {name for name in wanted if name.startswith("sqlite_autoindex_")}
    for name in sorted(own):
        _exchange(conn, name)
    _take_out(conn, wanted - own)
    rows: Rows = conn.execute("SELECT name FROM sqlite_schema").fetchall()
    held = {name for (name,) in rows}
    for name, sql in _everything().items():
        if name not in held and sql is not None:
            conn.execute(sql)
            held |= {found for (found,) in conn.execute("SELECT name FROM sqlite_schema")}
    return sorted(wanted)


def _take_out(conn: apsw.Connection, names: Iterable[str]) -> None:
    """Take tables, with their indexes, and indexes out of the schema; their pages stay where they are."""
    conn.execute("PRAGMA writable_schema = 1")
    conn.executemany(
        "DELETE FROM sqlite_schema WHERE name = ?1 OR tbl_name = ?1", [(name,) for name in names]
    )
    conn.execute("PRAGMA writable_schema = RESET")


def _exchange(conn: apsw.Connection, name: str) -> None:
    """Give the index behind a UNIQUE column, which no statement makes alone, a new tree."""
    rows: Rows = conn.execute("SELECT tbl_name FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    spare = _SPARE + name
    conn.execute(f"CREATE UNIQUE INDEX {spare} ON {rows[0][0]} ({', '.join(_columns(conn, name))})")
    conn.execute("PRAGMA writable_schema = 1")
    conn.execute(
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = ?) WHERE name = ?",
        (spare, name),
    )
    conn.execute("DELETE FROM sqlite_schema WHERE name = ?", (spare,))
    conn.execute("PRAGMA writable_schema = RESET")


def _everything() -> dict[str, str | None]:
    """The statements that make each table and index of a new store, by name, in order."""
    conn = apsw.Connection(":memory:")
    try:
        conn.execute(schema.TABLES)
        rows: Rows = conn.execute("SELECT name, sql FROM sqlite_schema").fetchall()
        return dict(rows)
    finally:
        conn.close()
