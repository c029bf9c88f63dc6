"""Filters: what they say, and what they mean on a record, on every engine.

`matches` is the meaning. An engine may push any part of it down, but what comes out must be the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from math import isfinite
from types import NoneType
from typing import Any, Final, Literal

from keyfold.clock import from_text
from keyfold.errors import InvalidRequest
from keyfold.model import Record, plain
from keyfold.text.check import bad_character

Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in"]
OPERATORS: Final[tuple[Operator, ...]] = ("eq", "ne", "gt", "gte", "lt", "lte", "in")
MAX_CONDITIONS: Final = 100


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of one metadata value: `path` is the chain of keys down to it."""

    path: tuple[str, ...]
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class Filter:
    """All that a read can be narrowed by; everything given must hold.

    `tags` must all be there, of `tags_any` at least one. `since` bounds are inclusive, `until` exclusive,
    times aware or RFC 3339 text; `updated` times are those of the last material change. `metadata` is a
    mapping that `conditions` reads (`{"score": {"gte": 10}}`). InvalidRequest names what is of the wrong form.
    """

    types: Sequence[str] = ()
    types_exclude: Sequence[str] = ()
    tags: Sequence[str] = ()
    tags_any: Sequence[str] = ()
    metadata: Mapping[str, Any] | Sequence[Condition] = ()
    pinned: bool | None = None
    session_id: str | None = None
    topic_prefix: str | None = None
    updated_since: datetime | str | None = None
    updated_until: datetime | str | None = None
    created_since: datetime | str | None = None
    created_until: datetime | str | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("types", "types_exclude", "tags", "tags_any"):
            put(self, name, _words(name, getattr(self, name)))
        for name in ("updated_since", "updated_until", "created_since", "created_until"):
            put(self, name, _instant(name, getattr(self, name)))
        for name in ("session_id", "topic_prefix"):
            if not isinstance(getattr(self, name), (str, NoneType)):
                raise InvalidRequest(name, "must be a string")
        if not isinstance(self.pinned, (bool, NoneType)):
            raise InvalidRequest("pinned", "must be true or false")
        given = self.metadata
        put(self, "metadata", conditions(given) if isinstance(given, Mapping) else _conditions(given))

    @property
    def empty(self) -> bool:
        """Whether it lets everything through."""
        return self == EVERYTHING

    @property
    def tests(self) -> tuple[Condition, ...]:
        """The conditions on metadata, read."""
        return self.metadata  # type: ignore[return-value]  # __post_init__ read them

    @property
    def needs_record(self) -> bool:
        """Whether tags, metadata or pins are looked at (the parts that most engines test record by record)."""
        return bool(self.tags or self.tags_any or self.metadata or self.pinned is not None)

    def digest(self) -> str:
        """Eight hex digits that tell filters apart: a cursor carries them, so that it is used with its own filter."""
        parts = {
            item.name: plain(getattr(self, item.name)) for item in fields(self) if item.name != "metadata"
        }
        parts["metadata"] = [[list(c.path), c.operator, plain(c.value)] for c in self.tests]
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _words(name: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidRequest(name, "must be a list of strings")
    words = tuple(given)
    if not words and not isinstance(given, tuple) and name in ("types", "tags_any"):
        raise InvalidRequest(name, "is an empty list, which nothing can match; leave it out to match all")
    if not all(isinstance(word, str) for word in words):
        raise InvalidRequest(name, "must be a list of strings")
    return words


def _instant(name: str, given: Any) -> datetime | None:
    if given is None:
        return None
    try:
        moment = from_text(given) if isinstance(given, str) else given
        if moment.utcoffset() is None:
            raise ValueError
        return moment.astimezone(UTC)
    except (ValueError, AttributeError, TypeError, OverflowError):
        raise InvalidRequest(
            name, "is not an aware time, nor RFC 3339 text such as 2026-01-31T12:00:00Z"
        ) from None


def _conditions(given: Any) -> tuple[Condition, ...]:
    """Conditions that are read already, or made by hand."""
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for item in found:
        whole = isinstance(item, Condition) and isinstance(item.path, tuple) and item.operator in OPERATORS
        if not whole or not all(isinstance(name, str) for name in item.path):
            raise InvalidRequest("metadata", 'must be a mapping such as {"score": {"gte": 10}}')
        _condition(item.path, item.operator, item.value)
    return found


EVERYTHING: Final = Filter()


def conditions(where: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Read the mapping form: `{"project": "x", "score": {"gte": 10}, "author.name": {"in": ["a", "b"]}}`.

    A bare value means eq. A mapping value must hold operators only (eq, ne, gt, gte, lt, lte, in): to
    compare with an object, write `{"a": {"eq": {"b": 1}}}`. A dot steps into an object; a key that itself
    holds a dot is found first. InvalidRequest names the key's place and what is allowed.
    """
    found: list[Condition] = []
    for key, wanted in where.items():
        if not isinstance(key, str) or not key:
            raise InvalidRequest("filter", "every metadata key must be a non-empty string")
        path = (key,)
        if not isinstance(wanted, Mapping):
            found.append(Condition(path, "eq", _json_value(wanted)))
            continue
        if not wanted:
            raise InvalidRequest(
                "filter", f"condition {len(found) + 1} has no operator; allowed: {', '.join(OPERATORS)}"
            )
        for name, value in wanted.items():
            operator = str(name).removeprefix("$")
            if operator not in OPERATORS:
                raise InvalidRequest(
                    "filter",
                    f"condition {len(found) + 1} holds something that is not an operator; allowed: "
                    f"{', '.join(OPERATORS)}. To compare with an object, wrap it in eq",
                )
            found.append(_condition(path, operator, value))
    if len(found) > MAX_CONDITIONS:
        raise InvalidRequest("filter", f"{len(found)} conditions; at most {MAX_CONDITIONS} are allowed")
    return tuple(found)


def _condition(path: tuple[str, ...], operator: Any, value: Any) -> Condition:
    if operator == "in":
        if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
            raise InvalidRequest("filter", "the operator in takes a list of values")
        return Condition(path, operator, tuple(_json_value(item) for item in value))
    if operator in ("gt", "gte", "lt", "lte") and (
        isinstance(value, bool) or not isinstance(value, (int, float, str))
    ):
        raise InvalidRequest("filter", f"the operator {operator} takes a number or a string")
    return Condition(path, operator, _json_value(value))


def _json_value(value: Any, depth: int = 16) -> Any:
    """The value as metadata could hold it; anything else can match nothing, and is refused."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        if bad_character(value) is not None:
            raise InvalidRequest("filter", "holds a NUL or a lone surrogate, which no record holds")
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, (list, tuple)) and depth:
        return [_json_value(item, depth - 1) for item in value]
    if isinstance(value, Mapping) and depth:
        return {str(key): _json_value(item, depth - 1) for key, item in value.items()}
    raise InvalidRequest("filter", "holds a value that JSON cannot say, or one nested more than 16 deep")


def matches(record: Record, where: Filter) -> bool:
    """Whether a record passes a filter."""
    return (
        _in_scope(record, where)
        and _in_time(record, where)
        and (where.pinned is None or record.pinned == where.pinned)
        and all(tag in record.tags for tag in where.tags)
        and (not where.tags_any or any(tag in record.tags for tag in where.tags_any))
        and all(holds(record.metadata, condition) for condition in where.tests)
    )


def _in_scope(record: Record, where: Filter) -> bool:
    return (
        (not where.types or record.type in where.types)
        and record.type not in where.types_exclude
        and (where.session_id is None or record.session_id == where.session_id)
        and (where.topic_prefix is None or (record.topic_key or "").startswith(where.topic_prefix))
        and (where.topic_prefix is None or record.topic_key is not None)
    )


def _in_time(record: Record, where: Filter) -> bool:
    return _between(record.updated_at, where.updated_since, where.updated_until) and _between(
        record.created_at, where.created_since, where.created_until
    )


def _between(moment: datetime, since: Any, until: Any) -> bool:
    return (since is None or moment >= since) and (until is None or moment < until)


_MISSING: Final = object()


def holds(metadata: Mapping[str, Any], condition: Condition) -> bool:
    """Whether one condition holds of a record's metadata.

    A missing value equals nothing, so ne holds of it. An order comparison holds only between two numbers
    or two strings: a string beside a number is no error and no match. True is not 1.
    """
    found = _look_up(metadata, condition.path)
    operator, wanted = condition.operator, condition.value
    if operator == "eq":
        return found is not _MISSING and same(found, wanted)
    if operator == "ne":
        return found is _MISSING or not same(found, wanted)
    if operator == "in":
        return found is not _MISSING and any(same(found, item) for item in wanted)
    return _ordered(found, operator, wanted)


def _ordered(found: Any, operator: Operator, wanted: Any) -> bool:
    if _rank(found) is None or _rank(found) != _rank(wanted):
        return False
    if operator == "gt":
        return bool(found > wanted)
    if operator == "gte":
        return bool(found >= wanted)
    return bool(found < wanted) if operator == "lt" else bool(found <= wanted)


def _rank(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else None


def _look_up(metadata: Any, path: tuple[str, ...]) -> Any:
    """The value at a path; a dotted name is a key as it stands first, then steps into objects."""
    value = metadata
    for name in path:
        if not isinstance(value, Mapping):
            return _MISSING
        if name in value:
            value = value[name]
            continue
        head, dot, rest = name.partition(".")
        if not dot or head not in value:
            return _MISSING
        value = _look_up(value[head], (rest,))
    return value


def same(one: Any, other: Any) -> bool:
    """JSON equality: 1 equals 1.0, but True is not 1; lists and tuples are arrays."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
