"""The front matter of notes: the part of YAML that people write there, read without a YAML library.

`name: value` with plain or quoted text, true, false, null and numbers; lists on one line or one item a line;
blocks of text after `|` and `>`. What is more than that (nested mappings, anchors, tags of types) is not guessed
at: it comes back as the text it is.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

# Longer ones are no front matter but a text between two rules.
MAX_CHARACTERS: Final = 16 * 1024
_OPENER: Final = re.compile(r"---[ \t]*\r?\n")
_CLOSER: Final = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.MULTILINE)
_ENTRY: Final = re.compile(r"""("[^"]*"|'[^']*'|[^\s#"'\[\]{},:&*!|>%@`-][^:]*|-[^\s:][^:]*):(?:\s(.*))?$""")
_ITEM: Final = re.compile(r"\s*-(?:\s+(.*))?$")
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_DECIMAL: Final = re.compile(r"[-+]?\d+\.\d+(?:[eE][-+]?\d+)?")
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "~": None, "": None}
_LONGEST_WORD: Final = 5
_SPECIAL: Final = frozenset("&*!{}[]|>%@`")
_NUMERIC: Final = frozenset("+-0123456789")
_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\", "/": "/", " ": " ", "a": "\a", "b": "\b",
    "e": "\x1b", "f": "\f", "v": "\v", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip  # a pair a line says less
_QUOTED: Final = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^']|'')*'""")
_ESCAPE: Final = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


@dataclass(slots=True)
class FrontMatter:
    """What was understood, by name, and the lines that were not, as they stand."""

    values: dict[str, Any] = field(default_factory=dict)
    rest: list[str] = field(default_factory=list)


def split(text: str) -> tuple[str | None, str]:
    """A note's front matter (None without) and the text below it."""
    opener = _OPENER.match(text)
    if opener is None:
        return None, text
    closer = _CLOSER.search(text, opener.end(), opener.end() + MAX_CHARACTERS)
    if closer is None:
        return None, text
    # a match that ends where the search was cut may be the start of a longer line
    if closer.end() == opener.end() + MAX_CHARACTERS and closer.end() < len(text):
        return None, text
    return text[opener.end() : closer.start()], text[closer.end() :]


def parse(text: str) -> FrontMatter:
    """Read front matter. Whatever the text is, it is no error. Escapes may put NUL and lone surrogates into values."""
    found = FrontMatter()
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if line.strip() and not line.lstrip().startswith("#"):
            while end < len(lines) and _belongs(lines[end]):
                end += 1
            while not lines[end - 1] or lines[end - 1].isspace():
                end -= 1
            _take(lines[at:end], found)
        at = end
    return found


def _belongs(line: str) -> bool:
    """Whether a line continues the entry above it: indented, an item of its list, or empty."""
    return (
        not line
        or (line[0] in " \t-" and (line[0] != "-" or _ITEM.match(line) is not None))
        or line.isspace()
    )


def _take(lines: list[str], found: FrontMatter) -> None:
    """Read one entry, or keep its lines."""
    entry = _line(lines[0]) if len(lines) == 1 else _entry(lines[0], lines[1:])
    if entry is None or entry[0] in found.values:
        found.rest += lines
    else:
        found.values[entry[0]] = entry[1]


@lru_cache(maxsize=8192)
def _line(line: str) -> tuple[str, Any] | None:
    """An entry of one line. Cached, because a folder of notes says the same few lines over and over."""
    return _entry(line, [])


def _entry(line: str, more: list[str]) -> tuple[str, Any] | None:
    """The name and the value of an entry; None when it is not understood."""
    found = _ENTRY.match(line)
    try:
        name = _unquoted(found[1].strip()).strip() if found else ""
        return (name, _value((found[2] or "").strip(), more)) if found and name else None
    except ValueError:
        return None


