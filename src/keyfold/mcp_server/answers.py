"""What answers look like as data: JSON Schemas that name what is always there, and leave room for more."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
_WHOLE: Final[Schema] = {"type": "integer"}
_WHOLE_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}
_YES_OR_NO: Final[Schema] = {"type": "boolean"}
_ADVICE: Final[Schema] = {"type": "string", "description": "What to do about a reply that is truncated."}


def _object(optional: Schema | None = None, **always: Schema) -> Schema:
    return {"type": "object", "properties": {**always, **(optional or {})}, "required": list(always)}


def _list(item: Schema, **always: Schema) -> Schema:
    return _object({"advice": _ADVICE}, items={"type": "array", "items": item}, **always)


_STATE: Final = {
    "title": _TEXT,
    "type": _TEXT,
    "content": _TEXT,
    "metadata": {"type": "object"},
    "tags": {"type": "array", "items": _TEXT},
    "session_id": _TEXT_OR_NULL,
    "pinned": _YES_OR_NO,
}

RECEIPT: Final = _object(
    id=_TEXT,
    topic_key=_TEXT_OR_NULL,
    outcome={"enum": ["created", "updated", "deduped"]},
    revision_count=_WHOLE,
    replayed=_YES_OR_NO,
    session_id=_TEXT_OR_NULL,
    normalized_hash=_TEXT,
    similar_keys={"type": "array", "items": _TEXT},
)
RESULTS: Final = _list(
    _object(
        id=_TEXT,
        type=_TEXT,
        title=_TEXT,
        topic_key=_TEXT_OR_NULL,
        snippet=_TEXT,
        score={"type": "number"},
        updated_at=_TEXT,
        kind=_TEXT,
    ),
    total=_WHOLE,
    truncated=_YES_OR_NO,
)
OBSERVATION: Final = _object(
    {
        "advice": _ADVICE,
        "revision_count": _WHOLE,
        "revision": _WHOLE,
        "updated_at": _TEXT,
        "written_at": _TEXT,
    },
    id=_TEXT_OR_NULL,
    topic_key=_TEXT_OR_NULL,
    **_STATE,
    content_length=_WHOLE,
    offset=_WHOLE,
    next_offset=_WHOLE_OR_NULL,
    truncated=_YES_OR_NO,
)
TIMELINE: Final = _list(
    _object(
        {"metadata_truncated": _YES_OR_NO},
        id=_TEXT,
        topic_key=_TEXT_OR_NULL,
        **_STATE,
        revision_count=_WHOLE,
        updated_at=_TEXT,
        content_truncated=_YES_OR_NO,
        is_past=_YES_OR_NO,
        is_anchor=_YES_OR_NO,
    ),
    total=_WHOLE,
    truncated=_YES_OR_NO,
)
HISTORY: Final = _list(
    _object(
        {"metadata_truncated": _YES_OR_NO},
        **_STATE,
        revision=_WHOLE,
        written_at=_TEXT,
        is_current=_YES_OR_NO,
        content_truncated=_YES_OR_NO,
    ),
    total=_WHOLE,
    truncated=_YES_OR_NO,
    id=_TEXT_OR_NULL,
    topic_key=_TEXT_OR_NULL,
    gaps={"type": "array", "items": {"type": "array", "items": _WHOLE}},
    next_before_revision=_WHOLE_OR_NULL,
)
CONTEXT: Final = _object(text=_TEXT, truncated=_YES_OR_NO)
SESSION: Final = _object(
    id=_TEXT,
    started_at=_TEXT,
    last_activity_at=_TEXT,
    ended_at=_TEXT_OR_NULL,
    summary=_TEXT_OR_NULL,
    summary_truncated=_YES_OR_NO,
    status=_TEXT,
    is_auto_generated=_YES_OR_NO,
)
SESSION_START: Final = _object(
    session_id=_TEXT,
    is_new=_YES_OR_NO,
    summaries={"type": "array", "items": SESSION},
    context=CONTEXT,
    session=SESSION,
    replayed=_YES_OR_NO,
)
SUGGESTIONS: Final = _object(
    items={
        "type": "array",
        "items": _object(key=_TEXT, exists=_YES_OR_NO, title=_TEXT_OR_NULL, score={"type": "number"}),
    }
)
