"""What the double of the open-source Mem0 server keeps: rows as in PostgreSQL with pgvector, and its filters."""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

IDS = ("user_id", "agent_id", "run_id")
PROMOTED = (*IDS, "actor_id", "role", "attributed_to", "expiration_date")
CORE = {"data", "hash", "created_at", "updated_at", "id", "text_lemmatized"}
OPERATORS = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "icontains")
LIST_MOST = 1000
ENTITIES_SCANNED = 10_000
TSVECTOR_LIMIT = 1_048_575  # bytes of distinct words that PostgreSQL can index


class Upstream(Exception):
    """The database refuses. The server calls that, like all it did not foresee, an upstream provider error."""


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def jsonb(value: Any) -> Any:
    """The value as JSONB gives it back: keys in an order of its own, no NUL, no number that JSON has not."""
    match value:
        case dict():
            keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
            return {jsonb(key): jsonb(value[key]) for key in keys}
        case list():
            return [jsonb(item) for item in value]
        case str():
            value.encode()  # a lone surrogate is a ValueError, as there
            if "\0" in value:
                raise Upstream
        case float() if not math.isfinite(value):
            raise Upstream
    return value


def entity_id(value: Any, name: str) -> str:
    """Ids are trimmed; anything with white space inside is refused, which includes most of what is no string."""
    trimmed = str(value).strip()
    if not trimmed:
        raise ValueError(f"Invalid {name}: cannot be empty or whitespace-only. Provide a valid identifier.")
    if any(character.isspace() for character in trimmed):
        raise ValueError(
            f"Invalid {name}: cannot contain whitespace. Provide a valid identifier without spaces."
        )
    return trimmed


def expiration(value: str | None) -> str | None:
    try:
        return None if value is None else date.fromisoformat(value).isoformat()
    except ValueError:
        raise ValueError("expiration_date must be a valid date in YYYY-MM-DD format.") from None


@dataclass
class Row:
    id: str
    payload: dict[str, Any]
    words: frozenset[str] = frozenset()

    def item(self, score: float | None = None) -> dict[str, Any]:
        """The row as `GET /memories/{id}` and a search show it; the list leaves the score out."""
        payload = self.payload
        rest = {key: value for key, value in payload.items() if key not in CORE and key not in PROMOTED}
        return {
            "id": self.id,
            "memory": payload["data"],
            "hash": payload["hash"],
            "metadata": rest or None,
            "score": score,
            "created_at": payload["created_at"],
            "updated_at": payload["updated_at"],
        } | {key: payload[key] for key in PROMOTED if key in payload}

    def raw(self) -> dict[str, Any]:
        """The other shape, of the dump that answers a list without any id."""
        payload = self.payload
        kept = {"data", "hash", "created_at", "updated_at", *IDS}
        return {
            "id": self.id,
            "memory": payload["data"],
            **{key: payload.get(key) for key in IDS},
            "hash": payload["hash"],
            "metadata": {key: value for key, value in payload.items() if key not in kept},
            "created_at": payload["created_at"],
            "updated_at": payload["updated_at"],
        }

    def expired(self, today: date) -> bool:
        try:
            return date.fromisoformat(str(self.payload.get("expiration_date"))) < today
        except ValueError:
            return False


@dataclass
class Heap:
    """The table. Nothing in it is unique but the id, and a row that is updated moves to the end."""

    rows: dict[str, Row] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    _scopes: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)

    def insert(self, payload: dict[str, Any], now: datetime) -> Row:
        row = Row(str(uuid.uuid4()), {})
        self.put(row, payload | {"created_at": payload.get("created_at") or now.isoformat()}, None)
        self.log(row, "ADD", None, row.payload["data"], row.payload["updated_at"])
        return row

    def put(self, row: Row, payload: dict[str, Any], now: datetime | None) -> None:
        text = payload["data"]
        found = words(text)
        if sum(len(word.encode()) for word in found) >= TSVECTOR_LIMIT:
            raise Upstream
        payload["hash"] = hashlib.md5(text.encode()).hexdigest()
        payload["updated_at"] = now.isoformat() if now else payload["created_at"]
        payload["text_lemmatized"] = " ".join(re.findall(r"\w+", text.lower()))
        stored = jsonb(payload)
        self._unlink(row)
        row.payload = stored
        row.words = found
        self.rows[row.id] = row
        for scope in self._scopes_of(row):
            self._scopes.setdefault(scope, {})[row.id] = None

    def remove(self, row: Row, now: datetime) -> None:
        self._unlink(row)
        self.log(row, "DELETE", row.payload["data"], None, now.isoformat())

    def log(self, row: Row, event: str, old: str | None, new: str | None, at: str) -> None:
        self.history.append({
            "id": str(uuid.uuid4()),
            "memory_id": row.id,
            "old_memory": old,
            "new_memory": new,
            "event": event,
            "created_at": row.payload["created_at"],
            "updated_at": at,
            "is_deleted": event == "DELETE",
            "actor_id": row.payload.get("actor_id"),
            "role": row.payload.get("role"),
        })  # fmt: skip

    def _scopes_of(self, row: Row) -> list[tuple[str, str]]:
        return [(key, row.payload[key]) for key in IDS if key in row.payload]

    def _unlink(self, row: Row) -> None:
        if self.rows.pop(row.id, None) is not None:
            for scope in self._scopes_of(row):
                self._scopes[scope].pop(row.id)

    def where(self, filters: dict[str, Any]) -> Iterator[Row]:
        """The rows a filter is true of, in heap order; where it is neither true nor false SQL leaves a row out."""
        sure: list[dict[str, None]] = [
            self._scopes.get((key, filters[key]), {})
            for key in IDS
            if isinstance(filters.get(key), str) and filters[key] != "*"
        ]
        for row_id in list(min(sure, key=len) if sure else self.rows):
            if truth(self.rows[row_id].payload, filters):
                yield self.rows[row_id]


