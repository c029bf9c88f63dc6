"""The credential of a service: from the environment or a callable, and never shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine

from keyfold.errors import Unauthorized


class Credential:
    """Gives the key for each request, so that one that is renewed is picked up. Its repr says nothing of it."""

    __slots__ = ("_ask", "_names")

    def __init__(self, ask: Callable[[], str | None] | None, names: tuple[str, ...]) -> None:
        self._ask = ask
        self._names = names

    def key(self) -> str | None:
        """The key, or None when there is none. Unauthorized when it cannot be a key (line ends, not ASCII)."""
        found: object = self._ask() if self._ask is not None else self._from_environment()
        if found is None:
            return None
        if not isinstance(found, str):
            wrong = f"the function that gives the credential gave {type(found).__name__}, not a str or None"
            if isinstance(found, Coroutine):
                wrong += ": it is called and not awaited, so it must be a plain function"
                found.close()  # else Python warns of it, wherever it is collected
        elif not found.strip():
            blank = f"is blank: set {self._names[0]}, or leave it unset"
            given = "that its function gave is blank: give the key, or None"
            wrong = f"the credential {blank if self._ask is None else given}"
        elif not found.isascii() or any(ord(character) < 33 or ord(character) == 127 for character in found):
            wrong = "the credential has white space, line ends or characters outside ASCII: it is not sent"
        else:
            return found
        del found  # a traceback has the variables of its frames
        raise Unauthorized(wrong)

    @property
    def absence(self) -> str:
        """What to do where a service asks for a key and there is none."""
        if self._ask is not None:
            return "the function that gives it gave none"
        *others, last = self._names
        return f"none is set: set {', '.join(others)} or {last}" if others else f"none is set: set {last}"

    def _from_environment(self) -> str | None:
        return next((os.environ[name] for name in self._names if name in os.environ), None)

    def __repr__(self) -> str:
        return "<credential>"
