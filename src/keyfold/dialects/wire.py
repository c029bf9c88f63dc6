"""Requests that a plan yields, answers that it is sent, and what a status means. DESIGN 9.

A plan yields `Http` (one exchange), `Wait` (a pause) or `Together` (plans to be run side by side). Retries are
made here, as things a plan yields, so that they are tested without a clock and without a socket:
a read is tried at most 3 times, a write once unless the service makes its repeat harmless.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from urllib.parse import unquote

from keyfold.dialects.echoes import Sent, unescaped
from keyfold.errors import (
    SENT,
    Conflict,
    InvalidRequest,
    KeyfoldError,
    OutcomeUnknown,
    StoreError,
    Unauthorized,
    Unavailable,
)
from keyfold.flow import Plan

TRIES: Final = 3  # of a read
PAUSES: Final = (0.25, 0.5)  # seconds before the second and the third try
LONGEST_PAUSE: Final = (
    10.0  # seconds of a Retry-After that are waited for; a longer one is told to the caller
)
QUOTED: Final = 300  # characters of an error body that are quoted
AT_ONCE: Final = 8  # exchanges side by side
AGAIN: Final = (
    "; the write may or may not have been carried out: make the same call again, "
    "what is there already is not written twice"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a multipart body."""

    field: str
    name: str
    content: bytes
    mime: str = "application/json"


@dataclass(frozen=True, slots=True)
class Http:
    """One exchange. `path` begins with `/` and is percent-encoded already; `query` is encoded when it is sent.

    `reads`: it changes nothing, so it may be tried again. `repeatable`: it writes, and sent again it writes
    nothing more. `timeout` in seconds, where the service is known to take long.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    json: Any = None
    parts: tuple[Part, ...] = ()
    form: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    reads: bool = False
    repeatable: bool = False
    timeout: float | None = None

    def sent(self) -> Sent:
        """The texts that it carries."""
        return Sent([self.json, [part.content for part in self.parts], [value for _, value in self.form]])


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service said. `headers` have lower-case names; `host` is for messages.

    `keyless`: why no key was sent and how to set one, in words; empty when one was sent. `wrote`: what it answers
    was no read. `secrets`: what was sent and is never shown, wherever the service repeats it.
    """

    status: int
    # Not in its repr, which tracebacks show: some services quote the key that they refuse.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    host: str = "the service"
    keyless: str = ""
    wrote: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)
    request: Http | None = field(default=None, repr=False)

    def json(self) -> Any:
        """The body as JSON. `unreadable` when it is something else: a login page, half a document."""
        with suppress(ValueError, RecursionError):
            return json.loads(self.body)
        # Raised out here, the error has none behind it whose frames hold the body.
        kind = self.clean(self.headers.get("content-type", "no content type"))
        raise self.unreadable(
            f"{self.host} answered {self.status} with something that is not JSON ({len(self.body)} bytes, "
            f"{kind}): check that the address is the service's own"
        )

    def object(self) -> dict[str, Any]:
        """The body as a JSON object; `unreadable` when it is something else."""
        value = self.json()
        if not isinstance(value, dict):
            raise self.unreadable(f"{self.host} answered {type(value).__name__} where an object was expected")
        return value

    def unreadable(self, what: str) -> KeyfoldError:
        """The error of an answer that says nothing that is understood: of a write, nobody knows what it did."""
        return unknown(what) if self.wrote else StoreError(what)

    def quoted(self) -> str:
        """The start of the body, for a message: without what it repeats of the request."""
        said = self.body[: QUOTED * 200].decode("utf-8", "replace")
        return self.clean(said if self.request is None else self.request.sent().left_out(said))

    def clean(self, text: str) -> str:
        """The start of a text that came from the service, fit to be shown: on one line, without the key.

        Some services quote the key that they refuse, as it is or escaped.
        """
        for secret in self.secrets:
            text = text.replace(json.dumps(secret)[1:-1], "[the key]")
            for plain in (str, unescaped, unquote, html.unescape):
                if secret in (read := plain(text)):
                    text = read.replace(secret, "[the key]")
        text = " ".join(text[: QUOTED * 4].split())
        text = "".join(character if character.isprintable() else "?" for character in text)
        return text[:QUOTED] + ("..." if len(text) > QUOTED else "")


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Together:
    """Plans that do not depend on each other, run `at_once` at a time; answered with their results in order.

    The first error ends it and is raised.
    """

    plans: Sequence[Plan[Any]]
    at_once: int = AT_ONCE


class NotSent(Unavailable):
    """The exchange did not begin (no such host, refused, no secure connection): nothing was done, whatever it was."""


class Closed(Unavailable):
    """The store was closed: nothing was sent, and nothing will be."""


class TooLarge(StoreError):
    """An answer was larger than is read. Whoever asked for many things at once can ask for fewer."""


@dataclass(frozen=True, slots=True)
class Statuses:
    """What to make of an answer: `fine` is returned, `absent` too (the caller asks `answer.status`)."""

    fine: tuple[int, ...] = (200, 201, 202, 204)
    absent: tuple[int, ...] = ()
    explain: Mapping[int, Callable[[Answer], KeyfoldError]] = field(default_factory=dict)


FINE: Final = Statuses()


