"""The reading calls of one record and of listings, as plans."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from keyfold.contract import calls
from keyfold.contract.filters import EVERYTHING, Filter, conditions
from keyfold.contract.intents import Past, Query, Ref, position_of
from keyfold.errors import InvalidRequest, NotFound
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.core import Core, reference, targets
from keyfold.memory.writes import find_revision
from keyfold.model import (
    OBSERVATION,
    SESSION,
    Answer,
    Entry,
    History,
    Items,
    Reach,
    Record,
    RecordPage,
    Revision,
    Topic,
)

FilterLike = Filter | Mapping[str, Any]


def narrowed(
    *,
    types: Iterable[str] | None,
    types_exclude: Iterable[str] | None,
    tags: Iterable[str] | Mapping[str, Iterable[str]] | None,
    topic_prefix: str | None,
    filter: FilterLike | None,
    since: datetime | str | None,
    until: datetime | str | None,
) -> Filter:
    """The one Filter behind the arguments that reads take. `filter` is a Filter, or a mapping on metadata."""
    where = filter if isinstance(filter, Filter) else EVERYTHING
    if filter is not None and not isinstance(filter, Filter):
        if not isinstance(filter, Mapping):
            raise InvalidRequest("filter", "must be a Filter or a mapping of metadata keys")
        where = replace(where, metadata=conditions(filter))
    given: dict[str, Any] = {}
    if types is not None:
        given["types"] = _some("types", checks.tag_list("types", types))
    if types_exclude is not None:
        given["types_exclude"] = checks.tag_list("types_exclude", types_exclude)
    if tags is not None:
        given.update(_tag_filter(tags))
    if topic_prefix is not None:
        given["topic_prefix"] = checks.text("topic_prefix", topic_prefix, checks.MAX_NAME_BYTES)
    if since is not None:
        given["updated_since"] = checks.moment("since", since)
    if until is not None:
        given["updated_until"] = checks.moment("until", until)
    return replace(where, **given) if given else where


def _tag_filter(tags: Iterable[str] | Mapping[str, Iterable[str]]) -> dict[str, Any]:
    if not isinstance(tags, Mapping):
        return {"tags": checks.tag_list("tags", tags)}
    unknown = set(tags) - {"all", "any"}
    if unknown or not tags:
        raise InvalidRequest("tags", 'must be a list (all of them), or {"all": [...]} and {"any": [...]}')
    found: dict[str, Any] = {}
    if "all" in tags:
        found["tags"] = checks.tag_list("tags", tags["all"])
    if "any" in tags:
        found["tags_any"] = _some("tags", checks.tag_list("tags", tags["any"]))
    return found


def _some(name: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    if not wanted:
        raise InvalidRequest(name, "is an empty list, which nothing can match; leave it out to match all")
    return wanted


def mem_get_observation(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    reach: Reach = "exact",
) -> Plan[Record | None]:
    """One memory in full, by id or topic key; None when it is absent, expired or another user's.

    With reach the nearest namespace that holds it answers.
    """
    ref = reference(user_id, observation_id, topic_key)
    if reach == "exact":
        return (yield from calls.get(ref))
    for namespace in (yield from targets(ref.namespace, core.reach(reach))):
        record = yield from calls.get(replace(ref, namespace=namespace))
        if record is not None:
            return record
    return None


def mem_list(
    core: Core,
    user_id: str,
    *,
    types: Iterable[str] | None = None,
    types_exclude: Iterable[str] | None = None,
    tags: Iterable[str] | Mapping[str, Iterable[str]] | None = None,
    topic_prefix: str | None = None,
    filter: FilterLike | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    reach: Reach = "exact",
    cursor: str | None = None,
    limit: int = 50,
) -> Plan[RecordPage]:
    """List memories, newest first, a page at a time (at most 1,000).

    `since` is inclusive and `until` exclusive, both of the last material change. `tags` must all be there,
    or `{"any": [...]}`. `filter` is a mapping on metadata (`{"score": {"gte": 10}}`) or a Filter. Pass
    `next_cursor` back with the same filter for the next page.
    """
    user = checks.name("user_id", user_id)
    where = narrowed(
        types=types,
        types_exclude=types_exclude,
        tags=tags,
        topic_prefix=topic_prefix,
        filter=filter,
        since=since,
        until=until,
    )
    checked = core.reach(reach)
    size = checks.whole("limit", limit, 1, checks.MAX_LIMIT)
    scope = _scope(user, checked, where)
    position = open_cursor(cursor, scope) if cursor is not None else None
    page = yield from calls.page(Query(user, checked, where=where, position=position, limit=size))
    following = seal_cursor(page.position, scope) if page.position is not None else None
    return RecordPage(page.items, page.total, following is not None, following)


def _scope(user: str, reach: str, where: Filter) -> str:
    """What a cursor is bound to: it pages through the listing it came from and no other."""
    return hashlib.sha256(f"{user}\n{reach}\n{where.digest()}".encode()).hexdigest()[:12]


def seal_cursor(position: str, scope: str) -> str:
    """An opaque, versioned cursor."""
    text = json.dumps({"v": 1, "p": position, "s": scope}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def open_cursor(cursor: Any, scope: str) -> str:
    """The position in a cursor, or InvalidRequest when it is malformed or of another listing."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        held = json.loads(base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True))
        version, position, bound = held["v"], held["p"], held["s"]
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError, binascii.Error):
        raise InvalidRequest("cursor", "is not one that a listing gave; start again without it") from None
    if version != 1 or not isinstance(position, str):
        raise InvalidRequest("cursor", "was given by another version of Keyfold; start again without it")
    if bound != scope:
        raise InvalidRequest(
            "cursor", "belongs to another listing; use it with the user and filter that it came from"
        )
    return position


