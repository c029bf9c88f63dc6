"""Checks of the sessions that writes touch and open."""

from __future__ import annotations

from datetime import timedelta

from keyfold.conformance.registry import check
from keyfold.conformance.world import LONG_AGO, World, digest, refused, same, true
from keyfold.contract.intents import SessionLapsed, SessionUse
from keyfold.flow import Plan
from keyfold.model import ACTIVE, COMPLETED, SESSION

MINE = SessionUse("s", explicit=True)


@check("S-01")
def a_named_session_is_opened(t: World) -> Plan[None]:
    receipt = yield from t.save("text", "key", session=MINE)
    same(receipt.session_id, "s", "the session in the receipt")
    session = yield from t.session("s")
    same((session.type, session.title, session.content), (ACTIVE, "Session", ""), "type, title and content")
    same((session.revision_count, session.normalized_hash), (1, digest("")), "revision and hash")
    same((session.created_at, session.minted), (session.updated_at, False), "times and minted")


@check("S-02")
def a_touch(t: World) -> Plan[None]:
    yield from t.save("one", "key", session=MINE)
    before = yield from t.session("s")
    t.tick()
    yield from t.save("two", "key", session=MINE)
    after = yield from t.session("s")
    true(after.updated_at > before.updated_at, "a write moves the time of its session")
    same((after.id, after.revision_count), (before.id, 1), "id and revision: a touch is no revision")


@check("S-03")
def a_completed_session_stays_so(t: World) -> Plan[None]:
    yield from t.save("one", "key", session=MINE)
    yield from t.save("summary", "s", kind=SESSION, mode="update", type=COMPLETED)
    yield from t.save("two", "key", session=MINE)
    session = yield from t.session("s")
    same((session.type, session.content), (COMPLETED, "summary"), "type and summary of a completed session")
    same((yield from t.read("key")).session_id, "s", "the session of the record")


@check("S-04")
def an_implicit_session_is_touched(t: World) -> Plan[None]:
    yield from t.save("one", "key", session=MINE)
    before = yield from t.session("s")
    t.tick()
    receipt = yield from t.save("two", "key", session=SessionUse("s", alive_since=LONG_AGO))
    same((receipt.outcome, receipt.session_id), ("updated", "s"), "the receipt")
    true((yield from t.session("s")).updated_at > before.updated_at, "the session's time moved")


@check("S-05")
def an_implicit_session_must_be_alive(t: World) -> Plan[None]:
    yield from t.save("theirs", "key", of="b", session=MINE)
    yield from refused(t.save("one", "key", session=SessionUse("s", alive_since=LONG_AGO)), SessionLapsed)
    yield from t.save("one", "key", session=MINE)
    stale = SessionUse("s", alive_since=t.now() + timedelta(hours=1))
    yield from refused(t.save("two", "key", session=stale), SessionLapsed)
    yield from t.save("", "s", kind=SESSION, mode="update", type=COMPLETED)
    ended = SessionUse("s", alive_since=LONG_AGO)
    yield from refused(t.save("two", "key", session=ended), SessionLapsed)
    same((yield from t.listed()), ["one"], "what is stored after refusals")


@check("S-06")
def an_implicit_session_is_opened(t: World) -> Plan[None]:
    receipt = yield from t.save("text", "key", session=SessionUse("new", opens=True))
    same(receipt.session_id, "new", "the session in the receipt")
    same((yield from t.session("new")).type, ACTIVE, "the session's type")
    again = yield from t.save("other", "key", session=SessionUse("new", opens=True))
    same(again.outcome, "updated", "the outcome of a write that opens what is there already")


@check("S-07")
def a_repeat_leaves_sessions_alone(t: World) -> Plan[None]:
    yield from t.save("text", "key", session=MINE)
    before = yield from t.session("s")
    t.tick()
    lapsed = SessionUse("gone", alive_since=LONG_AGO)
    for use in (MINE, SessionUse("new", explicit=True), SessionUse("new", opens=True), lapsed):
        receipt = yield from t.save("text", "key", session=use)
        same((receipt.outcome, receipt.session_id), ("deduped", "s"), "the receipt of a repeat")
    same((yield from t.session("s")), before, "the session after repeats")
    same((yield from t.find("new", kind=SESSION)), None, "the session that a repeat would have opened")


@check("S-08")
def sessions_are_listed_on_request(t: World) -> Plan[None]:
    yield from t.save("session", "key", session=(yield from t.in_session("session")))
    same((yield from t.listed()), ["session"], "the default listing")
    same((yield from t.listed(kinds=(SESSION,))), [""], "the listing of sessions")
    if t.capabilities.search:
        same((yield from t.found("session")), ["session"], "what a search finds")