def ask(request: Http, statuses: Statuses = FINE, lost: list[str] | None = None) -> Plan[Answer]:
    """One exchange with its retries. Returns an answer whose status is fine or absent, raises for any other.

    A read is tried again after a 429, a 5xx, a time-out or a broken connection, a write after a 429 (it was
    not carried out) and, when it is `repeatable`, as a read. What a write did that got none of these, and no
    answer, is unknown: OutcomeUnknown. So it is when a later try is refused: `lost` is told what became of tries
    that may have been carried out, and knows of those that were made before.
    """
    doubts = [] if lost is None else lost
    try:
        return (yield from _tried(request, statuses, doubts))
    except KeyfoldError as error:
        if not doubts:
            raise
        raise doubtful(error) from None


def doubtful(error: KeyfoldError) -> OutcomeUnknown:
    """What an error means to a write, an earlier try of which may have been carried out."""
    if isinstance(error, OutcomeUnknown):
        return error
    return unknown(f"{error}; an earlier try of the same write got no answer that tells what it did")


def _tried(request: Http, statuses: Statuses, lost: list[str]) -> Plan[Answer]:
    for attempt in range(1, TRIES + 1):
        again = attempt < TRIES
        try:
            answer: Answer = yield request
        except Closed:
            raise
        except NotSent:
            if not again or not (request.reads or request.repeatable):
                raise
            yield Wait(PAUSES[attempt - 1])
            continue
        except Unavailable as error:
            if again and (request.reads or request.repeatable):
                doubt(request, str(error), lost)
                yield Wait(PAUSES[attempt - 1])
                continue
            raise (error if request.reads else unknown(str(error))) from None
        except StoreError as error:  # an answer came, but none that is read: it may have been carried out
            raise (error if request.reads else unknown(str(error))) from None
        if answer.status in statuses.fine or answer.status in statuses.absent:
            return answer
        pause = _pause(request, answer, attempt)
        if pause is None or not again:
            refuse(request, answer, statuses)
        if answer.status != 429:
            doubt(request, f"answered {answer.status}", lost)
        yield Wait(pause)
    raise AssertionError("the last attempt returns or raises")


def doubt(request: Http, what: str, lost: list[str]) -> None:
    """Note that a try may have been carried out, if it was to change anything."""
    if not request.reads:
        lost.append(what)


def _pause(request: Http, answer: Answer, attempt: int) -> float | None:
    """How long to wait before the next try; None when there is none."""
    limited = answer.status == 429
    broken = _may_pass(answer.status) and (request.reads or request.repeatable)
    if not (limited or broken):
        return None
    asked = retry_after(answer)
    if asked is None:
        return PAUSES[min(attempt, len(PAUSES)) - 1]
    return asked if asked <= LONGEST_PAUSE else None


def _may_pass(status: int) -> bool:
    """Whether a status tells of a failure that may be over soon. Proxies have many of their own above 511."""
    return status == 408 or (status >= 500 and status not in (501, 505, 507))


def retry_after(answer: Answer) -> float | None:
    """The seconds that a service asks to wait, when it says them as a number (RFC 9110, 10.2.3)."""
    said = answer.headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def unknown(what: str) -> OutcomeUnknown:
    """The error of a write whose answer never came."""
    return OutcomeUnknown(what + AGAIN)


def refuse(request: Http, answer: Answer, statuses: Statuses = FINE) -> NoReturn:
    """Raise what a status means, in words that name the host and the next step."""
    explained = statuses.explain.get(answer.status)
    if explained is not None:
        raise explained(answer)
    host, status, said = answer.host, answer.status, answer.quoted()
    if status in (401, 403) and answer.keyless:
        raise Unauthorized(f"{host} asks for a key ({status}), and {answer.keyless}; it said: {said}")
    if status in (401, 403):
        raise Unauthorized(
            f"{host} refused the credentials ({status}): check KEYFOLD_API_KEY or the service's own variable; "
            f"it said: {said}"
        )
    if status in (404, 405, 501):  # what a record's absence answers is no surprise and does not come here
        raise StoreError(
            f"{host} was not found to offer {request.method} {request.path} ({status}): check the address, and the "
            f"scheme that names the service; it said: {said}"
        )
    if status == 409:
        raise Conflict(
            f"{host} refused the write because another came first (409): read again; it said: {said}"
        )
    if status in (402, 413, 507):
        raise StoreError(f"{host} has no room for this or the quota is used up ({status}): {said}")
    if status == 429:
        asked = retry_after(answer)
        wait = f"in {asked:.0f} s" if asked is not None else "later"
        raise Unavailable(f"{host} limits how often it may be asked (429): call again {wait}")
    if 300 <= status < 400:
        raise StoreError(
            f"{host} sends elsewhere ({status}), where the key does not follow: check scheme, host and path of the address"
        )
    if 400 <= status < 500 and status != 408:
        raise InvalidRequest(SENT, f"{host} refused it ({status}): {said}")
    if request.reads and _may_pass(status):
        raise Unavailable(f"{host} failed ({status}), {TRIES} times: call again later; it said: {said}")
    if not request.reads and (status >= 500 or status == 408):
        raise unknown(f"{host} failed ({status}) and said: {said}")
    raise StoreError(f"{host} answered {status}, which was not expected: {said}")
