"""The check that reads the texts: whether each record can be decoded, and whether the index holds its words.

FTS5 compares an index with the texts only where it has them (integrity-check with rank 1 says nothing of a
contentless index). So the words are made again from the records and compared with what `fts5vocab` tells of
the index: each (word, position) of a record adds its hash to a sum, each in the index takes it away, and a
record whose sum is not zero has other words in the index than in its text. A record's row in `words_docsize`
alone is not believed.

That reads the index from end to end. Of a sample, all that `--quick` reads, each record is also asked for by
all of its words, the way a search finds it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, Final

import apsw

from keyfold.engines.sqlite.findings import Finding, Look, fault, named, note
from keyfold.engines.sqlite.index import is_current, text_of
from keyfold.engines.sqlite.rows import (
    RECORD,
    SESSION_SPACE,
    SPACES,
    Row,
    Rows,
    folded_hash,
    folded_of,
    record_of,
    revision_from,
)
from keyfold.engines.sqlite.rows import REVISION as REVISION_COLUMNS
from keyfold.model import OBSERVATION
from keyfold.text.counted import counted
from keyfold.text.tokens import TOKENIZER_VERSION, index_tokens

SAMPLE: Final = 100  # records that --quick reads: a match of all words of one takes 9 ms among 100,000
PASS: Final = 500_000  # records whose sums are held at once
WORDS: Final = 50  # asked for in one match

_READ: Final = (
    f"SELECT {RECORD}, d.sz, r.slot, r.length, r.folded, n.name, u.stale FROM records r "
    "LEFT JOIN namespaces n ON n.num = r.ns LEFT JOIN unindexed u ON u.slot = r.slot "
    "LEFT JOIN words_docsize d ON d.id = r.slot WHERE "
)
_VOCABULARY: Final = "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab('main', 'words', 'instance')"
_INSTANCES: Final = "SELECT doc, term, offset FROM temp.vocabulary WHERE doc BETWEEN ? AND ?"


def prepare(conn: apsw.Connection) -> None:
    """Make the temporary view of the index, before the connection is kept from writing."""
    conn.execute("PRAGMA temp_store = MEMORY")
    conn.execute(_VOCABULARY)


class _Tally:
    """What a pass over records found, as ids."""

    def __init__(self) -> None:
        self.unreadable: set[int] = set()
        self.folded: set[int] = set()
        self.lengths: set[int] = set()
        self.words: set[int] = set()
        self.ghosts: set[int] = set()  # slots

    def findings(self) -> Iterator[Finding]:
        for area, ids, problem, remedy in (
            ("rows", self.unreadable, "that cannot be read", ""),
            ("rows", self.folded, "whose key is not found by its like", "folded"),
            ("index", self.lengths, "whose number of words is wrong: scores are off", "words"),
            ("index", self.words, "whose words in the index are not those of the text", "words"),
        ):
            if ids:
                told = f"{counted(len(ids), 'record')} {problem}{named(ids)}"
                yield fault(area, told, count=len(ids), remedy=remedy)
        if self.ghosts:
            problem = f"it holds words of {counted(len(self.ghosts), 'row')} that it does not list"
            yield fault("index", problem, count=len(self.ghosts), remedy="words")


def check_texts(look: Look) -> Iterator[Finding]:
    """Records, past states and the words of the index, one by one."""
    current = is_current(look.conn)
    if not current:
        older = f"its words were made by another version than {TOKENIZER_VERSION}: opening the store makes them anew"
        yield note("index", older)
    tally = _Tally()
    _sample(look, tally, current)
    if not look.quick:
        for first, last in _passes(look.conn):
            _compare(look, tally, first, last, current)
        yield from _past(look.conn)
    yield from tally.findings()


def _passes(conn: apsw.Connection) -> Iterator[tuple[int, int]]:
    """Ranges of slots of up to PASS records each, that cover all slots there can be."""
    first = 0
    while True:
        rows: Rows = conn.execute(
            f"SELECT slot FROM records WHERE slot >= ? ORDER BY slot LIMIT 1 OFFSET {PASS}", (first,)
        ).fetchall()
        if not rows:
            yield first, (1 << 63) - 1
            return
        yield first, rows[0][0] - 1
        first = rows[0][0]


def _compare(look: Look, tally: _Tally, first: int, last: int, current: bool) -> None:
    """Compare the records of a range of slots with what the index holds of it."""
    sums: dict[int, int] = {}
    ids: dict[int, int] = {}
    skipped: set[int] = set()  # of which the index holds an earlier state, or nothing
    ghosts: set[int] = set()
    for row in _rows(look, tally, first, last):
        slot = row[-5]
        tokens = _tokens(tally, row)
        if tokens is None or not _is_indexed(row):
            skipped.add(slot)
            continue
        ids[slot] = row[0]
        sums[slot] = sum(map(hash, zip(tokens, range(len(tokens)), strict=True)))
        _measure(tally, row, len(tokens), current)
    if not current:
        return
    for doc, term, offset in look.conn.execute(_INSTANCES, (first, last)):
        if doc in sums:
            sums[doc] -= hash((term, offset))
        elif doc not in skipped:
            ghosts.add(doc)
    tally.words |= {ids[slot] for slot, left in sums.items() if left}
    tally.ghosts |= {doc for doc in ghosts if not _listed(look.conn, doc)}


def _rows(look: Look, tally: _Tally, first: int, last: int) -> Iterator[Row]:
    """The rows of a range of slots. One whose text is no text is noted and passed over."""
    slot = first - 1
    while True:
        try:
            for row in look.conn.execute(f"{_READ} r.slot BETWEEN ? AND ? ORDER BY r.slot", (slot + 1, last)):
                slot = row[-5]
                yield row
        except UnicodeDecodeError:
            bad = "SELECT slot, id FROM records WHERE slot > ? ORDER BY slot LIMIT 1"
            found: Rows = look.conn.execute(bad, (slot,)).fetchall()
            slot = found[0][0]
            tally.unreadable.add(found[0][1])
            continue
        return


def _tokens(tally: _Tally, row: Row) -> list[str] | None:
    """The tokens of a row, which is decoded and checked by the way; None where it cannot be."""
    folded, name = row[-3], row[-2]
    try:
        record = record_of(row, name or "")
        text = text_of(record)
    except (ValueError, TypeError, OverflowError, IndexError, AttributeError):
        tally.unreadable.add(row[0])
        return None
    if name is not None:
        keyed = SPACES[row[1]] == (OBSERVATION, False)
        if folded != (folded_hash(name, folded_of(record.key)) if keyed else None):
            tally.folded.add(row[0])
    return index_tokens(text)


def _sample(look: Look, tally: _Tally, current: bool) -> None:
    for slot in _some(look.conn):
        for row in _rows(look, tally, slot, slot):
            tokens = _tokens(tally, row)
            if tokens is None or not _is_indexed(row) or not current:
                continue
            _measure(tally, row, len(tokens), current)
            if not _holds(look.conn, slot, tokens):
                tally.words.add(row[0])


def _some(conn: apsw.Connection) -> list[int]:
    """The slots of a sample, found by ids drawn between the lowest and the highest."""
    rows: Rows = conn.execute("SELECT min(id), max(id) FROM records").fetchall()
    lowest, highest = rows[0]
    if lowest is None:
        return []
    drawn: Iterable[int] = range(lowest, highest + 1)
    if highest - lowest >= SAMPLE:
        drawn = [random.randint(lowest, highest) for _ in range(SAMPLE)]
    found: dict[int, None] = {}
    for number in drawn:
        near: Rows = conn.execute(
            "SELECT slot FROM records WHERE id >= ? ORDER BY id LIMIT 1", (number,)
        ).fetchall()
        found.update((slot, None) for (slot,) in near)
    return list(found)


def _holds(conn: apsw.Connection, slot: int, tokens: list[str]) -> bool:
    """Whether the index, asked as a search asks it, finds all these words in a row."""
    distinct = list(dict.fromkeys(tokens))
    for start in range(0, len(distinct), WORDS):
        match = " ".join(f'"{token}"' for token in distinct[start : start + WORDS])
        if not conn.execute(
            "SELECT 1 FROM words WHERE words MATCH ? AND rowid = ?", (match, slot)
        ).fetchall():
            return False
    return True


def _listed(conn: apsw.Connection, slot: int) -> bool:
    """Whether the index's own list has a row: then `check_index` tells of it."""
    return bool(conn.execute("SELECT 1 FROM words_docsize WHERE id = ?", (slot,)).fetchall())


