"""Sessions: stretches of work of one user, several at a time if need be, as plans. DESIGN 4.

A session is a record of kind `session`, its key the session's id, its type its status. What was said of
it is a record of kind `summary` under the same key. A closed session holds the ids of what it contained (a key or a
source would outlive what was forgotten), and its summary is rendered on reading: nothing forgotten lives on in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

from keyfold.clock import to_text
from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import IDEMPOTENCY_LIFE, Idempotency, Intent, Query, Ref, SessionUse
from keyfold.contract.keys import SUMMARY_OF
from keyfold.contract.prepare import prepare
from keyfold.errors import Conflict, IdempotencyConflict, InvalidRequest, KeyfoldError, NotFound, StoreError
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.context import DEFAULT_BUDGET, render_context
from keyfold.memory.core import Core, current_session, newest_active
from keyfold.memory.session_reads import RENDERED, past_summaries, session_of, session_record
from keyfold.memory.writes import stored
from keyfold.model import (
    ACTIVE,
    COMPLETED,
    SESSION,
    SUMMARY,
    Items,
    Receipt,
    Record,
    SaveResult,
    Session,
    SessionStart,
)

SHORT: Final = 300  # characters of a past summary that every list of sessions shows whole
STALE_AT_ONCE: Final = 100  # how many stale sessions one start closes
TITLE: Final = "Session"
SUMMARY_TITLE: Final = "Session summary"


def mem_session_start(
    core: Core,
    user_id: str,
    *,
    session_id: str | None = None,
    budget: int = DEFAULT_BUDGET,
    idempotency_key: str | None = None,
) -> Plan[SessionStart]:
    """Begin or go on with work: the session, up to 5 past summaries, and what matters most.

    An unexpired session of the user is reused (`is_new` is False); pass `session_id` to join or open one
    by name, so that several agents can each hold their own. Sessions without activity for
    `Config.session_timeout` seconds are closed on the way. `budget` limits the context, in characters.
    """
    user = checks.name("user_id", user_id)
    characters = checks.whole("budget", budget, 1, checks.MAX_BUDGET)
    named = checks.optional_name("session_id", session_id)
    key = core.idempotency("mem_session_start", idempotency_key, {"session_id": named, "budget": characters})
    alive_since = core.now() - core.timeout
    yield from close_stale(user, alive_since, spare=named)
    wanted, replayed = named, False
    if wanted is None and key is None:
        wanted = yield from _reusable(core, user, alive_since)
    record = (yield from session_record(user, wanted)) if wanted is not None else None
    is_new = record is None
    if record is None or record.type != ACTIVE or key is not None:
        receipt = yield from _open(core, user, wanted, key)
        replayed, is_new = receipt.replayed and key is not None, receipt.outcome == "created"
        opened = yield from calls.get(Ref(user, id=receipt.id, kind=SESSION))
        if opened is None:
            raise NotFound("the session was forgotten while it was opened; start again")
        record = opened
    core.sessions[user] = record.key
    core.opening.pop(user, None)
    core.ended.pop(user, None)
    core.ending.pop((user, record.key), None)
    core.moved_on(user)
    session = yield from session_of(record)
    past = yield from past_summaries(user, but=record.key)
    # a long one may be shown cut where sessions are listed, so it stays in the context
    told = {session.id for session in past if len(session.summary or "") <= SHORT}
    context = yield from render_context(core, user, None, characters, "exact", told=told)
    return SessionStart(record.key, is_new, past, context, session, replayed)


def _open(core: Core, user: str, named: str | None, key: Idempotency | None) -> Plan[Receipt]:
    """Open a session. On a service a call that is made again must find what the first one wrote."""
    if named is not None or core.capabilities.transactions:
        return (yield from calls.store(_open_intent(user, named or str(uuid4()), key)))
    if key is None:
        return (yield from calls.store(_open_intent(user, core.opening.setdefault(user, str(uuid4())), None)))
    # A key is remembered by what it wrote, so it has to lead there; but when it is used again after its day, it means
    # another session, and the one that it opened then stays as it is. Those are named by the day, so that a key of
    # every night is found as soon after years as after two days.
    yesterday, today = (_named_by(key, core.now().toordinal() - back) for back in (1, 0))
    try:
        return (yield from calls.store(_open_intent(user, _named_by(key), key, absent=True)))
    except IdempotencyConflict as error:  # some services find a key wherever it was used
        held = yield from calls.get(Ref(user, id=error.existing_id, kind=SESSION))
        if held is None or held.key not in (yesterday, today):
            raise
    except Conflict as error:
        if error.current_revision is None:
            raise
        held = yield from session_record(user, yesterday)
    young = held is not None and core.now() - held.created_at < IDEMPOTENCY_LIFE
    wanted = held.key if held is not None and young else today
    return (yield from calls.store(_open_intent(user, wanted, key, absent=True)))


def _named_by(key: Idempotency, day: int | None = None) -> str:
    return str(uuid5(NAMESPACE_OID, f"{key.key.hex()}{f'.{day}' if day is not None else ''}"))


def _open_intent(user: str, key: str, idempotency: Idempotency | None, *, absent: bool = False) -> Intent:
    content, digest = prepare("")
    return Intent(
        user,
        SESSION,
        "upsert",
        key,
        type=ACTIVE,
        title=TITLE,
        content=content,
        normalized_hash=digest,
        expect_revision=0 if absent else None,
        idempotency=idempotency,
    )


def _reusable(core: Core, user: str, alive_since: datetime) -> Plan[str | None]:
    """The handle's own session while it is alive, else the user's newest active one."""
    own = core.sessions.get(user)
    if own is not None:
        record = yield from session_record(user, own)
        if record is not None and record.type == ACTIVE and record.updated_at >= alive_since:
            return own
    return (yield from newest_active(user, alive_since, alive_since + 2 * core.timeout))


def close_stale(user: str, alive_since: datetime, *, spare: str | None) -> Plan[None]:
    """Close the user's sessions that went stale, each marked as closed automatically."""
    where = Filter(types=(ACTIVE,), updated_until=alive_since)
    query = Query(user, kinds=(SESSION,), where=where, limit=STALE_AT_ONCE, want_total=False)
    for record in (yield from calls.page(query)).items:
        if record.key == spare:
            continue
        facts = yield from _facts(record, is_auto_generated=True, ended_at=record.updated_at)
        try:
            yield from calls.store(_close_intent(record, facts, None))
        except (NotFound, InvalidRequest):
            continue  # another process closed or forgot it first, or an import filled its metadata to the brim
        except StoreError:
            return  # it waits for a store that can be written: whoever goes on with a session only reads


