"""Finding rows by their words here: what a service's own search cannot know, or did not get round to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from keyfold.dialects.base import Hit, Row
from keyfold.text.tokens import all_words, index_tokens, query_units

BY_WORDS: Final = 0.75  # the score of a row that has every word, beside those that the service gives


def found_by_words(rows: Sequence[Row], text: str) -> list[Hit]:
    """The rows that have any word of a text, best first."""
    units = query_units(text)
    hits: list[Hit] = []
    for row in rows:
        record = row.record
        said = "\n".join((record.title, "" if record.minted else record.key, *record.tags, record.content))
        if units:
            tokens = set(index_tokens(said))
            part = sum(not tokens.isdisjoint(unit) for unit in units) / len(units)
        else:  # function words alone
            asked = set(all_words(text))
            part = len(asked.intersection(all_words(said))) / max(1, len(asked))
        if part:
            hits.append(Hit(row, BY_WORDS * part, excerpt=row.bare))
    return sorted(hits, key=lambda hit: hit.score, reverse=True)