def mem_topics(
    core: Core, user_id: str, prefix: str = "", *, reach: Reach = "exact", limit: int = 1_000
) -> Plan[Items[Topic]]:
    """The keyed memories by name, sorted; `prefix` is compared as it stands (`architecture/`)."""
    user = checks.name("user_id", user_id)
    where = Filter(topic_prefix=checks.text("prefix", prefix, checks.MAX_NAME_BYTES, blank=True) or None)
    size = checks.whole("limit", limit, 1, checks.MAX_BATCH)
    page = yield from calls.page(
        Query(
            user,
            core.reach(reach),
            (OBSERVATION,),
            where,
            order="key",
            keyed_only=True,
            limit=size,
            texts=False,
        )
    )
    topics = tuple(
        Topic(item.key, item.title, item.type, item.revision_count, item.updated_at, item.id, item.namespace)
        for item in page.items
    )
    return Items(topics, page.total, page.total > len(topics))


def mem_history(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    reach: Reach = "exact",
) -> Plan[History]:
    """Every kept state of a memory, newest first; empty when there is no such memory.

    `gaps` lists spans of revisions that are no longer kept, or never were (a service may keep the present state
    alone). `history.diff()` compares the last two.
    """
    ref = reference(user_id, observation_id, topic_key)
    past = yield from _nearest_history(core, ref, reach)
    if past.record is None:
        return History((), 0, False)
    kept = past.revisions
    return History(kept, len(kept), False, past.record.id, past.record.topic_key, gaps_in(kept))


def _nearest_history(core: Core, ref: Ref, reach: Reach) -> Plan[Past]:
    """The history in the nearest namespace of a reach that holds the record."""
    past = Past(None, ())
    for namespace in (yield from targets(ref.namespace, core.reach(reach))):
        past = yield from calls.history(replace(ref, namespace=namespace))
        if past.record is not None:
            break
    return past


def gaps_in(revisions: tuple[Revision, ...]) -> tuple[tuple[int, int], ...]:
    """The spans (first, last) of revision numbers missing below the newest one; `revisions` is newest first."""
    gaps: list[tuple[int, int]] = []
    expected = 1
    for revision in reversed(revisions):
        if revision.revision > expected:
            gaps.append((expected, revision.revision - 1))
        expected = revision.revision + 1
    return tuple(gaps)