def _value(first: str, more: list[str]) -> Any:
    """The value of an entry: what stands after the colon, and the lines below. ValueError when it is not known."""
    if first[:1] in ("|", ">"):
        return _block(first, more)
    if "#" in first:
        first = _without_comment(first)
    if not more:
        return _list(first) if first.startswith("[") else _scalar(first)
    if first.startswith("["):
        return _list(" ".join([first, *(_without_comment(line.strip()) for line in more)]))
    if not first:
        items = [_ITEM.match(line) for line in more if line.strip() and not line.lstrip().startswith("#")]
        indents = {len(item[0]) - len(item[0].lstrip()) for item in items if item}
        if all(items) and len(indents) == 1:
            return [_item((item[1] or "").strip()) for item in items if item]
    if first and first[0] not in "\"'" and not any(_ITEM.match(line) or ":" in line for line in more):
        return _scalar(" ".join([first, *(line.strip() for line in more if line.strip())]))
    raise ValueError


def _item(text: str) -> Any:
    text = _without_comment(text)
    if _ENTRY.match(text) or text.startswith(("[", "- ")):
        raise ValueError
    return _scalar(text)


def _block(first: str, more: list[str]) -> str:
    """Text after `|` (lines kept) or `>` (lines joined)."""
    if not re.fullmatch(r"[|>][-+]?(\s+#.*)?", first):
        raise ValueError
    indents = [len(line) - len(line.lstrip(" ")) for line in more if line.strip()]
    cut = min(indents, default=0)
    if more and cut == 0:
        raise ValueError
    lines = [line[cut:].rstrip() for line in more]
    if first[0] == "|":
        return "\n".join(lines)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", "\n".join(lines)).replace("\n\n", "\n")


def _list(text: str) -> list[Any]:
    """A list on one line. ValueError for lists of lists and of mappings."""
    if not text.endswith("]"):
        raise ValueError
    items: list[Any] = []
    at, end = 1, len(text) - 1
    while at < end:
        if text[at] in " \t,":
            at += 1
            continue
        quoted = _QUOTED.match(text, at, end) if text[at] in "\"'" else None
        start = at if quoted is None else quoted.end()
        stop = text.find(",", start, end)
        stop = end if stop < 0 else stop
        piece = text[at:stop].strip()
        if any(mark in text[start:stop] for mark in "[]{}") or (quoted and piece != quoted[0]):
            raise ValueError
        items.append(_scalar(piece))
        at = stop
    return items


def _scalar(text: str) -> Any:
    """Text, a number, true, false or null. ValueError for what YAML gives another meaning."""
    if text[:1] in ('"', "'"):
        if len(text) < 2 or text[-1] != text[0]:
            raise ValueError
        return _unquoted(text)
    if text[:1] in _SPECIAL:
        raise ValueError
    if len(text) <= _LONGEST_WORD and (lowered := text.lower()) in _WORDS:
        return _WORDS[lowered]
    if text[0] in _NUMERIC:
        if _WHOLE.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            number = float(text)
            return number if math.isfinite(number) else text
    return text


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = _ESCAPE.sub(_unescaped, text[1:-1])
        return text if text.isascii() else _PAIR.sub(_joined, text)
    return text


def _unescaped(found: re.Match[str]) -> str:
    """The character that an escape stands for. ValueError for one beyond Unicode, which YAML does not know."""
    code = found[1]
    if len(code) == 1:
        return _ESCAPES.get(code, found[0])
    number = int(code[1:], 16)
    if number > sys.maxunicode:
        raise ValueError
    return chr(number)


def _joined(found: re.Match[str]) -> str:
    return found[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _without_comment(text: str) -> str:
    """A value without the comment after it; a `#` within quotes or within a word is none."""
    if text.startswith("#"):
        return ""
    if text[:1] in ('"', "'"):
        end = text.rfind(text[0])
        tail = text[end + 1 :].lstrip()
        return text[: end + 1] if tail.startswith("#") else text
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
