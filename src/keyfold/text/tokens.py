"""The tokenizer: one for the index and for the query, on every engine.

A token consists of ASCII letters (lower case), ASCII digits and characters that are not
ASCII, so that tokens joined by spaces survive FTS5's ``ascii`` tokenizer unchanged.

Stems. The Spanish stem is taken of the accented word and folded afterwards, because the
stemmer uses the accent: corrió and había come to the stems of correr and haber, corrio
and habia do not. People search without accents, so a query word asks for the stem of both
forms; its English stem, always taken of the folded word and always in the index,
guarantees that a word finds itself however it is accented.

Which characters count as letters comes from Python's Unicode tables; a newer Python can
classify characters that were unassigned before. All else is fixed by TOKENIZER_VERSION.
"""

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from keyfold.text._fold import strip_accents
from keyfold.text._stops import ENGLISH_EVIDENCE, SPANISH_EVIDENCE, STOPS
from keyfold.text._words import MAX_WORD, PART, RUN, bigrams, pieces, words

TOKENIZER_VERSION = 2

Unit = tuple[str, ...]
"""Alternatives for one thing asked for: it counts once, whichever of them a text holds."""

# Marks of evidence for a text's language. No token holds one.
_EVIDENCE = _ENGLISH, _SPANISH, _ACCENTED = "\x01", "\x02", "\x03"
# What a word becomes: evidence for its language, its tokens if the text is English, and
# its tokens if it may be either.
_Entry = tuple[str, tuple[str, ...], tuple[str, ...]]


class _Part(str):
    """What a chunk becomes: its evidence, and its tokens in an English text, a space behind each.

    A plain string where they are the same in any text; else ``either`` is what it becomes
    in a text that may be of either language.
    """

    __slots__ = ("either",)
    either: str


# Texts repeat their words, and a look-up costs a fiftieth of folding and stemming. Single
# dict operations are atomic; when two threads fill it at once, one entry is made twice.
_seen: dict[str, str] = {}
_SEEN_LIMIT = 32_768
_SEEN_LENGTH = 48

# What may stand around a word without saying anything: not "+" and "#", which are part of C++ and C#.
_MARKS = '.,;:!?()[]{}"*_`'


class _Stemmer(Protocol):
    def stemWords(self, words: Sequence[str], /) -> list[str]: ...  # noqa: N802


class _Stemmers(threading.local):
    """A Stemmer must not be used by two threads at once. One each, rather than a lock,
    because a lock held during a fork would stay locked in the child."""

    def __init__(self) -> None:
        # By name: the module has no type information.
        stemmer = import_module("Stemmer").Stemmer
        # 0: no cache of its own, ours is in front of it.
        self.english: _Stemmer = stemmer("english", 0)
        self.spanish: _Stemmer = stemmer("spanish", 0)


_stemmers: _Stemmers | None = None


def _stems(folded: Sequence[str], accented: Sequence[str]) -> tuple[list[str], list[str]]:
    """The English stems of folded words, and the Spanish ones of accented words, folded."""
    global _stemmers
    if _stemmers is None:
        _stemmers = _Stemmers()
    english = _stemmers.english.stemWords(folded)
    spanish = _stemmers.spanish.stemWords(accented)
    return english, [stem if stem.isascii() else strip_accents(stem) for stem in spanish]


def index_tokens(text: str) -> list[str]:
    """Return the tokens to index for ``text``, in order, with repeats.

    ``text`` is any string of any length (lone surrogates and NUL separate words); the time
    is linear in it. Function words of English and Spanish are left out. A text that is
    plainly English gives English stems; any other gives the English and the Spanish stem
    of each word (once if equal). A compound is there whole and in parts; a run of a script
    without spaces as its characters and bigrams; a symbol by itself.
    """
    joined, count = joined_tokens(text)
    return joined.split(" ") if count else []


def joined_tokens(text: str) -> tuple[str, int]:
    """Return the tokens of ``index_tokens`` joined by spaces, and how many there are.

    This is what an index takes, and made in one go: a text is the join of what is
    remembered of its chunks.
    """
    chunks = text.split()
    known = _seen
    try:
        parts = [known[chunk] for chunk in chunks]
    except KeyError:  # a new chunk
        parts = [_part(chunk) if (part := known.get(chunk)) is None else part for chunk in chunks]
    joined = "".join(parts)
    if _ENGLISH not in joined or _SPANISH in joined or _ACCENTED in joined:
        joined = "".join([part.either if isinstance(part, _Part) else part for part in parts])
    for mark in _EVIDENCE:
        if mark in joined:
            joined = joined.replace(mark, "")
    return joined[:-1], joined.count(" ")


