"""Topic keys: when two look alike, and what a new one should be called."""

import re
import zlib

from keyfold.text._fold import clean, lower, strip_accents

KEY_LENGTH = 80
_TYPE_LENGTH = 30
# ASCII letters and digits, and all that is not ASCII.
_WORD = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")


def fold_key(key: str) -> str:
    """Return ``key`` case-folded, without white space, ``-`` and ``_``.

    Two keys with the same folded form differ only in these. ``key`` is any string. It
    works character by character (casefold looks at no neighbours, unlike lower), so the
    folded form of a prefix is always a prefix of the folded form.
    """
    return "".join(key.casefold().split()).replace("-", "").replace("_", "")


def suggest_key(type: str, title: str) -> str:
    """Return the conventional topic key for a title: ``decision/auth-model-jwt``.

    ``type`` and ``title`` are any strings. The key is at most 80 characters, cut at a
    word where one ends; NFKC, lower case, accents off; letters of every script are kept.
    It is never empty: a title without letters or digits gets a name made from its
    checksum, so that two such titles do not share a key.
    """
    group = _slug(type, _TYPE_LENGTH) or "note"
    name = _slug(title, KEY_LENGTH - len(group) - 1)
    if not name:
        checksum = zlib.crc32(title.encode("utf-8", "surrogatepass"))
        name = f"untitled-{checksum:08x}"
    return f"{group}/{name}"


def _slug(text: str, limit: int) -> str:
    # A long text of punctuation would be cleaned for nothing.
    plain = clean(text[: limit * 8]).replace("'", "")
    slug = ""
    for found in _WORD.findall(plain):
        word = strip_accents(lower(found))
        if not any(map(str.isalnum, word)):
            continue  # an emoji is no name
        longer = f"{slug}-{word}" if slug else word[:limit]
        if len(longer) > limit:
            break
        slug = longer
    return slug
