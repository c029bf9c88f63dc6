"""Engines whose reads, filters or searches have one small fault each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from keyfold.clock import EPOCH
from keyfold.contract.filters import EVERYTHING, Condition, Filter, matches
from keyfold.contract.intents import Counts, Found, FoundPage, Health, Page, Query, Ref, SearchQuery, Selector
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest
from keyfold.model import KINDS, OBSERVATION, READABLE_KINDS, SESSION, DeleteResult, Reach, Record
from keyfold.text.tokens import query_units
from tests.conformance.faulty import broken, hits, listings, narrowings, pages, reads, searches

MICROSECOND = timedelta(microseconds=1)


def _later(moment: datetime | None) -> datetime | None:
    return moment and moment + MICROSECOND


def _conditions(change: Callable[[Condition], Condition | None]) -> Callable[[Filter], Filter]:
    def changed(where: Filter) -> Filter:
        kept = [condition for given in where.metadata if (condition := change(given)) is not None]
        return replace(where, metadata=tuple(kept))

    return changed


def _valued(change: Callable[[Any], Any]) -> Callable[[Filter], Filter]:
    def changed(value: Any) -> Any:
        return tuple(map(change, value)) if isinstance(value, tuple) else change(value)

    return _conditions(lambda c: replace(c, value=changed(c.value)))


@broken
class ReadsSessionsByTheirIds(InMemoryEngine):
    def get(self, ref: Ref) -> Record | None:
        return super().get(ref) or super().get(replace(ref, kind=SESSION))


listings("ListsOldestFirst", lambda q: replace(q, order="oldest"))
listings("ListsNewestFirst", lambda q: replace(q, order="newest"))
listings("ListsAllKinds", lambda q: replace(q, kinds=READABLE_KINDS))
listings("ListsSessions", lambda q: replace(q, kinds=KINDS if q.kinds == READABLE_KINDS else q.kinds))
listings("ListsUnkeyedToo", lambda q: replace(q, keyed_only=False))
listings("ListsBelow", lambda q: replace(q, reach="subtree" if q.reach == "exact" else q.reach))
listings("InheritsNothing", lambda q: replace(q, reach="exact" if q.reach == "inherit" else q.reach))
pages("TotalsOfThePage", lambda p: replace(p, total=len(p.items)))
pages("LosesOneAPage", lambda p: replace(p, items=p.items[:-1] if p.position else p.items))
pages("ListsByCreation", lambda p: replace(p, items=tuple(sorted(p.items, key=lambda r: r.created_at))))
pages("ListsWithoutCase", lambda p: replace(p, items=tuple(sorted(p.items, key=lambda r: r.key.lower()))))
reads("HidesPins", lambda r: replace(r, pinned=False))
narrowings("IgnoresTypes", lambda w: replace(w, types=(), types_exclude=()))
narrowings("AllTagsAreAny", lambda w: replace(w, tags=(), tags_any=w.tags + w.tags_any))
narrowings("AnyTagsAreAll", lambda w: replace(w, tags=w.tags + w.tags_any, tags_any=()))
narrowings("IgnoresSessionFilters", lambda w: replace(w, session_id=None))
narrowings("IgnoresPins", lambda w: replace(w, pinned=None))
narrowings("IgnoresPrefixes", lambda w: replace(w, topic_prefix=None))
narrowings(
    "PrefixesArePatterns",
    lambda w: replace(w, topic_prefix=w.topic_prefix and re.split(r"[%_\[*\\]", w.topic_prefix)[0]),
)
narrowings("UntilIsInclusive", lambda w: replace(w, updated_until=_later(w.updated_until)))
narrowings("CreatedUntilIsInclusive", lambda w: replace(w, created_until=_later(w.created_until)))
narrowings("IgnoresMetadata", lambda w: replace(w, metadata=()))
narrowings("OneCondition", lambda w: replace(w, metadata=w.metadata[:1]))
narrowings("TrueIsOne", _valued(lambda v: int(v) if isinstance(v, bool) else v))
narrowings("NumbersAreFloats", _valued(lambda v: float(v) if type(v) is int and v > 2**50 else v))
narrowings("StringsAreFolded", _valued(lambda v: v.upper() if isinstance(v, str) else v))
narrowings("NullIsNothing", _conditions(lambda c: None if c.value is None else c))
narrowings("EmptyInIsAll", _conditions(lambda c: None if c.value == () else c))
narrowings("NeIsIgnored", _conditions(lambda c: None if c.operator == "ne" else c))
narrowings("GtIsGte", _conditions(lambda c: replace(c, operator="gte" if c.operator == "gt" else c.operator)))
narrowings("GteIsGt", _conditions(lambda c: replace(c, operator="gt" if c.operator == "gte" else c.operator)))
narrowings("LtIsLte", _conditions(lambda c: replace(c, operator="lte" if c.operator == "lt" else c.operator)))
narrowings("LteIsLt", _conditions(lambda c: replace(c, operator="lt" if c.operator == "lte" else c.operator)))
narrowings("DotsStepFirst", _conditions(lambda c: replace(c, path=tuple(c.path[0].split(".")))))
narrowings("ObjectsAreText", _valued(lambda v: str(v) if isinstance(v, (dict, list)) else v))
narrowings("SignsAreDropped", _conditions(lambda c: replace(c, path=(re.sub(r"\W", "", c.path[0]),))))
searches("SearchesBelow", lambda q: replace(q, reach="subtree"))
searches("SearchesSiblings", lambda q: replace(q, namespace=q.namespace.rpartition("/")[0], reach="subtree"))
searches("SearchesObservations", lambda q: replace(q, kinds=(OBSERVATION,)))
searches("AlwaysExplains", lambda q: replace(q, explain=True))
searches("AsciiOnly", lambda q: replace(q, text=q.text.encode("ascii", "ignore").decode()))
hits("FindsBackwards", lambda p: replace(p, items=p.items[::-1]))
hits("FindsAllWordsOnly", lambda p: FoundPage(tuple(h for h in p.items if h.score >= 0.5), p.total))
hits("TotalsOfTheLimit", lambda p: replace(p, total=len(p.items)))
hits("ScoresInPercent", lambda p: replace(p, items=tuple(replace(h, score=h.score * 100) for h in p.items)))


@broken
class FindsNoId(InMemoryEngine):
    def get(self, ref: Ref) -> Record | None:
        return None if ref.id is not None else super().get(ref)


@broken
class ReadsAnyId(InMemoryEngine):
    def get(self, ref: Ref) -> Record | None:
        with self._reading() as (state, _):
            entry = state.entries.get(ref.id or "")
        return entry.record if entry else super().get(ref)


@broken
class PlacesMustExist(InMemoryEngine):
    def page(self, query: Query) -> Page:
        with self._reading() as (state, _):
            if query.position and query.order != "key":
                known = query.position.rpartition(".")[2] in state.entries
                query = query if known else replace(query, position=None)
        return super().page(query)


@broken
class PlacesAreTimesAlone(InMemoryEngine):
    def page(self, query: Query) -> Page:
        if query.position and query.order != "key":
            micros, _, _ = query.position.partition(".")
            query = replace(query, position=f"{micros}.{0 if query.order == 'newest' else 10**9}")
        return super().page(query)


@broken
class StartsAnewOnBadPlaces(InMemoryEngine):
    def page(self, query: Query) -> Page:
        try:
            return super().page(query)
        except InvalidRequest:
            return super().page(replace(query, position=None))


def loose(name: str, belongs: Callable[[str, str], bool]) -> None:
    """A broken engine whose listings take another namespace for the one asked for."""

    def page(self: Any, query: Query) -> Page:
        names = [name for name in self.namespaces() if belongs(name, query.namespace)]
        parts = [InMemoryEngine.page(self, replace(query, namespace=name, limit=100)) for name in names]
        items = tuple(dict.fromkeys(part.id for part in parts for part in part.items))
        records = {record.id: record for part in parts for record in part.items}
        return Page(tuple(records[identity] for identity in items)[: query.limit], len(items), None)

    broken(type(name, (InMemoryEngine,), {"page": page}))


def _pattern(namespace: str) -> str:
    return namespace.replace("%", "*").replace("_", "?")


def _normal(namespace: str) -> str:
    return unicodedata.normalize("NFC", namespace).strip()


loose("NamesWithoutCase", lambda name, asked: name.lower() == asked.lower())
loose("NamesThatStartAlike", lambda name, asked: name.startswith(asked))
loose("NamesArePatterns", lambda name, asked: fnmatchcase(name, _pattern(asked)))
loose("NamesAreNormalised", lambda name, asked: _normal(name) == _normal(asked))


@broken
class NamesByLetters(InMemoryEngine):
    def namespaces(self, prefix: str = "") -> list[str]:
        return [name for name in super().namespaces() if name.startswith(prefix)]


@broken
class CountsSessions(InMemoryEngine):
    def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        counts = super().count(namespace, reach)
        return replace(counts, total=sum(counts.by_kind.values()))


@broken
class CountsFromTheStart(InMemoryEngine):
    def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        counts = super().count(namespace, reach)
        return replace(counts, oldest=counts.oldest or EPOCH)


@broken
class NeverWell(InMemoryEngine):
    def health(self) -> Health:
        return replace(super().health(), ok=False)


@broken
class NeverCloses(InMemoryEngine):
    def close(self) -> None:
        pass


def _sifted(name: str, keep: Callable[[SearchQuery, Found], bool]) -> None:
    def search(self: Any, query: SearchQuery) -> FoundPage:
        page = InMemoryEngine.search(self, query)
        items = tuple(hit for hit in page.items if keep(query, hit))
        return FoundPage(items, page.total - len(page.items) + len(items))

    broken(type(name, (InMemoryEngine,), {"search": search}))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


_sifted(
    "IndexesContentOnly", lambda q, hit: any(word in hit.record.content.lower() for word in _words(q.text))
)
_sifted("IndexesNoStopWords", lambda q, _: bool(query_units(q.text)))
_sifted("IndexesWholeWordsOnly", lambda q, hit: bool(set(_words(q.text)) & set(_words(hit.record.content))))
_sifted("IndexesLettersOnly", lambda q, _: bool(re.fullmatch(r"[\w\s]*", q.text)))


@broken
class ParsesQueries(InMemoryEngine):
    def search(self, query: SearchQuery) -> FoundPage:
        if query.text.count('"') % 2 or query.text.count("(") != query.text.count(")"):
            raise InvalidRequest("query", "it is not well formed")
        return super().search(query)


@broken
class SharesStatistics(InMemoryEngine):
    def search(self, query: SearchQuery) -> FoundPage:
        page = super().search(query)
        with self._reading() as (state, _):
            share = 1 - len(state.entries) / 1000
        return replace(page, items=tuple(replace(hit, score=hit.score * share) for hit in page.items))


@broken
class FiltersAfterTheLimit(InMemoryEngine):
    def search(self, query: SearchQuery) -> FoundPage:
        page = super().search(replace(query, where=EVERYTHING))
        items = tuple(hit for hit in page.items if matches(hit.record, query.where))
        return FoundPage(items, len(items))


@broken
class TiesByTheLimit(InMemoryEngine):
    def search(self, query: SearchQuery) -> FoundPage:
        page = super().search(replace(query, limit=1000))
        sign = -1 if query.limit < 10 else 1
        items = sorted(page.items, key=lambda hit: (-hit.score, sign * int(hit.record.id)))
        return FoundPage(tuple(items[: query.limit]), page.total)


@broken
class StaleIndex(InMemoryEngine):
    """Finds by the words of former states, and what was forgotten."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._buried: list[tuple[str, Record]] = []

    def store_many(self, intents: Sequence[Any]) -> Any:
        for intent in intents:
            if intent.key is not None and intent.kind == OBSERVATION:
                self._bury(super().get(Ref(intent.namespace, key=intent.key)))
        return super().store_many(intents)

    def forget(self, selector: Selector) -> DeleteResult:
        if selector.ref is not None and not selector.dry_run:
            self._bury(super().get(selector.ref))
        return super().forget(selector)

    def search(self, query: SearchQuery) -> FoundPage:
        page = super().search(query)
        stale = [
            Found(record, 0.0)
            for text, record in self._buried
            if record.namespace == query.namespace and set(_words(query.text)) & set(_words(text))
        ]
        return FoundPage((*page.items, *stale), page.total + len(stale))

    def _bury(self, record: Record | None) -> None:
        if record is not None:
            self._buried.append((record.content, record))


@broken
class FindsAllForNothing(InMemoryEngine):
    def search(self, query: SearchQuery) -> FoundPage:
        if _words(query.text):
            return super().search(query)
        page = super().page(Query(query.namespace, limit=query.limit))
        return FoundPage(tuple(Found(record, 0.0) for record in page.items), page.total)


@broken
class FindsAllForAnUnknownWord(InMemoryEngine):
    def search(self, query: SearchQuery) -> FoundPage:
        page = super().search(query)
        return page if page.items else super().search(replace(query, text="the cat horse shared"))
