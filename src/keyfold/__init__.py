"""Memory for AI agents: written twice, stored once; rewritten in place with its past kept; found by its key.

    from keyfold import Memory

    with Memory.open("memory.db") as memory:
        memory.mem_save("alice", "JWT, one hour.", type="decision", title="Auth model", topic_key="architecture/auth")

Everything public is reachable from here; each name is imported when it is first used, so that
`import keyfold` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from keyfold.contract.filters import Condition as Condition
    from keyfold.contract.filters import Filter as Filter
    from keyfold.errors import Conflict as Conflict
    from keyfold.errors import IdempotencyConflict as IdempotencyConflict
    from keyfold.errors import InvalidRequest as InvalidRequest
    from keyfold.errors import KeyfoldError as KeyfoldError
    from keyfold.errors import NotFound as NotFound
    from keyfold.errors import OutcomeUnknown as OutcomeUnknown
    from keyfold.errors import StoreError as StoreError
    from keyfold.errors import Unauthorized as Unauthorized
    from keyfold.errors import Unavailable as Unavailable
    from keyfold.errors import Unsupported as Unsupported
    from keyfold.memory import AsyncMemory as AsyncMemory
    from keyfold.memory import Memory as Memory
    from keyfold.model import UNSET as UNSET
    from keyfold.model import Config as Config
    from keyfold.model import ContextText as ContextText
    from keyfold.model import DeleteResult as DeleteResult
    from keyfold.model import Entry as Entry
    from keyfold.model import History as History
    from keyfold.model import Hit as Hit
    from keyfold.model import Items as Items
    from keyfold.model import Observation as Observation
    from keyfold.model import Record as Record
    from keyfold.model import RecordPage as RecordPage
    from keyfold.model import Revision as Revision
    from keyfold.model import SaveResult as SaveResult
    from keyfold.model import SearchResults as SearchResults
    from keyfold.model import Session as Session
    from keyfold.model import SessionStart as SessionStart
    from keyfold.model import Suggestion as Suggestion
    from keyfold.model import Topic as Topic
    from keyfold.registry import open_async_engine as open_async_engine
    from keyfold.registry import open_engine as open_engine

_HOMES = {
    "keyfold.contract.filters": ("Condition", "Filter"),
    "keyfold.errors": (
        "Conflict",
        "IdempotencyConflict",
        "InvalidRequest",
        "KeyfoldError",
        "NotFound",
        "OutcomeUnknown",
        "StoreError",
        "Unauthorized",
        "Unavailable",
        "Unsupported",
    ),
    "keyfold.memory": ("AsyncMemory", "Memory"),
    "keyfold.model": (
        "UNSET",
        "Config",
        "ContextText",
        "DeleteResult",
        "Entry",
        "History",
        "Hit",
        "Items",
        "Observation",
        "Record",
        "RecordPage",
        "Revision",
        "SaveResult",
        "SearchResults",
        "Session",
        "SessionStart",
        "Suggestion",
        "Topic",
    ),
    "keyfold.registry": ("open_async_engine", "open_engine"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(["__version__", *_HOME_OF])  # pyright: ignore[reportUnsupportedDunderAll]  # made from one list


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'keyfold' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
