"""The whole state of a store as its callers see it, to be compared."""

from __future__ import annotations

from typing import Any

from keyfold import Memory


def state_of(memory: Memory, *users: str) -> dict[str, Any]:
    """Records with their histories, sessions and counts of some users. Ids are in it; what is random is too."""
    state: dict[str, Any] = {}
    for user in users:
        records: list[Any] = []
        cursor: str | None = None
        while True:
            page = memory.mem_list(user, limit=1000, cursor=cursor)
            records += [record.to_dict() for record in page]
            cursor = page.next_cursor
            if cursor is None:
                break
        histories = {
            record["id"]: [revision.to_dict() for revision in memory.mem_history(user, record["id"])]
            for record in records
            if record["revision_count"] > 1
        }
        sessions = [session.to_dict() for session in memory.mem_session_list(user, limit=1000)]
        stats = memory.mem_stats(user)
        state[user] = {"records": records, "histories": histories, "sessions": sessions, "stats": stats}
    return state
