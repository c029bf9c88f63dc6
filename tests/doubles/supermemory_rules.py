"""What Supermemory accepts: the limits of its bodies, and its grammar of metadata filters."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

MAX_CONTENT = 10_000
MAX_MEMORIES = 100
MAX_BATCH = 600
MAX_IDS = 100
MAX_FORGET_IDS = 500
MAX_PAGE = 200
MAX_CONDITIONS = 200
MAX_LEVELS = 8
MAX_CONTEXT = 1_500

# The documentation and the schemas differ on dots in a tag; the double takes the narrower rule.
TAG = re.compile(r"[A-Za-z0-9_:-]{1,100}")
CUSTOM_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
METADATA_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")

NUMERIC: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
}
FILTER_TYPES = ("metadata", "numeric", "array_contains", "string_contains")

Match = Callable[[dict[str, Any]], bool]


class Refused(Exception):
    """An error answer; `path` is where in the body the fault is, for the validator's kind of body."""

    def __init__(self, code: int, message: str, path: str = "", details: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.path, self.details = code, message, path, details


def invalid(path: str, message: str) -> Refused:
    return Refused(400, message, path, f"{path}: {message}" if path else message)


def body_of(raw: bytes) -> dict[str, Any]:
    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        body = json.loads(raw, parse_constant=constant)
    except ValueError:
        raise invalid("", "Malformed JSON in request body") from None
    if not isinstance(body, dict):
        raise invalid("", "Expected object")
    return body


def length(value: str) -> int:
    """The service is written in a language whose strings count UTF-16 units: an emoji is two of them."""
    return len(value.encode("utf-16-le", "surrogatepass")) // 2


def text(
    value: Any, path: str, *, most: int | None = None, least: int = 1, shape: re.Pattern[str] | None = None
) -> str:
    if not isinstance(value, str):
        raise invalid(path, "Required" if value is None else "Expected string")
    if length(value) < least:
        raise invalid(path, f"String must contain at least {least} character(s)")
    if most is not None and length(value) > most:
        raise invalid(path, f"String must contain at most {most} character(s)")
    if shape is not None and not shape.fullmatch(value):
        raise invalid(path, "Invalid: at most 100 characters of the permitted set")
    return value


def tag_of(value: Any, path: str = "containerTag") -> str:
    return text(value, path, shape=TAG)


def tags_of(value: Any, path: str = "containerTags") -> list[str]:
    if not isinstance(value, list) or not value:
        raise invalid(path, "Array must contain at least 1 element(s)")
    return [tag_of(tag, f"{path}.{index}") for index, tag in enumerate(value)]


def either_tags(body: dict[str, Any]) -> list[str] | None:
    """`containerTag`, or the deprecated `containerTags`; None when there is neither."""
    if "containerTag" in body:
        return [tag_of(body["containerTag"])]
    return tags_of(body["containerTags"]) if "containerTags" in body else None


def flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise invalid(path, "Expected boolean")
    return value


def number(value: Any, path: str, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise invalid(path, f"Expected number from {least} to {most}")
    return float(value)


def whole(value: Any, path: str, most: int) -> int:
    """A page or a limit: 1 or more, as a number or as its digits."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise invalid(path, "Expected integer")
    if value < 1 or value > most:
        raise invalid(path, f"Number must be from 1 to {most}")
    return int(value)


def choice(value: Any, path: str, among: tuple[str, ...]) -> str:
    if value not in among:
        raise invalid(path, f"Invalid enum value. Expected {' | '.join(among)}")
    return str(value)


def moment(value: Any, path: str) -> datetime | None:
    if value is None:
        return None
    try:
        when = datetime.fromisoformat(text(value, path))
    except ValueError:
        raise invalid(path, "Invalid datetime") from None
    if when.tzinfo is None:
        raise invalid(path, "Invalid datetime")
    return when


def metadata_of(value: Any, path: str = "metadata") -> dict[str, Any]:
    """Strings, numbers, booleans and lists of strings. Nothing nests, and there is no null."""
    if not isinstance(value, dict):
        raise invalid(path, "Expected object")
    for key, item in value.items():
        if not METADATA_KEY.fullmatch(key):
            raise invalid(f"{path}.{key}", "Invalid metadata key")
        flat = isinstance(item, str | int | float) or (
            isinstance(item, list) and all(isinstance(one, str) for one in item)
        )
        if not flat:
            raise invalid(f"{path}.{key}", "Expected string, number, boolean or array of strings")
    return value


def filters_of(value: Any) -> Match:
    """What a metadata filter matches; it may come as an object or as the JSON text of one."""
    if isinstance(value, str):
        value = body_of(value.encode())
    seen: list[str] = []
    match = _group(value, "filters", 1, seen)
    if len(seen) > MAX_CONDITIONS:
        raise invalid("filters", f"At most {MAX_CONDITIONS} conditions")
    return match


def _group(value: Any, path: str, level: int, seen: list[str]) -> Match:
    if level > MAX_LEVELS:
        raise invalid(path, f"At most {MAX_LEVELS} levels of nesting")
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in {"AND", "OR"}:
        raise invalid(path, "Expected an object with AND or OR")
    ((word, parts),) = value.items()
    if not isinstance(parts, list):
        raise invalid(f"{path}.{word}", "Expected array")
    matches = []
    for index, part in enumerate(parts):
        at = f"{path}.{word}.{index}"
        if isinstance(part, dict) and ("AND" in part or "OR" in part):
            matches.append(_group(part, at, level + 1, seen))
        else:
            matches.append(_condition(part, at))
            seen.append(at)
    combine = all if word == "AND" else any
    return lambda metadata: combine(match(metadata) for match in matches)


def _condition(value: Any, path: str) -> Match:
    if not isinstance(value, dict):
        raise invalid(path, "Expected object")
    key = text(value.get("key"), f"{path}.key")
    wanted = text(value.get("value"), f"{path}.value", least=0)  # a number must come as a string too
    kind = choice(value.get("filterType", "metadata"), f"{path}.filterType", FILTER_TYPES)
    negate, fold = _truth(value, "negate", path), _truth(value, "ignoreCase", path)
    if kind == "numeric":
        sign = choice(value.get("numericOperator", "="), f"{path}.numericOperator", tuple(NUMERIC))
        number_wanted = _float(wanted)
        if number_wanted is None:
            raise invalid(f"{path}.value", "Expected a number in a string")

    def holds(item: Any) -> bool:
        if kind == "numeric":
            held = _float(item)
            assert number_wanted is not None
            return held is not None and NUMERIC[sign](held, number_wanted)
        if kind == "array_contains":
            return isinstance(item, list) and _fold(wanted, fold) in [_fold(one, fold) for one in item]
        if kind == "string_contains":
            return isinstance(item, str) and _fold(wanted, fold) in _fold(item, fold)
        return not isinstance(item, list) and _fold(_as_text(item), fold) == _fold(wanted, fold)

    # As in SQL, a condition on a key that a row does not have is neither true nor, negated, true.
    return lambda metadata: key in metadata and holds(metadata[key]) != negate


def _truth(value: dict[str, Any], name: str, path: str) -> bool:
    given = value.get(name, False)
    if given in (True, False):
        return bool(given)
    return choice(given, f"{path}.{name}", ("true", "false")) == "true"


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _fold(value: str, fold: bool) -> str:
    return value.casefold() if fold else value
