"""The commands that serve memory to other programs."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Final

from keyfold.cli.inputs import store_of, user_of
from keyfold.cli.output import Output

_NEEDS_SDK: Final = (
    "keyfold mcp needs the SDK of the Model Context Protocol, version 2 or newer, which is not installed: "
    "pip install 'keyfold[mcp]'"
)


def mcp(args: Namespace, output: Output) -> int:
    """keyfold mcp"""
    from keyfold.mcp_server.pipes import claim_pipes
    from keyfold.memory import checks

    user = checks.name("user", user_of(args))
    by_hand = sys.stdin is not None and sys.stdin.isatty()
    pipes = claim_pipes()
    try:
        from keyfold.mcp_server.stdio import run
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio", "pydantic"):
            raise
        output.error("ImportError", _NEEDS_SDK)
        return 2
    if by_hand:
        output.note("keyfold: an MCP server, which a client starts and talks to over stdin; Ctrl-C ends it")
    return run(store_of(args), user, pipes)
