"""Which rows a read looks at: namespaces within a reach, and the parts of a filter that SQL can test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

import apsw

from keyfold.clock import to_micros
from keyfold.contract.filters import EVERYTHING, Filter
from keyfold.contract.reach import above
from keyfold.engines.sqlite.rows import SESSION_SPACE, SPACES, Rows
from keyfold.model import Reach

LIVE: Final = "(r.expires_at IS NULL OR r.expires_at > ?)"
_READABLE: Final = tuple(range(SESSION_SPACE))
_SUMMARIES: Final = [SESSION_SPACE - 2, SESSION_SPACE - 1]
_SESSIONS: Final = [SESSION_SPACE, SESSION_SPACE + 1]
_RANK: Final = "SELECT name, num, docs, tokens, indexed FROM namespaces WHERE "

# A namespace: name, number, records indexed, their tokens, up to which sequence number.
Place = tuple[str, int, int, int, int]


def places(conn: apsw.Connection, namespace: str, reach: Reach) -> list[Place]:
    """The namespaces that a read looks at, by name."""
    if reach == "exact":
        return _place(conn, namespace)
    if reach == "subtree":
        asked = (namespace, f"{namespace}/", f"{namespace}0")  # "0" is the character after "/"
        rows: Rows = conn.execute(
            f"{_RANK} name = ? OR (name >= ? AND name < ?) ORDER BY name", asked
        ).fetchall()
        return rows
    return [place for name in (*above(namespace), namespace) for place in _place(conn, name)]


def _place(conn: apsw.Connection, name: str) -> list[Place]:
    rows: Rows = conn.execute(f"{_RANK} name = ?", (name,)).fetchall()
    return rows


class Narrowing:
    """A filter as SQL on `records r` with its values, and what is left of it for `contract.filters.matches`."""

    __slots__ = ("by_time", "rest", "spaces", "sql", "values")

    def __init__(
        self, kinds: tuple[str, ...], where: Filter, micros: int, *, keyed_only: bool = False
    ) -> None:
        self.values: list[Any] = []
        parts: list[str] = []
        spaces = [
            number
            for number, (kind, _) in enumerate(SPACES)
            if kind in kinds and not (keyed_only and number)  # space 0: keyed observations
        ]
        self.spaces = spaces
        self.by_time = self._add_spaces(parts, spaces, where)
        parts.append(LIVE)
        self.values.append(micros)
        if where is not EVERYTHING:
            self._add_filter(parts, where)
        self.sql = " AND ".join(parts)
        self.rest = (
            Filter(tags=where.tags, tags_any=where.tags_any, metadata=where.metadata)
            if where.tags or where.tags_any or where.metadata
            else None
        )

    def _add_spaces(self, parts: list[str], spaces: list[int], where: Filter) -> str:
        """Kinds, in the words of the partial index that serves them; that index, for listings by time.

        SQLite knows nothing of how the rows are spread, and would sort by itself what an index has in order.
        """
        if spaces == _SESSIONS and where.types in (("active",), ("completed",)):
            parts.append(f"r.space >= {SESSION_SPACE} AND r.type = '{where.types[0]}'")
            return "INDEXED BY records_active" if where.types == ("active",) else "INDEXED BY records_closed"
        if spaces == _SUMMARIES:
            parts.append(f"r.space >= {_SUMMARIES[0]} AND r.space < {SESSION_SPACE}")
            return "INDEXED BY records_summaries"
        if not spaces or spaces[-1] >= SESSION_SPACE:
            parts.append(f"r.space IN ({', '.join(map(str, spaces))})")
            return ""
        parts.append(f"r.space < {SESSION_SPACE}")
        if len(spaces) == 1:
            parts.append(f"r.space = {spaces[0]}")
        elif spaces != list(_READABLE):
            parts.append(f"r.space IN ({', '.join(map(str, spaces))})")
        return "" if where.topic_prefix is not None else "INDEXED BY records_time"

    def _add_filter(self, parts: list[str], where: Filter) -> None:
        def test(sql: str, *values: Any) -> None:
            parts.append(sql)
            self.values += values

        if where.types:
            test(f"r.type IN ({_marks(where.types)})", *where.types)
        if where.types_exclude:
            test(f"r.type NOT IN ({_marks(where.types_exclude)})", *where.types_exclude)
        if where.pinned is not None:
            test("r.pinned = ?", int(where.pinned))
        if where.session_id is not None:
            test("r.session = ?", where.session_id)
        if where.topic_prefix is not None:
            test("r.space = 0 AND r.key >= ?", where.topic_prefix)
            end = after_prefix(where.topic_prefix)
            if end:
                test("r.key < ?", end)
        for column, sign, moment in (
            ("updated_at", ">=", where.updated_since),
            ("updated_at", "<", where.updated_until),
            ("created_at", ">=", where.created_since),
            ("created_at", "<", where.created_until),
        ):
            if moment is not None:
                test(f"r.{column} {sign} ?", to_micros(cast(datetime, moment)))


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def after_prefix(prefix: str) -> str:
    """The least string after all that begin with a prefix, by code point; empty when there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return ""
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if following == 0xD800 else following)
