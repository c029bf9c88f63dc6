"""What namespaces are called on CortexDB: scopes, of segments that both wires take.

A segment is `type:id` with letters, digits, `-` and `_` in the id. A namespace's name is encoded reversibly (what is
none of these, and `_` itself, becomes `_` and two hex digits a byte) and cut into segments of at most 120 characters.
The last segment is a `user:`, those before it are `ws:`, so no namespace's scope lies within another's.
"""

from __future__ import annotations

import re
from typing import Final

from keyfold.dialects.base import Shelf

ROOT: Final = "app:keyfold"
SESSIONS: Final = "app:sessions"
LONGEST: Final = 120
_PLAIN: Final = re.compile(r"[A-Za-z0-9-]")
_ESCAPE: Final = re.compile(r"_([0-9a-f]{2})")


def scope_of(shelf: Shelf) -> str:
    """The scope of a shelf."""
    name = "".join(
        character if _PLAIN.fullmatch(character) else "".join(f"_{byte:02x}" for byte in character.encode())
        for character in shelf.namespace
    )
    ids = [name[at : at + LONGEST] for at in range(0, len(name), LONGEST)]
    segments = [*(f"ws:{part}" for part in ids[:-1]), f"user:{ids[-1]}"]
    return "/".join([ROOT, *([SESSIONS] if shelf.sessions else []), *segments])


def shelf_of(scope: str) -> Shelf | None:
    """The shelf behind a scope, with or without the tenant's own segments before it; None when it is none of ours."""
    segments = scope.split("/")
    if ROOT not in segments:
        return None
    rest = segments[segments.index(ROOT) + 1 :]
    sessions = rest[:1] == [SESSIONS]
    rest = rest[1:] if sessions else rest
    kinds = [segment.partition(":")[0] for segment in rest]
    if not rest or kinds != ["ws"] * (len(rest) - 1) + ["user"]:
        return None
    name = "".join(segment.partition(":")[2] for segment in rest)
    raw = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)
    try:
        shelf = Shelf(raw.encode("latin-1").decode(), sessions)
    except UnicodeError:
        return None
    own = "/".join([ROOT, *([SESSIONS] if sessions else []), *rest])
    return shelf if shelf.namespace and scope_of(shelf) == own else None
