"""The writing calls, as plans: validate, redact, hash, resolve the session, then let the engine decide.

Every write of every surface ends in `stored`, the one path to the engine. DESIGN 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from keyfold.contract import calls
from keyfold.contract.decide import said
from keyfold.contract.intents import Intent, Ref, SessionLapsed, SessionUse
from keyfold.contract.prepare import prepare
from keyfold.errors import InvalidRequest, NotFound, Unavailable
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.core import Core, current_session, reference
from keyfold.model import OBSERVATION, UNSET, Receipt, Revision, SaveResult, Unset

SESSION_TRIES: Final = 5
ITEM_FIELDS: Final = frozenset(
    (
        "content",
        "type",
        "title",
        "topic_key",
        "metadata",
        "tags",
        "session_id",
        "expires_at",
        "pinned",
        "observed_at",
        "idempotency_key",
        "expect_revision",
        "derive",
    )
)


def stored(core: Core, intents: Sequence[Intent], session_id: str | None) -> Plan[list[Receipt]]:
    """Send writes of one user to the engine, in the session they belong to.

    A session that another process ended or that went stale in between is resolved again: the engine wrote
    nothing then. The handle stays in the session that it wrote into.
    """
    user = intents[0].namespace
    for _ in range(SESSION_TRIES):
        use = yield from current_session(core, user, session_id)
        for intent in intents:
            if intent.session is None or not intent.session.explicit:
                # frozen for everybody else; until the engine gets it, it is this function's alone, and
                # dataclasses.replace would cost a tenth of a whole save
                object.__setattr__(intent, "session", use)
        try:
            if len(intents) == 1:
                receipts = [(yield from calls.store(intents[0]))]
            else:
                receipts = yield from calls.store_many(intents)
        except SessionLapsed:
            core.sessions.pop(user, None)
            continue
        if not use.explicit and any(not receipt.replayed for receipt in receipts):
            core.sessions[user] = use.id
            core.opening.pop(user, None)
        return receipts
    raise Unavailable("the user's session kept ending while the write was tried; pass session_id to name one")


def observation_intent(
    core: Core,
    user_id: str,
    content: str,
    *,
    type: str,
    title: str,
    topic_key: str | None,
    metadata: Mapping[str, Any] | Unset | None,
    tags: Iterable[str] | Unset | None,
    session_id: str | None,
    expires_at: datetime | timedelta | str | Unset | None,
    pinned: bool | Unset | None,
    observed_at: datetime | str | None,
    idempotency_key: str | None,
    expect_revision: int | None,
    derive: bool | None,
) -> Intent:
    """The validated, redacted and hashed intent behind mem_save."""
    user = checks.name("user_id", user_id)
    kind = checks.observation_type(core.config, type)
    safe_title = checks.text("title", title, checks.MAX_TITLE_BYTES)
    safe_content, digest = prepare(checks.content(core.config, "content", content))
    key = checks.name("topic_key", topic_key) if topic_key is not None else None
    fields: dict[str, Any] = {}
    if metadata is not UNSET:
        fields["metadata"] = checks.metadata(metadata)
    if tags is not UNSET:
        fields["tags"] = checks.tags(tags)
    if pinned is not UNSET:
        fields["pinned"] = checks.flag("pinned", pinned)
    if expires_at is not UNSET:
        fields.update(checks.expiry(expires_at, core.now()))
    if observed_at is not None:
        fields["observed_at"] = checks.moment("observed_at", observed_at)
    if expect_revision is not None:
        if key is None:
            raise InvalidRequest("expect_revision", "needs a topic_key: an unkeyed save makes a new record")
        fields["expect_revision"] = _revision_number(expect_revision)
    if session_id is not None:
        fields["session"] = SessionUse(checks.name("session_id", session_id), explicit=True)
    draws = core.derive(derive)
    if idempotency_key is not None:
        body = {"content": safe_content, "type": kind, "title": safe_title, "topic_key": key, **fields}
        body.update(session=session_id, derive=draws, **_span_said(fields))
        fields["idempotency"] = core.idempotency("mem_save", idempotency_key, body)
    return Intent(
        user,
        OBSERVATION,
        "upsert",
        key,
        type=kind,
        title=safe_title,
        content=safe_content,
        normalized_hash=digest,
        dedup_window=core.config.dedup_window,
        dedup_on=core.config.dedup_on,
        derive=draws,
        **fields,
    )


def _span_said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The span of an expiry in an idempotency key's body: the instant it leads to is another in each retry."""
    span = fields.get("expires_in")
    return {} if span is None else {"expires_at": None, "expires_in": str(span)}


def _revision_number(value: Any) -> int:
    return checks.whole("expect_revision", value, 0, 2**53)


