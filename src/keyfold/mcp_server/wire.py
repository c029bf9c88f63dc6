"""Messages as lines of JSON: what a client sent, read so that nothing it sends can go unanswered, and replies."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from keyfold.mcp_server.replies import packed

logger = logging.getLogger(__name__)

_FORM: Final = (
    'a message is one JSON object on one line, with "jsonrpc": "2.0", a method and, for a request, an id'
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A line that is no message, and why."""

    code: int
    problem: str
    id: int | str | None = None

    def line(self) -> bytes:
        """The JSON-RPC error that answers it."""
        error = {"code": self.code, "message": self.problem}
        return packed({"jsonrpc": "2.0", "id": self.id, "error": error}) + b"\n"


def read_message(line: bytes) -> SessionMessage | Refusal | None:
    """The message in a line, or why it is none; None for a line that needs no answer.

    The SDK's own reader drops in silence what its strict parser refuses, and that is more than garbage: one half of
    a cut emoji (a lone surrogate) or one byte that is not UTF-8 is enough, and then the client waits for ever. Here
    both are let through as lone surrogates, so that the tool refuses them with a word on which argument.
    """
    text = line.decode("utf-8", "surrogateescape").lstrip("\ufeff")
    if not text or text.isspace():
        return None
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return Refusal(PARSE_ERROR, f"not JSON: {error.msg} at character {error.pos + 1}; {_FORM}")
    except (ValueError, RecursionError):
        return Refusal(
            PARSE_ERROR, f"not JSON that can be read (a number too long, or nested too deep); {_FORM}"
        )
    if isinstance(found, list):
        return Refusal(INVALID_REQUEST, f"batches are not supported; {_FORM}")
    if not isinstance(found, dict):
        return Refusal(INVALID_REQUEST, _FORM)
    return _message(found)


def is_text(found: str) -> bool:
    """Whether UTF-8 has a form for all of it."""
    try:
        found.encode()
    except UnicodeEncodeError:
        return False
    return True


def _no_constant(name: str) -> None:
    raise json.JSONDecodeError(f"{name} is not JSON", "", 0)


def _message(found: dict[str, Any]) -> SessionMessage | Refusal | None:
    sent_id = found.get("id")
    known_id = sent_id if isinstance(sent_id, (int, str)) and not isinstance(sent_id, bool) else None
    if isinstance(known_id, str) and not is_text(known_id):  # no reply could name it
        return Refusal(INVALID_REQUEST, f"the id holds a lone surrogate or a byte that is no UTF-8; {_FORM}")
    if "method" not in found and ("result" in found or "error" in found):
        logger.debug("dropped a response: this server asks nothing")
        return None
    if "id" in found and known_id is None:  # the SDK would take it for a notification, and answer nothing
        return Refusal(INVALID_REQUEST, f"the id must be a string or a whole number; {_FORM}")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_python(found, by_name=False))
    except (ValueError, TypeError, RecursionError):  # the message of a ValidationError quotes what was sent
        return Refusal(INVALID_REQUEST, f"{_FORM}; params must be an object", known_id)


def reply_line(message: JSONRPCMessage) -> bytes:
    """A message as a line. Where the SDK's own writer would end the server, this one answers with an error."""
    try:
        return packed(message.model_dump(by_alias=True, exclude_unset=True)) + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        problem = f"the reply cannot be written as JSON ({type(error).__name__}); please report it"
        return Refusal(INTERNAL_ERROR, problem, getattr(message, "id", None)).line()


def settled_by(message: JSONRPCMessage) -> Any:
    """The id of the request that a message ends: an answer to it, or the client's word that it needs none. None else."""
    if isinstance(message, (JSONRPCResponse, JSONRPCError)):
        return message.id
    if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        return (message.params or {}).get("requestId")
    return None
