"""CortexDB's two wires: the server's own (`/v1`), and the TinyHumans backend before it (`/memory`).

Every event has a body key, so a write is repeated like a read. What differs: the server wants to be told who
acts, takes many events in a request and may be asked to wait; the backend wraps answers, takes one event a
request, and wants a claim for each write, which it accepts once, whatever becomes of the write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import quote

from keyfold.dialects.cortexdb_envelope import is_event_id
from keyfold.dialects.wire import (
    LONGEST_PAUSE,
    PAUSES,
    TRIES,
    Answer,
    Closed,
    Http,
    NotSent,
    TooLarge,
    Wait,
    doubt,
    doubtful,
    refuse,
    retry_after,
    unknown,
)
from keyfold.errors import (
    Conflict,
    KeyfoldError,
    OutcomeUnknown,
    StoreError,
    Unauthorized,
    Unavailable,
    Unsupported,
)
from keyfold.flow import Plan

MOST_PAGES: Final = 1_000  # of a listing
MOST_LABELS: Final = 50  # that a listing is asked for at once
LISTED_WITHIN: Final = 30.0  # seconds, after which what was accepted should have been
PAGE: Final = 200  # copies of events a page: a listing shows every event twice
CHANGING: Final = "AUTHORIZATION_STATE_CHANGED"  # the scope is just being registered; it passes
KEY_TAKEN: Final = "IDEMPOTENCY_CONFLICT"
CHANGE_PAUSES: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
NO_MODEL: Final = ("ANSWER_UNAVAILABLE", "SYNTHESIZER_UNCONFIGURED")
NOT_YOURS: Final = ("NOT_A_MEMBER", "POLICY_DENIED", "SCOPE_REGISTRATION_REQUIRED")
SURE: Final = (*NO_MODEL, "STORAGE_UNWIRED")  # a 503 that stays one
FINE: Final = (200, 201, 202, 204)


Bodies = list[dict[str, Any]]  # of the events that hold one record


class ClaimTaken(OutcomeUnknown):
    """A claim was taken by an earlier try of the same write: whether that was carried out is not known."""


class KeyTaken(Conflict):
    """The service's own word that another body has this write's key: no try of this one was carried out."""


class Written(NamedTuple):
    """An event that was taken: its id, and whether the service had it already."""

    event: str
    replayed: bool


class Forgot(NamedTuple):
    """What became of a forget: whether all of it is done by the service's own count, or only taken note of."""

    done: bool = False
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Events, newest first and each once. `more`: older ones were left unread."""

    items: list[dict[str, Any]]
    more: bool = False


class Wire:
    """What both wires share."""

    hosted = False
    base = "/v1"
    view: tuple[tuple[str, str], ...] = (
        ("view", "local"),
    )  # this scope alone, as the official client says it

    # --- what differs

    def headers(self) -> Plan[dict[str, str]]:
        """What a request carries beside its credential."""
        yield from ()
        return {}

    def unauthorized(self, answer: Answer) -> bool:  # noqa: ARG002  # one wire has nothing to note
        """Note that the credential was refused; whether it is worth another try."""
        return False

    def data(self, answer: Answer) -> Any:
        """What an answer says."""
        return answer.object()

    def conflicts(self, answer: Answer) -> bool:
        return answer.status == 409

    def write(self, bodies: Sequence[dict[str, Any]], taken: list[Written], *, wait: bool) -> Plan[None]:
        """Send events; `taken` is given an answer each, and has those that were taken when a later one is not."""
        raise NotImplementedError

    def scopes(self, prefix: str, limit: int) -> Plan[list[str]]:
        """The paths below a prefix, as the service names them."""
        raise NotImplementedError

    # --- one exchange

    def exchange(
        self, request: Http, absent: tuple[int, ...] = (), tries: list[int] | None = None
    ) -> Plan[Answer]:
        """One exchange with its retries: an answer that is fine or `absent`, or the error. `tries` is told how many.

        A write that is refused after a try that may have been carried out is unknown, unless the service says itself
        that something else has its key.
        """
        lost: list[str] = []
        try:
            return (yield from self._tried(request, absent, tries, lost))
        except KeyfoldError as error:
            if not lost or isinstance(error, KeyTaken):
                raise
            raise doubtful(error) from None

    def _tried(
        self, request: Http, absent: tuple[int, ...], tries: list[int] | None, lost: list[str]
    ) -> Plan[Answer]:
        again = request.reads or request.repeatable
        fresh = False
        attempt = 0
        while True:
            attempt += 1
            if tries is not None:
                tries.append(attempt)
            said = yield from self.headers()
            if attempt > 1 and request.reads and request.headers:
                # A claim is taken once, also when its answer is lost; to ask twice is harmless.
                request = replace(request, headers=self.claimed())
            try:
                answer: Answer = yield replace(request, headers=(*request.headers, *said.items()))
            except (Unavailable, StoreError) as error:
                pause = _pause_after(error, request, attempt)
                if not isinstance(error, NotSent):
                    doubt(request, str(error), lost)
                yield Wait(pause)
                continue
            if answer.status in FINE or answer.status in absent:
                return answer
            if self.conflicts(answer):
                self._conflict(answer, attempt)
            if answer.status in (401, 403) and self.unauthorized(answer) and not fresh:
                fresh = True
                continue
            patience = _pause(answer, attempt, again)
            if patience is None:
                _refused(request, answer)
            if answer.status != 429 and code_of(answer) != CHANGING:
                doubt(request, f"answered {answer.status}", lost)
            yield Wait(patience)

    def _conflict(self, answer: Answer, attempt: int) -> None:
        if self.hosted and attempt > 1:
            raise ClaimTaken(f"{answer.host} says that an earlier try took the write's claim")
        kind = KeyTaken if code_of(answer) == KEY_TAKEN else Conflict
        raise kind(f"{answer.host} refused the write, another took its place: {answer.quoted()}")

    def get(
        self, path: str, query: tuple[tuple[str, str], ...] = (), *, absent: tuple[int, ...] = ()
    ) -> Plan[Answer]:
        return (yield from self.exchange(Http("GET", self.base + path, query, reads=True), absent))

    def post(
        self,
        path: str,
        body: Any,
        *,
        absent: tuple[int, ...] = (),
        reads: bool = False,
        query: tuple[tuple[str, str], ...] = (),
        headers: tuple[tuple[str, str], ...] = (),
        tries: list[int] | None = None,
    ) -> Plan[Answer]:
        request = Http(
            "POST", self.base + path, query, json=body, headers=headers, reads=reads, repeatable=not reads
        )
        return (yield from self.exchange(request, absent, tries))

    def claimed(self) -> tuple[tuple[str, str], ...]:
        """The headers of a write: a fresh claim, where one is wanted."""
        return ()

    # --- what both can do

    def events(self, scope: str, labels: Sequence[str] = (), *, first: bool = False) -> Plan[Listing]:
        """The events of a scope that have any of the labels, each once; with `first` only a page of them."""
        found: dict[str, dict[str, Any]] = {}
        cursor, used, limit = "", {""}, PAGE
        while True:
            query = [("scope", scope), *self.view, ("limit", str(limit))]
            query += [("labels", ",".join(labels))] if labels else []
            query += [("cursor", cursor)] if cursor else []
            try:
                answer = yield from self.get("/events", tuple(query))
            except TooLarge:
                if limit <= 2:
                    raise
                limit = max(2, limit // 8)
                continue
            page = self.data(answer)
            items = page.get("items")
            if not isinstance(items, list):
                raise StoreError(f"{answer.host} listed events without `items`: is this CortexDB?")
            before = len(found)
            for item in items:
                event = (item.get("id") or item.get("event_id")) if isinstance(item, dict) else None
                if isinstance(event, str):
                    found.setdefault(event, item)
            after = page.get("next_cursor")
            more = _goes_on(page, full=len(items) >= limit)
            if not more or first:
                return Listing(list(found.values()), more)
            if not isinstance(after, str) or page.get("has_more") is not True:
                raise StoreError(
                    f"{answer.host} does not say where its listing of {scope} goes on, nor that it ends: it was read "
                    "in part, which is not shown for the whole; call again"
                )
            if after in used or len(found) == before:
                raise StoreError(
                    f"{answer.host} does not advance in its listing of {scope}: it was read in part, "
                    "which is not shown for the whole; call again"
                )
            if len(used) >= MOST_PAGES:
                raise StoreError(
                    f"{answer.host} lists more than {MOST_PAGES:,} pages of {scope}: that is more than is read; "
                    "forget what is no longer needed, or use more namespaces"
                )
            cursor = after
            used.add(cursor)

    def event(self, identity: str, scope: str, label: str) -> Plan[dict[str, Any] | None]:  # noqa: ARG002  # an id says enough here
        """One event of a scope, which has this label; or None when it is gone."""
        answer = yield from self.get(f"/events/{quote(identity, safe='')}", absent=(404,))
        return self.data(answer) if answer.status in FINE else None

    def forget(self, scope: str, ids: Sequence[str]) -> Plan[Forgot]:
        """Take at most 100 events out of every read. Never sent without ids: no ids would mean all."""
        assert 0 < len(ids) <= 100
        body = {
            "scope": scope,
            "layers": ["events"],
            "selector": {"memory_ids": list(ids)},
            "cascade": "redact_events",  # the default keeps the events
            "audit_note": "keyfold forget",
        }
        for last in (False, True):
            try:
                answer = yield from self.post("/forget", body, absent=(404,), headers=self.claimed())
            except ClaimTaken as taken:  # to forget is harmless to repeat, under a claim of its own
                if last:
                    raise unknown(str(taken)) from None
                continue
            return self._forgot(answer, len(ids))
        raise AssertionError("the second time returns or raises")

    def _forgot(self, answer: Answer, number: int) -> Forgot:
        """What became of a forget: a status alone does not tell, the count of what was deleted does."""
        if answer.status not in FINE:
            return Forgot()
        try:
            deleted = self.data(answer).get("deleted")
        except (StoreError, OutcomeUnknown):
            deleted = None
        count = deleted.get("events") if isinstance(deleted, dict) else None
        return Forgot(
            type(count) is int and count >= number and answer.status == 200, queued=answer.status == 202
        )

    def asked(
        self, path: str, body: dict[str, Any], *, absent: tuple[int, ...] = ()
    ) -> Plan[tuple[int, Any]]:
        """A question by POST: its status, and what it was answered."""
        headers = self.claimed() if path == "/answer" else ()
        answer = yield from self.post(path, body, absent=absent, reads=True, headers=headers)
        return answer.status, self.data(answer) if answer.status in FINE else None


def _goes_on(page: dict[str, Any], *, full: bool) -> bool:
    """Whether a page of a listing may not be the last: unless it says that it is, or says nothing and is not full."""
    more = page.get("has_more")
    if more is None:
        return full or page.get("next_cursor") not in (None, "")
    return more is not False


def _pause_after(error: Unavailable | StoreError, request: Http, attempt: int) -> float:
    """How long to wait after no answer, or none that is read; or the error, when there is no next try."""
    again = request.reads or request.repeatable
    if again and attempt < TRIES and not isinstance(error, (Closed, StoreError)):
        return PAUSES[attempt - 1]
    if request.reads or isinstance(error, (Closed, NotSent)):
        raise error from None
    raise unknown(str(error)) from None  # it may have been carried out


def _pause(answer: Answer, attempt: int, again: bool) -> float | None:
    code = code_of(answer)
    if code == CHANGING:
        return CHANGE_PAUSES[attempt - 1] if attempt <= len(CHANGE_PAUSES) else None
    broken = answer.status in (408, 500, 502, 503, 504) and again and code not in SURE
    if attempt >= TRIES or not (answer.status == 429 or broken):
        return None
    asked = retry_after(answer)
    if asked is None:
        return PAUSES[attempt - 1]
    return asked if asked <= LONGEST_PAUSE else None


def _refused(request: Http, answer: Answer) -> NoReturn:
    code = code_of(answer)
    if code in NO_MODEL:
        raise Unsupported(
            f"{answer.host} has no model to answer with ({code}): mem_context gathers the memories for a question"
        )
    if code in NOT_YOURS:
        raise Unauthorized(
            f"{answer.host} knows the key, and it may not use this scope ({code}): somebody else wrote to it first, "
            f"or a policy forbids it; it said: {answer.quoted()}"
        )
    if code == CHANGING:
        raise Unavailable(f"{answer.host} is still registering the scope ({code}): call again later")
    if answer.status == 408 and request.reads is False:
        raise unknown(f"{answer.host} did not finish in time (408)")
    refuse(request, answer)


def code_of(answer: Answer) -> str:
    """The service's own name of an error, or nothing."""
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(body, dict):
        return ""
    return str(body.get("error_code") or body.get("errorCode") or "")