def _is_indexed(row: Row) -> bool:
    """Whether the index lists a row, and by its present text. (That it lists all it must is for `check_index`.)"""
    return row[-1] is None and row[-6] is not None and row[1] < SESSION_SPACE


def _measure(tally: _Tally, row: Row, number: int, current: bool) -> None:
    """Compare the number of a row's words with the two places that keep it."""
    if current and (number != row[-4] or number != _varint(row[-6])):
        tally.lengths.add(row[0])


def _varint(data: Any) -> int:
    """SQLite's variable-length integer, of up to eight bytes of seven bits."""
    value = 0
    for byte in data if isinstance(data, bytes) else b"":
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value


def _past(conn: apsw.Connection) -> Iterator[Finding]:
    ids: set[int] = set()
    sql = f"SELECT {REVISION_COLUMNS}, (SELECT id FROM records r WHERE r.slot = v.slot) FROM revisions v"
    try:
        for row in conn.execute(sql):
            try:
                revision_from(row[:-1])
            except (ValueError, TypeError, OverflowError, AttributeError):
                ids.add(row[-1])
    except UnicodeDecodeError:
        yield fault("history", "a past state cannot be read: its text is no text")
    if ids:
        yield fault(
            "history",
            f"past states of {counted(len(ids), 'record')} cannot be read{named(ids)}",
            count=len(ids),
        )
