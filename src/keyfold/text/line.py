"""Text that stays on its line, whatever somebody made of it: a key, a tag, a session's id, a user's name."""

from __future__ import annotations

import re
from typing import Final

_NOT_IN_A_LINE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """The text with line ends and control characters spelt out (`\\n`, `\\x1b`), so that it can pass for no other line."""
    return _NOT_IN_A_LINE.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    number = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")
