"""The filters of the Mem0 platform's third API: what it takes, what it refuses, and what it quietly gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

ENTITIES = ("user_id", "agent_id", "app_id", "run_id")
TIMES = ("created_at", "updated_at", "timestamp", "expiration_date")
LOGICAL = ("AND", "OR", "NOT")
ALLOWED = (
    *LOGICAL,
    *ENTITIES,
    *TIMES,
    "text",
    "categories",
    "metadata",
    "keywords_search",
    "memory_ids",
    "keywords",
)
OPERATORS = {
    **{key: {"eq", "ne", "in"} for key in ENTITIES},
    **{key: {"gt", "gte", "lt", "lte", "ne", "in"} for key in TIMES},
    "categories": {"in", "contains"},
    "memory_ids": {"in"},
    "metadata": {"eq", "ne", "contains"},
    "keywords": {"contains", "icontains"},
    "keywords_search": {"contains", "icontains"},
    "text": {"contains", "icontains"},
}  # fmt: skip


class FilterValidationError(Exception):
    """Refused with 400 and these words."""


def check(filters: Any) -> None:
    """Refuse what the platform refuses, before a row is looked at."""
    if not isinstance(filters, dict) or not filters:
        raise FilterValidationError("filters is required and cannot be empty.")
    _check_group(filters)
    if not any(_scoping(filters)):
        raise FilterValidationError(
            "At least one entity ID (user_id, agent_id, app_id, run_id) is required in filters."
        )


def _check_group(group: Any) -> None:
    if not isinstance(group, dict):
        raise FilterValidationError("Each condition must be an object.")
    for key, value in group.items():
        if key not in ALLOWED:
            raise FilterValidationError(
                f"Top-level key must be a logical operator or an allowed field: {list(ALLOWED)}"
            )
        if key in LOGICAL:
            if not isinstance(value, list) and key != "NOT":
                raise FilterValidationError(f"{key} must be a list of conditions.")
            for inner in value if isinstance(value, list) else [value]:
                _check_group(inner)
        elif key == "metadata":
            if not isinstance(value, dict):
                raise FilterValidationError("metadata must be an object.")
            for condition in value.values():
                _check_operators("metadata", condition)
        else:
            _check_operators(key, value)


def _check_operators(field: str, condition: Any) -> None:
    if isinstance(condition, dict):
        for operator in condition:
            if operator not in OPERATORS[field]:
                raise FilterValidationError(f"Unsupported operator '{operator}' for field '{field}'.")
    elif isinstance(condition, list) and field != "memory_ids":
        raise FilterValidationError(f"Field '{field}' does not take a list.")


def _scoping(group: dict[str, Any]) -> Iterator[bool]:
    """Whether an id is asked for somewhere: not one that is only excluded."""
    for key, value in group.items():
        if key in {"AND", "OR"}:
            for inner in value:
                yield from _scoping(inner)
        elif key in ENTITIES:
            yield not isinstance(value, dict) or bool(value.keys() & {"eq", "in"})


def required(group: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Ids that every row must have, as far as is plain to see: by these an index is looked at."""
    for key, value in group.items():
        if key == "AND":
            for inner in value:
                yield from required(inner)
        elif key in ENTITIES:
            wanted = value.get("eq") if isinstance(value, dict) else value
            if isinstance(wanted, str) and wanted != "*":
                yield key, wanted


def mentioned(group: Any, names: tuple[str, ...] = ENTITIES) -> set[str]:
    """Which of the fields a filter says anything about."""
    found: set[str] = set()
    for inner in group if isinstance(group, list) else [group]:
        for key, value in inner.items():
            found |= {key} & {*names} if key not in LOGICAL else mentioned(value, names)
    return found


def matches(row: dict[str, Any], group: dict[str, Any]) -> bool:
    for key, value in group.items():
        if key == "OR" and "AND" in group:
            continue  # an OR beside an AND is dropped without a word
        if key == "AND":
            held = all(matches(row, inner) for inner in value)
        elif key == "OR":
            held = any(matches(row, inner) for inner in value)
        elif key == "NOT":
            held = not any(matches(row, inner) for inner in (value if isinstance(value, list) else [value]))
        else:
            held = _field(row, key, value)
        if not held:
            return False
    return True


def _field(row: dict[str, Any], key: str, value: Any) -> bool:
    if key == "metadata":
        stored = row["metadata"] or {}
        return all(_holds(stored.get(name), condition, _same) for name, condition in value.items())
    if key == "memory_ids":
        return row["id"] in (value["in"] if isinstance(value, dict) else value)
    if key in TIMES:
        return _holds(_time(row.get("created_at" if key == "timestamp" else key)), _times(value), _same)
    if key in {"text", "keywords", "keywords_search"}:
        return _holds(row["memory"], value, _same)
    if key == "categories":
        held = row["categories"] or []
        wanted = value if isinstance(value, dict) else {"in": [value]}
        return all(
            any(one in operand if operator == "in" else operand in one for one in held)
            for operator, operand in wanted.items()
        )
    if value == "*":
        return row[key] is not None
    return _holds(row[key], value, _same)


def _same(stored: Any, wanted: Any) -> bool:
    return type(stored) is type(wanted) and bool(stored == wanted)


def _holds(stored: Any, condition: Any, same: Callable[[Any, Any], bool]) -> bool:
    if not isinstance(condition, dict):
        return same(stored, condition)
    return all(_compare(stored, operator, operand, same) for operator, operand in condition.items())


def _compare(stored: Any, operator: str, operand: Any, same: Callable[[Any, Any], bool]) -> bool:
    if operator == "ne":
        return not same(stored, operand)  # what has no value is not equal
    if stored is None:
        return False
    if operator == "eq":
        return same(stored, operand)
    if operator == "in":
        return any(same(stored, one) for one in operand)
    if operator == "contains":
        return isinstance(stored, str) and str(operand) in stored
    if operator == "icontains":
        return isinstance(stored, str) and str(operand).lower() in stored.lower()
    return bool(
        {"gt": stored > operand, "gte": stored >= operand, "lt": stored < operand, "lte": stored <= operand}[
            operator
        ]
    )


def _time(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise FilterValidationError(f"Invalid datetime: {value!r}.") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _times(condition: Any) -> Any:
    if isinstance(condition, dict):
        return {operator: _times(operand) for operator, operand in condition.items()}
    return [_time(one) for one in condition] if isinstance(condition, list) else _time(condition)
