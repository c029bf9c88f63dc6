"""Normal forms shared by the tokenizer and the key functions.

``unicodedata`` is imported when the first non-ASCII text arrives: most texts never need it.
"""

import re

# Latin letters that carry their stroke or ligature in the letter itself, so that taking
# the combining marks off does not reach them.
_LATIN = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)
_MARKS = re.compile("[\u0300-\u036f]+")

# The signs that Arabic, Hebrew and Syriac put to letters for those who learn to read (vowels, doubling, cantillation;
# nearly all texts leave them out) and the stroke that stretches an Arabic word. Letters with hamza or madda are composed
# by NFKC before these go. Not of Indic scripts and Thaana, whose marks are vowels that tell words apart.
POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\ufb1e"  # Hebrew
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u08ca-\u08e1\u08e3-\u08ff"  # Arabic
    "\u0730-\u074a]+"  # Syriac
)

# CPython sorts a run of combining marks by insertion, in quadratic time: 1 MiB of them
# would take an hour. No writing system stacks 30 (the limit of Unicode's stream-safe
# format, UAX #15), so a space is put into longer runs. Every combining mark is outside
# \w but for the half-width kana voicing marks, which only become marks under NFKC. Runs
# of other symbols are cut too; that does no harm, each symbol is a token of its own.
_LONG_RUN = re.compile("(?:[^\\w\\x00-\\x7f]|[\uff9e\uff9f]){30}")

# Scripts written without spaces between words (or, Hangul, with particles that stick to
# the word). Fixed here, not taken from unicodedata, so that a newer Python agrees.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9fe\uaa60-\uaa7f\u1780-\u17ff"  # Myanmar, Khmer
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3041-\u30ff\u3100-\u312f\u31a0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)

_KNOWN_LIMIT = 20_000


class _Classes(dict[int, str | None]):
    """What each character becomes; filled on demand, as ``str.translate`` asks."""

    def __missing__(self, code: int) -> str | None:
        found = _classify(chr(code))
        # Bounded: a text with every code point in it must not stay in memory for ever.
        if len(self) < _KNOWN_LIMIT:
            self[code] = found
        return found


def _classify(char: str) -> str | None:
    """A word character stays, a symbol stands alone, the rest separates or vanishes."""
    import unicodedata

    if char < "\x80":
        return char
    if char in "\u2018\u2019\u02bc":
        return "'"
    if "\u0300" <= char <= "\u036f":
        return None  # an accent that found no letter to join under NFKC
    if "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef":
        return None  # variation selectors: the heart with and without one are the same
    category = unicodedata.category(char)
    if category == "Nd":
        return str(unicodedata.decimal(char))
    if category[0] in "LMN":
        return None if category == "Me" else char
    if category == "Cf":  # joiners and marks of direction; the zero-width space separates
        return " " if char == "\u200b" else None
    # Unassigned and private characters are symbols: an emoji newer than this Python.
    if category[0] == "S" or category in ("Cn", "Co"):
        return f" {char} "
    return " "


_classes = _Classes()


def clean(text: str) -> str:
    """NFKC, with everything but ASCII, word characters and symbols taken out.

    Symbols (emoji, arrows, currency) are set apart by spaces; case is kept; digits of any
    script become ASCII; curly apostrophes become straight. Lone surrogates separate.
    ASCII text comes back as it is. Linear time.
    """
    if text.isascii():
        return text
    import unicodedata

    spaced = _LONG_RUN.sub(r"\g<0> ", text)
    return unicodedata.normalize("NFKC", spaced).translate(_classes)


def lower(word: str) -> str:
    """Casefold a cleaned word, composed again because folding may take it apart."""
    folded = word.casefold()
    if folded.isascii():
        return folded
    import unicodedata

    return unicodedata.normalize("NFKC", folded)


def strip_accents(word: str) -> str:
    """Take U+0300 to U+036F off a case-folded word; other marks (kana voicing, vowel
    signs, Hangul) survive. The letters of other scripts that are written with these
    marks lose them too (Greek tonos, Cyrillic short i), the same on both sides. A symbol
    stays as it is: the stroke of "not equal" is such a mark, and "=" is no token."""
    if word.isascii() or not word[0].isalnum():
        return word
    import unicodedata

    bare = _MARKS.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(_LATIN)
