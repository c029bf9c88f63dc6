"""Searching through a dialect: what the service finds, verified and filtered, and what it left no room for.

A service gives the best of what it finds, as many as it is asked for. Among them may be what does not count: records
that a filter keeps out, expired ones, earlier states, further pieces of one text, another user's. When too few are left
and there may be more, the service is asked once for as much as it gives; and when that does not settle it, the listing
is read and looked through by words. Whatever may have been missed all the same is told, never passed over; what was
found stays found when the service then fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from keyfold.contract.filters import matches
from keyfold.contract.indexed_text import indexed_text
from keyfold.contract.intents import Found, FoundPage, SearchQuery
from keyfold.dialects.base import Dialect, Hit, Searched, Shelf
from keyfold.dialects.by_words import found_by_words
from keyfold.dialects.held import Held, expired, held_at, living_rows, log, of_this_user
from keyfold.dialects.keyed_reads import shelves_of
from keyfold.dialects.wire import Closed
from keyfold.errors import KeyfoldError, Unauthorized, Unavailable, Unsupported
from keyfold.flow import Plan
from keyfold.model import READABLE_KINDS, Record
from keyfold.text.check import clean
from keyfold.text.tokens import all_words

FIRST_HITS: Final = 1000  # that a service is asked for at first, the most

Matches = dict[str, Found]  # by the record's id


def search(dialect: Dialect, query: SearchQuery, now: datetime) -> Plan[FoundPage]:
    """What the service finds, verified and filtered; how good a match is, is for the service to say."""
    if not dialect.capabilities.search:
        raise Unsupported(f"the {dialect.capabilities.engine} engine has no search; a page lists by filter")
    if not all_words(query.text):
        return FoundPage((), 0)  # signs alone: services refuse them, or find anything
    best: list[Found] = []
    more = False
    for shelf in (yield from shelves_of(dialect, query.namespace, query.reach, READABLE_KINDS)):
        found, left = yield from _on_shelf(dialect, shelf, query, now)
        best += found.values()
        more = more or left
    best.sort(key=lambda item: (item.score, item.record.updated_at), reverse=True)
    return FoundPage(tuple(best[: query.limit]), len(best), more)


def _on_shelf(
    dialect: Dialect, shelf: Shelf, query: SearchQuery, now: datetime
) -> Plan[tuple[Matches, bool]]:
    """What counts on one shelf, and whether more may."""

    def wanted(record: Record) -> bool:
        return _wanted(record, query, now)

    filtering = not query.where.empty or set(query.kinds) != set(READABLE_KINDS)
    asked = min(FIRST_HITS, dialect.most_hits, max(50, query.limit * (10 if filtering else 2)))
    enough = query.limit if query.enough is None else min(query.enough, query.limit)
    told: Searched = yield from dialect.search(shelf, query.text, asked, wanted)
    found, stray = yield from _counting(dialect, shelf, told.hits, query, now)
    spent = told.listed and told.came < asked  # what may be missing is not to be had by asking for more
    if told.more and not spent and len(found) < enough and asked < dialect.most_hits:
        try:
            whole: Searched = yield from dialect.search(shelf, query.text, dialect.most_hits, wanted)
            found, stray = yield from _counting(dialect, shelf, whole.hits, query, now)
        except KeyfoldError as error:
            _bear(error, found)
            if isinstance(error, Unavailable):  # then so is its listing, and to learn that takes long
                return found, True
        else:  # no more than before, though more were asked for: the service may have a bound of its own
            told = replace(whole, more=whole.more or whole.came <= told.came)
    if told.more and len(found) < enough and not told.listed:
        return (yield from _listed(dialect, shelf, query, now, found))
    if stray and not found:  # others' hits alone are an error, and what says so
        of_this_user([hit.row for hit in told.hits], shelf)
    return found, told.more


def _wanted(record: Record, query: SearchQuery, now: datetime) -> bool:
    """Whether a search may find a record, whatever its words."""
    return record.kind in query.kinds and not expired(record, now) and matches(record, query.where)


def _bear(error: KeyfoldError, found: Matches) -> None:
    """Bear that there is no more to be had than what was found: raise only where a search would have nothing to show
    and may have, when it is made again, or where the store was closed meanwhile.
    """
    if isinstance(error, Closed) or (not found and isinstance(error, (Unavailable, Unauthorized))):
        raise error
    log.warning("a search could not be completed: %s", error)


def _listed(
    dialect: Dialect, shelf: Shelf, query: SearchQuery, now: datetime, found: Matches
) -> Plan[tuple[Matches, bool]]:
    """What was found, and what else of the shelf's listing has the words. A match by meaning alone may be among the rest."""
    try:
        rows = yield from dialect.rows(shelf, texts=not dialect.bares)
    except KeyfoldError as error:
        _bear(error, found)
        return found, True
    rest = [
        row
        for row in living_rows(of_this_user(rows, shelf), shelf, now)
        if row.record.id not in found and _wanted(row.record, query, now)
    ]
    hits = [hit for hit in found_by_words(rest, query.text) if not hit.row.missing]
    others = {hit.row.record.id: _found(hit, query) for hit in hits}
    return {**found, **others}, len(others) < len(rest)


def _counting(
    dialect: Dialect, shelf: Shelf, hits: Sequence[Hit], query: SearchQuery, now: datetime
) -> Plan[tuple[Matches, bool]]:
    """The hits that count, one a record, and whether others' were among them."""
    words = all_words(query.text)
    found: Matches = {}
    mine = [hit for hit in hits if shelf.holds(hit.row.record)]
    if len(mine) < len(hits):
        log.warning("the %s service found another namespace's record", dialect.capabilities.engine)
    for hit in (yield from _present(dialect, shelf, mine, now)):
        record = hit.row.record
        if not _wanted(record, query, now):
            continue
        if hit.score <= 0 and not _named(record, words):
            continue  # as far from the question as can be: services return it to fill the list
        found[record.id] = _found(hit, query)
    return found, len(mine) < len(hits)


def _found(hit: Hit, query: SearchQuery) -> Found:
    score = min(1.0, max(0.0, hit.score))
    # A piece that a service cut out may end within a character; a whole content was looked at when it was read.
    shown = replace(hit.row.record, content=clean(hit.row.record.content))
    return Found(shown, score, {"service": score} if query.explain else None, hit.excerpt)


def _present(dialect: Dialect, shelf: Shelf, hits: Sequence[Hit], now: datetime) -> Plan[list[Hit]]:
    """The hits that say what a record says now, one each. Where several states of one were found, it is looked up."""
    by_digest: dict[str, dict[str, Hit]] = {}
    for hit in hits:
        states = by_digest.setdefault(hit.row.payload.digest, {})
        known = states.get(hit.row.remote)
        if known is None or known.score < hit.score:
            states[hit.row.remote] = hit
    found: list[Hit] = []
    for digest, states in by_digest.items():
        held = Held(tuple(hit.row for hit in states.values()))
        row = (held if len(states) == 1 else (yield from held_at(dialect, shelf, digest))).row(now)
        if row is not None and row.remote in states:
            found.append(states[row.remote])
    return found


def _named(record: Record, words: Sequence[str]) -> bool:
    """Whether a query's word stands in what a service does not search: title, key and tags."""
    said = set(all_words(indexed_text(record.title, "", record.topic_key, record.tags)))
    return any(word in said for word in words)
