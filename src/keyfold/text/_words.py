"""Cutting a text into words: what an identifier, a run of Han and an emoji become.

Everything here is local to a chunk, a stretch without white space, so that chunks can be
remembered one by one.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from keyfold.text._fold import POINTS, UNSPACED, clean, lower, strip_accents

# Longer words (a base64 blob) are cut on both sides alike: they still find themselves.
MAX_WORD = 64
# A word that falls into more parts than this is a hash, not a name: its parts say nothing.
MAX_PARTS = 8

# What pieces() says of each piece.
WORD, RUN, PART = range(3)

_JOINT = re.compile(r"[-'_.]+")
_DROPPED = re.compile("[-'_]+")
_DOTTED = re.compile(r"[0-9]+(?:\.[0-9]+)+")
_CASES = re.compile("A+(?=Aa)|A?a+|A+|0+")
_ACRONYM = re.compile("A+a?")
_POSSESSIVE = re.compile(r"(?<=\w)'(?:s|m|d|ll|re|ve)(?!\w)", re.IGNORECASE)
_NOT = re.compile(r"n't(?!\w)", re.IGNORECASE)


@cache
def _piece_pattern() -> re.Pattern[str]:
    """Compiled at the first use: sets of many ranges take milliseconds to compile.

    A run of an unspaced script, or letters joined by "-", "'", underscores, or a dot
    between digits, with the sign of C++ and C# at the end. A letter is also a digit, or
    after clean() a symbol: all that is not ASCII. No two branches start alike, so it is
    linear.
    """
    letter = f"[^\\x00-/:-@\\[-`{{-\\x7f{UNSPACED}]"
    return re.compile(
        f"([{UNSPACED}]+)|({letter}+(?:(?:[-']|_+|(?<=[0-9])\\.(?=[0-9])){letter}+)*)(\\+\\+|#(?!\\w))?"
    )


def pieces(chunk: str) -> Iterator[tuple[int, str]]:
    """Yield the pieces of a chunk in order, each with its kind.

    RUN is a stretch of an unspaced script, as it is; WORD a word, lower-cased, with its
    accents but without vowel points, of at most 64 characters; PART one that is part of the compound before it. A
    compound comes whole and then in parts, each part whole and then in its own parts:
    ``state-of-the-art`` gives stateoftheart, state, of, the, art; ``HTTPServer2`` gives
    httpserver2, http, server, 2. Any string is legal; the time is linear.
    """
    if len(chunk) <= MAX_WORD and chunk.isalpha() and chunk.isascii():
        yield from _word(chunk, WORD)  # the ordinary word, without the machinery below
        return
    text = clean(chunk)
    if not text.isascii():
        text = POINTS.sub("", text)
    if "'" in text:
        text = _NOT.sub("nt", _POSSESSIVE.sub("", text))
    for piece in _piece_pattern().finditer(text):
        run, compound, sign = piece.groups()
        if run:
            yield RUN, run
        else:
            yield from _compound(compound, sign)


def bigrams(run: str) -> list[str]:
    """Return the pairs of neighbouring characters of a run, in order, with repeats."""
    return [first + second for first, second in pairwise(run)]


def words(text: str) -> list[str]:
    """Return the distinct words and runs of any text, folded (case, width, accents), in
    order, not stemmed, function words included. What a stemmed search drops is here."""
    found = dict.fromkeys(piece for chunk in text.split() for piece in pieces(chunk))
    folded = (piece if kind == RUN else strip_accents(piece) for kind, piece in found)
    return list(dict.fromkeys(filter(None, folded)))


def _compound(compound: str, sign: str | None) -> Iterator[tuple[int, str]]:
    parts = _JOINT.split(compound)
    kind = WORD
    if sign:
        # Full-width, because an ASCII sign would end the token in the index.
        mark = "\uff0b\uff0b" if sign == "++" else "\uff03"
        yield WORD, lower(parts[-1][: MAX_WORD - 2]) + mark
        kind = PART
    if len(parts) > 1:
        # Dots leave a mark, so that 1.14.0 is not 11.40; a hyphen or an underscore leaves
        # none, so that e-mail finds email and user_name finds userName. The mark cannot
        # come from a text: clean() takes the middle dot out.
        whole = _DROPPED.sub("", compound[: 4 * MAX_WORD]).replace(".", "\u00b7")
        yield WORD, lower(whole[:MAX_WORD])
        if "." in compound:
            for number in _DOTTED.findall(compound):  # 1.14.0 within v1.14.0
                if number != compound:
                    yield WORD, number.replace(".", "\u00b7")[:MAX_WORD]
        kind = PART
    for part in parts:
        yield from _word(part, kind)


def _word(part: str, kind: int) -> Iterator[tuple[int, str]]:
    """A word without joints, then what its capitals and digits divide it into."""
    part = part[:MAX_WORD]
    yield kind, lower(part)
    if part.isalpha() and part[1:].islower():
        return
    shape = "".join("A" if c.isupper() else "0" if c.isdecimal() else "a" for c in part)
    if _ACRONYM.fullmatch(shape):  # URL, and URLs: not UR + Ls
        return
    spans = [match.span() for match in _CASES.finditer(shape)]
    if 1 < len(spans) <= MAX_PARTS:
        yield from ((PART, lower(part[start:end])) for start, end in spans)
