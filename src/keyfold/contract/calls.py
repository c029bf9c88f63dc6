"""The calls a plan makes on an engine, as requests to yield: each a small generator with its types.

`receipt = yield from calls.store(intent)` reads like the call it stands for and serves both faces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from keyfold.contract.intents import (
    Counts,
    FoundPage,
    Health,
    Intent,
    Page,
    Past,
    Query,
    Ref,
    SearchQuery,
    Selector,
)
from keyfold.contract.protocols import AsyncEngine, Engine
from keyfold.flow import Plan
from keyfold.model import Answer, DeleteResult, Reach, Receipt, Record


class Call(NamedTuple):
    """A method of the engine, by name, and its arguments."""

    method: str
    arguments: tuple[Any, ...]


def performer(engine: Engine) -> Callable[[Call], Any]:
    """What carries out calls on a blocking engine."""

    def perform(call: Call) -> Any:
        return getattr(engine, call[0])(*call[1])

    return perform


def aperformer(engine: AsyncEngine) -> Callable[[Call], Awaitable[Any]]:
    """What carries out calls on an async engine."""

    def perform(call: Call) -> Awaitable[Any]:
        return getattr(engine, call[0])(*call[1])  # type: ignore[no-any-return]  # every method is a coroutine

    return perform


def store(intent: Intent) -> Plan[Receipt]:
    return (yield Call("store", (intent,)))  # type: ignore[no-any-return]  # a plan's answers are untyped, here they get their type


def store_many(intents: Sequence[Intent]) -> Plan[list[Receipt]]:
    return (yield Call("store_many", (intents,)))  # type: ignore[no-any-return]  # as above


def get(ref: Ref) -> Plan[Record | None]:
    return (yield Call("get", (ref,)))  # type: ignore[no-any-return]  # as above


def page(query: Query) -> Plan[Page]:
    return (yield Call("page", (query,)))  # type: ignore[no-any-return]  # as above


def search(query: SearchQuery) -> Plan[FoundPage]:
    return (yield Call("search", (query,)))  # type: ignore[no-any-return]  # as above


def forget(selector: Selector) -> Plan[DeleteResult]:
    return (yield Call("forget", (selector,)))  # type: ignore[no-any-return]  # as above


def count(namespace: str, reach: Reach = "exact") -> Plan[Counts]:
    return (yield Call("count", (namespace, reach)))  # type: ignore[no-any-return]  # as above


def namespaces(prefix: str = "") -> Plan[list[str]]:
    return (yield Call("namespaces", (prefix,)))  # type: ignore[no-any-return]  # as above


def history(ref: Ref) -> Plan[Past]:
    return (yield Call("history", (ref,)))  # type: ignore[no-any-return]  # as above


def recall(namespace: str, question: str, reach: Reach = "exact") -> Plan[Answer]:
    return (yield Call("recall", (namespace, question, reach)))  # type: ignore[no-any-return]  # as above


def health() -> Plan[Health]:
    return (yield Call("health", ()))  # type: ignore[no-any-return]  # as above
