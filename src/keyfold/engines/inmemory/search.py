"""The reference search: reads every record it could find, each time, and scores it by the contract's ranking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from keyfold.contract.filters import matches
from keyfold.contract.indexed_text import indexed_text, whole_words_share
from keyfold.contract.intents import Found, FoundPage, SearchQuery
from keyfold.contract.ranking import Corpus, idf, relevance, search_score
from keyfold.contract.reach import within
from keyfold.engines.inmemory.state import State, copied, expired
from keyfold.model import SESSION, Record
from keyfold.text.tokens import Unit, all_words, index_tokens, query_units

Share = tuple[Record, float, bool]


def search(state: State, query: SearchQuery, now: datetime) -> FoundPage:
    """The best matches of a query, and how many there are."""
    found = [
        Found(copied(record), score, parts if query.explain else None)
        for record, share, every_word in _shares(state, query)
        if record.kind in query.kinds and not expired(record, now) and matches(record, query.where)
        for score, parts in (search_score(share, every_word, record, now),)
    ]
    found.sort(key=lambda item: int(item.record.id))
    found.sort(key=lambda item: (item.score, item.record.updated_at), reverse=True)
    return FoundPage(tuple(found[: query.limit]), len(found))


def _shares(state: State, query: SearchQuery) -> Iterator[Share]:
    units = query_units(query.text)
    words = all_words(query.text)
    for records in _indexed(state, query):
        if units:
            yield from _by_units(records, units)
        elif words:  # nothing but stop words: they are in no index, so the texts are read
            yield from _by_words(records, words)


def _indexed(state: State, query: SearchQuery) -> list[list[Record]]:
    """The indexed records of each namespace within reach: expired ones count until they are removed."""
    namespaces: dict[str, list[Record]] = {}
    for entry in state.entries.values():
        record = entry.record
        if record.kind != SESSION and within(record.namespace, query.namespace, query.reach):
            namespaces.setdefault(record.namespace, []).append(record)
    return list(namespaces.values())


def _by_units(records: Sequence[Record], units: Sequence[Unit]) -> Iterator[Share]:
    """BM25 with the statistics of one namespace alone."""
    tokens = [Counter(index_tokens(_text(record))) for record in records]
    lengths = [counted.total() for counted in tokens]
    frequencies = [[max(counted[token] for token in unit) for unit in units] for counted in tokens]
    holders = [sum(row[column] > 0 for row in frequencies) for column in range(len(units))]
    weights = [idf(len(records), held) for held in holders]
    corpus = Corpus(len(records), sum(lengths) / len(records))
    for record, row, length in zip(records, frequencies, lengths, strict=True):
        if any(row):
            yield record, relevance(row, length, weights, corpus), all(row)


def _by_words(records: Sequence[Record], words: Sequence[str]) -> Iterator[Share]:
    for record in records:
        share, every_word = whole_words_share(words, set(all_words(_text(record))))
        if share:
            yield record, share, every_word


def _text(record: Record) -> str:
    return indexed_text(record.title, record.content, record.topic_key, record.tags)