def query_units(query: str) -> list[Unit]:
    """Return what ``query`` asks for: one Unit for each distinct word, in order.

    ``query`` is any string. A Unit holds every form in which the index may have the word.
    No token is in two Units: words that share a stem are one. Function words are dropped;
    a query of nothing else (or of punctuation) gives ``[]``, and ``all_words`` says what
    it had. A compound gives its whole and its parts, as in the index: its holder has them
    all and ranks first, and a text that writes it apart is still found. (Only the single
    ASCII letters and digits among the parts are not asked for: the C of C++ and the 1 and
    the 0 of v1.14.0 would find everything.) A run of a script without spaces gives its
    distinct bigrams, or its one character.
    """
    found = dict.fromkeys(piece for chunk in query.split() for piece in pieces(chunk))
    groups: dict[Unit, None] = {}
    for kind, piece in found:
        if kind != RUN:
            if kind != PART or len(piece) > 1 or not piece.isascii():
                groups[_word_unit(piece)] = None
        elif len(piece) == 1:
            groups[(piece,)] = None
        else:
            groups.update(((pair,), None) for pair in bigrams(piece))
    groups.pop((), None)
    return _merged(list(groups))


def all_words(query: str) -> list[str]:
    """Return the distinct words of ``query``, folded but not stemmed, function words
    included: what to look for by a scan when ``query_units`` has nothing. The words of a
    text are found in the same way, so ``set(all_words(text))`` is what to compare with."""
    return words(query)


def _word_unit(word: str) -> Unit:
    folded = strip_accents(word)
    if not folded or folded in STOPS:
        return ()
    asked = [folded] if folded == word else [folded, word]
    english, spanish = _stems([folded], asked)
    return tuple(dict.fromkeys(filter(None, english + spanish)))


def _merged(groups: list[Unit]) -> list[Unit]:
    """Join the groups that share a token, each in the place of its first member."""
    units: dict[int, list[str]] = {}
    owner: dict[str, int] = {}
    for number, group in enumerate(groups):
        met = sorted({owner[token] for token in group if token in owner})
        home = met[0] if met else number
        members = units.setdefault(home, [])
        for other in met[1:]:
            members += units.pop(other)
        members += [token for token in group if token not in owner]
        owner.update((token, home) for token in members)
    return [tuple(unit) for unit in units.values()]


def _part(chunk: str) -> str:
    """Make what joined_tokens keeps of one chunk, and remember it if it is short."""
    flags, english, either = _entry(chunk)
    part = flags + "".join([f"{token} " for token in english])
    if english != either:
        both = _Part(part)
        both.either = flags + "".join([f"{token} " for token in either])
        part = both
    if len(chunk) <= _SEEN_LENGTH:
        if len(_seen) >= _SEEN_LIMIT:
            _seen.clear()
        _seen[chunk] = part
    return part


def _entry(chunk: str) -> _Entry:
    """What the words of one chunk become."""
    # Nine chunks of ten are an ordinary word, perhaps with a comma: they need none of what is below.
    word = chunk.strip(_MARKS)
    if word.isascii() and word.isalpha() and len(word) <= MAX_WORD and (word[1:].islower() or len(word) == 1):
        return _word_entry(word.lower())
    flags: dict[str, None] = {}
    english: list[str] = []
    either: list[str] = []
    known: dict[str, _Entry] = {}  # a chunk may be a whole book without a space
    for kind, piece in pieces(chunk):
        if kind == RUN:
            grams = [*piece, *bigrams(piece)]
            english += grams
            either += grams
            continue
        entry = known.get(piece)
        if entry is None:
            entry = known[piece] = _word_entry(piece)
            flags.update(dict.fromkeys(entry[0]))
        english += entry[1]
        either += entry[2]
    return "".join(flags), tuple(english), tuple(either)


def _word_entry(word: str) -> _Entry:
    folded = strip_accents(word)
    flags = _ACCENTED if folded != word else ""
    if folded in ENGLISH_EVIDENCE:
        flags += _ENGLISH
    elif folded in SPANISH_EVIDENCE:
        flags += _SPANISH
    if not folded or folded in STOPS:
        return flags, (), ()
    english, spanish = _stems((folded,), (word,))
    return flags, (english[0],), (english[0],) if english == spanish else (english[0], spanish[0])
