"""Sessions as they are read: what a record and a summary say, and the newest of the past ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from keyfold.clock import from_text
from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Query, Ref
from keyfold.contract.keys import SUMMARY_OF
from keyfold.flow import Plan
from keyfold.model import ACTIVE, COMPLETED, SESSION, SUMMARY, Record, Session
from keyfold.text.line import one_line

PAST_SUMMARIES: Final = 5
RENDERED: Final = 10  # how many memories an automatic summary names


def session_record(user: str, key: str) -> Plan[Record | None]:
    """The record of a session, by the session's id."""
    return (yield from calls.get(Ref(user, key=key, kind=SESSION)))


def session_of(record: Record) -> Plan[Session]:
    """The session behind a record, with its summary: the one given, else rendered from what it holds."""
    said = yield from calls.get(Ref(record.namespace, key=record.key, kind=SUMMARY))
    summary = said.content if said is not None else (yield from _rendered(record))
    return _session(record, summary)


def _session(record: Record, summary: str | None) -> Session:
    facts = record.metadata
    completed = record.type == COMPLETED
    ended = _time(facts.get("ended_at")) if completed else None
    active_at = _time(facts.get("last_activity_at")) if completed else None
    return Session(
        record.key,
        record.namespace,
        record.created_at,
        active_at or record.updated_at,
        ended or (record.updated_at if completed else None),
        summary,
        COMPLETED if completed else ACTIVE,
        facts.get("is_auto_generated") is True,
    )


def _time(value: Any) -> datetime | None:
    try:
        return from_text(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _rendered(record: Record) -> Plan[str | None]:
    """The automatic summary: the titles of those of its memories that still exist.

    Where no ids are kept (of an import, or by a version that kept addresses) it is what names the session now.
    """
    if record.type != COMPLETED:
        return None
    ids = record.metadata.get(SUMMARY_OF)
    found: list[Record] = []
    if isinstance(ids, list) and all(isinstance(item, str) for item in ids):
        for item in ids[:RENDERED]:
            held = yield from calls.get(Ref(record.namespace, id=item, kind=""))
            if held is not None:
                found.append(held)
    elif "memories" in record.metadata:
        where = Filter(session_id=record.key)
        page = yield from calls.page(Query(record.namespace, where=where, limit=RENDERED, want_total=False))
        found = [item for item in page.items if item.kind != SUMMARY]
    return "\n".join(one_line(f"- [{item.type}] {' '.join(item.title.split())}") for item in found) or None


def past_summaries(user: str, *, but: str) -> Plan[tuple[Session, ...]]:
    """The newest summarised sessions, but for one: those with words of their own and those closed automatically."""
    said = yield from calls.page(Query(user, kinds=(SUMMARY,), limit=PAST_SUMMARIES + 1, want_total=False))
    closed = yield from calls.page(
        Query(
            user,
            kinds=(SESSION,),
            where=Filter(types=(COMPLETED,)),
            limit=PAST_SUMMARIES + 1,
            want_total=False,
        )
    )
    found: dict[str, tuple[datetime, Session]] = {}
    for summary in said.items:
        key = summary.session_id or summary.key
        if key == but or key in found:
            continue
        record = yield from session_record(user, key)
        session = _session(record, summary.content) if record is not None else _unknown_session(summary, key)
        found[key] = (summary.updated_at, session)
    for record in closed.items:
        if record.key != but and record.key not in found:
            session = yield from session_of(record)
            if session.summary is not None:
                found[record.key] = (record.updated_at, session)
    newest = sorted(found.values(), key=lambda pair: pair[0], reverse=True)
    return tuple(session for _, session in newest[:PAST_SUMMARIES])


def _unknown_session(summary: Record, key: str) -> Session:
    """A summary whose session was never recorded (an import, a forgotten session)."""
    at = summary.created_at
    return Session(
        key, summary.namespace, at, summary.updated_at, summary.updated_at, summary.content, COMPLETED, False
    )
