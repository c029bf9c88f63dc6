"""The messages of calls in an agent's words: they name calls and settings of Python's that no tool offers."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

# Where an agent has another way to the same, that is said.
_INSTEAD: Final = (
    ("mem_list lists by filter", "an empty query with a filter lists by that"),
    ("(mem_list lists everything)", "(mem_context gives what matters most)"),
)


class Wording:
    """Rewords messages for those who have these tools and no others."""

    def __init__(self, tools: Collection[str]) -> None:
        known = "|".join(sorted(tools))
        other = rf"\b(?:(?!(?:{known})\b)mem_\w+|Config\b)"
        # What is quoted is somebody's own words and stays. A clause or a sentence that names another goes whole.
        self._parts = re.compile(
            r"(?P<quoted>(?<!\w)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"))"
            rf"| \([^()'\"]*?{other}(?:\([^()]*\))?[^()'\"]*\)"
            rf"|[.;,] [^.;,'\"]*?{other}(?:\([^()]*\))?[^.;,'\"]*"
        )

    def __call__(self, message: str) -> str:
        """The message without what only Python's users can do."""
        for theirs, ours in _INSTEAD:
            message = message.replace(theirs, ours)
        return self._parts.sub(lambda found: found["quoted"] or "", message)
