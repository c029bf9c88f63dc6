"""Characters that a store cannot hold."""

import re
from typing import Final

_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\0\ud800-\udfff]")


def bad_character(text: str) -> tuple[int, str] | None:
    """Return the position of the first NUL or lone surrogate and its name, or None.

    The name is ``"NUL"`` or ``"lone surrogate"``. ``text`` is any string. The work is one
    search and, for text that is not ASCII, one encoding to UTF-8, both at C speed.
    Source: UTF-8 has no form for surrogates, and SQLite and PostgreSQL cut or refuse NUL.
    """
    nul = text.find("\0")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            if nul < 0 or error.start < nul:
                return error.start, "lone surrogate"
    return None if nul < 0 else (nul, "NUL")


def clean(text: str) -> str:
    """Text that a store can hold: surrogates that belong together are joined, single ones and NUL become U+FFFD."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    if _UNSTORABLE.search(text) is None:
        return text
    return _SURROGATES.sub(_repaired, text)


def _repaired(found: re.Match[str]) -> str:
    pair = found[0]
    return "\ufffd" if len(pair) == 1 else pair.encode("utf-16", "surrogatepass").decode("utf-16")
