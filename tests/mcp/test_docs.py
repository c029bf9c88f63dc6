"""The snippets that users copy are taken by the command line as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from keyfold.cli.parser import parse

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "mcp.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_snippets_for_clients_start_the_server(page: Path) -> None:
    text = page.read_text("utf-8")
    settings = [
        json.loads(block)["mcpServers"] for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    ]
    starts = [[entry["command"], *entry["args"]] for servers in settings for entry in servers.values()]
    starts += [
        shlex.split(line.partition(" -- ")[2])
        for line in text.splitlines()
        if line.startswith("claude mcp add")
    ]
    assert len(starts) >= 2
    for command, *arguments in starts:
        assert command == "keyfold"
        assert parse(arguments).handler == "serving:mcp"
    for servers in settings:
        assert {name for entry in servers.values() for name in entry.get("env", {})} <= {
            "KEYFOLD_STORE",
            "KEYFOLD_USER",
            "KEYFOLD_API_KEY",
        }


def test_the_page_lists_the_tools_that_there_are() -> None:
    from keyfold import Config
    from keyfold.mcp_server.tools import tools

    listed = re.findall(r"^\| `(mem_\w+)` \|", PAGES[1].read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(tool.name for tool in tools(Config()))
