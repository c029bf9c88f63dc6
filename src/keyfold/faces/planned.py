"""The two faces of a dialect: an Engine and an AsyncEngine, whose every method is one plan, driven."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from traceback import clear_frames
from typing import Any, Protocol, TypeVar

from keyfold.clock import Clock, system_clock, to_micros
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
from keyfold.contract.ulid import ulid
from keyfold.dialects import examining, keyed_reads, keyed_search, keyed_writes
from keyfold.dialects.base import Dialect
from keyfold.dialects.examining import Finding
from keyfold.flow import Plan, adrive, drive
from keyfold.model import Answer, DeleteResult, Reach, Receipt, Record

T = TypeVar("T")


class Transport(Protocol):
    """What carries out the requests that plans yield, blocking."""

    def perform(self, request: Any) -> Any: ...
    def key_number(self) -> int: ...
    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The same, awaited."""

    def perform(self, request: Any) -> Awaitable[Any]: ...
    def key_number(self) -> int: ...
    async def close(self) -> None: ...


class Plans:
    """The plan of every method of the contract, over one dialect."""

    def __init__(self, dialect: Dialect, clock: Clock | None = None, keep: int | None = None) -> None:
        self.dialect = dialect
        self._keep = keep  # how many states of a record stay readable
        self._clock: Clock = clock or system_clock

    @property
    def capabilities(self) -> Capabilities:
        """What the service can and cannot do."""
        return self.dialect.capabilities

    def now(self) -> datetime:
        """The clock's time, in UTC."""
        return self._clock().astimezone(UTC)

    def _writer(self) -> keyed_writes.Writer:
        now = self.now()
        return keyed_writes.Writer(self.dialect, now, lambda: ulid(to_micros(now), os.urandom(10)))

    def store(self, intent: Intent) -> Plan[Receipt]:
        return self._writer().store(intent)

    def store_many(self, intents: Sequence[Intent]) -> Plan[list[Receipt]]:
        return self._writer().store_many(intents)

    def get(self, ref: Ref) -> Plan[Record | None]:
        return keyed_reads.get(self.dialect, ref, self.now())

    def page(self, query: Query) -> Plan[Page]:
        return keyed_reads.page(self.dialect, query, self.now())

    def search(self, query: SearchQuery) -> Plan[FoundPage]:
        return keyed_search.search(self.dialect, query, self.now())

    def forget(self, selector: Selector) -> Plan[DeleteResult]:
        return keyed_writes.forget(self.dialect, selector, self.now())

    def count(self, namespace: str, reach: Reach) -> Plan[Counts]:
        return keyed_reads.count(self.dialect, namespace, reach, self.now())

    def namespaces(self, prefix: str) -> Plan[list[str]]:
        return keyed_reads.namespaces(self.dialect, prefix)

    def everything(self) -> Plan[list[Past]]:
        return keyed_reads.everything(self.dialect, self.now(), self._keep)

    def recall(self, namespace: str, question: str, reach: Reach) -> Plan[Answer]:
        return keyed_reads.recall(self.dialect, namespace, question, reach, self.now())

    def history(self, ref: Ref) -> Plan[Past]:
        return keyed_reads.history(self.dialect, ref, self.now(), self._keep)

    def examine(self) -> Plan[list[Finding]]:
        return examining.examine(self.dialect)

    def health(self) -> Plan[Health]:
        return keyed_reads.health(self.dialect)


Afresh = Callable[[], Plans]


def _forget_variables(error: BaseException, callers: BaseException | None) -> None:
    """Empty the frames that an error and those behind it came through; their lines stay.

    In them is what a service answered. It may have quoted the key, and there are tools that show or send the
    variables of a traceback. `callers`: what the caller was handling is the caller's, and left alone.
    """
    due: list[BaseException | None] = [error]
    seen = {id(callers)}
    while due:
        one = due.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            clear_frames(one.__traceback__)
            due += [one.__cause__, one.__context__]


