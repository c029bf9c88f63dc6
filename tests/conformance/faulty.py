"""Makes engines with one small fault each from the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from keyfold.contract.filters import Filter
from keyfold.contract.intents import FoundPage, Intent, Page, Query, Ref, SearchQuery, Selector
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.model import DeleteResult, Receipt, Record

BROKEN: Final[dict[str, type[InMemoryEngine]]] = {}


def broken(engine: type[InMemoryEngine]) -> type[InMemoryEngine]:
    """Add an engine to those that must be found out."""
    BROKEN[engine.__name__] = engine
    return engine


def writes(name: str, change: Callable[[Intent], Intent]) -> None:
    """A broken engine that changes intents on their way in."""

    def store_many(self: Any, intents: Sequence[Intent]) -> list[Receipt]:
        return InMemoryEngine.store_many(self, [change(intent) for intent in intents])

    broken(type(name, (InMemoryEngine,), {"store_many": store_many}))


def answers(name: str, change: Callable[[Receipt], Receipt]) -> None:
    """A broken engine that changes receipts on their way out."""

    def store_many(self: Any, intents: Sequence[Intent]) -> list[Receipt]:
        return [change(receipt) for receipt in InMemoryEngine.store_many(self, intents)]

    broken(type(name, (InMemoryEngine,), {"store_many": store_many}))


def reads(name: str, change: Callable[[Record], Record]) -> None:
    """A broken engine that changes records on their way out, wherever they come from."""

    class Reading(InMemoryEngine):
        def get(self, ref: Ref) -> Record | None:
            record = super().get(ref)
            return record and change(record)

        def page(self, query: Query) -> Page:
            page = super().page(query)
            return replace(page, items=tuple(change(record) for record in page.items))

        def search(self, query: SearchQuery) -> FoundPage:
            page = super().search(query)
            return replace(page, items=tuple(replace(hit, record=change(hit.record)) for hit in page.items))

    broken(type(name, (Reading,), {}))


def narrowings(name: str, change: Callable[[Filter], Filter]) -> None:
    """A broken engine that changes filters."""

    class Narrowing(InMemoryEngine):
        def page(self, query: Query) -> Page:
            return super().page(replace(query, where=change(query.where)))

        def search(self, query: SearchQuery) -> FoundPage:
            return super().search(replace(query, where=change(query.where)))

    broken(type(name, (Narrowing,), {}))


def listings(name: str, change: Callable[[Query], Query]) -> None:
    """A broken engine that changes the queries of listings."""

    def page(self: Any, query: Query) -> Page:
        return InMemoryEngine.page(self, change(query))

    broken(type(name, (InMemoryEngine,), {"page": page}))


def pages(name: str, change: Callable[[Page], Page]) -> None:
    """A broken engine that changes pages on their way out."""

    def page(self: Any, query: Query) -> Page:
        return change(InMemoryEngine.page(self, query))

    broken(type(name, (InMemoryEngine,), {"page": page}))


def searches(name: str, change: Callable[[SearchQuery], SearchQuery]) -> None:
    """A broken engine that changes searches."""

    def search(self: Any, query: SearchQuery) -> FoundPage:
        return InMemoryEngine.search(self, change(query))

    broken(type(name, (InMemoryEngine,), {"search": search}))


def hits(name: str, change: Callable[[FoundPage], FoundPage]) -> None:
    """A broken engine that changes what a search found."""

    def search(self: Any, query: SearchQuery) -> FoundPage:
        return change(InMemoryEngine.search(self, query))

    broken(type(name, (InMemoryEngine,), {"search": search}))


def forgets(name: str, change: Callable[[Selector], Selector]) -> None:
    """A broken engine that changes what to forget."""

    def forget(self: Any, selector: Selector) -> DeleteResult:
        return InMemoryEngine.forget(self, change(selector))

    broken(type(name, (InMemoryEngine,), {"forget": forget}))