def _facts(record: Record, *, is_auto_generated: bool, ended_at: datetime) -> Plan[dict[str, Any]]:
    """What a closed session keeps: its times, who closed it, and the ids of its newest memories."""
    where = Filter(session_id=record.key, updated_since=record.created_at)
    page = yield from calls.page(Query(record.namespace, where=where, limit=RENDERED))
    return {
        "ended_at": to_text(ended_at),
        "last_activity_at": to_text(record.updated_at),
        "is_auto_generated": is_auto_generated,
        SUMMARY_OF: [item.id for item in page.items if item.kind != SUMMARY],
        "memories": page.total,
    }


def _close_intent(record: Record, facts: dict[str, Any], idempotency: Idempotency | None) -> Intent:
    return Intent(
        record.namespace,
        SESSION,
        "update",
        record.key,
        type=COMPLETED,
        metadata=facts,
        expect_type=ACTIVE,
        idempotency=idempotency,
    )


def mem_session_summary(
    core: Core,
    user_id: str,
    summary: str,
    *,
    session_id: str | None = None,
    idempotency_key: str | None = None,
) -> Plan[SaveResult]:
    """Say what a session was about (the current one unless named); said again, it is rewritten in place."""
    user = checks.name("user_id", user_id)
    content = checks.content(core.config, "summary", summary)
    named = checks.optional_name("session_id", session_id)
    key = core.idempotency("mem_session_summary", idempotency_key, {"summary": content, "session": named})
    if named is None and not core.capabilities.session_activity and user not in core.sessions:
        # a save would not look, but a summary belongs to the session that was started, by whichever process
        alive_since = core.now() - core.timeout
        named = yield from newest_active(user, alive_since, alive_since + 2 * core.timeout)
    use = yield from current_session(core, user, named)
    intent = _summary_intent(user, use.id, content, key)
    return (yield from stored(core, (intent,), use.id))[0]


def _summary_intent(user: str, key: str, summary: str, idempotency: Idempotency | None) -> Intent:
    content, digest = prepare(summary)
    return Intent(
        user,
        SUMMARY,
        "upsert",
        key,
        type=SUMMARY,
        title=SUMMARY_TITLE,
        content=content,
        normalized_hash=digest,
        session=SessionUse(key, explicit=True),
        idempotency=idempotency,
    )


def mem_session_end(
    core: Core,
    user_id: str,
    *,
    summary: str | None = None,
    session_id: str | None = None,
    idempotency_key: str | None = None,
) -> Plan[Session]:
    """End a session (the current one unless named), with a last summary if given.

    Raises NotFound (a LookupError) when none is open or it was ended already.
    """
    user = checks.name("user_id", user_id)
    content = checks.content(core.config, "summary", summary) if summary is not None else None
    named = checks.optional_name("session_id", session_id)
    body = {"summary": content, "session": named}
    key = core.idempotency("mem_session_end", idempotency_key, body)
    wanted = named if named is not None else (yield from _endable(core, user, idempotent=key is not None))
    record = yield from session_record(user, wanted)
    if record is None and not core.capabilities.session_activity and core.sessions.get(user) == wanted:
        # saves named it without writing it down, so that they cost no request; now there is something to say of it
        yield from calls.store(_open_intent(user, wanted, None))
        record = yield from session_record(user, wanted)
    if record is None:
        raise NotFound(f"there is no session {wanted!r:.200}")
    closed = record.type == COMPLETED
    repeats = closed and key is None and (user, wanted) in core.ending
    if closed and key is None and not repeats:
        raise _ended_already(wanted)
    intents = [] if repeats else [(yield from _close(core, record, key))]
    if content is not None:
        second = core.idempotency("mem_session_end.summary", idempotency_key, body)
        summing = _summary_intent(user, wanted, content, second)
        # Without transactions the second of two writes may be lost, and the end of what is closed is refused: so the
        # summary is the first. Where the session is closed the close is: it is a repeat, by its key, or refused.
        intents.insert(0 if not (closed or core.capabilities.transactions) else len(intents), summing)
    try:
        if intents:
            yield from calls.store_many(intents)
        session = yield from session_of((yield from session_record(user, wanted)) or record)
    except NotFound:
        raise _ended_already(wanted) from None
    except (KeyfoldError, GeneratorExit):  # the last: the call was cancelled
        core.ending[user, wanted] = (
            named is None
        )  # it may have been carried out: the call again is no second end
        raise
    core.sessions.pop(user, None)
    core.ended[user] = wanted
    core.ending.pop((user, wanted), None)
    core.moved_on(user)
    return session


def _close(core: Core, record: Record, key: Idempotency | None) -> Plan[Intent]:
    """The write that ends a session by hand."""
    # after a clock that went back, a session does not end before it began or was last written in
    ended_at = max(core.now(), record.updated_at)
    facts = yield from _facts(record, is_auto_generated=False, ended_at=ended_at)
    if record.type == COMPLETED:
        facts = dict(record.metadata)
    facts["last_activity_at"] = facts["ended_at"]
    return _close_intent(record, facts, key)


def _ended_already(session: str) -> NotFound:
    return NotFound(
        f"session {session!r:.200} was ended already, perhaps by another agent of this user; "
        "mem_session_start begins another, and mem_session_summary can still add to this one by its session_id"
    )


def _endable(core: Core, user: str, *, idempotent: bool) -> Plan[str]:
    """The session that an end without a name means. Ending twice must not end somebody else's session."""
    own = core.sessions.get(user)
    if own is None:  # what a call that was broken off may have ended already
        own = next(
            (session for (whose, session), meant in core.ending.items() if meant and whose == user), None
        )
    if own is not None:
        return own
    ended = core.ended.get(user)
    if ended is not None:
        if idempotent:
            return ended
        raise NotFound(f"session {ended!r:.200} was ended already; pass session_id to end another one")
    newest = yield from newest_active(user, None, core.now() + core.timeout)
    if newest is None:
        raise NotFound("no session of this user is open; mem_session_start opens one")
    return newest


def mem_session_list(_core: Core, user_id: str, *, limit: int = 20) -> Plan[Items[Session]]:
    """The user's sessions, newest activity first (at most 1,000)."""
    user = checks.name("user_id", user_id)
    size = checks.whole("limit", limit, 1, checks.MAX_LIMIT)
    page = yield from calls.page(Query(user, kinds=(SESSION,), limit=size))
    found: dict[str, Session] = {}
    for record in page.items:
        found[record.key] = yield from session_of(record)
    return Items(tuple(found.values()), page.total, page.total > len(found))
