"""Time: an injected clock, and the one text form and one integer form that times take.

Times inside Keyfold are aware datetimes in UTC. On disk they are whole microseconds since 1970, on the
wire and in exports RFC 3339 with six decimals and `Z`, so that equal instants have equal forms.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from keyfold.errors import InvalidRequest

Clock = Callable[[], datetime]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# Outside of these the longest time-outs that a Config takes (68 years) would lead beyond what a datetime holds.
FIRST_YEAR, LAST_YEAR = 100, 9_800


def system_clock() -> datetime:
    """The machine's clock, in UTC."""
    return datetime.now(UTC)


def clock_of(given: Clock | None) -> Clock:
    """The clock to work with: the one given, each of whose times is looked at, else the machine's."""
    if given is None:
        return system_clock

    def looked_at() -> datetime:
        moment: object = given()
        if not isinstance(moment, datetime) or moment.utcoffset() is None:
            raise InvalidRequest("clock", "must give aware times, such as datetime.now(UTC)")
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise InvalidRequest(
                "clock",
                f"gives a time in the year {moment.year}; from {FIRST_YEAR} to {LAST_YEAR} are allowed",
            )
        return moment

    return looked_at


def to_micros(moment: datetime) -> int:
    """Whole microseconds since 1970 of an aware time (exact: no floating point on the way)."""
    return (moment - EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The aware UTC time of whole microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def to_text(moment: datetime) -> str:
    """RFC 3339 in UTC with six decimals: `2026-01-02T03:04:05.000006Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rjust(26, "0") + "Z"


def from_text(text: str, *, naive: bool = False) -> datetime:
    """Parse an ISO 8601 time to UTC. ValueError when malformed, or when without offset unless `naive` (then UTC)."""
    if (
        text[-1:] == "z"
    ):  # RFC 3339 allows it, datetime does not; and of what is no text this is a TypeError too
        text = f"{text[:-1]}Z"
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        if not naive:
            raise ValueError("a time needs an offset, such as Z or +02:00")
        return moment.replace(tzinfo=UTC)
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
