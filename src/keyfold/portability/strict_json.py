"""JSON as Keyfold reads it from files: what a store cannot hold or return unchanged is refused, with a reason.

Reasons name the fault and its place, never the text.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

LARGEST: Final = 2**63 - 1


class BadInput(ValueError):
    """A piece of input that cannot be taken. The message is the reason and holds none of the text."""


def loads(text: str | bytes) -> Any:
    """Parse one JSON document, strictly. BadInput with a reason."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"not UTF-8 (byte {error.start + 1})") from None
    try:
        value, end = _decoder.raw_decode(
            text
        )  # unlike `decode` it looks for no white space, which takes a while
    except (ValueError, RecursionError):
        return decoded(text, _decoder)
    return value if text[end:] in _ENDS else decoded(text, _decoder)


def decoded(text: str, decoder: json.JSONDecoder) -> Any:
    """Parse it with white space around it, or find out what is wrong. BadInput with a reason."""
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
            raise BadInput("not JSON: it ends in the middle") from None
        raise BadInput(f"not JSON: {_fault(error.msg)} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadInput("nested too deeply") from None


def _fault(message: str) -> str:
    """The parser's own word for what is wrong; it is one of a fixed few and quotes nothing."""
    return message.split(":")[0].split("(")[0].strip().lower()


def _constant(_name: str) -> NoReturn:
    raise BadInput("NaN and Infinity are not JSON")


def _integer(digits: str) -> int:
    # longer ones are not even converted: Python refuses those of thousands of digits with an error of its own
    if len(digits) > 20 or not -LARGEST - 1 <= (number := int(digits)) <= LARGEST:
        raise BadInput("an integer beyond 64 bits")
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadInput("a number too large for a float")
    return number


# One for all: json.loads makes a decoder at each call that has a hook, which costs as much as a short line.
_decoder: Final = json.JSONDecoder(parse_constant=_constant, parse_int=_integer, parse_float=_float)
_ENDS: Final = ("", "\n", "\r\n")
