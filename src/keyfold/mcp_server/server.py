"""An SDK server of a toolbox. It knows nothing of pipes: any transport of the SDK can drive it."""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from keyfold import __version__
from keyfold.mcp_server.toolbox import Toolbox, names
from keyfold.mcp_server.tools import INSTRUCTIONS, Tool
from keyfold.mcp_server.turns import Turns


def build_server(toolbox: Toolbox) -> Server[Any]:
    """A server that lists and calls the tools of a toolbox, for one client: its calls count in the order they came."""
    turns = Turns()

    async def list_tools(_ctx: Any, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[listed(tool) for tool in toolbox.tools.values()])

    async def call_tool(_ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        if params.name not in toolbox.tools:
            there = ", ".join(toolbox.tools)
            raise MCPError(INVALID_PARAMS, f"there is no tool {names([params.name])}; there are {there}")
        async with turns.turn(reads=toolbox.tools[params.name].reads):
            reply = await toolbox.call(params.name, params.arguments)
        return CallToolResult(
            content=[TextContent(text=reply.text)],
            structured_content=reply.data,
            is_error=reply.is_error,
        )

    return Server(
        "keyfold",
        version=__version__,
        title="Keyfold memory",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def listed(tool: Tool) -> ListedTool:
    """A tool as the protocol lists it."""
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.words,
        input_schema=tool.input_schema(),
        output_schema=tool.output,
        annotations=ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=False,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )
