"""Carrying calls out: arguments are checked, the call is made, and whatever goes wrong becomes an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from keyfold.errors import InvalidRequest, KeyfoldError
from keyfold.mcp_server.replies import Reply, bounded
from keyfold.mcp_server.tools import Tool, tools
from keyfold.mcp_server.wording import Wording
from keyfold.memory import AsyncMemory, checks
from keyfold.text.line import one_line
from keyfold.text.redact import redact

_SHOWN: Final = 10  # how many names an error lists
_WIDEST: Final = 60  # characters of a name that an error shows


class Toolbox:
    """The tools over one user's memory. Nothing here knows how calls arrive."""

    def __init__(self, memory: AsyncMemory, user: str) -> None:
        self.memory = memory
        self.user = checks.name("user", user)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools(memory.core.config)}
        self._words = Wording(self.tools)

    async def call(self, name: str, arguments: Mapping[str, Any] | None) -> Reply:
        """Call a tool by name. Every failure is a Reply, but KeyError for a name that is not a tool's."""
        tool = self.tools[name]
        given = dict(arguments or {})
        try:
            return bounded(await tool.handler(self.memory, self.user, checked(tool, given)))
        except InvalidRequest as error:
            return failure(f"{name}: {self._words(str(error))}. Received the arguments {names(given)}")
        except KeyfoldError as error:
            return failure(f"{name}: {self._words(str(error))}")
        except (Exception, SystemExit) as error:
            # its message may hold text of a memory, so only its kind is told
            return failure(
                f"{name}: an internal error ({type(error).__name__}); nothing is known to be saved. Try once more, "
                "and report it if it happens again"
            )


def failure(message: str) -> Reply:
    """An error as an answer."""
    return bounded(Reply(one_line(message), is_error=True))


def checked(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, each of its declared type; null means that an optional one was not passed."""
    allowed = {parameter.name: parameter for parameter in tool.parameters}
    unknown = [name for name in given if name not in allowed]
    if unknown:
        whose = " (the host decides whose memory this is)" if "user_id" in unknown else ""
        raise InvalidRequest(
            "arguments", f"there is no argument {names(unknown)} here{whose}; allowed: {', '.join(allowed)}"
        )
    missing = [name for name, parameter in allowed.items() if parameter.required and given.get(name) is None]
    if missing:
        raise InvalidRequest("arguments", f"{', '.join(missing)} must be given")
    return {
        name: parameter.check(given[name])
        for name, parameter in allowed.items()
        if given.get(name) is not None
    }


def names(found: Any) -> str:
    """Names as a client sent them, in ASCII and short, for an error."""
    shown = [ascii(redact(name)[:_WIDEST]) for name in list(found)[:_SHOWN]]
    return ", ".join(shown) + (", ..." if len(found) > _SHOWN else "") if shown else "(none)"