def as_text(value: Any) -> str | None:
    """`payload->>key`: the text of a JSON value, NULL for null and for what is absent."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def truth(payload: dict[str, Any], filters: dict[str, Any]) -> bool | None:
    """SQL's three-valued AND over the conditions of a filter."""
    unknown = False
    for key, value in filters.items():
        for outcome in _conditions(payload, key, value):
            if outcome is False:
                return False
            unknown = unknown or outcome is None
    return None if unknown else True


def _conditions(payload: dict[str, Any], key: str, value: Any) -> Iterator[bool | None]:
    if key in {"$or", "$not"}:
        groups = [truth(payload, group) for group in value if group]
        if groups:
            either = True if True in groups else None if None in groups else False
            yield either if key == "$or" else None if either is None else not either
    elif value == "*":
        yield key in payload
    elif isinstance(value, dict):
        for operator, operand in value.items():
            yield _compare(as_text(payload.get(key)), operator, operand)
    else:
        stored = as_text(payload.get(key))
        wanted = (
            value if isinstance(value, list) else [json.dumps(value) if isinstance(value, bool) else value]
        )
        yield None if stored is None else stored in [str(one) for one in wanted]


def check_operators(key: str, value: Any) -> None:
    """What the store refuses before it looks at a row."""
    if key in {"$or", "$not"}:
        for group in value:
            for inner, condition in group.items():
                check_operators(inner, condition)
    elif isinstance(value, dict):
        for operator, operand in value.items():
            if operator not in OPERATORS:
                raise ValueError(f"Unsupported filter operator: {operator}")
            if operator in {"in", "nin"} and not isinstance(operand, list):
                raise ValueError(
                    f"Filter operator {operator!r} for key {key!r} requires a list value,"
                    f" got {type(operand).__name__}"
                )
            if operator in {"gt", "gte", "lt", "lte"}:
                float(operand)


def _compare(stored: str | None, operator: str, operand: Any) -> bool | None:
    if stored is None:
        return None
    if operator in {"in", "nin"}:
        return (stored in [str(one) for one in operand]) == (operator == "in")
    if operator in {"eq", "ne"}:
        return (stored == str(operand)) == (operator == "eq")
    if operator == "contains":
        return str(operand) in stored
    if operator == "icontains":
        return str(operand).lower() in stored.lower()
    try:
        left, right = float(stored), float(operand)
    except ValueError:
        raise Upstream from None  # the cast to numeric fails in the database
    return {"gt": left > right, "gte": left >= right, "lt": left < right, "lte": left <= right}[operator]


def store_filters(filters: dict[str, Any]) -> dict[str, Any]:
    """The filters of a search as they reach the store, with all the surprises of that translation.

    AND is flattened into one level, so that its later clauses override earlier ones and even the outer id; an AND
    inside an OR becomes a look at a key called AND.
    """
    effective = dict(filters)
    for key in IDS:
        if effective.get(key) is not None:
            effective[key] = entity_id(effective[key], key)
    if not any(key in effective for key in IDS):
        raise ValueError(
            "filters must contain at least one of: user_id, agent_id, run_id. Example: filters={'user_id': 'u1'}"
        )
    if any(_is_advanced(key, value) for key, value in effective.items()):
        processed: dict[str, Any] = {}
        for key, value in effective.items():
            if key == "AND":
                if not isinstance(value, list):
                    raise ValueError("AND operator requires a list of conditions")
                for condition in value:
                    _merge(processed, condition)
            elif key in {"OR", "NOT"}:
                if not isinstance(value, list) or not value:
                    raise ValueError(f"{key} operator requires a non-empty list of conditions")
                processed[f"${key.lower()}"] = [_merge({}, condition) for condition in value]
            else:
                _merge(processed, {key: value})
        effective = processed
    for key, value in effective.items():
        check_operators(key, value)
    return effective


def _is_advanced(key: str, value: Any) -> bool:
    return (
        key in {"AND", "OR", "NOT"}
        or value == "*"
        or (isinstance(value, dict) and any(op in OPERATORS for op in value))
    )


def _merge(target: dict[str, Any], conditions: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(conditions, dict):
        raise Upstream  # nothing there foresees it
    for key, value in conditions.items():
        if isinstance(value, dict):
            for operator in value:
                if operator not in OPERATORS:
                    raise ValueError(f"Unsupported metadata filter operator: {operator}")
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            target[key] = target[key] | value
        elif value != {}:
            target[key] = value
    return target


def ranked(
    rows: Iterable[Row], query: str, *, top_k: int, threshold: float, today: date | None
) -> list[tuple[float, Row]]:
    """Best first: closeness, by the words that are shared, decides who is in; all words at once lift the score.

    The store is asked for four times as many as wanted (at least 60), and what has expired falls out only then.
    """
    asked = words(query)

    def closeness(row: Row) -> float:
        shared = len(asked & row.words)
        return shared / math.sqrt(len(asked) * len(row.words)) if shared else 0.0

    near = sorted(((closeness(row), row) for row in rows), key=lambda pair: -pair[0])[: max(4 * top_k, 60)]
    near = [pair for pair in near if pair[0] >= threshold and not (today and pair[1].expired(today))]
    keyword = {row.id: 1.0 for _, row in near if asked and asked <= row.words}
    most = 2.0 if keyword else 1.0
    scored = [(min((close + keyword.get(row.id, 0.0)) / most, 1.0), row) for close, row in near]
    return [pair for pair in sorted(scored, key=lambda pair: -pair[0])[:top_k] if pair[1].payload["data"]]