def mem_save(
    core: Core,
    user_id: str,
    content: str,
    *,
    type: str,
    title: str,
    topic_key: str | None = None,
    metadata: Mapping[str, Any] | Unset | None = UNSET,
    tags: Iterable[str] | Unset | None = UNSET,
    session_id: str | None = None,
    expires_at: datetime | timedelta | str | Unset | None = UNSET,
    pinned: bool | Unset | None = UNSET,
    observed_at: datetime | str | None = None,
    idempotency_key: str | None = None,
    expect_revision: int | None = None,
    derive: bool | None = None,
) -> Plan[SaveResult]:
    """Save a memory; under a `topic_key`, rewrite it in place.

    With a key: absent gives created, the same again deduped, anything else updated (same id, revision + 1,
    the former state kept). Without: a repeat within `Config.dedup_window` is deduped, else created.
    `<private>` regions become `[REDACTED]` before anything is hashed or stored. `type` is one of
    `Config.observation_types`; `title` takes at most 4,096 bytes, `content` `Config.max_text_bytes`,
    `topic_key`, `user_id` and `session_id` 512 bytes, `metadata` 64 KiB of JSON, 100 `tags` of 256 bytes.
    UNSET keeps what the record has, None clears it. Times are aware; `expires_at` may have passed (then the memory
    is gone at once) or be a timedelta from now, which given again within the dedup window is a repeat, while later the
    memory lives on for as long. `expect_revision=n` writes only when the record is at revision n (0: when it does not
    exist). `idempotency_key` (at most 64 characters): the same call again within 24 hours gives the first receipt.
    `derive`: whether a service that draws facts from what it holds may do so from this.

    Raises InvalidRequest, Conflict (another writer came first), IdempotencyConflict, StoreError.
    """
    intent = observation_intent(
        core,
        user_id,
        content,
        type=type,
        title=title,
        topic_key=topic_key,
        metadata=metadata,
        tags=tags,
        session_id=session_id,
        expires_at=expires_at,
        pinned=pinned,
        observed_at=observed_at,
        idempotency_key=idempotency_key,
        expect_revision=expect_revision,
        derive=derive,
    )
    return (yield from stored(core, (intent,), session_id))[0]


def mem_save_many(
    core: Core, user_id: str, items: Iterable[Mapping[str, Any]], *, session_id: str | None = None
) -> Plan[list[SaveResult]]:
    """Save many memories of one user in one transaction: a receipt an item, in order.

    `items` are mappings with mem_save's fields, at most 10,000. All are validated before the first is
    written, and when one cannot be written none is. An item without a key that says what an earlier one of the call
    says (by what is material, as for mem_save) is deduped to its first copy, whatever the window. Raises as mem_save,
    naming the item.
    """
    intents: list[Intent] = []
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidRequest("items", "must be a list of mappings with mem_save's fields")
    named = checks.optional_name("session_id", session_id)
    for number, item in enumerate(items):
        if number == checks.MAX_BATCH:
            raise InvalidRequest(
                "items", f"holds more than {checks.MAX_BATCH:,} items; send them in several calls"
            )
        intents.append(_item_intent(core, user_id, item, number, named))
    if not intents:
        checks.name("user_id", user_id)
        return []
    first, distinct = _first_copies(intents)
    receipts = yield from stored(core, distinct, named)
    return [
        receipts[place]
        if original
        else replace(receipts[place], outcome="deduped", replayed=True, similar_keys=())
        for place, original in first
    ]


def _item_intent(core: Core, user_id: str, item: Any, number: int, session_id: str | None) -> Intent:
    if not isinstance(item, Mapping):
        raise InvalidRequest(f"items[{number}]", "must be a mapping with mem_save's fields")
    unknown = [key for key in item if key not in ITEM_FIELDS]
    missing = [key for key in ("content", "type", "title") if key not in item]
    if unknown or missing:
        strange = ", ".join(sorted(str(key) for key in unknown if str(key).isidentifier())[:3]) or "not names"
        problem = f"lacks {', '.join(missing)}" if missing else f"has unknown fields ({strange:.100})"
        raise InvalidRequest(
            f"items[{number}]", f"{problem}; the fields are {', '.join(sorted(ITEM_FIELDS))}"
        )
    defaults: dict[str, Any] = dict.fromkeys(ITEM_FIELDS)
    defaults.update(metadata=UNSET, tags=UNSET, expires_at=UNSET, pinned=UNSET)
    try:
        fields = {**defaults, **item}
        if fields["session_id"] is None:
            fields["session_id"] = session_id
        return observation_intent(core, user_id, **fields)
    except InvalidRequest as error:
        raise InvalidRequest(f"items[{number}].{error.field}", error.problem) from None


def _first_copies(intents: list[Intent]) -> tuple[list[tuple[int, bool]], list[Intent]]:
    """Fold unkeyed items that say the same: (place among the distinct, whether it is the first copy) an item.

    Keyed ones are left to the engine: after A and B under one key, A again is a rewrite, not a repeat.
    """
    places: dict[str, int] = {}
    first: list[tuple[int, bool]] = []
    distinct: list[Intent] = []
    for intent in intents:
        place = len(distinct) if intent.key is not None else places.setdefault(said(intent), len(distinct))
        if place == len(distinct):
            first.append((place, True))
            distinct.append(intent)
        elif intent.idempotency is None or intent.idempotency == distinct[place].idempotency:
            first.append((place, False))
        else:  # the engine is to keep its key, and finds the first copy: nothing is newer
            first.append((len(distinct), True))
            distinct.append(replace(intent, dedup_window=None))
    return first, distinct