class _OfOneKey:
    """The plans of an engine. What their dialect remembers was learned with a key, and holds for that key alone: when
    it changes, they are made afresh, where the engine was given how."""

    def __init__(self, plans: Plans, transport: Transport | AsyncTransport, afresh: Afresh | None) -> None:
        self._key_number = transport.key_number
        self._afresh = afresh
        self._held = 0, plans  # together, so that no thread takes another's plans for its own

    @property
    def plans(self) -> Plans:
        return self._held[1]

    @property
    def capabilities(self) -> Capabilities:
        return self.plans.capabilities

    def _current(self) -> Plans:
        """The plans for what is asked now."""
        if self._afresh is None:
            return self.plans
        number, (held, plans) = self._key_number(), self._held
        if number != held:
            plans = self._afresh()
            self._held = number, plans
        return plans


class PlannedEngine(_OfOneKey):
    """The blocking face. Safe to use from several threads when its transport is.

    `afresh` makes the plans again, with nothing remembered: for a dialect that remembers what one key showed it.
    """

    def __init__(self, plans: Plans, transport: Transport, afresh: Afresh | None = None) -> None:
        super().__init__(plans, transport, afresh)
        self.transport = transport

    def store(self, intent: Intent) -> Receipt:
        return self._run(self._current().store(intent))

    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        return self._run(self._current().store_many(intents))

    def get(self, ref: Ref) -> Record | None:
        return self._run(self._current().get(ref))

    def page(self, query: Query) -> Page:
        return self._run(self._current().page(query))

    def search(self, query: SearchQuery) -> FoundPage:
        return self._run(self._current().search(query))

    def forget(self, selector: Selector) -> DeleteResult:
        return self._run(self._current().forget(selector))

    def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        return self._run(self._current().count(namespace, reach))

    def namespaces(self, prefix: str = "") -> list[str]:
        return self._run(self._current().namespaces(prefix))

    def history(self, ref: Ref) -> Past:
        return self._run(self._current().history(ref))

    def recall(self, namespace: str, question: str, reach: Reach = "exact") -> Answer:
        return self._run(self._current().recall(namespace, question, reach))

    def everything(self) -> list[Past]:
        """All records of all namespaces with their states, in the order of an export: one reading of the service."""
        return self._run(self._current().everything())

    def examine(self) -> list[Finding]:
        """What a look at all that the service holds finds: it reads everything."""
        return self._run(self._current().examine())

    def health(self) -> Health:
        return self._run(self._current().health())

    def close(self) -> None:
        self.transport.close()

    def _run(self, plan: Plan[T]) -> T:
        callers = sys.exception()
        try:
            return drive(plan, self.transport.perform)
        except Exception as error:
            _forget_variables(error, callers)
            raise


class AsyncPlannedEngine(_OfOneKey):
    """The async face: the same plans, awaited."""

    def __init__(self, plans: Plans, transport: AsyncTransport, afresh: Afresh | None = None) -> None:
        super().__init__(plans, transport, afresh)
        self.transport = transport

    async def store(self, intent: Intent) -> Receipt:
        return await self._run(self._current().store(intent))

    async def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        return await self._run(self._current().store_many(intents))

    async def get(self, ref: Ref) -> Record | None:
        return await self._run(self._current().get(ref))

    async def page(self, query: Query) -> Page:
        return await self._run(self._current().page(query))

    async def search(self, query: SearchQuery) -> FoundPage:
        return await self._run(self._current().search(query))

    async def forget(self, selector: Selector) -> DeleteResult:
        return await self._run(self._current().forget(selector))

    async def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        return await self._run(self._current().count(namespace, reach))

    async def namespaces(self, prefix: str = "") -> list[str]:
        return await self._run(self._current().namespaces(prefix))

    async def history(self, ref: Ref) -> Past:
        return await self._run(self._current().history(ref))

    async def recall(self, namespace: str, question: str, reach: Reach = "exact") -> Answer:
        return await self._run(self._current().recall(namespace, question, reach))

    async def everything(self) -> list[Past]:
        """All records of all namespaces with their states, in the order of an export: one reading of the service."""
        return await self._run(self._current().everything())

    async def examine(self) -> list[Finding]:
        """What a look at all that the service holds finds: it reads everything."""
        return await self._run(self._current().examine())

    async def health(self) -> Health:
        return await self._run(self._current().health())

    async def close(self) -> None:
        await self.transport.close()

    async def _run(self, plan: Plan[T]) -> T:
        perform: Callable[[Any], Awaitable[Any]] = self.transport.perform
        callers = sys.exception()
        try:
            return await adrive(plan, perform)
        except Exception as error:
            _forget_variables(error, callers)
            raise
