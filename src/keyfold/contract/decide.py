"""The decision at the heart of every write: given what is held, what does this intent do?

Pure: no input or output, no clock. Each engine calls it inside its transaction (or, on services without
one, after the look-up), so a save means the same everywhere. DESIGN 3, step 4.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from keyfold.clock import MICROSECOND
from keyfold.contract.filters import same
from keyfold.contract.intents import Intent
from keyfold.contract.limits import merged, refuse_empty_turn
from keyfold.errors import Conflict, IdempotencyConflict, InvalidRequest, NotFound
from keyfold.frozen import quick
from keyfold.model import UNSET, Outcome, Receipt, Record, Revision, Taint

# What the caller says of a record and what a rewrite may change; content first: it differs most often.
MATERIAL: Final = ("content", "title", "type", "metadata", "tags", "pinned", "expires_at")
MAX_REVISION: Final = (1 << 63) - 1  # stores count in 64 bits
LAST: Final = datetime.max.replace(tzinfo=UTC)
_CLEARED: Final[dict[str, Any]] = {"metadata": {}, "tags": (), "pinned": False, "expires_at": None}


@quick
@dataclass(frozen=True, slots=True)
class Decision:
    """What to write: the record's new state (id empty when it is new) and states to put into its history.

    `deduped` decisions write nothing: `record` is the one held.
    """

    outcome: Outcome
    record: Record
    past: tuple[Revision, ...] = ()


def decide(held: Record | None, intent: Intent, now: datetime) -> Decision:
    """What `intent` does to the record held at its address (None when absent or expired).

    Raises Conflict when another writer came first or an immutable record would change, NotFound when an
    update has nothing to update, InvalidRequest when what it is merged with makes it more than may be stored.
    """
    if intent.expect_revision is not None:
        check_revision(held, intent)
    if held is None:
        if intent.mode == "update":
            raise NotFound(f"there is no {intent.describe()} to update; save it first")
        return Decision("created", fresh(intent, now), intent.load.past if intent.load else ())
    if intent.expect_type is not None and held.type != intent.expect_type:
        raise NotFound(f"{held.kind} {held.key!r:.200} is {held.type}, not {intent.expect_type}")
    if intent.mode == "load":
        return _decide_load(held, intent)
    if intent.mode == "append":
        return _decide_append(held, intent)
    changes = material_changes(held, intent)
    if not changes:
        return Decision("deduped", held)
    record = rewritten(held, intent, changes, now)
    refuse_empty_turn(record)
    return Decision("updated", record, (past_of(held),))


def check_revision(held: Record | None, intent: Intent) -> None:
    """Raise Conflict unless the record is at the revision the caller expects (0: it must not exist)."""
    current = held.revision_count if held is not None else 0
    if current != intent.expect_revision:
        raise Conflict(
            f"{intent.describe()} is at revision {current}, not {intent.expect_revision}: "
            "read it again and repeat the write on what is there now",
            current_revision=current,
        )


def fresh(intent: Intent, now: datetime) -> Record:
    """The first state of a record. Its id is the engine's to give."""
    load = intent.load
    title = intent.title if intent.title is not UNSET else intent.new_title
    if intent.type is UNSET or title is None or intent.content is UNSET:
        raise InvalidRequest("content", "a new record needs type, title and content")
    assert intent.key is not None, "the engine mints keys before it decides"
    revision, created, updated = 1, now, now
    if load is not None:
        revision, created, updated = load.revision, load.created_at, load.updated_at
        if revision > MAX_REVISION or any(state.revision > MAX_REVISION for state in load.past):
            raise InvalidRequest("revision", f"must be at most {MAX_REVISION}")
    return Record(
        "",
        intent.namespace,
        intent.kind,
        intent.key,
        intent.minted,
        intent.type,
        title,
        intent.content,
        intent.metadata or {},
        intent.tags or (),
        intent.session.id if intent.session is not None else None,
        revision,
        intent.normalized_hash or "",
        created,
        updated,
        intent.expires_at or None,
        bool(intent.pinned) if intent.pinned is not UNSET else False,
        intent.taint,
        intent.observed_at,
    )


