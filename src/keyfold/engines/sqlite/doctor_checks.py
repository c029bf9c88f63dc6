"""The checks that SQL alone can make: tables, rows, history, counters, keys, notes and the index's own list of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import apsw

import keyfold.engines.sqlite.schema as schema
from keyfold.engines.sqlite.doctor_pages import REMADE
from keyfold.engines.sqlite.findings import Finding, Look, fault, named, note
from keyfold.engines.sqlite.rows import SESSION_SPACE, SPACES, Rows
from keyfold.text.counted import counted

ORPHANED_STATES: Final = (
    "FROM revisions WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.slot = revisions.slot)"
)
_WRONG_NUMBERS: Final = (
    "SELECT r.id FROM records r WHERE r.revision < 1 OR EXISTS "
    "(SELECT 1 FROM revisions v WHERE v.slot = r.slot AND (v.revision >= r.revision OR v.revision < 1))"
)
_GAPS: Final = (
    f"SELECT count(*) FROM records r WHERE r.revision > 1 AND r.space < {SESSION_SPACE} AND r.revision - 1 > "
    "(SELECT count(*) FROM revisions v WHERE v.slot = r.slot)"
)
ORPHANED_KEYS: Final = (
    "FROM idempotency WHERE (slot IS NOT NULL AND NOT EXISTS (SELECT 1 FROM records r WHERE r.slot = idempotency.slot)) "
    "OR (ns <> 0 AND NOT EXISTS (SELECT 1 FROM namespaces n WHERE n.num = idempotency.ns))"
)
ORPHANED_MARKS: Final = "FROM marks WHERE NOT EXISTS (SELECT 1 FROM records r WHERE r.slot = marks.slot)"
MOST_SLOTS: Final = 1 << 31  # of a namespace; a sequence number has one bit more
_SETTLED: Final = "(n.num << 32 | n.indexed)"
# What no note is needed of: the new records, above all that was indexed.
NEW: Final = (
    f"FROM namespaces n JOIN records r ON r.slot BETWEEN {_SETTLED} + 1 AND n.num << 32 | 0xffffffff "
    f"WHERE r.space < {SESSION_SPACE}"
)
ORPHANED_NOTES: Final = (
    "FROM unindexed WHERE NOT EXISTS (SELECT 1 FROM records r JOIN namespaces n ON n.num = r.ns "
    f"WHERE r.slot = unindexed.slot AND r.space < {SESSION_SPACE} AND r.slot <= {_SETTLED})"
)
_HELD: Final = (
    f"r.space < {SESSION_SPACE} AND r.slot <= {_SETTLED} "
    "AND NOT EXISTS (SELECT 1 FROM unindexed u WHERE u.slot = r.slot AND u.stale = 0)"
)
_IN_INDEX: Final = "EXISTS (SELECT 1 FROM words_docsize d WHERE d.id = {})"
_COUNTERS: Final = (
    "SELECT n.docs, n.tokens, "
    f"(SELECT count(*) FROM records r WHERE r.ns = n.num AND {_HELD}), "
    f"(SELECT ifnull(sum(length), 0) FROM records r WHERE r.ns = n.num AND {_HELD}) FROM namespaces n"
)


def check_tables(look: Look) -> Iterator[Finding]:
    """Tables and indexes that are missing, or not as this version makes them."""
    held = objects(look.conn)
    for name, (kind, sql) in expected_objects().items():
        if name not in held:
            can = kind == "index" or name.startswith(REMADE)
            yield fault("tables", f"the {kind} {name} is missing", remedy="tables" if can else "")
        elif held[name][1] != sql:
            yield fault("tables", f"the {kind} {name} is not as this version makes it")


def objects(conn: apsw.Connection) -> dict[str, tuple[str, str]]:
    """Tables and indexes by name: what they are, and the statement that makes them."""
    rows: Rows = conn.execute(
        "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    return {name: (kind, sql) for name, kind, sql in rows}


def expected_objects() -> dict[str, tuple[str, str]]:
    """The same of a new store."""
    conn = apsw.Connection(":memory:")
    try:
        conn.execute(schema.TABLES)
        return objects(conn)
    finally:
        conn.close()


def check_rows(look: Look) -> Iterator[Finding]:
    """Records that stand where no call finds them."""
    wrong = "SELECT id FROM records WHERE slot >> 32 <> ns"
    ids = [row[0] for row in look.conn.execute(wrong)]
    if ids:
        yield fault("rows", f"{len(ids):,} under another user's number{named(ids)}", count=len(ids))
    lost = "SELECT id FROM records WHERE ns NOT IN (SELECT num FROM namespaces)"
    ids = [row[0] for row in look.conn.execute(lost)]
    if ids:
        yield fault("rows", f"{len(ids):,} whose user is unknown{named(ids)}", count=len(ids))
    unknown = f"SELECT id FROM records WHERE space NOT BETWEEN 0 AND {len(SPACES) - 1}"
    ids = [row[0] for row in look.conn.execute(unknown)]
    if ids:
        yield fault("rows", f"{len(ids):,} of no known kind{named(ids)}", count=len(ids))


def check_history(look: Look) -> Iterator[Finding]:
    """Past states without a record, revision numbers that cannot be, and gaps."""
    number = _number(look.conn, f"SELECT count(*) {ORPHANED_STATES}")
    if number:
        problem = counted(
            number, "past state of a record that is not there", "past states of records that are not there"
        )
        yield fault("history", problem, count=number, remedy="history")
    ids = [row[0] for row in look.conn.execute(_WRONG_NUMBERS)]
    if ids:
        told = counted(
            len(ids),
            "record whose revision number is not above those of its past",
            "records whose revision number is not above those of their past",
        )
        problem = f"{told}{named(ids)}"
        yield fault("history", problem, count=len(ids), remedy="history")
    number = _number(look.conn, _GAPS)
    if number:
        told = counted(number, "record")
        problem = f"{told} whose past is not kept in full (pruned, or imported so): history marks the gaps"
        yield note("history", problem, count=number)


def lost_counters(conn: apsw.Connection) -> list[tuple[str, int]]:
    """The counters that hold no number, with what they hold at first. None is read that need not be: what a damaged
    one is called may be no text."""
    sql = "SELECT count(*) FROM meta WHERE name = ? AND typeof(value) = 'integer'"
    return [(name, value) for name, value in schema.META if not conn.execute(sql, (name,)).fetchall()[0][0]]


def check_counters(look: Look) -> Iterator[Finding]:
    """The numbers that new rows and scores are made from."""
    for name, _ in lost_counters(look.conn):
        yield fault("counters", f"the counter {name} is missing or no number", remedy="counters")
    statistics = 0
    for docs, tokens, true_docs, true_tokens in look.conn.execute(_COUNTERS):
        statistics += (docs, tokens) != (true_docs, true_tokens)
    beyond = _number(
        look.conn, f"SELECT count(*) FROM namespaces WHERE indexed NOT BETWEEN 0 AND {MOST_SLOTS}"
    )
    if beyond:
        told = counted(beyond, "user")
        problem = f"{told} whose index reaches further than records ever will: nothing new can be saved"
        yield fault("counters", problem, count=beyond, remedy="words")
    if statistics:
        told = counted(statistics, "user")
        problem = f"{told} whose counts of indexed records and words are wrong: scores are off"
        yield fault("counters", problem, count=statistics, remedy="words")
    highest_number = _number(look.conn, "SELECT ifnull(max(num), 0) FROM namespaces")
    issued = _number(
        look.conn, "SELECT ifnull((SELECT max(seq) FROM sqlite_sequence WHERE name = 'namespaces'), 0)"
    )
    if issued < highest_number:
        yield fault("counters", "numbers of users could be given out twice", remedy="counters")


def check_keys(look: Look) -> Iterator[Finding]:
    """Idempotency keys of what is not there."""
    number = _number(look.conn, f"SELECT count(*) {ORPHANED_KEYS}")
    if number:
        problem = f"{counted(number, 'idempotency key')} of records or users that are not there"
        yield fault("keys", problem, count=number, remedy="keys")


def check_marks(look: Look) -> Iterator[Finding]:
    """The marks that imports left on what is not there."""
    number = _number(look.conn, f"SELECT count(*) {ORPHANED_MARKS}")
    if number:
        problem = f"{counted(number, 'mark')} of imports on records that are not there"
        yield fault("marks", problem, count=number, remedy="marks")


def check_notes(look: Look) -> Iterator[Finding]:
    """The notes of what is not indexed yet."""
    number = _number(look.conn, f"SELECT count(*) {ORPHANED_NOTES}")
    if number:
        problem = f"{counted(number, 'note')} of records that are not there or need none"
        yield fault("notes", problem, count=number, remedy="notes")
    held = _IN_INDEX.format("u.slot")
    wrong = f"SELECT r.id FROM unindexed u JOIN records r ON r.slot = u.slot WHERE r.space < {SESSION_SPACE} AND u.stale <> {held}"
    ids = [row[0] for row in look.conn.execute(wrong)]
    if ids:
        told = counted(len(ids), "note that does", "notes that do")
        problem = f"{told} not say truly whether the index holds the record{named(ids)}"
        yield fault("notes", problem, count=len(ids), remedy="words")


def check_index(look: Look) -> Iterator[Finding]:
    """The word index's own list of rows against the records."""
    noted = "EXISTS (SELECT 1 FROM unindexed u WHERE u.slot = r.slot)"
    settled = (
        f"r.space < {SESSION_SPACE} AND r.slot <= (SELECT {_SETTLED} FROM namespaces n WHERE n.num = r.ns)"
    )
    missing = f"SELECT id FROM records r WHERE {settled} AND NOT {noted} AND NOT {_IN_INDEX.format('r.slot')}"
    ids = [row[0] for row in look.conn.execute(missing)]
    if ids:
        problem = f"{counted(len(ids), 'record')} that no search finds{named(ids)}"
        yield fault("index", problem, count=len(ids), remedy="words")
    number = _number(look.conn, f"SELECT count(*) {NEW} AND {_IN_INDEX.format('r.slot')}")
    if number:
        told = counted(number, "record")
        problem = f"it holds words of {told} that it takes for new: they would be put into it twice"
        yield fault("index", problem, count=number, remedy="words")
    ghosts = (
        f"SELECT count(*) FROM words_docsize d WHERE NOT EXISTS "
        f"(SELECT 1 FROM records r WHERE r.slot = d.id AND r.space < {SESSION_SPACE})"
    )
    number = _number(look.conn, ghosts)
    if number:
        told = counted(number, "record that is", "records that are")
        problem = f"it holds words of {told} not there"
        yield fault("index", problem, count=number, remedy="words")


def _number(conn: apsw.Connection, sql: str) -> int:
    rows: Rows = conn.execute(sql).fetchall()
    return int(rows[0][0])
