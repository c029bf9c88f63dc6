"""Long texts in pieces for CortexDB: cut at pages, headings and blank lines, so that each piece reads by itself.

Pieces are contiguous: joined they are the text, byte for byte. Sizes are those of the JSON that an event is
measured as.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

TARGET: Final = 262_144  # bytes of one event as JSON, which a text is cut for
CAP: Final = 786_432  # bytes that no event exceeds
NUMBER: Final = 4_294_967_295  # room is kept for numbers as long as this one
SECTION_ROOM: Final = 120 * 6 + 32  # and for a section's title, every character of it escaped
LONGEST_TITLE: Final = 120  # characters
LEAST: Final = 6  # bytes: a budget that holds any character
_HEADING: Final = re.compile(r"(?:^|(?<=\f)) {0,3}#{1,6}[ \t]+([^\n\f]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of a text, and where it lies in it."""

    text: str
    index: int = 0
    count: int = 1
    pages: tuple[int, int] | None = None
    section: str = ""


def escaped(text: str) -> int:
    """The bytes of a text within JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def pieces(text: str, overhead: int, *, target: int = TARGET, cap: int = CAP) -> list[Cut] | None:
    """A text as one piece or several, when all else about it takes `overhead` bytes; None when nothing fits."""
    paged = "\f" in text
    chunk = {"index": NUMBER, "count": NUMBER, **({"pages": [NUMBER, NUMBER]} if paged else {})}
    overhead += len(json.dumps({"chunk": chunk}, separators=(",", ":")))
    whole = overhead + escaped(text)
    if whole <= target:
        return [Cut(text)]
    budget = target - overhead - SECTION_ROOM
    if budget < LEAST:
        budget = cap - overhead - SECTION_ROOM
    if budget < LEAST:
        return [Cut(text)] if whole <= cap else None
    packed = list(_packed(text, budget))
    if len(packed) == 1:
        return [Cut(text)]
    headings = [(found.start(), _title(found[1])) for found in _HEADING.finditer(text)]
    places = [place for place, _ in headings]
    cuts: list[Cut] = []
    for index, (start, end) in enumerate(packed):
        first = (
            start + len(text[start:end]) - len(text[start:end].lstrip())
        )  # a heading may follow a blank stretch
        at = bisect_right(places, first) - 1
        pages = (1 + text.count("\f", 0, start + 1), 1 + text.count("\f", 0, end)) if paged else None
        section = headings[at][1] if at >= 0 else ""
        cuts.append(Cut(text[start:end], index, len(packed), pages, section))
    return cuts


def _title(text: str) -> str:
    return text.strip().rstrip("#").rstrip()[:LONGEST_TITLE]


def _packed(text: str, budget: int) -> Iterator[tuple[int, int]]:
    """Where the pieces lie: as many units as fit, one after the other."""
    start, room = 0, budget
    last = 0
    for begin, end in _fitting(text, budget):
        size = escaped(text[begin:end])
        if size > room and begin > start:
            yield start, begin
            start, room = begin, budget
        room -= size
        last = end
    yield start, last


def _fitting(text: str, budget: int) -> Iterator[tuple[int, int]]:
    """The units of a text, one that is too long taken apart."""
    for begin, end in _units(text):
        if escaped(text[begin:end]) <= budget:
            yield begin, end
        else:
            yield from _smaller(text, begin, end, budget, ("\n\n", "\n"))


def _smaller(
    text: str, begin: int, end: int, budget: int, breaks: tuple[str, ...]
) -> Iterator[tuple[int, int]]:
    if escaped(text[begin:end]) <= budget:
        yield begin, end
    elif not breaks:
        while begin < end:
            stop = _stop(text, begin, end, budget)
            yield begin, stop
            begin = stop
    else:
        while begin < end:
            found = text.find(breaks[0], begin, end)
            stop = end if found < 0 else found + len(breaks[0])
            yield from _smaller(text, begin, stop, budget, breaks[1:])
            begin = stop


def _stop(text: str, begin: int, end: int, budget: int) -> int:
    """The last place up to which characters fit."""
    low, high = begin + 1, min(end, begin + budget)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if escaped(text[begin:middle]) <= budget else (low, middle - 1)
    return low


def _units(text: str) -> list[tuple[int, int]]:
    """Pages and sections; a blank stretch joins what follows it, or at the end what comes before."""
    starts = {0, *(found.start() for found in _HEADING.finditer(text))}
    starts |= {at for at, character in enumerate(text) if character == "\f"}
    bounds = [*sorted(starts), len(text)]
    units: list[tuple[int, int]] = []
    begin = 0
    for at, end in pairwise(bounds):
        if end > at and text[at:end].strip():
            units.append((begin, end))
            begin = end
    if begin < len(text):
        if units:
            units[-1] = (units[-1][0], len(text))
        else:
            units.append((0, len(text)))
    return units
