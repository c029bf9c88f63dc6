"""What a memory of Supermemory looks like, and how a record is laid out in memories: names, metadata, parts.

A memory holds 10,000 characters. A longer content is cut, and only its first piece, the head, has the record's
header; the other pieces, the parts, are kept beside it under the digest of the whole content. They are written
before the head is and removed after it, so a head without all of its parts is a sign of damage and never shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

from keyfold.dialects.base import Row, Shelf, in_order
from keyfold.dialects.names import is_digest
from keyfold.dialects.payload import FIELD, Payload, header, read, wire_text

MOST_UNITS: Final = (
    10_000  # UTF-16 units of a memory: the service counts as its language does, an emoji twice
)
MOST_PARTS: Final = 1_000_000
LONGEST_TAG: Final = 100
LARGEST_NUMBER: Final = 2**53 - 1  # that JSON carries everywhere

KEY: Final = "kf_key"  # of a head: the record's digest
WHOLE: Final = "kf_whole"  # of a part: the digest of the record that it is a part of
REVISION: Final = "kf_rev"
PARTS: Final = "kf_parts"  # of a head: how many pieces its content has
OF: Final = "kf_of"  # the digest of the whole content
NUMBER: Final = "kf_part"  # of a part: its place, from 1

PLAIN: Final = {False: "kf:", True: "kf-s:"}  # by whether the shelf is one of sessions
HASHED: Final = {False: "kf-h:", True: "kf-hs:"}
_OTHERS: Final = re.compile(rb"[^A-Za-z0-9:-]")
_CODED: Final = re.compile(r"_([0-9a-f]{2})|([A-Za-z0-9:-]+)")


def tag_of(shelf: Shelf) -> str:
    """The container tag of a shelf: reversible where it fits into 100 characters, else a digest of the name.

    Bytes other than those of ASCII letters, digits, `:` and `-` are written as `_` and two hex digits.
    """
    coded = _OTHERS.sub(lambda found: b"_%02x" % found[0][0], shelf.namespace.encode()).decode()
    tag = PLAIN[shelf.sessions] + coded
    if len(tag) <= LONGEST_TAG:
        return tag
    return HASHED[shelf.sessions] + sha256(shelf.namespace.encode()).hexdigest()[:40]


def shelf_of(tag: str) -> Shelf | None:
    """The shelf that a tag names; None when it is none of ours, or one whose name only its memories tell."""
    for sessions, prefix in PLAIN.items():
        if tag.startswith(prefix):
            raw = bytearray()
            for code, plain in _CODED.findall(tag[len(prefix) :]):
                raw += bytes.fromhex(code) if code else plain.encode()
            try:
                namespace = raw.decode()
            except UnicodeDecodeError:
                return None
            shelf = Shelf(namespace, sessions)
            return shelf if namespace and tag_of(shelf) == tag else None
    return None


def is_hashed(tag: str) -> bool:
    """Whether a tag is one of ours that does not tell its namespace."""
    return tag.startswith(tuple(HASHED.values()))


def units(text: str) -> int:
    """The length of a text as the service counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def pieces(text: str) -> list[str]:
    """A text in pieces that each fit into a memory. They join to the text; a cut falls behind white space if it can."""
    found: list[str] = []
    start = 0
    while start < len(text):
        end = min(start + MOST_UNITS, len(text))
        while (excess := units(text[start:end]) - MOST_UNITS) > 0:
            end -= (excess + 1) // 2
        if end < len(text):
            near = re.search(r"\s(?=\S*\Z)", text[max(start, end - 200) : end])
            if near is not None:
                end = max(start, end - 200) + near.end()
        found.append(text[start:end])
        start = end
    return found


def content_digest(text: str) -> str:
    """What the pieces of one content have in common."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class Layout:
    """A record as memories: the head's text and metadata, and the parts as the service takes them."""

    head: str
    metadata: dict[str, Any]
    content: str  # the digest of the whole
    parts: tuple[dict[str, Any], ...] = ()

    @property
    def item(self) -> dict[str, Any]:
        """The head as the service takes a new memory."""
        return {"content": self.head, "metadata": self.metadata}


def laid_out(payload: Payload) -> Layout:
    """How a record is written down. Every name is always there: whether a rewrite merges metadata does not matter."""
    text = wire_text(payload)
    cut = pieces(text) or [""]
    revision = payload.record.revision_count
    content = content_digest(text)
    common: dict[str, Any] = {
        REVISION: revision if revision <= LARGEST_NUMBER else str(revision),
        OF: content,
    }
    head = {FIELD: header(payload), KEY: payload.digest, PARTS: len(cut), **common}
    parts = [
        {"content": piece, "metadata": {WHOLE: payload.digest, NUMBER: number, **common}}
        for number, piece in enumerate(cut[1:], 1)
    ]
    return Layout(cut[0], head, content, tuple(parts))


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory of ours as a list or a search returns it."""

    id: str
    text: str
    metadata: Mapping[str, Any]
    born: str
    parent: str | None
    live: bool  # neither superseded nor forgotten
    forgotten: bool

    @property
    def digest(self) -> str | None:
        """The record whose head it is."""
        return _digest(self.metadata.get(KEY))

    @property
    def whole(self) -> str | None:
        """The record that it is a part of."""
        return _digest(self.metadata.get(WHOLE))

    @property
    def of(self) -> str:
        """The digest of the content that it is a piece of."""
        return str(self.metadata.get(OF, ""))

    @property
    def parts(self) -> int:
        """How many pieces the content of this head has."""
        return min(max(number_of(self.metadata.get(PARTS), 1), 1), MOST_PARTS)

    @property
    def number(self) -> int:
        """The place of this part."""
        return number_of(self.metadata.get(NUMBER), 0)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _digest(value: Any) -> str | None:
    return value if isinstance(value, str) and is_digest(value) else None


def number_of(value: Any, otherwise: int) -> int:
    """A whole number; a service may hand numbers back as floats or texts."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise


