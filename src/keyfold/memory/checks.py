"""Validation and redaction of what callers pass, written once for every surface.

Each check returns the value to use: redacted, in its stored form. What is wrong is `InvalidRequest` naming
the field, the limit and what is allowed, and never quotes the value.

Limits hold for what is stored, and so for what an export has: a text is measured without its private regions, and
where the mark of an unclosed one ends it (the only place where redaction lengthens a text, by two bytes), these two
are not counted. What passes here therefore passes again when it is imported, and so does what a merge makes of it
(`contract.limits` has the one limit that the engines share).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from keyfold.clock import from_text
from keyfold.config import TYPE_BYTES
from keyfold.contract.limits import MAX_METADATA_BYTES, json_size
from keyfold.errors import InvalidRequest
from keyfold.model import RESERVED_TYPES, UNSET, Config, Unset
from keyfold.text.check import bad_character
from keyfold.text.redact import MARK_GROWS, REDACTED, has_private, redact

MAX_NAME_BYTES: Final = 512  # user_id, topic_key, thread_id, session_id
MAX_TITLE_BYTES: Final = 4_096
MAX_TYPE_BYTES: Final = TYPE_BYTES
MAX_SOURCE_BYTES: Final = 4_096
MAX_TAGS: Final = 100
MAX_TAG_BYTES: Final = 256
MAX_METADATA_DEPTH: Final = 16
MAX_QUERY_BYTES: Final = 64 * 1024
MAX_LIMIT: Final = 1_000
MAX_BATCH: Final = 10_000
MAX_NEIGHBOURS: Final = 500
MAX_BUDGET: Final = 1_000_000
MAX_IDEMPOTENCY_KEY: Final = 64
MAX_INDEX: Final = 10**10 - 1
SPLIT: Final = "Split it"


def refuse_bad_characters(field: str, value: str) -> None:
    """InvalidRequest with the position of the first NUL or lone surrogate."""
    found = bad_character(value)
    if found is not None:
        position, word = found
        raise InvalidRequest(field, f"holds a {word} at position {position}; remove it and try again")


def text(field: str, value: Any, limit: int, *, blank: bool = False, advice: str = SPLIT) -> str:
    """A text field: a string, not blank, without NUL and lone surrogates; redacted, then of at most `limit` bytes.

    A mark at the end counts as the opener that it may stand for. `advice` is what to do about a text that is too long.
    """
    if value.__class__ is not str:
        value = _as_string(field, value)
    if (not value or value.isspace()) and not blank:
        raise InvalidRequest(field, "is blank; it must hold at least one character that is not white space")
    if "\0" in value or not value.isascii():  # most are plain: no call for those
        refuse_bad_characters(field, value)
    safe = redact(value) if "<" in value else value
    if len(safe) * 4 > limit:
        refuse_over(field, safe[:-MARK_GROWS] if safe.endswith(REDACTED) else safe, limit, advice)
    return safe


def refuse_over(field: str, value: str, limit: int, advice: str = SPLIT) -> None:
    """InvalidRequest when the text takes more than `limit` bytes as UTF-8: refused, never cut."""
    size = len(value.encode())
    if size > limit:
        raise InvalidRequest(field, f"takes {size:,} bytes as UTF-8; at most {limit:,} are allowed. {advice}")


def _as_string(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(field, f"must be a string, not {type(value).__name__}")
    return str.__str__(value)  # str(value) would give an enumeration's name, not its text


def name(field: str, value: Any) -> str:
    """A name (user_id, topic_key, thread_id, session_id): kept exactly as given, refused when it is private."""
    if value.__class__ is not str:
        value = _as_string(field, value)
    return _name(field, value)


def optional_name(field: str, value: Any) -> str | None:
    """A name, or None."""
    return None if value is None else name(field, value)


@lru_cache(maxsize=4096)
def _name(field: str, value: str) -> str:
    """Cached, because an agent says the same few names all day; what is refused is not cached."""
    if not value or value.isspace():
        raise InvalidRequest(field, "is blank; it must be a non-empty string")
    refuse_bad_characters(field, value)
    refuse_over(field, value, MAX_NAME_BYTES)
    if "<" in value and has_private(value):
        raise InvalidRequest(
            field, "holds a private tag; a name is stored as it is, so it may not hold private text"
        )
    return value


def observation_type(config: Config, value: Any) -> str:
    """A type that the configuration allows."""
    if isinstance(value, str) and value in config.observation_types:
        return str.__str__(value)
    allowed = ", ".join(config.observation_types)
    if isinstance(value, str) and value in RESERVED_TYPES:
        raise InvalidRequest("type", f"{value!r} is reserved (Keyfold writes it itself); allowed: {allowed}")
    text("type", value, MAX_TYPE_BYTES)
    raise InvalidRequest(
        "type", f"is not a known type; allowed: {allowed}. Config(observation_types=...) replaces the set"
    )


def content(config: Config, field: str, value: Any, *, blank: bool = False, advice: str = SPLIT) -> str:
    """A long text: at most `Config.max_text_bytes`."""
    return text(field, value, config.max_text_bytes, blank=blank, advice=advice)


def tags(value: Any) -> tuple[str, ...] | Unset | None:
    """A list of tags, redacted, each kept once in the order given."""
    if value is UNSET or value is None:
        return value
    return tag_list("tags", value)


def tag_list(field: str, value: Any) -> tuple[str, ...]:
    """A list of strings; a bare string is refused, because its letters would become the tags."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise InvalidRequest(field, f"must be a list of strings, not {type(value).__name__}")
    found = tuple(dict.fromkeys(text(field, item, MAX_TAG_BYTES) for item in value))
    if len(found) > MAX_TAGS:
        raise InvalidRequest(field, f"holds {len(found)} tags; at most {MAX_TAGS} are allowed")
    return found


