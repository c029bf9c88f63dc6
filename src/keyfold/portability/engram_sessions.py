"""Engram's sessions: those it lists, and stubs for those that are only referred to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from keyfold.clock import to_text
from keyfold.model import ACTIVE, COMPLETED, SESSION, SUMMARY
from keyfold.portability.drafts import Draft, State
from keyfold.portability.engram_fields import metadata_of, optional_text, time_of
from keyfold.portability.engram_files import Item
from keyfold.portability.report import Report
from keyfold.portability.strict_json import BadInput


@dataclass(slots=True)
class _Session:
    where: str
    known: bool = False
    started: datetime | None = None
    ended: datetime | None = None
    summary: str | None = None
    first: datetime | None = None  # the earliest and latest of what was written in it
    last: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def cover(self, moment: datetime) -> None:
        """Count a moment of activity."""
        self.first = moment if self.first is None else min(self.first, moment)
        self.last = moment if self.last is None else max(self.last, moment)


class Sessions:
    """Collects what is known of each session of each namespace."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._sessions: dict[tuple[str, str], _Session] = {}

    def used(self, draft: Draft) -> None:
        """Note that a record was written in its session (and its earlier states in theirs)."""
        for state in (*draft.past, draft.now):
            if state.session_id is not None:
                session = self._at(draft.namespace, state.session_id, f"session of {draft.where}")
                session.cover(state.written_at)

    def known(self, item: Item, namespace: str) -> None:
        """Take a session from Engram's list; later copies of it add to earlier ones. BadInput."""
        value = item.value
        identity = optional_text(value, "id")
        if identity is None:
            raise BadInput("id: it is missing")
        started = time_of(value, "started_at")
        ended = time_of(value, "ended_at") if value.get("ended_at") else None
        summary = optional_text(value, "summary")
        session = self._at(namespace, identity, item.where)
        session.known = True
        session.where = item.where
        session.started = started if session.started is None else min(session.started, started)
        session.ended = ended or session.ended
        session.summary = summary or session.summary
        rest = {key: found for key, found in value.items() if key not in _MAPPED}
        session.metadata |= metadata_of(rest)

    def drafts(self, quiet: timedelta) -> Iterator[Draft]:
        """The session records, stubs among them, and a summary record for each summary."""
        times = [
            time
            for found in self._sessions.values()
            for time in (found.started, found.last, found.ended)
            if time
        ]
        newest = max(times, default=None)
        for (namespace, identity), session in self._sessions.items():
            started = session.started or session.first
            if started is None or newest is None:
                continue
            if not session.known:
                self._report.stubs += 1
                session.metadata["stub"] = True
            last = max(filter(None, (started, session.last, session.ended)))
            over = session.ended is not None or newest - last > quiet
            metadata = dict(session.metadata)
            if over:
                metadata |= {"ended_at": to_text(session.ended or last), "last_activity_at": to_text(last)}
            state = State(1, COMPLETED if over else ACTIVE, "Session", "", last, metadata)
            yield Draft(session.where, None, namespace, SESSION, identity, False, state, started)
            if session.summary is not None:
                yield self._summary(session, namespace, identity, session.ended or last)

    def _summary(self, session: _Session, namespace: str, identity: str, at: datetime) -> Draft:
        metadata = {key: session.metadata[key] for key in ("project",) if key in session.metadata}
        state = State(1, SUMMARY, "Session summary", session.summary, at, metadata, session_id=identity)
        return Draft(session.where, None, namespace, SUMMARY, identity, False, state, at)

    def _at(self, namespace: str, identity: str, where: str) -> _Session:
        found = self._sessions.get((namespace, identity))
        if found is None:
            found = self._sessions[namespace, identity] = _Session(where)
        return found


_MAPPED = frozenset(("id", "started_at", "ended_at", "summary"))
