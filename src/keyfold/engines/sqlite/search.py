"""Search by words. The cost grows with the records of the namespace that hold a word, not with the store.

The match is restricted to the namespace's range of row ids, and BM25 is computed here from the namespace's
own counts: FTS5's bm25() walks every posting in the table to count documents. What a row holds of the query
comes from an auxiliary function, as the tokens of its matches: it costs per match, not per query word, so
that a query of thousands of words stays affordable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import Any, Final, NamedTuple, cast

import apsw

from keyfold.clock import Clock, from_micros, to_micros
from keyfold.contract import ranking
from keyfold.contract.filters import matches
from keyfold.contract.indexed_text import whole_words_share
from keyfold.contract.intents import Found, FoundPage, SearchQuery
from keyfold.engines.sqlite.narrow import Narrowing, Place, places
from keyfold.engines.sqlite.rows import RECORD, namespace_slots, record_of
from keyfold.engines.sqlite.write import text_of
from keyfold.model import Record
from keyfold.text.tokens import Unit, all_words, query_units

# What the gentle multiplier can take from a score at most; a little more, so that rounding never decides.
_SPAN: Final = ranking.RECENCY_SHARE + ranking.REVISION_SHARE + 1e-9

_MATCHES: Final = (
    "SELECT r.slot, r.id, r.updated_at, r.revision, r.length, {passes}, keyfold_hits(words) {more} "
    "FROM words CROSS JOIN records r ON r.slot = words.rowid "
    "WHERE words MATCH ? AND words.rowid BETWEEN ? AND ?"
)
_BY_SLOT: Final = f"SELECT {RECORD} FROM records r WHERE r.slot = ?"
_NEWEST: Final = (
    f"SELECT {RECORD}, r.slot FROM records r WHERE r.ns = ? AND {{}} ORDER BY r.updated_at DESC, r.id DESC"
)


class Hits:
    """FTS5 auxiliary function: puts the tokens of a row's matches aside, row by row."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: list[list[str]] = []

    def __call__(self, api: apsw.FTS5ExtensionApi, *_: Any) -> None:
        tokens = api.inst_tokens
        self.rows.append([cast("tuple[str]", tokens(number))[0] for number in range(api.inst_count)])


def equip(conn: apsw.Connection) -> Hits:
    """Give a connection the auxiliary function."""
    hits = Hits()
    conn.register_fts5_function("keyfold_hits", hits)
    return hits


class _Match(NamedTuple):
    """A record that matches, as far as scores need it. Has what `ranking.search_score` reads of a record."""

    share: float
    every: bool
    moment: int
    number: int
    slot: int
    revision_count: int
    namespace: str

    @property
    def updated_at(self) -> Any:
        return from_micros(self.moment)

    def bounds(self) -> tuple[float, float]:
        """The least and the most that the score can be."""
        half = 0.5 * self.share
        if self.every:
            return 0.5 + half * (1 - _SPAN), 0.5 + half
        return min(half * (1 - _SPAN), 0.4999), min(half, 0.4999)


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
    scored = []
    for match in _promising(found, query.limit):
        score, parts = ranking.search_score(match.share, match.every, cast("Record", match), now)
        scored.append((-score, -match.moment, match.number, match, parts))
    scored.sort(key=lambda item: item[:3])
    items = []
    for negative, _, _, match, parts in scored[: query.limit]:
        row = conn.execute(_BY_SLOT, (match.slot,)).fetchall()[0]
        record = record_of(row, match.namespace)
        items.append(Found(record, -negative, parts if query.explain else None))
    return FoundPage(tuple(items), len(found))


def _promising(found: list[_Match], limit: int) -> list[_Match]:
    """Those that can be among the best `limit`: the multiplier is worked out for these alone."""
    if len(found) <= limit or limit <= 0:
        return found
    bounds = [match.bounds() for match in found]
    bar = nlargest(limit, (least for least, _ in bounds))[-1]
    return [match for match, (_, most) in zip(found, bounds, strict=True) if most >= bar]


def _ranked(
    conn: apsw.Connection, hits: Hits, units: Sequence[Unit], narrowing: Narrowing, place: Place
) -> Iterator[_Match]:
    """The matches in one namespace, scored by its own statistics. Words are counted before the filter."""
    name, num, docs, tokens = place
    owner = {token: number for number, unit in enumerate(units) for token in unit}
    rows, counted = _matching_rows(conn, hits, owner, narrowing, num)
    holders = [0] * len(units)
    for counts in counted:
        for number in counts:
            holders[number] += 1
    weights = [ranking.idf(docs, number) for number in holders]
    corpus = ranking.Corpus(docs, tokens / docs if docs else 0.0)
    whole = sum(weights)
    for row, counts in zip(rows, counted, strict=True):
        slot, number, moment, revision, length, passes = row[:6]
        if not passes or (
            narrowing.rest is not None and not matches(record_of(row[7:], name), narrowing.rest)
        ):
            continue
        every = len(counts) == len(units)
        if every:
            share = ranking.relevance([counts[at] for at in range(len(units))], length, weights, corpus)
        else:  # the share of what the words it holds could give, times their part of the query
            held = [weights[at] for at in sorted(counts)]
            part = [counts[at] for at in sorted(counts)]
            share = ranking.relevance(part, length, held, corpus) * (sum(held) / whole if whole else 0.0)
        yield _Match(share, every, moment, number, slot, revision, name)


def _matching_rows(
    conn: apsw.Connection, hits: Hits, owner: dict[str, int], narrowing: Narrowing, num: int
) -> tuple[list[tuple[Any, ...]], list[dict[int, int]]]:
    """The rows that hold any word, and for each how often it holds which units."""
    # Tokens hold no quote (keyfold.text.tokens): quoting each is all it takes to make any query legal.
    match = " OR ".join(f'"{token}"' for token in owner)
    more = "" if narrowing.rest is None else f", {RECORD}"
    sql = _MATCHES.format(passes=narrowing.sql, more=more)
    hits.rows = []
    rows = conn.execute(sql, (*narrowing.values, match, *namespace_slots(num))).fetchall()
    counted = [_count(row, owner) for row in hits.rows]
    hits.rows = []
    return rows, counted


def _count(tokens: list[str], owner: dict[str, int]) -> dict[int, int]:
    """How often each unit is there: as often as the alternative that is there most."""
    if len(tokens) == 1:
        return {owner[tokens[0]]: 1}
    each: dict[str, int] = {}
    for token in tokens:
        each[token] = each.get(token, 0) + 1
    counts: dict[int, int] = {}
    for token, number in each.items():
        unit = owner[token]
        if number > counts.get(unit, 0):
            counts[unit] = number
    return counts


def _scanned(
    conn: apsw.Connection, query: SearchQuery, narrowing: Narrowing, place: Place
) -> Iterator[_Match]:
    """For a query of function words, which are not indexed: the records that hold them as whole words."""
    asked = all_words(query.text)
    if not asked:
        return
    name, num = place[0], place[1]
    for row in conn.execute(_NEWEST.format(narrowing.sql), (num, *narrowing.values)):
        record = record_of(row, name)
        text = text_of(record)
        if text.isascii() and not any(word in text.lower() for word in asked):
            continue  # the quick look: a word that is there is there as letters
        if narrowing.rest is not None and not matches(record, narrowing.rest):
            continue
        share, every = whole_words_share(asked, set(all_words(text)))
        if share:
            moment, number = to_micros(record.updated_at), int(record.id)
            yield _Match(share, every, moment, number, row[17], record.revision_count, name)
