"""Reading the fields of Engram's entries. Times without an offset are UTC, as Engram writes them."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from keyfold.clock import from_text
from keyfold.portability.strict_json import BadInput
from keyfold.text.redact import has_private, redact

SUMMARY_TYPE: Final = "session_summary"

# What has a place of its own in a record. Engram's hash is of the text before redaction, so it is not kept.
_MAPPED: Final = frozenset(
    ("title", "content", "topic_key", "session_id", "created_at", "updated_at", "project", "normalized_hash")
)


def time_of(value: dict[str, Any], name: str) -> datetime:
    """A time that must be there. BadInput."""
    found = value.get(name)
    if not isinstance(found, str) or not found:
        raise BadInput(f"{name}: it is missing, or no text")
    try:
        return from_text(found.strip(), naive=True)
    except (ValueError, OverflowError):
        raise BadInput(f"{name}: it is not a time such as 2026-01-31 12:00:00") from None


def optional_text(value: dict[str, Any], name: str) -> str | None:
    """A text, or None when it is absent, null or blank. BadInput for another type."""
    found = value.get(name)
    if found is None or (isinstance(found, str) and not found.strip()):
        return None
    if not isinstance(found, str):
        raise BadInput(f"{name}: it must be text")
    return found


def metadata_of(value: dict[str, Any], drop: tuple[str, ...] = ()) -> dict[str, Any]:
    """What Engram knows of an entry beyond what a record has a place for: `engram`, and `project` on its own."""
    kept = {
        name: item
        for name, item in value.items()
        if name not in _MAPPED and name not in drop and item is not None
    }
    project = optional_text(value, "project")
    return {"engram": kept} if project is None else {"project": project, "engram": kept}


def identity(value: dict[str, Any]) -> str:
    """A stable name of an entry without a key: Engram's sync_id, else a digest of its redacted text and its time.

    A sync_id with private text is none: it is not kept, so it could not be known again.
    """
    sync_id = optional_text(value, "sync_id")
    if sync_id is not None and not has_private(sync_id):
        return sync_id
    told = [value.get(name) for name in ("session_id", "created_at", "type")]
    texts = [
        redact(text) if isinstance(text, str) else "" for text in (value.get("title"), value.get("content"))
    ]
    form = json.dumps([*told, *texts], default=str)
    return "engram-" + sha256(form.encode()).hexdigest()[:40]
