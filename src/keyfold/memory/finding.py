"""Search, and the topic key to save under, as plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Found, Query, SearchQuery
from keyfold.errors import InvalidRequest
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.core import Core
from keyfold.memory.reads import FilterLike, narrowed
from keyfold.model import OBSERVATION, Hit, Reach, Record, SearchResults, Suggestion
from keyfold.text.keys import fold_key, suggest_key
from keyfold.text.snippet import snippet

NEAR_KEYS = 5


def mem_search(
    core: Core,
    user_id: str,
    query: str,
    *,
    limit: int = 10,
    types: Iterable[str] | None = None,
    types_exclude: Iterable[str] | None = None,
    tags: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    topic_prefix: str | None = None,
    filter: FilterLike | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    reach: Reach = "exact",
    explain: bool = False,
) -> Plan[SearchResults]:
    """Find memories by plain words: every string is a legal query, whatever its punctuation.

    Memories that hold every word come first, then those that hold some, by BM25 within the user's own
    memory; recency and revisions weigh gently. Words match by their stem (English, Spanish), without case
    and accents; scripts without spaces by their characters. Filters are those of mem_list. Hits are
    previews with a score in [0, 1] (`explain=True` adds its parts); `total` counts all matches (on a memory
    service those that it returned; `truncated` says that there are, or may be, more than are shown). An empty
    query with a filter lists the newest, with score 0. `limit` is at most 1,000, the query 64 KiB.
    """
    user = checks.name("user_id", user_id)
    words = checks.text("query", query, checks.MAX_QUERY_BYTES, blank=True)
    size = checks.whole("limit", limit, 1, checks.MAX_LIMIT)
    where = narrowed(
        types=types,
        types_exclude=types_exclude,
        tags=tags,
        topic_prefix=topic_prefix,
        filter=filter,
        since=since,
        until=until,
    )
    checked = core.reach(reach)
    if not words.strip():
        return (yield from _newest(user, where, checked, size))
    core.needs("search", "mem_list lists by filter")
    page = yield from calls.search(
        SearchQuery(user, words, checked, where=where, limit=size, explain=explain)
    )
    hits = tuple(hit_of(found, words) for found in page.items)
    return SearchResults(hits, page.total, page.total > len(hits) or page.more)


def _newest(user: str, where: Filter, reach: Reach, limit: int) -> Plan[SearchResults]:
    if where.empty:
        raise InvalidRequest(
            "query", "is blank; give words, or a filter to list by (mem_list lists everything)"
        )
    page = yield from calls.page(Query(user, reach, where=where, limit=limit))
    hits = tuple(hit_of(Found(record, 0.0), "") for record in page.items)
    return SearchResults(hits, page.total, page.total > len(hits))


def hit_of(found: Found, words: str) -> Hit:
    """The preview of a match."""
    record = found.record
    return Hit(
        record.id,
        record.type,
        record.title,
        record.topic_key,
        snippet(record.content, words),
        found.score,
        record.updated_at,
        record.namespace,
        record.kind,
        dict(found.parts) if found.parts is not None else None,
    )


def mem_suggest_topic_key(core: Core, user_id: str, *, type: str, title: str) -> Plan[list[Suggestion]]:
    """Topic keys to save under: existing ones that are near first (`exists`), then a new one by convention.

    Use an existing key when the memory is about the same subject: saving then rewrites that memory.
    """
    user = checks.name("user_id", user_id)
    kind = checks.observation_type(core.config, type)
    subject = checks.text("title", title, checks.MAX_TITLE_BYTES)
    fresh = suggest_key(kind, subject)
    near = yield from _near(core, user, subject)
    found = {record.key: Suggestion(record.key, True, record.title, score) for record, score in near}
    twin = yield from _twin(user, fresh)
    if twin is not None and twin.key not in found:
        found = {twin.key: Suggestion(twin.key, True, twin.title, 1.0), **found}
    suggestions = list(found.values())
    if fresh not in found:
        suggestions.append(Suggestion(fresh, False))
    return suggestions


def _near(core: Core, user: str, subject: str) -> Plan[list[tuple[Record, float]]]:
    """Keyed observations that the title finds."""
    if not core.capabilities.search:
        return []
    page = yield from calls.search(SearchQuery(user, subject, kinds=(OBSERVATION,), limit=50))
    keyed = [(found.record, found.score) for found in page.items if found.record.topic_key is not None]
    return keyed[:NEAR_KEYS]


def _twin(user: str, fresh: str) -> Plan[Record | None]:
    """An existing key that differs from the conventional one at most in case, spaces, `-` or `_`."""
    family = Filter(topic_prefix=fresh.split("/", 1)[0] + "/")
    page = yield from calls.page(
        Query(
            user,
            kinds=(OBSERVATION,),
            where=family,
            order="key",
            keyed_only=True,
            limit=1_000,
            want_total=False,
        )
    )
    folded = fold_key(fresh)
    return next((record for record in page.items if fold_key(record.key) == folded), None)