def metadata(value: Any, *, patch: bool = False) -> dict[str, Any] | Unset | None:
    """A JSON object, redacted (keys too), as a copy. In a patch a value of None removes the key (marked UNSET)."""
    if value is UNSET or value is None:
        return value
    if not isinstance(value, Mapping):
        raise InvalidRequest("metadata", f"must be an object (a mapping), not {type(value).__name__}")
    if not value:
        return {}
    found: dict[str, Any] = _json("metadata", value, MAX_METADATA_DEPTH)
    metadata_fits("metadata", found, "")
    if patch:
        return {key: UNSET if item is None else item for key, item in found.items()}
    return found


def metadata_fits(field: str, found: dict[str, Any], beside: str) -> None:
    """InvalidRequest of `field` when the whole of a record's metadata, what stands `beside` it included, is too long."""
    size = json_size(found)
    if size > MAX_METADATA_BYTES:
        raise InvalidRequest(
            field, f"takes {size:,} bytes as JSON{beside}; at most {MAX_METADATA_BYTES:,} are allowed"
        )


def json_value(field: str, value: Any) -> Any:
    """A JSON value that is to be one of metadata's, redacted, as a copy: nested one less than metadata may be."""
    return _json(field, value, MAX_METADATA_DEPTH - 1)


def _json(field: str, value: Any, depth: int) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return text(field, value, MAX_METADATA_BYTES, blank=True)
    if isinstance(value, int):
        if value.bit_length() > 63:
            raise InvalidRequest(field, "holds a whole number beyond 64 bits; pass it as a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRequest(field, "holds a number that is not finite, which JSON cannot say")
        return float(value)
    if depth == 0:
        most = MAX_METADATA_DEPTH if field == "metadata" else MAX_METADATA_DEPTH - 1
        raise InvalidRequest(field, f"is nested more than {most} deep")
    if isinstance(value, Mapping):
        return _json_object(field, value, depth)
    if isinstance(value, (list, tuple)):
        return [_json(field, item, depth - 1) for item in value]
    raise InvalidRequest(
        field, f"holds a {type(value).__name__}, which JSON cannot say; pass text or numbers"
    )


def _json_object(field: str, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str) or not key:
            raise InvalidRequest(field, "every key must be a non-empty string")
        safe = text(field, key, MAX_METADATA_BYTES, blank=True)
        if safe in found:
            raise InvalidRequest(field, "two keys are the same once private text is removed")
        found[safe] = _json(field, item, depth - 1)
    return found


def moment(field: str, value: Any) -> datetime | None:
    """A time: an aware datetime, or RFC 3339 text with an offset; in UTC."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return from_text(value)
        except (ValueError, OverflowError):
            raise InvalidRequest(
                field, "is not a time such as 2026-01-31T12:00:00Z (an offset is needed)"
            ) from None
    if not isinstance(value, datetime):
        raise InvalidRequest(field, f"must be an aware datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidRequest(
            field, "is a time without an offset; give it one, for example tzinfo=datetime.UTC"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(field, "is beyond the years 1 to 9999 in UTC") from None


def expiry(value: Any, now: datetime) -> dict[str, Any]:
    """When a memory ends: a time, None for never, or a timedelta from now; as fields of an Intent."""
    if not isinstance(value, timedelta):
        if not (value is None or isinstance(value, (str, datetime))):
            raise InvalidRequest(
                "expires_at",
                f"must be a timedelta from now, an aware datetime, or None for never, not {type(value).__name__}",
            )
        return {"expires_at": moment("expires_at", value)}
    if value <= timedelta(0):
        raise InvalidRequest("expires_at", "is a span that leads to the past; it must be above zero")
    try:
        return {"expires_at": now + value, "expires_in": value}
    except OverflowError:
        raise InvalidRequest("expires_at", "is a span beyond the year 9999") from None


def flag(field: str, value: Any) -> bool | Unset | None:
    """True, False, None to clear, or UNSET to keep."""
    if value is UNSET or value is None or isinstance(value, bool):
        return value
    raise InvalidRequest(field, f"must be true or false, not {type(value).__name__}")


def whole(field: str, value: Any, low: int, high: int) -> int:
    """A whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(field, f"must be a whole number, not {type(value).__name__}")
    if not low <= value <= high:
        told = value if value.bit_length() < 64 else "a very large number"
        raise InvalidRequest(field, f"is {told}; {low:,} to {high:,} are allowed")
    return int(value)


def idempotency_key(value: Any) -> str | None:
    """A caller's key of at most 64 characters, or None."""
    if value is None:
        return None
    key = _as_string("idempotency_key", value)
    if not key or len(key) > MAX_IDEMPOTENCY_KEY:
        raise InvalidRequest(
            "idempotency_key", f"has {len(key)} characters; 1 to {MAX_IDEMPOTENCY_KEY} are allowed"
        )
    refuse_bad_characters("idempotency_key", key)
    return key


def record_id(value: Any) -> str:
    """An id as text; an int is accepted wherever an id is."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:
        return str(int(value))
    if isinstance(value, str) and value and len(value) <= MAX_NAME_BYTES and not has_private(value):
        refuse_bad_characters("observation_id", value)
        return str.__str__(value)
    raise InvalidRequest("observation_id", "must be an id that Keyfold gave, as text or a whole number")


def switch(field: str, value: Any) -> bool:
    """True or False, and nothing that only looks like it."""
    if not isinstance(value, bool):
        raise InvalidRequest(field, f"must be true or false, not {type(value).__name__}")
    return value


def choice(field: str, value: Any, allowed: Sequence[str]) -> Any:
    """One of a few words."""
    if value not in allowed:
        raise InvalidRequest(field, f"must be one of {', '.join(allowed)}")
    return value
