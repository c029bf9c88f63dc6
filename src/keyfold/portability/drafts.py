"""A record on its way in: as an importer read it, not yet checked, redacted or hashed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from keyfold.contract.intents import Intent, Load, SessionUse
from keyfold.contract.keys import portable
from keyfold.contract.prepare import prepare
from keyfold.errors import InvalidRequest
from keyfold.memory import checks
from keyfold.model import KINDS, OBSERVATION, SESSION, TURN, Config, Revision, Taint
from keyfold.text.redact import redact_count

# A turn's key is its thread's id and an index, so keys of other kinds may be a little longer than a topic key.
MAX_KEY_BYTES: Final = checks.MAX_NAME_BYTES + 64
# A store whose own limit was raised holds longer texts than another takes unasked.
RAISE: Final = "Split it, or raise max_text_bytes (keyfold import and copy: --max-text-bytes N)"


# Two of these are made a record and nobody else sees them: unfrozen they cost a third.
@dataclass(slots=True)
class State:
    """What a record says at one revision."""

    revision: int
    type: Any
    title: Any
    content: Any
    written_at: datetime
    metadata: Any = field(default_factory=dict)
    tags: Any = ()
    session_id: Any = None
    pinned: Any = False
    expires_at: datetime | None = None


@dataclass(slots=True)
class Draft:
    """A record with its past, oldest first. `where` and `line` say where it stands in the input.

    `current`: it is what its source says now, and this is when that last changed: where the store holds
    something else it is a new revision, even when its own date is not later (a restored file has an old one).
    `mark`: what such a source's words are known by, when they are imported again (see marks.py).
    """

    where: str
    line: int | None
    namespace: Any
    kind: Any
    key: Any
    minted: bool
    now: State
    created_at: datetime
    past: tuple[State, ...] = ()
    observed_at: datetime | None = None
    taint: Taint = "external"
    current: datetime | None = None
    mark: bytes | None = None


class Sealer:
    """Turns drafts into intents: everything checked, every text redacted, and the private regions counted."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def seal(self, draft: Draft) -> tuple[Intent, int]:
        """The intent to load a draft, and how many private regions were taken out of it. InvalidRequest."""
        if draft.kind not in KINDS:
            raise InvalidRequest("kind", f"is not known; allowed: {', '.join(KINDS)}")
        namespace = checks.name("user_id", draft.namespace)
        key = self._key(draft)
        kind = draft.kind
        past = tuple([Revision(*self._checked(state, kind)) for state in draft.past]) if draft.past else ()
        (
            revision,
            content,
            title,
            type_,
            metadata,
            tags,
            session_id,
            written_at,
            _,
            digest,
            pinned,
            expires_at,
        ) = self._checked(draft.now, kind)
        if past and not _rise([*(state.revision for state in past), revision]):
            raise InvalidRequest("history", "its revisions must rise and end below the record's own")
        regions = _regions(draft.now) + (sum(map(_regions, draft.past)) if past else 0)
        mark = None if regions else draft.mark  # nothing private is hashed, however it was written
        intent = Intent(
            namespace,
            kind,
            "load",
            key,
            draft.minted,
            None,
            type_,
            title,
            content,
            digest,
            metadata,
            tags,
            pinned,
            expires_at,
            draft.observed_at,
            draft.taint,
            None if session_id is None else SessionUse(session_id, True),
            load=Load(draft.created_at, written_at, past, revision, draft.current, mark),
        )
        return intent, regions

    def _key(self, draft: Draft) -> str:
        if draft.kind in (OBSERVATION, SESSION):
            return checks.name("key", draft.key)
        key = checks.text("key", draft.key, MAX_KEY_BYTES)
        if key != draft.key:
            raise InvalidRequest(
                "key", "holds a private tag; a key is stored as it is, so it may not hold private text"
            )
        return key

    def _checked(self, state: State, kind: str) -> tuple[Any, ...]:
        """The fields of a Revision, in order: checked, redacted and hashed."""
        # a session has no text of its own, and a turn may be tool calls alone
        blank = kind == SESSION or (
            kind == TURN and isinstance(state.metadata, dict) and bool(state.metadata.get("tool_calls"))
        )
        content, digest = prepare(
            checks.content(self.config, "content", state.content, blank=blank, advice=RAISE)
        )
        metadata = checks.metadata(state.metadata) if state.metadata != {} else None
        if kind == SESSION and isinstance(metadata, dict):
            metadata = _session_facts(metadata)
        tags = checks.tags(state.tags) if state.tags != [] else None
        pinned = state.pinned
        if pinned is not False:
            pinned = checks.flag("pinned", pinned)
        return (
            checks.whole("revision", state.revision, 1, 2**31),
            content,
            checks.text("title", state.title, checks.MAX_TITLE_BYTES, blank=blank),
            checks.text("type", state.type, checks.MAX_TYPE_BYTES),
            metadata or {},
            tags or (),
            None if state.session_id is None else checks.name("session_id", state.session_id),
            state.written_at,
            False,
            digest,
            bool(pinned),
            state.expires_at,
        )


def _session_facts(metadata: dict[str, Any]) -> dict[str, Any]:
    """What an import may say of a session: times that are times, and no ids, which are another store's."""
    for name in ("ended_at", "last_activity_at"):
        checks.moment(name, metadata.get(name))
    return portable(SESSION, metadata)


def _rise(numbers: list[int]) -> bool:
    return all(one < following for one, following in pairwise(numbers))


def _regions(state: State) -> int:
    """How many private regions a state's texts hold."""
    found = 0
    for told in (state.content, state.title, state.type, state.metadata, state.tags):
        if told and (told.__class__ is not str or "<" in told):
            found += _regions_in(told)
    return found


def _regions_in(value: Any) -> int:
    """How many private regions a value's texts hold, wherever they stand in it."""
    if isinstance(value, str):
        return redact_count(value)[1]
    if isinstance(value, dict):
        return sum([_regions_in(key) + _regions_in(item) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        return sum(map(_regions_in, value))
    return 0
