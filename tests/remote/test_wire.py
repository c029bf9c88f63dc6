"""What a status means and when a request is sent again: plans driven by hand, without a clock and without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from keyfold.dialects.wire import PAUSES, Answer, Http, NotSent, Statuses, Wait, ask
from keyfold.errors import (
    Conflict,
    InvalidRequest,
    KeyfoldError,
    OutcomeUnknown,
    StoreError,
    Unauthorized,
    Unavailable,
)

READ = Http("GET", "/things", reads=True)
WRITE = Http("POST", "/things")
REPEATABLE = Http("PUT", "/things/1", repeatable=True)
HOST = "memory.example"


def answer(status: int, body: Any = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, json.dumps(body).encode(), HOST)


def driven(
    request: Http, script: Iterable[Answer | Exception], statuses: Statuses | None = None
) -> tuple[Any, int, list[float]]:
    """The result or error of asking, how often it asked, and the pauses it made; `script` is what comes back."""
    plan = ask(request, statuses) if statuses else ask(request)
    coming, asked, pauses = iter(script), 0, []
    try:
        yielded = next(plan)
        while True:
            if isinstance(yielded, Wait):
                pauses.append(yielded.seconds)
                yielded = plan.send(None)
                continue
            assert yielded == request
            asked += 1
            reply = next(coming)
            yielded = plan.throw(reply) if isinstance(reply, Exception) else plan.send(reply)
    except StopIteration as done:
        return done.value, asked, pauses
    except KeyfoldError as error:
        return error, asked, pauses


@pytest.mark.parametrize("request_", [READ, WRITE, REPEATABLE])
@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (401, Unauthorized, "KEYFOLD_API_KEY"),
        (403, Unauthorized, "KEYFOLD_API_KEY"),
        (404, StoreError, "check the address"),
        (409, Conflict, "read again"),
        (402, StoreError, "quota"),
        (413, StoreError, "no room"),
        (507, StoreError, "no room"),
        (400, InvalidRequest, "refused it"),
        (422, InvalidRequest, "refused it"),
        (405, StoreError, "check the address"),
        (501, StoreError, "check the address"),
        (302, StoreError, "check scheme, host and path"),
        (307, StoreError, "check scheme, host and path"),
    ],
)
def test_a_refusal_is_told_once_with_the_host_and_what_to_do(
    request_: Http, status: int, error: type[KeyfoldError], told: str
) -> None:
    got, asked, pauses = driven(request_, [answer(status, {"detail": "in the service's words"})])
    assert type(got) is error
    assert HOST in str(got)
    assert str(status) in str(got)
    assert told in str(got)
    assert (asked, pauses) == (1, [])
    if not 300 <= status < 400:
        assert "in the service's words" in str(got)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520, 529])
def test_a_read_is_tried_three_times_and_then_the_service_is_unavailable(status: int) -> None:
    got, asked, pauses = driven(READ, [answer(status, "busy")] * 3)
    assert type(got) is Unavailable
    assert f"{HOST} failed ({status}), 3 times: call again later" in str(got)
    assert (asked, pauses) == (3, list(PAUSES))


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 520])
def test_a_write_that_failed_inside_the_service_is_sent_once_and_its_outcome_is_unknown(status: int) -> None:
    got, asked, pauses = driven(WRITE, [answer(status, "busy")])
    assert type(got) is OutcomeUnknown
    assert HOST in str(got)
    assert "make the same call again" in str(got)
    assert (asked, pauses) == (1, [])


def test_a_write_that_may_be_repeated_is_tried_as_a_read_is() -> None:
    fine = answer(200, {})
    assert driven(REPEATABLE, [answer(503), Unavailable("gone"), fine]) == (fine, 3, list(PAUSES))
    got, asked, _ = driven(REPEATABLE, [answer(503)] * 3)
    assert (type(got), asked) == (OutcomeUnknown, 3)


def test_the_second_try_of_a_read_that_works_is_the_answer() -> None:
    fine = answer(200, {"a": 1})
    for first in (answer(500), answer(429), Unavailable("time-out"), NotSent("refused")):
        assert driven(READ, [first, fine]) == (fine, 2, [PAUSES[0]])


def test_a_time_out_of_a_read_is_what_it_is_and_of_a_write_an_unknown_outcome() -> None:
    lost = Unavailable(f"{HOST} gave no answer within 60 s")
    got, asked, _ = driven(READ, [lost] * 3)
    assert (got, asked) == (lost, 3)
    got, asked, _ = driven(WRITE, [lost])
    assert (type(got), asked) == (OutcomeUnknown, 1)
    assert str(got).startswith(str(lost))


def test_what_was_never_sent_has_no_unknown_outcome() -> None:
    refused = NotSent(f"{HOST} refused the connection")
    assert driven(WRITE, [refused]) == (refused, 1, [])
    assert driven(READ, [refused] * 3) == (refused, 3, list(PAUSES))


def test_a_write_whose_answer_could_not_be_read_has_an_unknown_outcome() -> None:
    huge = StoreError(f"{HOST} answered with more than 64 MiB")
    assert driven(READ, [huge]) == (huge, 1, [])
    got, asked, _ = driven(WRITE, [huge])
    assert (type(got), asked) == (OutcomeUnknown, 1)


@pytest.mark.parametrize("request_", [READ, WRITE, REPEATABLE])
def test_a_rate_limit_is_waited_for_as_long_as_the_service_asks(request_: Http) -> None:
    fine = answer(200, {})
    limited = [answer(429, retry_after="7"), answer(429, retry_after="0.5"), fine]
    assert driven(request_, limited) == (fine, 3, [7.0, 0.5])


@pytest.mark.parametrize("request_", [READ, WRITE])
def test_a_rate_limit_that_lasts_is_told_with_its_time(request_: Http) -> None:
    got, asked, pauses = driven(request_, [answer(429, retry_after="60")])
    assert type(got) is Unavailable
    assert str(got) == f"{HOST} limits how often it may be asked (429): call again in 60 s"
    assert (asked, pauses) == (1, []), "a minute is for the caller to wait"
    got, asked, pauses = driven(request_, [answer(429, retry_after="2")] * 3)
    assert type(got) is Unavailable
    assert (asked, pauses) == (3, [2.0, 2.0])


@pytest.mark.parametrize("said", ["", "soon", "-1", "nan", "inf", "1e400", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_wait_that_is_no_number_of_seconds_is_the_usual_pause(said: str) -> None:
    fine = answer(200, {})
    assert driven(READ, [answer(429, retry_after=said), fine]) == (fine, 2, [PAUSES[0]])


def test_a_failing_service_that_asks_for_time_is_given_it() -> None:
    fine = answer(200, {})
    assert driven(READ, [answer(503, retry_after="3"), fine]) == (fine, 2, [3.0])
    got, asked, _ = driven(READ, [answer(503, retry_after="3600")])
    assert (type(got), asked) == (Unavailable, 1)


def test_what_a_caller_takes_for_absent_or_explains_itself_is_not_an_error_of_ours() -> None:
    missing, gone = answer(404), answer(410)
    statuses = Statuses(absent=(404,), explain={410: lambda said: StoreError(f"{said.host} moved on")})
    assert driven(READ, [missing], statuses) == (missing, 1, [])
    got, _, _ = driven(READ, [gone], statuses)
    assert str(got) == f"{HOST} moved on"


@pytest.mark.parametrize("status", [204, 206, 226, 299])
def test_a_success_that_is_none_of_those_expected_is_not_taken_for_one(status: int) -> None:
    got, asked, _ = driven(READ, [answer(status)], Statuses(fine=(200,)))
    assert type(got) is StoreError
    assert f"answered {status}, which was not expected" in str(got)
    assert asked == 1


def test_a_long_or_binary_error_body_is_quoted_in_one_printable_line() -> None:
    body = b"\x1b[31mred\x07\r\n\xff" + b"long " * 10_000
    got, _, _ = driven(READ, [Answer(400, {}, body, HOST)])
    said = str(got)
    assert said.isprintable()
    assert len(said) < 400
    assert said.endswith("...")


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_json_names_the_host_and_the_address(body: bytes) -> None:
    got = Answer(200, {"content-type": "text/html"}, body, HOST)
    with pytest.raises(StoreError, match=rf"{HOST} answered 200.*text/html.*check that the address"):
        got.object()
    with pytest.raises(StoreError, match="list where an object was expected"):
        answer(200, []).object()
