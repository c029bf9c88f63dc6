"""What a tool answers: a short text for people and models, and the same as data; both within a ceiling."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from keyfold.text.line import one_line

T = TypeVar("T")

CEILING: Final = 64 * 1024  # bytes of text in one reply, and of the items of one list as data
ROOM: Final = CEILING - 4 * 1024  # for the items of a list; the rest is for what is said about them
PREVIEW: Final = 2_000  # bytes of each text in a list
WIDEST_METADATA: Final = 2_000  # bytes of metadata that a list shows
CUT: Final = " …[cut]"


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `data` is absent from errors."""

    text: str
    data: dict[str, Any] | None = None
    is_error: bool = False


def bounded(reply: Reply) -> Reply:
    """The reply with its text within the ceiling, whatever it came from, and without lone surrogates."""
    cut, _ = clip(reply.text, CEILING - len(CUT.encode()))
    data = None if reply.data is None else json.loads(packed(reply.data))
    return Reply(cut, data, reply.is_error)


def packed(value: Any) -> bytes:
    """JSON as UTF-8. It cannot fail on a text: what UTF-8 has no form for becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode(
        "utf-8", "replace"
    )


def clip(text: str, room: int) -> tuple[str, bool]:
    """The text in at most `room` bytes of UTF-8 and a mark, and whether it was cut."""
    piece = piece_of(text, room)
    return (piece + CUT, True) if len(piece) < len(text) else (piece, False)


def piece_of(text: str, room: int) -> str:
    """As much of the start of a text as takes `room` bytes of UTF-8, in whole characters."""
    data = text[:room].encode("utf-8", "replace")
    return data.decode() if len(data) <= room else data[:room].decode("utf-8", "ignore")


def fitted(
    items: Iterable[T], form: Callable[[T], tuple[dict[str, Any], str]], room: int = ROOM
) -> tuple[list[dict[str, Any]], list[str]]:
    """As many of the items as fit, in order, as data and as lines of text."""
    forms: list[dict[str, Any]] = []
    lines: list[str] = []
    used = [0, 0]
    for item in items:
        data, line = form(item)
        used = [used[0] + len(packed(data)) + 1, used[1] + len(line.encode("utf-8", "replace")) + 1]
        if max(used) > room:
            break
        forms.append(data)
        lines.append(line)
    return forms, lines


def nearest(items: Sequence[T], anchor: int) -> list[int]:
    """The places of a sequence, those nearest to one of them first."""
    return sorted(range(len(items)), key=lambda place: (abs(place - anchor), place))


def without_user(form: dict[str, Any]) -> dict[str, Any]:
    """A model's form without whose memory it is: the host has decided that, and a model cannot use it."""
    return {name: value for name, value in form.items() if name != "user_id"}


def preview(form: dict[str, Any]) -> dict[str, Any]:
    """A record's form for a list: long content cut and large metadata left out, each with a mark."""
    shown = without_user(form)
    shown["content"], shown["content_truncated"] = clip(shown["content"], PREVIEW)
    if len(packed(shown["metadata"])) > WIDEST_METADATA:
        shown["metadata"], shown["metadata_truncated"] = {}, True
    return shown


def inline(text: str) -> str:
    """Text on one line."""
    return one_line(" ".join(text.split()))


def when(moment: datetime | None) -> str:
    """A time, to the minute, in UTC."""
    return "-" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")
