"""Search by words. The cost grows with the records of the namespace that hold a word, not with the store.

The match is restricted to the namespace's range of row ids, and BM25 is computed here from the namespace's
own counts: FTS5's bm25() walks every posting in the table to count documents.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import heappush, heappushpop
from typing import Any, Final, NamedTuple, cast

import apsw

from keyfold.clock import Clock, from_micros, to_micros
from keyfold.contract import ranking
from keyfold.contract.filters import matches
from keyfold.contract.indexed_text import indexed_text, whole_words_share
from keyfold.contract.intents import Found, FoundPage, SearchQuery
from keyfold.engines.sqlite.index import text_of
from keyfold.engines.sqlite.narrow import Narrowing, Place, places
from keyfold.engines.sqlite.rows import (
    RECORD,
    REVISIONS,
    SESSION_SPACE,
    SLOT,
    SPACE,
    UPDATED,
    Row,
    Rows,
    namespace_slots,
    record_of,
    words_in,
)
from keyfold.model import Record
from keyfold.text.tokens import Unit, all_words, index_tokens, query_units

REMEMBERED: Final = 256
CHUNKS: Final = 32_768  # remembered during a scan,
CHUNK: Final = 48  # of so many characters at the most
FEW: Final = 32  # words, up to which each is asked for by its number
WORDS_A_BATCH: Final = 64

_MATCHES: Final = (
    "SELECT r.slot, r.id, r.updated_at, r.revision, r.length, {passes}, keyfold_hits(words) {more} "
    "FROM words CROSS JOIN records r ON r.slot = words.rowid "
    "WHERE words MATCH ? AND words.rowid BETWEEN ? AND ?"
)
_SLOTS: Final = (
    "SELECT words.rowid, keyfold_hits(words) FROM words WHERE words MATCH ? AND words.rowid BETWEEN ? AND ?"
)
_AT_SLOTS: Final = (
    "SELECT r.slot, r.id, r.updated_at, r.revision, r.length, {passes}, NULL {more} "
    "FROM json_each(?) CROSS JOIN records r ON r.slot = json_each.value"
)
_UNINDEXED: Final = (  # see index.py
    f"SELECT u.slot, u.stale, r.length, {{passes}}, {RECORD} "
    "FROM unindexed u CROSS JOIN records r ON r.slot = u.slot WHERE u.slot BETWEEN ? AND ? UNION ALL "
    f"SELECT r.slot, 0, r.length, {{passes}}, {RECORD} "
    f"FROM records r WHERE r.slot BETWEEN ? AND ? AND r.space < {SESSION_SPACE}"
)
_BY_SLOT: Final = f"SELECT {RECORD} FROM records r WHERE r.slot = ?"
_NEWEST: Final = (
    f"SELECT {RECORD}, r.slot FROM records r WHERE r.ns = ? AND {{}} ORDER BY r.updated_at DESC, r.id DESC"
)


class Hits:
    """FTS5 auxiliary function: puts aside what each row holds of the query.

    Few words: how often each is there. Many: the tokens that are there, which costs per match, not per
    word of the query.
    """

    __slots__ = ("_read", "phrases", "rows")

    def __init__(self) -> None:
        self._read: dict[int, tuple[str, Counter[str], int]] = {}
        self.phrases = range(0)
        self.rows: list[Any] = []

    def __call__(self, api: apsw.FTS5ExtensionApi, *_: Any) -> None:
        if self.phrases:
            places = api.phrase_column_offsets
            self.rows.append(tuple([len(places(number, 0)) for number in self.phrases]))
        else:
            tokens = api.inst_tokens
            self.rows.append([cast("tuple[str]", tokens(at))[0] for at in range(api.inst_count)])

    def start(self, phrases: int) -> None:
        """Make ready for a query of so many words (with all their alternatives)."""
        self.phrases = range(phrases) if phrases <= FEW else range(0)
        self.rows = []

    def read(self, slot: int, text: str) -> tuple[Counter[str], int]:
        """The tokens of a text that waits to be indexed, and how many they are; the last ones are remembered."""
        known = self._read.get(slot)
        if known is None or known[0] != text:
            tokens = index_tokens(text)
            if len(self._read) >= REMEMBERED:
                self._read.clear()
            known = self._read[slot] = (text, Counter(tokens), len(tokens))
        return known[1], known[2]

    def take(self) -> list[Any]:
        """What was put aside, in the order of the rows."""
        rows, self.rows = self.rows, []
        return rows


def equip(conn: apsw.Connection) -> Hits:
    """Give a connection the auxiliary function."""
    hits = Hits()
    conn.register_fts5_function("keyfold_hits", hits)
    return hits


class _Match(NamedTuple):
    """A record that matches, as far as scores need it."""

    share: float
    every: bool
    moment: int
    number: int
    slot: int
    revisions: int
    namespace: str


class _Scored(NamedTuple):
    """What `ranking.search_score` looks at of a record."""

    updated_at: datetime
    revision_count: int


def search(conn: apsw.Connection, hits: Hits, query: SearchQuery, clock: Clock) -> FoundPage:
    """The best matches. The caller holds a read transaction."""
    now = clock()
    narrowing = Narrowing(query.kinds, query.where, to_micros(now))
    units = query_units(query.text)
    found: list[_Match] = []
    for place in places(conn, query.namespace, query.reach):
        if units:
            found += _ranked(conn, hits, units, narrowing, place)
        else:
            found += _scanned(conn, query, narrowing, place)
    items = []
    for score, match, parts in _best(found, query.limit, now):
        rows: Rows = conn.execute(_BY_SLOT, (match.slot,)).fetchall()
        record = record_of(rows[0], match.namespace)
        items.append(Found(record, score, parts if query.explain else None))
    return FoundPage(tuple(items), len(found))


def _best(found: list[_Match], limit: int, now: datetime) -> list[tuple[float, _Match, dict[str, float]]]:
    """The best by score, then the newest. Scores are worked out from the top down, until no other can be better."""
    ceilings = sorted(((_ceiling(match), at) for at, match in enumerate(found)), reverse=True)
    scored: list[tuple[float, _Match, dict[str, float]]] = []
    leaders: list[float] = []  # a heap of the best scores so far
    for ceiling, at in ceilings:
        if len(leaders) >= limit and (limit <= 0 or ceiling < leaders[0]):
            break
        match = found[at]
        seen = cast("Record", _Scored(from_micros(match.moment), match.revisions))
        score, parts = ranking.search_score(match.share, match.every, seen, now)
        scored.append((score, match, parts))
        (heappush if len(leaders) < limit else heappushpop)(leaders, score)
    scored.sort(key=lambda item: (-item[0], -item[1].moment, item[1].number))
    return scored[:limit]


def _ceiling(match: _Match) -> float:
    """The most that a score can be: as if the record were written now. A little more, so that rounding never decides."""
    short = 1 - min(match.revisions, ranking.REVISION_CAP) / ranking.REVISION_CAP
    half = 0.5 * match.share * (1 - ranking.REVISION_SHARE * short) + 1e-12
    return 0.5 + half if match.every else min(half, 0.4999)


def _ranked(
    conn: apsw.Connection, hits: Hits, units: Sequence[Unit], narrowing: Narrowing, place: Place
) -> list[_Match]:
    """The matches in one namespace, scored by its own statistics. Words are counted before the filter."""
    name, num, docs, tokens, _ = place
    fresh, unindexed = _unindexed(conn, hits, units, narrowing, place)
    rows, profiles = _matching_rows(conn, hits, units, narrowing, num)
    if unindexed:  # their rows in the index are of an earlier state, or none
        pairs = [pair for pair in zip(rows, profiles, strict=True) if pair[0][0] not in unindexed]
        pairs += [(row, profile) for row, profile in fresh if profile]
        rows, profiles = [row for row, _ in pairs], [profile for _, profile in pairs]
        docs += sum(not stale for stale, _, _ in unindexed.values())
        tokens += sum(length - held for _, held, length in unindexed.values())
    scale = _Scale(units, profiles, ranking.Corpus(docs, tokens / docs if docs else 0.0))
    found = []
    for row, profile in zip(rows, profiles, strict=True):
        if not row[5]:
            continue
        if narrowing.rest is not None and not matches(record_of(row[7:], name), narrowing.rest):
            continue
        share, every = scale.share(profile, row[4])
        found.append(_Match(share, every, row[2], row[1], row[0], row[3], name))
    return found


def _unindexed(
    conn: apsw.Connection, hits: Hits, units: Sequence[Unit], narrowing: Narrowing, place: Place
) -> tuple[list[tuple[Row, _Profile]], dict[int, tuple[int, int, int]]]:
    """The records that wait to be indexed, as rows like those of the index with what each holds; and by slot
    whether the index holds an earlier state, the length of that, and the length now."""
    sql = _UNINDEXED.format(passes=narrowing.sql)
    first, last = namespace_slots(place[1])
    values = (*narrowing.values, first, last, *narrowing.values, (first | place[4]) + 1, last)
    waiting: Rows = conn.execute(sql, values).fetchall()
    if not waiting:
        return [], {}
    owner = {token: number for number, unit in enumerate(units) for token in unit}
    found, lengths = [], {}
    for row in waiting:
        slot, stale, held, passes = row[:4]
        record = record_of(row[4:], place[0])
        counts, length = hits.read(slot, text_of(record))
        asked = [(token, counts[token]) for token in owner if token in counts]
        lengths[slot] = (stale, held, length)
        narrow = (slot, row[4], to_micros(record.updated_at), record.revision_count, length, passes, None)
        found.append(((*narrow, *row[4:]), _profile(asked, owner)))
    return found, lengths


# What a row holds of a query: (unit, how often), by unit. Units that are not there are left out.
_Profile = tuple[tuple[int, int], ...]


class _Scale:
    """Relevance in one namespace. Many rows hold the same words as often at the same length: each is worked out once."""

    __slots__ = ("corpus", "known", "units", "weights", "whole")

    def __init__(self, units: Sequence[Unit], profiles: list[_Profile], corpus: ranking.Corpus) -> None:
        holders = [0] * len(units)
        for profile in profiles:
            for unit, _ in profile:
                holders[unit] += 1
        self.units = len(units)
        self.corpus = corpus
        self.weights = [ranking.idf(corpus.size, number) for number in holders]
        self.whole = sum(self.weights)
        self.known: dict[tuple[_Profile, int], tuple[float, bool]] = {}

    def share(self, profile: _Profile, length: int) -> tuple[float, bool]:
        """The relevance of a row, and whether it holds every word."""
        known = self.known.get((profile, length))
        if known is None:
            held = [self.weights[unit] for unit, _ in profile]
            part = ranking.relevance([number for _, number in profile], length, held, self.corpus)
            # a share of what the words it holds could give: times their part of the query
            share = part * (sum(held) / self.whole) if len(held) < self.units and self.whole else part
            known = self.known[profile, length] = (share, len(held) == self.units)
        return known


def _matching_rows(
    conn: apsw.Connection, hits: Hits, units: Sequence[Unit], narrowing: Narrowing, num: int
) -> tuple[Rows, list[_Profile]]:
    """The rows that hold any word, and what each holds."""
    tokens = [token for unit in units for token in unit]
    more = "" if narrowing.rest is None else f", {RECORD}"
    if len(tokens) > FEW:
        return _by_batches(conn, hits, units, narrowing, num)
    sql = _MATCHES.format(passes=narrowing.sql, more=more)
    hits.start(len(tokens))
    values = (*narrowing.values, _any_of(tokens), *namespace_slots(num))
    rows: Rows = conn.execute(sql, values).fetchall()
    owners = [number for number, unit in enumerate(units) for _ in unit]
    profiles = hits.take()
    # Rows alike share one profile; there are few kinds of them.
    kinds = {row: _profile(enumerate(row), owners) for row in set(profiles)}
    return rows, [kinds[row] for row in profiles]


def _by_batches(
    conn: apsw.Connection, hits: Hits, units: Sequence[Unit], narrowing: Narrowing, num: int
) -> tuple[Rows, list[_Profile]]:
    """The same for many words. FTS5 takes a step for every word of a query at every row that holds any of them,
    so the words are asked for in batches; a row that is in several is put together from what each found."""
    held: dict[int, list[tuple[int, int]]] = {}
    owner: dict[str, int] = {}
    for number, unit in enumerate(units):
        owner.update((token, number) for token in unit)
        if len(owner) < WORDS_A_BATCH and number + 1 < len(units):
            continue
        hits.start(len(units) + FEW)
        found: Rows = conn.execute(_SLOTS, (_any_of(owner), *namespace_slots(num))).fetchall()
        for (slot, _), tokens in zip(found, hits.take(), strict=True):
            held.setdefault(slot, []).extend(_profile(_counted(tokens).items(), owner))
        owner.clear()
    more = "" if narrowing.rest is None else f", {RECORD}"
    sql = _AT_SLOTS.format(passes=narrowing.sql, more=more)
    rows: Rows = conn.execute(sql, (*narrowing.values, json.dumps(list(held)))).fetchall()
    return rows, [tuple(held[row[0]]) for row in rows]


def _any_of(tokens: Iterable[str]) -> str:
    """A query for any of them. Tokens hold no quote (keyfold.text.tokens), so quoting makes any of them legal."""
    return '"' + '" OR "'.join(tokens) + '"'


def _counted(tokens: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for token in tokens:
        counts[token] = counts.get(token, 0) + 1
    return counts


def _profile(counts: Iterable[tuple[Any, int]], owner: Any) -> _Profile:
    """How often each unit is there: as often as the alternative that is there most."""
    most: dict[int, int] = {}
    for token, number in counts:
        if number > most.get(owner[token], 0):
            most[owner[token]] = number
    return tuple(sorted(most.items()))


def _scanned(
    conn: apsw.Connection, query: SearchQuery, narrowing: Narrowing, place: Place
) -> Iterator[_Match]:
    """For a query of function words, which are not indexed: the records that hold them as whole words."""
    asked = all_words(query.text)
    if not asked:
        return
    name, num = place[0], place[1]
    known: dict[str, frozenset[str]] = {}
    wanted = frozenset(asked)
    for row in conn.execute(_NEWEST.format(narrowing.sql), (num, *narrowing.values)):
        held: frozenset[str] = frozenset()
        for chunk in set(
            _text_in(row).split()
        ):  # the words of a text are those of its chunks, which come again
            part = known.get(chunk)
            if part is None:
                if len(known) >= CHUNKS:
                    known.clear()
                part = wanted.intersection(all_words(chunk))
                if len(chunk) <= CHUNK:
                    known[chunk] = part
            if part:
                held |= part
        if not held:
            continue
        if narrowing.rest is not None and not matches(record_of(row, name), narrowing.rest):
            continue
        share, every = whole_words_share(asked, held)
        yield _Match(share, every, row[UPDATED], row[0], row[SLOT], row[REVISIONS], name)


def _text_in(row: Row) -> str:
    """What is indexed of a record, from a row of RECORD's columns: see `indexed_text`."""
    topic = row[2] if row[SPACE] == 0 else None
    tags = () if row[7] is None else json.loads(row[7])
    return indexed_text(words_in(row[4]), words_in(row[5]), topic, tags)
