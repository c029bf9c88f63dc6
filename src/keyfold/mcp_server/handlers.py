"""What each tool does: one call of AsyncMemory, and its answer as text and data."""

from __future__ import annotations

from typing import Any, Final

from keyfold.clock import to_text
from keyfold.errors import InvalidRequest, NotFound
from keyfold.mcp_server.replies import (
    CEILING,
    PREVIEW,
    Reply,
    clip,
    fitted,
    inline,
    nearest,
    packed,
    piece_of,
    preview,
    when,
    without_user,
)
from keyfold.memory import AsyncMemory, checks
from keyfold.model import Entry, Hit, Record, Revision, SaveResult, Session
from keyfold.text.counted import counted, not_kept
from keyfold.text.line import one_line

Arguments = dict[str, Any]

HISTORY_PAGE: Final = 10
_LIST: Final = 8_000  # bytes of tags, and of metadata, that a text shows
_IN_FULL: Final = "mem_get_observation reads one in full, by its id"


async def save(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_save"""
    refuse_past(memory, given.get("expires_at"))
    receipt = await memory.mem_save(user, **given)
    return _receipt(receipt, f"{receipt.outcome}  id {receipt.id}")


def refuse_past(memory: AsyncMemory, expires_at: Any) -> None:
    """A model that gets the year wrong would lose the memory without a word."""
    moment = checks.moment("expires_at", expires_at)
    if moment is not None and moment <= memory.core.now():
        raise InvalidRequest("expires_at", f"is in the past (it is {to_text(memory.core.now())} now)")


async def session_summary(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_session_summary"""
    receipt = await memory.mem_session_summary(user, **given)
    return _receipt(receipt, f"{receipt.outcome}  summary of session {receipt.session_id}")


def _receipt(receipt: SaveResult, head: str) -> Reply:
    name = f"  topic_key {receipt.topic_key}" if receipt.topic_key is not None else ""
    text = one_line(f"{head}{name}  revision {receipt.revision_count}")
    if receipt.replayed:
        text += "\nNothing was written: it was there already."
    if receipt.similar_keys:
        near = one_line(", ".join(receipt.similar_keys))
        text += f"\nThis is a new topic_key, much like one in use: {near}. If the subject is the same, save under that one."
    return Reply(text, receipt.to_dict())


async def search(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_search"""
    results = await memory.mem_search(user, **given)
    items, lines = fitted(results, _hit)
    truncated = len(items) < results.total or results.truncated
    data: dict[str, Any] = {"items": items, "total": results.total, "truncated": truncated}
    if not items:
        text = "Nothing matched. Try other words, fewer filters, or mem_context for what matters most."
        if truncated:
            seen = "the memory service found more than could be looked through: more of the memory's own words may find it"
            text += "\n" + _truncated(data, seen)
        return Reply(text, data)
    lines.append(f"Previews; {_IN_FULL}.")
    if truncated:
        advice = "add words or filters, or raise limit" if len(items) == len(results) else "narrow the query"
        told = f"{len(items)} of {counted(results.total, 'match', 'matches')}"
        told += " and perhaps more" * (len(results) == results.total)  # on a memory service
        lines.append(_truncated(data, f"{told}; {advice}"))
    return Reply("\n".join(lines), data)


def _hit(hit: Hit) -> tuple[dict[str, Any], str]:
    form = without_user(hit.to_dict())
    del form["explain"]
    name = f"  topic_key {hit.topic_key}" if hit.topic_key is not None else ""
    head = (
        f"id {hit.id}  [{hit.type}]  {inline(hit.title)}{name}  score {hit.score:.2f}  {when(hit.updated_at)}"
    )
    return form, f"{one_line(head)}\n    {inline(hit.snippet)}"


def _truncated(data: dict[str, Any], advice: str) -> str:
    """Mark a reply as cut, in its data and as the line that ends its text."""
    data["truncated"], data["advice"] = True, advice
    return f"[truncated: {advice}]"


async def get_observation(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_get_observation"""
    revision, offset = given.pop("revision", None), given.pop("offset", 0)
    if revision is not None:
        state = await memory.mem_revision(user, **given, revision=revision)
        form = {"id": given.get("observation_id"), "topic_key": given.get("topic_key"), **state.to_dict()}
        return _page(form, f"revision {state.revision}", when(state.written_at), offset)
    record = await memory.mem_get_observation(user, **given)
    if record is None:
        raise NotFound(f"there is no memory {_named(given)}; mem_search finds what there is")
    head = f"id {record.id}  revision {record.revision_count}"
    return _page(record.to_dict(), head, when(record.updated_at), offset)


def _named(given: Arguments) -> str:
    if "observation_id" in given:
        return f"with id {given['observation_id']!a:.200}"
    return f"with topic_key {given['topic_key']!a:.200}"


def _page(form: dict[str, Any], head: str, moment: str, offset: int) -> Reply:
    """One text from `offset` on, as much of it as a reply holds."""
    content = form["content"]
    if offset and offset >= len(content):
        raise InvalidRequest("offset", f"is {offset}; the text has {counted(len(content), 'character')}")
    name = f"  topic_key {form['topic_key']}" if form["topic_key"] is not None else ""
    lines = [inline(form["title"]), one_line(f"[{form['type']}]  {head}{name}  {moment}")]
    if form["tags"]:
        lines.append("tags " + clip(one_line(", ".join(form["tags"])), _LIST)[0])
    if form["metadata"]:
        lines.append("metadata " + clip(one_line(packed(form["metadata"]).decode()), _LIST)[0])
    if form["expires_at"] is not None:
        lines.append(f"expires {form['expires_at']}")
    if form["pinned"]:
        lines.append("pinned")
    top = "\n".join(lines)
    piece = piece_of(content[offset:], CEILING - len(top.encode("utf-8", "replace")) - 400)
    end = offset + len(piece)
    more = end < len(content)
    data = without_user(form) | {
        "content": piece,
        "content_length": len(content),
        "offset": offset,
        "next_offset": end if more else None,
        "truncated": more,
    }
    text = f"{top}\n\n{piece}"
    if more:
        advice = f"characters {offset:,} to {end:,} of {len(content):,}; offset {end} goes on"
        text += "\n" + _truncated(data, advice)
    return Reply(text, data)


async def timeline(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_timeline"""
    entries = await memory.mem_timeline(user, **given)
    anchor = next((place for place, entry in enumerate(entries) if entry.is_anchor), 0)
    order = nearest(entries, anchor)
    forms, lines = fitted([entries[place] for place in order], _entry)
    # what is left out is what lies farthest from the memory asked about
    shown = sorted(zip(order, forms, lines, strict=False), key=lambda row: row[0])
    data: dict[str, Any] = {
        "items": [form for _, form, _ in shown],
        "total": len(entries),
        "truncated": len(shown) < len(entries),
    }
    text = [line for _, _, line in shown]
    if data["truncated"]:
        advice = f"the {len(shown)} nearest of {len(entries)} entries; ask for fewer with before and after"
        text.append(_truncated(data, advice))
    if any(form["content_truncated"] for form in data["items"]):
        text.append(f"Long texts are cut; {_IN_FULL} (with its revision for a past one).")
    return Reply("\n".join(text), data)


def _entry(entry: Entry) -> tuple[dict[str, Any], str]:
    form = preview(entry.to_dict())
    mark = ">" if entry.is_anchor else "~" if entry.is_past else " "
    return form, f"{mark} {when(entry.updated_at)}  {_heading(entry)}\n    {_body(form)}"


def _heading(record: Record) -> str:
    name = f"  topic_key {record.topic_key}" if record.topic_key is not None else ""
    return one_line(
        f"id {record.id}  revision {record.revision_count}  [{record.type}]  {inline(record.title)}{name}"
    )


def _body(form: dict[str, Any]) -> str:
    return str(form["content"]).replace("\n", "\n    ")


async def history(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_history"""
    limit, before = given.pop("limit", HISTORY_PAGE), given.pop("before_revision", None)
    found = await memory.mem_history(user, **given)
    if not found:
        raise NotFound(f"there is no memory {_named(given)}; mem_search finds what there is")
    wanted = [state for state in found if before is None or state.revision < before]
    items, lines = fitted(wanted[:limit], _state)
    data: dict[str, Any] = {
        "items": items,
        "total": found.total,
        "truncated": len(items) < len(wanted),
        "id": found.id,
        "topic_key": found.topic_key,
        "gaps": [list(gap) for gap in found.gaps],
        "next_before_revision": None,
    }
    if not items:
        lines.append(f"There is no revision before {before}.")
    lines.extend(f"{not_kept(first, last).capitalize()}." for first, last in found.gaps)
    if data["truncated"]:
        oldest = items[-1]["revision"]
        data["next_before_revision"] = oldest
        advice = f"{len(items)} of {counted(found.total, 'revision')}; before_revision {oldest} goes on"
        lines.append(_truncated(data, advice))
    if any(item["content_truncated"] for item in items):
        lines.append("Long texts are cut; mem_get_observation with revision reads one in full.")
    return Reply("\n".join(lines), data)


def _state(state: Revision) -> tuple[dict[str, Any], str]:
    form = preview(state.to_dict())
    now = "  (current)" if state.is_current else ""
    head = f"revision {state.revision}  {when(state.written_at)}  [{state.type}]  {inline(state.title)}{now}"
    return form, f"{one_line(head)}\n    {_body(form)}"


async def context(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_context"""
    found = await memory.mem_context(user, **given)
    data = _context(found, found.truncated)
    nothing = "Nothing is remembered yet."
    if given.get("query") is not None:
        nothing = "No memory answers that. Leave query out for what matters most."
    return Reply(data["text"] or nothing, data)


def _context(text: str, truncated: bool) -> dict[str, Any]:
    # a budget counts characters, and a character may take four bytes
    shown, cut = clip(text, CEILING // 2)
    return {"text": shown, "truncated": truncated or cut}


async def session_start(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_session_start"""
    begun = await memory.mem_session_start(user, **given)
    summaries = [_session(past) for past in begun.summaries]
    told = _context(begun.context, begun.context.truncated)
    data = {
        "session_id": begun.session_id,
        "is_new": begun.is_new,
        "summaries": summaries,
        "context": told,
        "session": _session(begun.session),
        "replayed": begun.replayed,
    }
    lines = [one_line(f"session {begun.session_id}  ({'new' if begun.is_new else 'going on'})")]
    for past, form in zip(begun.summaries, summaries, strict=True):
        lines.append(f"earlier, {when(past.last_activity_at)}: {inline(form['summary'] or '')}")
    if told["text"]:
        lines += ["", told["text"]]
    return Reply("\n".join(lines), data)


def _session(session: Session) -> dict[str, Any]:
    form = without_user(session.to_dict())
    form["summary_truncated"] = False
    if form["summary"] is not None:
        form["summary"], form["summary_truncated"] = clip(form["summary"], PREVIEW)
    return form


async def session_end(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_session_end"""
    ended = await memory.mem_session_end(user, **given)
    return Reply(one_line(f"ended session {ended.id}"), _session(ended))


async def suggest_topic_key(memory: AsyncMemory, user: str, given: Arguments) -> Reply:
    """mem_suggest_topic_key"""
    found = await memory.mem_suggest_topic_key(user, **given)
    lines = [
        one_line(f"{item.key}  (in use: {inline(item.title or '')})" if item.exists else f"{item.key}  (new)")
        for item in found
    ]
    if any(item.exists for item in found):
        lines.append(
            "Save under one that is in use if the subject is the same: it is then rewritten, history kept."
        )
    return Reply("\n".join(lines), {"items": [item.to_dict() for item in found]})
