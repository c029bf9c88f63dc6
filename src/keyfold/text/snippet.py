"""One-line previews around what was searched for."""

import re
from functools import cache, lru_cache

from keyfold.text._fold import UNSPACED
from keyfold.text.tokens import all_words, index_tokens, query_units

# Only so much of a text is looked at: a preview is made for every hit.
MAX_TEXT = 65_536
ELLIPSIS = "\u2026"


@cache
def _place_pattern() -> re.Pattern[str]:
    """What is compared with the query: a character of a script without spaces (with the
    next one, which makes the bigram), or a stretch of anything else. Group 1 is the
    former. Compiled at the first use, which takes a millisecond."""
    return re.compile(f"([{UNSPACED}])|[^\\s{UNSPACED}]+")


def snippet(text: str, query: str, width: int = 160) -> str:
    """Return a one-line preview of ``text`` around the words of ``query``.

    White space is collapsed. The preview shows the first place where the most words of
    the query (compared by their stems, accents and case aside) lie within ``width``
    characters, or the head of the text where there are none. It is at most ``width``
    characters, and a ``\u2026`` on each side where text was left out. ``text`` and ``query``
    are any strings; ``width`` is at least 1. At most 64 KiB of the text is read.
    """
    line = " ".join(text[:MAX_TEXT].split())
    more = len(text) > MAX_TEXT and not text[MAX_TEXT:].isspace()
    width = max(1, width)
    if len(line) <= width:
        return line + (ELLIPSIS if more else "")
    first, last = _best(_hits(line, query), width)
    start, end = _window(line, first, last, width)
    left = ELLIPSIS if start > 0 else ""
    right = ELLIPSIS if more or end < len(line) else ""
    return left + line[start:end].strip() + right


# A search asks for a preview of every hit with the same query.
@lru_cache(maxsize=4)
def _wanted(query: str) -> tuple[dict[str, int], bool]:
    """Which unit of the query each token belongs to, and whether the query has nothing
    but function words, which have no tokens and are compared as they are."""
    units = query_units(query)
    plain = not units
    if plain:
        units = [(word,) for word in all_words(query)]
    return {token: number for number, unit in enumerate(units) for token in unit}, plain


def _hits(line: str, query: str) -> list[tuple[int, int, int]]:
    """The places that match: start, end and which unit of the query."""
    wanted, plain = _wanted(query)
    if not wanted:
        return []
    hits: list[tuple[int, int, int]] = []
    for place in _place_pattern().finditer(line):
        start, end = place.span()
        piece = line[start : start + 2] if place[1] else place[0]
        found = all_words(piece) if plain else index_tokens(piece)
        hits += [
            (start, start + len(token) if place[1] else end, wanted[token])
            for token in found
            if token in wanted
        ]
    return hits


def _best(hits: list[tuple[int, int, int]], width: int) -> tuple[int, int]:
    """The first stretch of at most ``width`` characters with the most different units."""
    best, span = 0, (0, 0)
    inside: dict[int, int] = {}
    low = 0
    for start, end, unit in hits:
        inside[unit] = inside.get(unit, 0) + 1
        while low < len(hits) and hits[low][0] < start and end - hits[low][0] > width:
            gone = hits[low][2]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            low += 1
        if len(inside) > best:
            best, span = len(inside), (hits[low][0], end)
    return span


def _window(line: str, first: int, last: int, width: int) -> tuple[int, int]:
    """``width`` characters around the span, moved to the ends of words where that is
    near: a word longer than a quarter of the preview is cut instead."""
    room = max(0, width - (last - first))
    start = max(0, min(first - room // 2, len(line) - width))
    end = min(len(line), start + width)
    slack = width // 4
    if start > 0 and line[start - 1] != " ":
        space = line.find(" ", start, min(first, start + slack))
        start = space + 1 if space >= 0 else start
    if end < len(line) and line[end] != " ":
        space = line.rfind(" ", max(last, end - slack), end)
        end = space if space >= 0 else end
    return start, end
