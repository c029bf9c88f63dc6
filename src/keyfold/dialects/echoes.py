"""What a service repeats of a request in its error: left out of messages, which hold no text of a memory.

FastAPI's way of refusing a value is to send it back; others quote the start of it. What helps is kept: which field
it was, and what is wrong with it.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import unquote

GAP: Final = "[...]"
INPUTS: Final = ("input", "ctx")  # where FastAPI says what it was sent
LEAST: Final = 8  # characters in a row that are a piece of what was sent, and no coincidence
BETWEEN: Final = 24  # characters between two pieces that are taken for what was sent
SHORT: Final = 2  # characters of a whole value that is left out where it stands in quotes
DEPTH: Final = 3  # of JSON in texts of JSON
LOOKED_AT: Final = 1_200  # characters of a text; more are not shown
_QUOTED: Final = re.compile(rf"""(?<=["'`])[^"'`]{{{SHORT},{LEAST}}}(?=["'`])""")


class Sent:
    """The texts of a request."""

    def __init__(self, values: Iterable[Any]) -> None:
        texts = {" ".join(text.split()) for value in values for text in _texts(value, DEPTH)}
        self._short = {text for text in texts if SHORT <= len(text) <= LEAST}
        self._all = "\0".join(text for text in texts if len(text) >= LEAST)

    def left_out(self, said: str) -> str:
        """What a service said, without what it repeats of the request. It is as it was where it repeats nothing."""
        with suppress(ValueError, RecursionError):
            value = json.loads(said)
            kept = self._kept(value)
            return said if kept == value else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
        return self._cut(said)

    def _kept(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._cut(key): self._kept(item) for key, item in value.items() if key not in INPUTS}
        if isinstance(value, list):
            return [self._kept(item) for item in value]
        if not isinstance(value, str):
            return value
        return GAP if value.strip() in self._short else self._cut(value)

    def _cut(self, text: str) -> str:
        for _ in READINGS:
            # Of the ways to read it, the one in which most of it was sent.
            ways = dict.fromkeys(" ".join(plain(text[:LOOKED_AT]).split()) for plain in READINGS)
            found = [(read, self._pieces(read)) for read in ways]
            read, pieces = max(found, key=lambda one: sum(end - start for start, end in one[1]))
            if not pieces:
                break
            for start, end in reversed(pieces):
                read = read[:start] + GAP + read[end:]
            text = read
        return text

    def _pieces(self, text: str) -> list[tuple[int, int]]:
        """Where pieces of what was sent begin and end in a text. What is little between two was sent too."""
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(text):
            inside = at and text[at - 1].isalnum() and text[at].isalnum()  # a word
            length = 0 if inside else self._length(text, at)
            if length and found and at - found[-1][1] < BETWEEN:
                found[-1] = found[-1][0], at + length
            elif length:
                found.append((at, at + length))
            at += length or 1
        return found

    def _length(self, text: str, at: int) -> int:
        """How many characters from there on were sent; 0 when that is no piece."""
        if (quoted := _QUOTED.match(text, at)) and quoted[0].strip() in self._short:
            return len(quoted[0])
        if len(text) - at < LEAST or text[at : at + LEAST] not in self._all:
            return 0
        low, high = LEAST, len(text) - at
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if text[at : at + middle] in self._all else (low, middle - 1)
        return low


def _plain(text: str) -> str:
    """A text that JSON or Python wrote down, any number of times."""
    return unescaped(re.sub(r"\\+[nrt]", " ", text))


def _all_plain(text: str) -> str:
    return html.unescape(unquote(_plain(text)))


READINGS: Final = (str, _plain, unquote, html.unescape, _all_plain)


def unescaped(text: str) -> str:
    """A text as JSON reads it."""
    text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    return text.replace("\\", "")


def _texts(value: Any, depth: int) -> Iterator[str]:
    """The texts in a value, and in those of them that are JSON themselves."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, dict):
        # A short name is none of the user's, but of a field: it helps.
        value = [*(key for key in value if len(key) > LEAST), *value.values()]
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, depth)
    if isinstance(value, str):
        yield value
        if depth and value.startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                yield from _texts(json.loads(value), depth - 1)
