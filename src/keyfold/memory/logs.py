"""What agents log and read in: turns of conversations, which never change, and documents, keyed by their source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from keyfold.contract.intents import Intent, Wait
from keyfold.contract.keys import turn_key
from keyfold.contract.prepare import prepare
from keyfold.errors import InvalidRequest
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.core import Core
from keyfold.memory.writes import stored
from keyfold.model import DOCUMENT, TURN, UNSET, SaveResult

ROLE_BYTES: Final = 64


def mem_log_turn(
    core: Core,
    user_id: str,
    *,
    thread_id: str,
    index: int,
    role: str,
    text: str,
    at: datetime | str | None = None,
    tool_calls: Sequence[Any] = (),
    wait: Wait = "accepted",
    derive: bool | None = None,
    session_id: str | None = None,
    idempotency_key: str | None = None,
) -> Plan[SaveResult]:
    """Log one turn of a conversation. It is immutable per (thread_id, index).

    The same turn again is a replay; another text, role or tool call at that place is Conflict (correct it
    with mem_update). `index` counts from 0. `wait` matters to services that list what they accepted only later:
    "accepted" returns at once, "listed" when the turn can be read, "settled" when it can be found (at best). A turn
    is durable when the call returns. `derive=False` keeps a service from drawing facts from it. `text` takes at most
    `Config.max_text_bytes`, `thread_id` 512 bytes, `role` 64; `tool_calls` (then the text may be empty) with these
    two 64 KiB of JSON, nested at most 15 deep, the list itself counted.
    """
    user = checks.name("user_id", user_id)
    thread = checks.name("thread_id", thread_id)
    named = checks.optional_name("session_id", session_id)
    place = checks.whole("index", index, 0, checks.MAX_INDEX)
    who = checks.text("role", role, ROLE_BYTES)
    level: Wait = checks.choice("wait", wait, ("accepted", "listed", "settled"))
    if isinstance(tool_calls, (str, bytes, Mapping)) or not isinstance(tool_calls, Iterable):
        raise InvalidRequest("tool_calls", "must be a list")
    used = checks.json_value("tool_calls", list(tool_calls))
    content, digest = prepare(checks.content(core.config, "text", text, blank=bool(used)))
    metadata: dict[str, Any] = {"thread_id": thread, "index": place, "role": who}
    if used:
        metadata["tool_calls"] = used
        checks.metadata_fits("tool_calls", metadata, " with the thread and the role")
    moment = checks.moment("at", at)
    draws = core.derive(derive)
    # `wait` says when the call returns, not what it writes: a retry may ask for another
    body = {**metadata, "text": content, "at": moment, "session": named, "derive": draws}
    intent = Intent(
        user,
        TURN,
        "append",
        turn_key(thread, place),
        type=TURN,
        title=who,
        content=content,
        normalized_hash=digest,
        metadata=metadata,
        observed_at=moment,
        taint="external" if who == "tool" else "internal",
        idempotency=core.idempotency("mem_log_turn", idempotency_key, body),
        wait=level,
        derive=draws,
    )
    return (yield from stored(core, (intent,), named))[0]


def mem_add_document(
    core: Core,
    user_id: str,
    *,
    source: str,
    text: str,
    title: str | None = None,
    mime: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    derive: bool | None = None,
    session_id: str | None = None,
    idempotency_key: str | None = None,
) -> Plan[SaveResult]:
    """Store a document under its source (a path, a URL): sent again unchanged it is deduped, changed a new revision.

    `source` takes at most 512 bytes and is kept in the metadata with `mime` (256 bytes), 64 KiB of JSON in
    all: `metadata` that holds another `source`, or another `mime` than the one passed, is refused. What is not passed
    (`title`, `mime`, `metadata`) stays as the document has it; the title of a new one is its source.
    """
    user = checks.name("user_id", user_id)
    named = checks.optional_name("session_id", session_id)
    origin = checks.text("source", source, checks.MAX_NAME_BYTES)
    content, digest = prepare(checks.content(core.config, "text", text))
    safe_title = checks.text("title", title, checks.MAX_TITLE_BYTES) if title is not None else None
    given = checks.metadata(metadata) if metadata is not None else None
    safe_mime = checks.text("mime", mime, checks.MAX_TAG_BYTES) if mime is not None else None
    if isinstance(given, dict):
        _refuse_another("source", origin, given)
        _refuse_another("mime", safe_mime, given)
    draws = core.derive(derive)
    said = {"source": origin, "text": content, "title": safe_title, "metadata": given, "mime": safe_mime}
    body = {**said, "session": named, "derive": draws}
    key = core.idempotency("mem_add_document", idempotency_key, body)
    facts: dict[str, Any] = {**(given or {}), "source": origin}
    if safe_mime is not None:
        facts["mime"] = safe_mime
    checks.metadata_fits("metadata", facts, " with its source and mime")
    intent = Intent(
        user,
        DOCUMENT,
        "upsert",
        origin,
        type=DOCUMENT,
        title=UNSET if safe_title is None else safe_title,
        new_title=origin,
        content=content,
        normalized_hash=digest,
        metadata=facts,
        keeps=None if given is None else ("mime",),
        taint="external",
        dedup_on=core.config.dedup_on,
        idempotency=key,
        derive=draws,
    )
    return (yield from stored(core, (intent,), named))[0]


def _refuse_another(name: str, own: str | None, given: dict[str, Any]) -> None:
    """InvalidRequest where the caller's own metadata would be overwritten by what the document keeps there."""
    if own is not None and given.get(name, own) != own:
        raise InvalidRequest(
            "metadata",
            f"holds another {name} than the document's own, which is kept there: leave it out, or give it another "
            f"name, for example original_{name}",
        )