def entry_of(item: Any) -> Entry | None:
    """An item of an answer; None when it is none of ours."""
    if not isinstance(item, dict):
        return None
    identity, metadata = item.get("id"), item.get("metadata")
    if not isinstance(identity, str) or not identity.isascii() or not isinstance(metadata, dict):
        return None
    if _digest(metadata.get(KEY)) is None and _digest(metadata.get(WHOLE)) is None:
        return None
    forgotten = item.get("isForgotten") is True
    return Entry(
        identity,
        str(item.get("memory") or ""),
        metadata,
        str(item.get("createdAt") or item.get("updatedAt") or ""),
        _text(item.get("parentMemoryId")),
        item.get("isLatest") is not False and not forgotten,
        forgotten,
    )


@dataclass(frozen=True, slots=True)
class Kept(Row):
    """A row with the ids of its parts, and of what else lies there for its record and goes when the record does."""

    parts: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()


@dataclass(slots=True)
class Pieces:
    """The parts among some memories."""

    found: dict[str, dict[str, dict[int, list[Entry]]]] = field(default_factory=dict)  # by record and content

    @classmethod
    def among(cls, entries: Iterable[Entry]) -> Pieces:
        """The parts among these."""
        pieces = cls()
        for entry in entries:
            if entry.whole is not None:
                contents = pieces.found.setdefault(entry.whole, {})
                contents.setdefault(entry.of, {}).setdefault(entry.number, []).append(entry)
        return pieces

    def content(self, head: Entry) -> str | None:
        """The whole content of a head; None when some of it is missing, or is not what was written."""
        if head.parts == 1:
            return head.text
        numbers = self.found.get(head.digest or "", {}).get(head.of, {})
        if any(number not in numbers for number in range(1, head.parts)):
            return None
        text = head.text + "".join(numbers[number][0].text for number in range(1, head.parts))
        return text if content_digest(text) == head.of else None

    def ids(self, digest: str, of: str | None = None) -> list[str]:
        """The parts of a record, or of one content of it."""
        return [
            entry.id
            for content, numbers in self.found.get(digest, {}).items()
            if of in (None, content)
            for entries in numbers.values()
            for entry in entries
        ]


def row_of(head: Entry, content: str | None, parts: Sequence[str] = ()) -> Kept | None:
    """A row from a head and its whole content; None when it cannot be read."""
    payload = read(head.metadata.get(FIELD), content) if content is not None else None
    if payload is None or payload.digest != head.digest:
        return None
    return Kept(head.id, payload, head.born, parts=tuple(parts))


def assembled(entries: Sequence[Entry]) -> tuple[list[Kept], list[Entry]]:
    """The rows that living memories make up, and the heads of records of which no state is whole.

    Where one state of a record is damaged and another is whole (two rewrites at once), the whole one counts,
    and what is left of the other goes with it.
    """
    living = [entry for entry in entries if entry.live]
    pieces = Pieces.among(living)
    heads: dict[str, list[Entry]] = {}
    for entry in living:
        if entry.digest is not None:
            heads.setdefault(entry.digest, []).append(entry)
    rows: list[Kept] = []
    damaged: list[Entry] = []
    for digest, states in heads.items():
        whole: list[Kept] = []
        broken: list[Entry] = []
        for head in states:
            content = pieces.content(head)
            row = row_of(head, content, pieces.ids(digest, head.of) if head.parts > 1 else ())
            if row is not None:
                whole.append(row)
            elif content is None:
                broken.append(head)
        if not whole:
            damaged += broken[:1]
        rows += _with_loose(_each_with_its_own(in_order(whole)), pieces.ids(digest), broken)
    return rows, damaged


def _each_with_its_own(rows: list[Kept]) -> list[Kept]:
    """Rows of one record, of which no two have the same parts: states of one content share them, and they are the
    newest one's, so that removing the older leaves it whole."""
    owned: set[tuple[str, ...]] = set()
    found: list[Kept] = []
    for row in sorted(rows, key=_age, reverse=True):
        found.append(replace(row, parts=()) if row.parts in owned else row)
        owned.add(row.parts)
    return found[::-1]


def _age(row: Row) -> tuple[int, str, str]:
    return row.record.revision_count, row.born, row.remote


def _with_loose(rows: list[Kept], parts: Sequence[str], broken: Sequence[Entry]) -> list[Kept]:
    """Let one of a record's rows carry what belongs to none of them, so that forgetting them leaves nothing."""
    owned = {identity for row in rows for identity in row.parts}
    loose = [head.id for head in broken] + [identity for identity in parts if identity not in owned]
    if not rows or not loose:
        return rows
    first = rows[0]
    return [replace(first, loose=tuple(loose)), *rows[1:]]


def counting(entries: Iterable[Entry]) -> dict[str, tuple[Entry, Kept]]:
    """Of each record the living head that counts among these, and its row, whose content is that piece alone."""
    heads: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.live and entry.digest is not None:
            heads.setdefault(entry.digest, {})[entry.id] = entry
    found: dict[str, tuple[Entry, Kept]] = {}
    for digest, states in heads.items():
        rows = in_order([row for head in states.values() if (row := row_of(head, head.text)) is not None])
        if rows:
            row = max(rows, key=_age)
            found[digest] = states[row.remote], row
    return found
