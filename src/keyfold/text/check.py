"""Characters that a store cannot hold."""


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