def material_changes(held: Record, intent: Intent) -> dict[str, Any]:
    """The material fields that the intent passes and that differ from what is held, with their new values."""
    changes: dict[str, Any] = {}
    for name in MATERIAL:
        value = getattr(intent, name)
        if value is UNSET:
            continue
        if value is None:
            value = _CLEARED[name]
        elif name == "metadata" and intent.mode == "update":
            value = merged(held, value)
        elif name == "metadata" and intent.keeps != ():
            gone = () if intent.keeps is None else (key for key in held.metadata if key not in intent.keeps)
            value = merged(held, {**dict.fromkeys(gone, UNSET), **value})
        if not _repeated(name, getattr(held, name), value, intent):
            changes[name] = value
        if name == "content" and intent.dedup_on == "content" and intent.mode == "upsert" and not changes:
            return {}  # the literal rule: the same text is the same save, whatever else was passed
    return changes


def _repeated(name: str, one: Any, other: Any, intent: Intent) -> bool:
    """Whether what is held of a material field says what the intent does; see `Intent.expires_in`."""
    if name != "expires_at" or intent.expires_in is None or one is None or other is None:
        return _alike(name, one, other)
    return intent.dedup_window is None or abs(one - other) <= timedelta(seconds=intent.dedup_window)


def _alike(name: str, one: Any, other: Any) -> bool:
    """Whether two values of a material field say the same; the order of tags says nothing."""
    return set(one) == set(other) if name == "tags" else same(one, other)


def rewritten(held: Record, intent: Intent, changes: dict[str, Any], now: datetime) -> Record:
    """The next state: same id, revision + 1, created_at kept, updated_at later than before, the current session."""
    return replace(
        held,
        **changes,
        revision_count=_next_revision(held),
        normalized_hash=(intent.normalized_hash or "") if "content" in changes else held.normalized_hash,
        updated_at=later(now, held),
        session_id=intent.session.id if intent.session is not None else held.session_id,
        taint="external" if "external" in (held.taint, intent.taint) else "internal",
        observed_at=intent.observed_at or held.observed_at,
    )


def _next_revision(held: Record) -> int:
    if held.revision_count >= MAX_REVISION:
        raise Conflict(
            f"{held.kind} {held.key!r:.200} bears the last revision there is: forget it and save it anew",
            current_revision=held.revision_count,
        )
    return held.revision_count + 1


def later(now: datetime, held: Record) -> datetime:
    """A record's next time: now, but always after its last, whatever the clock did meanwhile."""
    if held.updated_at >= LAST:
        raise Conflict(
            f"{held.kind} {held.key!r:.200} bears the last moment there is, so nothing can be later: "
            "forget it and save it anew",
            current_revision=held.revision_count,
        )
    return max(now, held.updated_at + MICROSECOND)


def past_of(record: Record) -> Revision:
    """A record's present state as an entry of its history."""
    return revision_of(record, is_current=False)


def revision_of(record: Record, *, is_current: bool = True) -> Revision:
    """A record's present state as a revision."""
    return Revision(
        record.revision_count,
        record.content,
        record.title,
        record.type,
        record.metadata,
        record.tags,
        record.session_id,
        record.updated_at,
        is_current,
        record.normalized_hash,
        record.pinned,
        record.expires_at,
    )


def _decide_append(held: Record, intent: Intent) -> Decision:
    """An immutable record: the same again is a replay, anything else is refused."""
    if held.content == intent.content and same(held.metadata, intent.metadata or {}):
        return Decision("deduped", held)
    raise Conflict(
        f"{held.kind} {held.key!r:.200} was logged before with another text or role, and what is logged is "
        "not changed; correct it with mem_update",
        current_revision=held.revision_count,
    )


def _decide_load(held: Record, intent: Intent) -> Decision:
    """An import over something held: only states that come after it, and are unlike the one before, are added."""
    load = intent.load
    assert load is not None
    coming = fresh(intent, load.updated_at)
    last = revision_of(coming)
    if load.current is not None:
        last = replace(last, pinned=held.pinned, expires_at=held.expires_at)
        if last.written_at <= held.updated_at:
            last = replace(last, written_at=later(load.current, held))
    record, past = held, []
    for state in _following(held, (*load.past, last)):
        if _unlike(record, state):
            if state.written_at <= held.updated_at:
                state = replace(state, written_at=later(state.written_at, record))
            past.append(past_of(record))
            record = _advance(record, state)
    if record is held:
        return Decision("deduped", held)
    if intent.taint == "external" or load.current is not None:
        observed = (load.current is not None and intent.observed_at) or held.observed_at
        taint: Taint = "external" if "external" in (held.taint, intent.taint) else "internal"
        record = replace(record, taint=taint, observed_at=observed)
    return Decision("updated", record, tuple(past))


def _following(held: Record, states: tuple[Revision, ...]) -> tuple[Revision, ...]:
    """Which of an import's states, oldest first, come after what is held.

    Those that were written later, as long as the dates rise as the states do. Where they do not, the order of the
    states counts. Nothing comes after the last one, so that importing it again changes nothing, and what comes after
    another that is held is later, whatever its date. Where none is held, none counts as later than one behind it.
    """
    if all(one.written_at < following.written_at for one, following in pairwise(states)):
        return tuple([state for state in states if state.written_at > held.updated_at])
    if not _unlike(held, states[-1]):
        return ()
    places = [
        (state.revision == held.revision_count, place)
        for place, state in enumerate(states, 1)
        if state.written_at == held.updated_at and not _unlike(held, state)
    ]
    if places:  # the one of the same number, if there are several; else the last
        return states[max(places)[1] :]
    first = len(states)
    while first and states[first - 1].written_at > held.updated_at:
        first -= 1
    return states[first:]


def _unlike(record: Record, state: Revision) -> bool:
    return not all(_alike(name, getattr(record, name), getattr(state, name)) for name in MATERIAL)


def _advance(record: Record, state: Revision) -> Record:
    return replace(
        record,
        content=state.content,
        title=state.title,
        type=state.type,
        metadata=state.metadata,
        tags=state.tags,
        session_id=state.session_id,
        pinned=state.pinned,
        expires_at=state.expires_at,
        normalized_hash=state.normalized_hash,
        revision_count=_next_revision(record),
        updated_at=state.written_at,
    )


def find_duplicate(candidates: Sequence[Record], intent: Intent, now: datetime) -> Record | None:
    """The newest of the records with the same hash that an unkeyed save repeats, within the window; or None.

    A time in the future (a clock that jumped back) counts as within. A window of None is without end,
    of 0 off.
    """
    if intent.dedup_window is not None and intent.dedup_window <= 0:
        return None
    for record in sorted(candidates, key=lambda found: found.updated_at, reverse=True):
        if intent.dedup_window is not None and now - record.updated_at > timedelta(
            seconds=intent.dedup_window
        ):
            return None
        if intent.dedup_on == "content" or repeats(record, intent):
            return record
    return None


def repeats(record: Record, intent: Intent) -> bool:
    """Whether an unkeyed save says just what a record says; what was not passed counts as its default."""
    return record.minted and all(
        _repeated(
            name, getattr(record, name), _CLEARED[name] if value is UNSET or value is None else value, intent
        )
        for name in MATERIAL
        for value in (getattr(intent, name),)
    )


def said(intent: Intent) -> str:
    """What an unkeyed save says, as text that two saves share exactly where `repeats` holds between them.

    So neither the order of tags and of metadata's keys counts, nor whether what is at its default was passed, nor what is
    not material (the session, when it was observed). A span of expiry is itself: the instant differs within one call.
    """
    if intent.dedup_on == "content":
        return str(intent.normalized_hash)
    values: list[Any] = [intent.normalized_hash, intent.type, intent.title]
    for name in ("metadata", "tags", "pinned"):
        value = getattr(intent, name)
        values.append(_CLEARED[name] if value is UNSET or value is None else value)
    values[-2] = sorted(set(values[-2]))
    span, moment = intent.expires_in, intent.expires_at
    values += [str(span), None] if span is not None else [None, str(moment) if moment else None]
    return json.dumps(_exact(values), sort_keys=True)


def _exact(value: Any) -> Any:
    """A JSON value with whole numbers in one form: 1.0 says what 1 says."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return [_exact(item) for item in value] if isinstance(value, (list, tuple)) else value


def other_call(existing: str | None) -> IdempotencyConflict:
    """The error of an idempotency key that comes again with another body. `existing` is the first call's record."""
    return IdempotencyConflict(
        "this idempotency key was used in the last 24 hours for a call with other arguments"
        + (f" (record {existing})" if existing else "")
        + ": repeat the first call as it was, or use a new key",
        existing_id=existing,
    )


def receipt_of(decision: Decision, identity: str, similar: tuple[str, ...] = ()) -> Receipt:
    """The answer to the caller."""
    record = decision.record
    return Receipt(
        identity,
        record.topic_key,
        decision.outcome,
        record.revision_count,
        decision.outcome == "deduped",
        record.session_id,
        record.normalized_hash,
        similar,
    )
