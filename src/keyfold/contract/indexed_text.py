"""What of a record can be found by its words, and how well a record answers a query that has only stop words.

One place, so that every engine counts the same words and therefore gives the same scores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence


def indexed_text(title: str, content: str, topic_key: str | None, tags: Iterable[str]) -> str:
    """The text whose tokens are indexed. `topic_key` is None but for keyed observations (`Record.topic_key`)."""
    return f"{title}\n{content}\n{topic_key or ''}\n{' '.join(tags)}"


def whole_words_share(asked: Sequence[str], held: Collection[str]) -> tuple[float, bool]:
    """For a query without indexed words: the share of its words (`all_words`) that a text holds, and whether all.

    This share stands in for the relevance; a record whose share is 0 is no match.
    """
    found = sum(word in held for word in asked)
    return found / len(asked), found == len(asked)
