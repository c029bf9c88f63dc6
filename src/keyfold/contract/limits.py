"""The limit that engines keep too, because only the transaction knows what a merge makes of what is held.

All other limits are checked before an engine is called, by `memory.checks`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from keyfold.errors import InvalidRequest
from keyfold.model import TURN, UNSET, Record

MAX_METADATA_BYTES: Final = 64 * 1024


def json_size(value: Any) -> int:
    """How many bytes a value takes as JSON: what the limit of metadata is measured in."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def merged(held: Record, patch: dict[str, Any]) -> dict[str, Any]:
    """Metadata with a patch applied: given keys replace, those whose value is UNSET go.

    InvalidRequest where the whole would pass the limit, though each patch keeps it: it could never be imported again.
    """
    found = {key: value for key, value in {**held.metadata, **patch}.items() if value is not UNSET}
    if held.metadata and (size := json_size(found)) > MAX_METADATA_BYTES:
        raise InvalidRequest(
            "metadata",
            f"takes {size:,} bytes as JSON once it is merged with the {json_size(held.metadata):,} that are held; "
            f"at most {MAX_METADATA_BYTES:,} are allowed. Remove keys (a value of None does), or clear it first",
        )
    return found


def refuse_empty_turn(record: Record) -> None:
    """InvalidRequest for a turn that a patch leaves with neither text nor tool calls: it would say nothing."""
    if record.kind == TURN and not record.metadata.get("tool_calls") and not record.content.strip():
        raise InvalidRequest(
            "metadata", "takes the tool_calls of a turn that has no text: give it one as well"
        )
