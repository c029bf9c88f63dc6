"""The words of a memory.jsonl: the lines about each entity, by which it is known when the file is imported again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from keyfold.portability.foreign import Line, as_text
from keyfold.portability.marks import mark_of
from keyfold.portability.mcp_graph import concerned

READING: Final = b"mcp-memory 1"  # see marks.py
_PRIVATE: Final = re.compile("private", re.IGNORECASE)


Told = tuple[Line, tuple[str, ...]]


class Words:
    """What the lines of a file say of each entity, as the bytes they are."""

    def __init__(self) -> None:
        self._said: dict[str, list[bytes]] = {}
        self._unmarked: set[str] = set()

    def note(self, lines: Iterable[Line]) -> Iterator[Told]:
        """Pass the lines on, each with the entities that it concerns."""
        for line in lines:
            names = concerned(line.value)
            yield line, names
            if line.words is None or line.value.__class__ is list:
                for value in line.value if isinstance(line.value, list) else [line.value]:
                    self._unmarked.update(concerned(value))
                continue
            words = line.words
            if b"\\u" in words:  # so that a tag that is written in escapes can be seen
                words = as_text(line.value).encode("utf-8", "surrogatepass")
            for name in names:
                self._said.setdefault(name, []).append(words)

    @property
    def names(self) -> list[str]:
        """The entities that can have a mark."""
        return [name for name in self._said if name not in self._unmarked]

    def mark(self, name: str) -> bytes | None:
        """The mark of all that the file says of an entity; None when it can have none.

        Private text is in no mark. Its tags may stand in several observations, in halves and in any order; so
        whatever holds the word and a `<` counts as private here.
        """
        if name in self._unmarked or name not in self._said:
            return None
        words = b"\n".join(self._said[name])
        if b"<" in words and _PRIVATE.search(words.decode("utf-8", "surrogatepass")):
            return None
        return mark_of(READING, words)