@contextmanager
def unreadable() -> Iterator[None]:
    """What reads the answer to a write: one that cannot be read does not tell that nothing was written."""
    try:
        yield
    except StoreError as error:
        raise unknown(str(error)) from None


def written_of(answer: Answer, item: Any) -> Written:
    """What became of an event, from its answer."""
    event = item.get("event_id") if isinstance(item, dict) else None
    if not is_event_id(event):
        raise StoreError(f"{answer.host} took an event and named no event_id: is this CortexDB?")
    return Written(event, item.get("replayed_from_idempotency") is True)


def paths_of(answer: Answer, items: Any) -> list[str]:
    """Scopes as they are listed: paths, or objects that have one."""
    if not isinstance(items, list):
        raise StoreError(f"{answer.host} listed its scopes in a form that is not CortexDB's")
    paths = [item.get("path") if isinstance(item, dict) else item for item in items]
    return [path for path in paths if isinstance(path, str)]


def pauses(*, hosted: bool, seconds: float = 30.0) -> list[float]:
    """The pauses between looks for what was accepted, `seconds` in all: short at first."""
    found: list[float] = []
    pause = 0.25 if hosted else 0.05
    while sum(found) < seconds:
        found.append(min(pause, seconds - sum(found)))
        pause = min(pause * 2, 2.0 if hosted else 0.25)
    return found
