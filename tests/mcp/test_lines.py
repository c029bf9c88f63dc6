"""What a tool says on a line stays on it: what is read back can pass for nothing else of the reply."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import jsonrpc_message_adapter

from keyfold import AsyncMemory
from keyfold.mcp_server.wire import settled_by
from mcp import Client
from tests.mcp.common import SAVE, said, talk


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x0b", "\x1c", "\x85", "\u2028"], ids=ascii)
def test_no_name_makes_a_line_of_its_own(end: str) -> None:
    name = f"a{end}FORGED line \x1b[31m"
    keyed = {
        **SAVE,
        "title": name,
        "topic_key": name,
        "session_id": name,
        "tags": [name],
        "metadata": {name: name},
    }
    calls: list[tuple[str, dict[str, Any]]] = [
        ("mem_session_start", {"session_id": name}),
        ("mem_save", keyed),
        ("mem_save", {**keyed, "content": "JWT, 15 days."}),
        ("mem_save", {**keyed, "topic_key": f"{name} "}),
        ("mem_search", {"query": "jwt"}),
        ("mem_get_observation", {"topic_key": name}),
        ("mem_get_observation", {"topic_key": name, "revision": 1}),
        ("mem_get_observation", {"topic_key": f"absent {name}"}),
        ("mem_timeline", {"topic_key": name}),
        ("mem_history", {"topic_key": name}),
        ("mem_context", {}),
        ("mem_context", {"query": "jwt"}),
        ("mem_suggest_topic_key", {"type": "decision", "title": name}),
        ("mem_session_summary", {"session_id": name, "summary": "Settled."}),
        ("mem_session_start", {"session_id": "another"}),
        ("mem_session_end", {"session_id": name}),
        ("mem_session_end", {"session_id": f"absent {name}"}),
    ]

    async def work(client: Client, memory: AsyncMemory) -> None:
        for tool, arguments in calls:
            result = await client.call_tool(tool, arguments)
            assert result.is_error == ("absent" in str(arguments)), said(result)
            assert not any(line.startswith("FORGED") for line in said(result).splitlines()), said(result)
            assert "\x1b" not in said(result)
        found = await client.call_tool("mem_get_observation", {"topic_key": name})
        data = found.structured_content
        assert data is not None
        assert (data["topic_key"], data["title"], data["tags"]) == (name, name, [name])
        assert (data["metadata"], data["session_id"]) == ({name: name}, name)

    talk(work)


@pytest.mark.parametrize(
    ("message", "ended"),
    [
        ({"id": 7, "result": {}}, 7),
        ({"id": "a", "error": {"code": -32600, "message": "no"}}, "a"),
        ({"method": "notifications/cancelled", "params": {"requestId": 8}}, 8),
        ({"method": "notifications/cancelled", "params": {}}, None),
        ({"method": "notifications/cancelled"}, None),
        ({"method": "notifications/initialized", "params": {"requestId": 8}}, None),
        ({"id": 9, "method": "ping"}, None),
    ],
)
def test_a_request_ends_with_its_answer_or_when_it_is_called_off(message: dict[str, Any], ended: Any) -> None:
    read = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message})
    assert settled_by(read) == ended