def mem_update(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    content: str | Unset = UNSET,
    title: str | Unset = UNSET,
    type: str | Unset = UNSET,
    metadata: Mapping[str, Any] | Unset | None = UNSET,
    tags: Iterable[str] | Unset | None = UNSET,
    expires_at: datetime | timedelta | str | Unset | None = UNSET,
    pinned: bool | Unset | None = UNSET,
    session_id: str | None = None,
    idempotency_key: str | None = None,
    expect_revision: int | None = None,
) -> Plan[SaveResult]:
    """Change some fields of a memory and leave the rest: a new revision, or deduped when nothing differs.

    `metadata` is patched: its keys replace, a key whose value is None goes, None instead of a mapping
    clears it all; `tags` replace. Limits as for mem_save; that of metadata holds for the patch and for what it is
    merged into. Raises NotFound, InvalidRequest, Conflict.
    """
    ref = reference(user_id, observation_id, topic_key)
    named = checks.optional_name("session_id", session_id)
    fields: dict[str, Any] = {}
    if content is not UNSET:
        fields["content"], fields["normalized_hash"] = prepare(
            checks.content(core.config, "content", content)
        )
    if title is not UNSET:
        fields["title"] = checks.text("title", title, checks.MAX_TITLE_BYTES)
    if type is not UNSET:
        fields["type"] = checks.observation_type(core.config, type)
    fields["metadata"] = checks.metadata(metadata, patch=True)
    fields["tags"] = checks.tags(tags)
    fields["pinned"] = checks.flag("pinned", pinned)
    if expires_at is not UNSET:
        fields.update(checks.expiry(expires_at, core.now()))
    fields = {name: value for name, value in fields.items() if value is not UNSET}
    if not fields:
        raise InvalidRequest(
            "mem_update", "nothing to change; pass content, title, type, metadata, tags, ..."
        )
    if expect_revision is not None:
        fields["expect_revision"] = _revision_number(expect_revision)
    if idempotency_key is not None:
        body = {**fields, **_span_said(fields), "id": ref.id, "topic_key": ref.key, "session": named}
        patch = fields.get("metadata")
        if isinstance(patch, dict):
            body["metadata"] = {key: value for key, value in patch.items() if value is not UNSET}
            body["metadata_removed"] = sorted(key for key, value in patch.items() if value is UNSET)
        fields["idempotency"] = core.idempotency("mem_update", idempotency_key, body)
    return (yield from stored(core, (update_intent(ref, fields),), named))[0]


def update_intent(ref: Ref, fields: dict[str, Any]) -> Intent:
    """An update of the record that a reference names."""
    return Intent(ref.namespace, ref.kind or OBSERVATION, "update", ref.key, id=ref.id, **fields)


def mem_restore(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    revision: int,
    session_id: str | None = None,
    idempotency_key: str | None = None,
) -> Plan[SaveResult]:
    """Make an earlier revision's state the current one again, as a new revision.

    Nothing is lost: the state before stays in the history. Restoring what is current already is deduped. An
    expiry that has passed since is not restored: the memory keeps the one it has now, and does not vanish.
    Raises NotFound when the record or that revision is not there.
    """
    ref = reference(user_id, observation_id, topic_key)
    number = checks.whole("revision", revision, 1, 2**53)
    named = checks.optional_name("session_id", session_id)
    core.needs("history", "save the earlier text again under its topic_key")
    body = {"id": ref.id, "topic_key": ref.key, "revision": number, "session": named}
    idempotency = core.idempotency("mem_restore", idempotency_key, body)
    past = yield from calls.history(ref)
    if past.record is None:
        raise NotFound(f"there is no {ref.describe()} to restore")
    state = find_revision(past.revisions, number, ref)
    over = state.expires_at is not None and state.expires_at <= core.now()
    metadata: dict[str, Any] = {key: UNSET for key in past.record.metadata if key not in state.metadata}
    fields: dict[str, Any] = {
        "content": state.content,
        "normalized_hash": state.normalized_hash,
        "title": state.title,
        "type": state.type,
        "metadata": {**metadata, **state.metadata},
        "tags": state.tags,
        "pinned": state.pinned,
        "expires_at": UNSET if over else state.expires_at,
        "idempotency": idempotency,
    }
    return (yield from stored(core, (update_intent(ref, fields),), named))[0]


def find_revision(revisions: Sequence[Revision], number: int, ref: Ref) -> Revision:
    """The kept state with this number, or NotFound saying which are kept."""
    for state in revisions:
        if state.revision == number:
            return state
    kept = [state.revision for state in revisions]
    span = f"{min(kept)} to {max(kept)} are kept" if kept else "none is kept"
    raise NotFound(f"{ref.describe()} has no revision {number}; {span}")
