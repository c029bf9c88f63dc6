"""The arguments of tools: one description each, from which both the schema and the check are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from keyfold.errors import InvalidRequest
from keyfold.memory import checks

Kind = Literal["string", "integer", "boolean", "array", "object"]

_CLASSES: Final[Mapping[str, type]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument: its name, its JSON type, what it means, and its limits as JSON Schema says them.

    A string's length and form are checked by the call that it is passed to. A whole number's range is checked
    here, because some of them are the tools' own.
    """

    name: str
    kind: Kind
    words: str
    required: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """The argument as JSON Schema."""
        return {"type": self.kind, "description": self.words, **self.limits}

    def check(self, value: Any) -> Any:
        """The value, if it is of the declared type; InvalidRequest in the words of JSON otherwise."""
        if self.kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number: 5.0 is a whole one
        if self.name == "observation_id" and type(value) is int:
            value = str(value)  # it is digits in most stores, and a model may take it for a number
        if not isinstance(value, _CLASSES[self.kind]) or (self.kind == "integer" and isinstance(value, bool)):
            raise InvalidRequest(self.name, self._wrong(value))
        if self.kind == "integer":
            return checks.whole(self.name, value, self.limits["minimum"], self.limits["maximum"])
        return value

    def _wrong(self, value: Any) -> str:
        wanted = "an array of strings" if self.kind == "array" else _told(self.kind)
        told = f"must be {wanted}, not {_told(json_type(value))}"
        if self.kind in ("array", "object") and isinstance(value, str):
            example = '["auth", "api"]' if self.kind == "array" else '{"project": "shop"}'
            told += f"; send the {self.kind} itself, such as {example}, and not its JSON as text"
        return told


def json_type(value: Any) -> str:
    """What JSON calls the type of a value that was read from JSON."""
    if value is None:
        return "null"
    for kind in ("boolean", "string", "integer", "array", "object"):
        if isinstance(value, _CLASSES[kind]):
            return kind
    return "number"


def _told(kind: str) -> str:
    if kind == "null":
        return kind
    return ("an " if kind[0] in "aio" else "a ") + kind


def text(
    name: str, words: str, limit: int, *, required: bool = False, blank: bool = False, **more: Any
) -> Parameter:
    """A string of at most `limit` bytes. JSON Schema counts characters, so the description says the bytes."""
    limits = {"minLength": 0 if blank else 1, "maxLength": limit, **more}
    return Parameter(name, "string", f"{words} At most {limit:,} bytes.", required, limits)


def whole(name: str, words: str, low: int, high: int, default: int | None = None) -> Parameter:
    """A whole number within limits; `default` is told, and is the call's own."""
    limits = {"minimum": low, "maximum": high}
    return Parameter(
        name, "integer", words, False, limits if default is None else {**limits, "default": default}
    )


def strings(name: str, words: str) -> Parameter:
    """An array of short strings."""
    items = {"type": "string", "minLength": 1, "maxLength": checks.MAX_TAG_BYTES}
    return Parameter(name, "array", words, False, {"items": items, "maxItems": checks.MAX_TAGS})


def moment(name: str, words: str) -> Parameter:
    """A time."""
    return Parameter(
        name,
        "string",
        f"{words} RFC 3339 with an offset: 2026-01-31T12:00:00Z.",
        False,
        {"format": "date-time"},
    )