def mem_revision(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    revision: int,
    reach: Reach = "exact",
) -> Plan[Revision]:
    """One state of a memory. NotFound when the memory or that revision is not there."""
    ref = reference(user_id, observation_id, topic_key)
    number = checks.whole("revision", revision, 1, 2**53)
    past = yield from _nearest_history(core, ref, reach)
    if past.record is None:
        raise NotFound(f"there is no {ref.describe()}")
    return find_revision(past.revisions, number, ref)


def mem_timeline(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    before: int = 5,
    after: int = 5,
    reach: Reach = "exact",
) -> Plan[list[Entry]]:
    """What was written around a memory, oldest first, the memory itself included.

    Up to `before` memories written before it and `after` written after it (at most 500 each), and its own
    earlier revisions (the latest `before` of them), each an Entry dated by when that state was written and
    marked `is_past`. With reach, neighbours come from all of its namespaces. Raises NotFound.
    """
    ref = reference(user_id, observation_id, topic_key)
    far = core.reach(reach)
    earlier = checks.whole("before", before, 0, checks.MAX_NEIGHBOURS)
    later = checks.whole("after", after, 0, checks.MAX_NEIGHBOURS)
    anchor = yield from mem_get_observation(core, user_id, observation_id, topic_key=topic_key, reach=far)
    if anchor is None:
        raise NotFound(f"there is no {ref.describe()}")
    entries = [_entry(anchor, is_anchor=True)]
    if earlier:
        at = position_of(anchor, "newest")
        page = yield from calls.page(Query(ref.namespace, far, position=at, limit=earlier, want_total=False))
        entries.extend(_entry(item) for item in page.items)
        if anchor.revision_count > 1 and core.capabilities.history:
            past = yield from calls.history(Ref(anchor.namespace, id=anchor.id, kind=anchor.kind))
            states = [state for state in past.revisions if state.revision < anchor.revision_count]
            entries.extend(_past_entry(anchor, state) for state in states[:earlier])
    if later:
        at = position_of(anchor, "oldest")
        query = Query(ref.namespace, far, order="oldest", position=at, limit=later, want_total=False)
        page = yield from calls.page(query)
        entries.extend(_entry(item) for item in page.items)
    return sorted(entries, key=_time_order)


def _time_order(entry: Record) -> tuple[datetime, int, str, int]:
    return entry.updated_at, len(entry.id), entry.id, entry.revision_count


def _entry(record: Record, *, is_anchor: bool = False) -> Entry:
    state: dict[str, Any] = {name: getattr(record, name) for name in Record.__dataclass_fields__}
    return Entry(**state, is_anchor=is_anchor)


def _past_entry(anchor: Record, state: Revision) -> Entry:
    return replace(
        _entry(anchor),
        title=state.title,
        content=state.content,
        type=state.type,
        metadata=state.metadata,
        tags=state.tags,
        session_id=state.session_id,
        revision_count=state.revision,
        normalized_hash=state.normalized_hash,
        updated_at=state.written_at,
        pinned=state.pinned,
        expires_at=state.expires_at,
        is_past=True,
    )


def mem_stats(core: Core, user_id: str, *, reach: Reach = "exact") -> Plan[dict[str, Any]]:
    """How much a user's memory holds, by kind and type."""
    user = checks.name("user_id", user_id)
    counts = yield from calls.count(user, core.reach(reach))
    return {
        "user_id": user,
        "total": counts.total,
        "by_kind": counts.by_kind,
        "by_type": counts.by_type,
        "topics": counts.keyed,
        "pinned": counts.pinned,
        "revisions": counts.revisions,
        "sessions": counts.by_kind.get(SESSION, 0) if core.capabilities.session_activity else None,
        "oldest": counts.oldest,
        "newest": counts.newest,
    }


def mem_recall(core: Core, user_id: str, question: str, *, reach: Reach = "exact") -> Plan[Answer]:
    """An answer with citations, on engines that answer questions themselves; else Unsupported.

    A citation's `is_current` is false when the memory was rewritten since: the answer may rest on what it said.
    """
    user = checks.name("user_id", user_id)
    asked = checks.text("question", question, checks.MAX_QUERY_BYTES)
    core.needs("answers", "mem_context gathers the memories for a question and mem_search finds them")
    return (yield from calls.recall(user, asked, core.reach(reach)))
