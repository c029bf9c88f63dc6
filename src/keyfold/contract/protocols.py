"""The storage contract: what an engine offers, blocking and async. See DESIGN 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from keyfold.contract.intents import (
    Capabilities,
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
from keyfold.model import Answer, DeleteResult, Reach, Receipt, Record


@runtime_checkable
class Engine(Protocol):
    """A blocking engine. Safe to use from several threads at once. A failed call changes nothing."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can and cannot do."""
        ...

    def store(self, intent: Intent) -> Receipt:
        """Carry out one write and say what it did. Conflict, NotFound, SessionLapsed, StoreError."""
        ...

    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        """Carry out writes in order, in one transaction where there is one; a receipt each."""
        ...

    def get(self, ref: Ref) -> Record | None:
        """One record, or None when it is absent, expired or another namespace's."""
        ...

    def page(self, query: Query) -> Page:
        """List records in a total order."""
        ...

    def search(self, query: SearchQuery) -> FoundPage:
        """The records that match the words best."""
        ...

    def forget(self, selector: Selector) -> DeleteResult:
        """Remove records with their history, index entries and idempotency keys."""
        ...

    def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        """How much is there."""
        ...

    def namespaces(self, prefix: str = "") -> list[str]:
        """The names that hold anything, sorted; `prefix` is of whole segments (see reach)."""
        ...

    def history(self, ref: Ref) -> Past:
        """The states of one record, newest first."""
        ...

    def health(self) -> Health:
        """Whether it can serve."""
        ...

    def close(self) -> None:
        """Release everything; later calls raise Unavailable. Closing twice is fine."""
        ...


@runtime_checkable
class Whole(Protocol):
    """An engine that reads all it holds at once, where reading namespace by namespace would cost far more."""

    def everything(self) -> list[Past]:
        """All records of all namespaces, sessions too, with their states: in the order (namespace, kind, minted, key)."""
        ...


@runtime_checkable
class Marked(Protocol):
    """An engine that keeps the mark of an import (`Load.mark`) until the record changes or goes."""

    def marks(self, namespace: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """Of these keys those whose record is as an import left it, with the mark that the import gave it.

        A record that expires has none.
        """
        ...


@runtime_checkable
class Answers(Protocol):
    """An engine that answers questions itself, where its capabilities say so (`answers`)."""

    def recall(self, namespace: str, question: str, reach: Reach = "exact") -> Answer:
        """An answer with citations. Unsupported when the service has no model to answer with."""
        ...


class Finding(Protocol):
    """One thing that a look at a store finds, in plain words. A `fault` needs help."""

    @property
    def fault(self) -> bool: ...


@runtime_checkable
class Examined(Protocol):
    """An engine that can look over all that it holds: what `keyfold doctor` tells of a service."""

    def examine(self) -> Sequence[Finding]:
        """What a look finds. It reads everything."""
        ...


@runtime_checkable
class AsyncEngine(Protocol):
    """The same, awaited."""

    @property
    def capabilities(self) -> Capabilities: ...
    async def store(self, intent: Intent) -> Receipt: ...
    async def store_many(self, intents: Sequence[Intent]) -> list[Receipt]: ...
    async def get(self, ref: Ref) -> Record | None: ...
    async def page(self, query: Query) -> Page: ...
    async def search(self, query: SearchQuery) -> FoundPage: ...
    async def forget(self, selector: Selector) -> DeleteResult: ...
    async def count(self, namespace: str, reach: Reach = "exact") -> Counts: ...
    async def namespaces(self, prefix: str = "") -> list[str]: ...
    async def history(self, ref: Ref) -> Past: ...
    async def health(self) -> Health: ...
    async def close(self) -> None: ...
