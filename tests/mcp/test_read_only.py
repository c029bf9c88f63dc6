"""The server on a store that cannot be written: tools that read answer, the others say why they cannot."""

from __future__ import annotations

from pathlib import Path

from keyfold import AsyncMemory, Memory
from mcp import Client
from tests.mcp.common import SAVE, said, talk
from tests.modes import sealed


def test_tools_that_read_answer_and_a_save_is_told_why_it_is_none(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.mem_save("ana", **SAVE, topic_key="architecture/auth")

    async def work(client: Client, _: AsyncMemory) -> None:
        for name, arguments in (
            ("mem_search", {"query": "jwt"}),
            ("mem_get_observation", {"topic_key": "architecture/auth"}),
            ("mem_timeline", {"observation_id": "1"}),
            ("mem_history", {"topic_key": "architecture/auth"}),
            ("mem_context", {}),
            ("mem_session_start", {}),
            ("mem_suggest_topic_key", {"type": "decision", "title": "Auth"}),
        ):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, said(result)
            assert said(result)
        result = await client.call_tool("mem_save", SAVE)
        assert result.is_error
        assert "is read-only" in said(result)
        assert "make the file and its folder writable" in said(result)

    with sealed(tmp_path):
        talk(work, url=str(tmp_path / "memory.db"))
