"""How a memory behaves: its settings, checked when they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from keyfold.errors import InvalidRequest
from keyfold.text.check import bad_character
from keyfold.text.redact import has_private

MOST: Final = 2**31 - 1  # seconds (68 years), bytes, revisions: beyond this a setting is a mistake
TYPE_BYTES: Final = 128
RESERVED_TYPES: Final = ("summary", "turn", "document", "session")  # what Keyfold writes itself


@dataclass(frozen=True, slots=True)
class Config:
    """How a memory behaves. All limits refuse; none cuts.

    `observation_types`: what mem_save accepts. `dedup_on`: "material" (content, title, type and what was
    passed of metadata, tags, pinned, expires_at) or "content" alone. `dedup_window`: seconds in which an
    unkeyed repeat is a duplicate; 0 is off. `session_timeout`: seconds of inactivity after which a session
    is stale. `keep_revisions`: how many states of a record stay readable, the current one included; None
    is all. `durability`: "full" survives a power cut, "process" a crash of the program. `max_text_bytes`:
    the UTF-8 size of the longest text. `clock`: gives the time, aware, in the years 100 to 9800. For memory services: `credential` gives
    the key (else KEYFOLD_API_KEY or the service's own variable), `timeout` is how many seconds an answer may take.
    """

    observation_types: tuple[str, ...] = (
        "profile",
        "preference",
        "decision",
        "discovery",
        "pattern",
        "bugfix",
        "architecture",
        "config",
        "learning",
        "manual",
    )
    dedup_on: Literal["material", "content"] = "material"
    dedup_window: float = 60.0
    session_timeout: float = 24 * 3600.0
    keep_revisions: int | None = None
    durability: Literal["full", "process"] = "full"
    max_text_bytes: int = 1 << 20
    clock: Callable[[], datetime] | None = None
    credential: Callable[[], str | None] | None = field(default=None, repr=False)
    timeout: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "observation_types", _types(self.observation_types))
        _one_of("dedup_on", self.dedup_on, ("material", "content"))
        _one_of("durability", self.durability, ("full", "process"))
        _number("dedup_window", self.dedup_window, 0)
        _number("session_timeout", self.session_timeout, 0)
        _number("max_text_bytes", self.max_text_bytes, 1)
        if self.keep_revisions is not None:
            _number("keep_revisions", self.keep_revisions, 1)
        if self.clock is not None and not callable(self.clock):
            raise InvalidRequest("clock", "must be a function that gives the time, aware")
        if self.credential is not None and not callable(self.credential):
            raise InvalidRequest(
                "credential", "must be a function that gives the key, so that no key lies in a setting"
            )
        _number("timeout", self.timeout, 0)
        if self.timeout <= 0:
            raise InvalidRequest("timeout", "must be more than 0 seconds")


def _types(given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(item, str) and item.strip() for item in given):
        raise InvalidRequest("observation_types", "must be a list of non-empty strings")
    reserved = sorted(set(given) & set(RESERVED_TYPES))
    if reserved or not given:
        raise InvalidRequest("observation_types", f"must name types, none of {', '.join(RESERVED_TYPES)}")
    types = tuple(dict.fromkeys(given))
    for item in types:  # else an import would refuse what is saved as such a type
        if bad_character(item) is not None or has_private(item) or len(item.encode()) > TYPE_BYTES:
            raise InvalidRequest(
                "observation_types",
                f"must name types of at most {TYPE_BYTES} bytes, without NUL, lone surrogates and private tags",
            )
    return types


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidRequest(name, f"must be one of {', '.join(allowed)}")


def _number(name: str, value: Any, least: int) -> None:
    whole = name in ("keep_revisions", "max_text_bytes")
    kind = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= MOST:
        raise InvalidRequest(name, f"must be a {'whole ' if whole else ''}number from {least} to {MOST:,}")
