"""What a check works with: namespaces and a clock of its own, and short words for the calls it makes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, TypeVar

from keyfold.clock import system_clock
from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import (
    Capabilities,
    FoundPage,
    Idempotency,
    Intent,
    Load,
    Query,
    Ref,
    SearchQuery,
    SessionUse,
)
from keyfold.flow import Plan
from keyfold.model import ACTIVE, OBSERVATION, SESSION, Receipt, Record, Revision

E = TypeVar("E", bound=Exception)

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, 7, tzinfo=UTC)


class Failure(Exception):
    """An engine did something else than the clause says. The message says what, and what was expected."""


def same(actual: Any, expected: Any, what: str) -> None:
    """Fail unless two values are equal."""
    if actual != expected:
        raise Failure(f"{what}: {actual!r:.300} where {expected!r:.300} was expected")


def true(holds: object, what: str) -> None:
    """Fail unless something holds."""
    if not holds:
        raise Failure(f"it does not hold that {what}")


def digest(text: str) -> str:
    """The hash that a save carries along with its content."""
    return sha256(text.encode()).hexdigest()


def once(key: str, body: str = "body", operation: str = "save") -> Idempotency:
    """An idempotency key, as an engine gets it."""
    return Idempotency(operation, sha256(key.encode()).digest(), sha256(body.encode()).digest())


def refused(plan: Plan[Any], error: type[E]) -> Plan[E]:
    """Carry out a call that must be refused, and return the error."""
    try:
        answer = yield from plan
    except error as refusal:
        return refusal
    raise Failure(f"{error.__name__} was expected, and the call was answered {answer!r:.200}")


class SteppedClock:
    """A clock that stands still until it is stepped, forwards or back."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or system_clock()

    def __call__(self) -> datetime:
        return self._now

    def step(self, seconds: float) -> None:
        """Move on, or with a negative number back."""
        self._now += timedelta(seconds=seconds)


class World:
    """One clause's surroundings. `space` gives namespaces that nothing else uses."""

    def __init__(self, root: str, capabilities: Capabilities, clock: SteppedClock | None) -> None:
        self.capabilities = capabilities
        self.spaces: set[str] = set()
        self._root = root
        self._clock = clock

    def space(self, name: str = "a") -> str:
        """A namespace of this clause's own, the same for the same name."""
        namespace = f"{self._root}/{name}"
        self.spaces.add(namespace)
        return namespace

    def now(self) -> datetime:
        """The time as the engine sees it, or nearly so when it cannot be given a clock."""
        return self._clock() if self._clock is not None else system_clock()

    def step(self, seconds: float) -> None:
        """Move the engine's clock; only for clauses that need one."""
        assert self._clock is not None, "the clause must say that it needs a clock"
        self._clock.step(seconds)

    def tick(self) -> None:
        """Let a moment pass, so that what comes next has a later time."""
        if self._clock is not None:
            self._clock.step(1.0)
        else:
            time.sleep(0.02)  # longer than the coarsest clock's tick

    def intent(
        self, content: str = "text", key: str | None = None, *, of: str = "a", **fields: Any
    ) -> Intent:
        """A save as an engine gets it: an observation with a title and a type, and whatever else is passed."""
        given = {"title": "Title", "type": "decision", "kind": OBSERVATION, **fields}
        return Intent(self.space(of), key=key, content=content, normalized_hash=digest(content), **given)

    def save(
        self, content: str = "text", key: str | None = None, *, of: str = "a", **fields: Any
    ) -> Plan[Receipt]:
        """Store one observation."""
        return (yield from calls.store(self.intent(content, key, of=of, **fields)))

    def save_each(self, contents: Iterable[str], **fields: Any) -> Plan[list[Receipt]]:
        """Store observations one after the other, each under its content as its key."""
        receipts: list[Receipt] = []
        for content in contents:
            receipts += [(yield from self.save(content, content, **fields))]
        return receipts

    def load(
        self,
        content: str,
        key: str | None,
        at: datetime = LONG_AGO,
        *,
        created: datetime | None = None,
        past: tuple[Revision, ...] = (),
        revision: int = 1,
        **fields: Any,
    ) -> Plan[Receipt]:
        """Import one observation with its times."""
        load = Load(created or at, at, past, revision)
        return (yield from self.save(content, key, mode="load", load=load, **fields))

    def ref(self, key: str, *, of: str = "a", **fields: Any) -> Ref:
        """The record with a key."""
        return Ref(self.space(of), key=key, **fields)

    def find(self, key: str, *, of: str = "a", **fields: Any) -> Plan[Record | None]:
        """The record with a key, or None."""
        return (yield from calls.get(self.ref(key, of=of, **fields)))

    def read(self, key: str, *, of: str = "a", **fields: Any) -> Plan[Record]:
        """The record with a key, which must be there."""
        record = yield from self.find(key, of=of, **fields)
        if record is None:
            raise Failure(f"the {fields.get('kind', OBSERVATION)} {key!r:.100} is not found")
        return record

    def in_session(self, identity: str, *, of: str = "a") -> Plan[SessionUse]:
        """A session that a save names, which is there once something was saved in it."""
        if (
            not self.capabilities.session_activity
        ):  # then a save only names it, and whoever starts it writes it
            intent = self.intent("", identity, of=of, kind=SESSION, type=ACTIVE, title="Session")
            yield from calls.store(intent)
        return SessionUse(identity, explicit=True)

    def session(self, identity: str, *, of: str = "a") -> Plan[Record]:
        """A session's record, which must be there."""
        return (yield from self.read(identity, of=of, kind=SESSION))

    def listed(self, *, of: str = "a", **query: Any) -> Plan[list[str]]:
        """The contents of a listing, in its order."""
        page = yield from calls.page(Query(self.space(of), **{"limit": 100, **query}))
        return [record.content for record in page.items]

    def paged(self, *, of: str = "a", **query: Any) -> Plan[list[str]]:
        """The contents of a listing read page by page to its end."""
        contents: list[str] = []
        position: str | None = None
        for _ in range(50):
            page = yield from calls.page(Query(self.space(of), position=position, **query))
            contents += [record.content for record in page.items]
            position = page.position
            if position is None:
                return contents
        raise Failure("the pages do not come to an end")

    def hits(self, text: str, *, of: str = "a", **query: Any) -> Plan[FoundPage]:
        """The answer to a search."""
        return (yield from calls.search(SearchQuery(self.space(of), text, **{"limit": 100, **query})))

    def found(self, text: str, *, of: str = "a", **query: Any) -> Plan[list[str]]:
        """The contents that a search finds, best first."""
        page = yield from self.hits(text, of=of, **query)
        return [item.record.content for item in page.items]

    def passing(self, where: Filter, *, of: str = "a") -> Plan[str]:
        """The titles that pass a filter, sorted and joined: of a listing, and (they must agree) of a search.

        The records that filters are tried on all hold the word `shared`.
        """
        page = yield from calls.page(Query(self.space(of), where=where, limit=100))
        titles = sorted(record.title for record in page.items)
        same(page.total, len(titles), "the total of the filtered listing")
        if self.capabilities.search:
            hits = yield from self.hits("shared", of=of, where=where)
            same(
                sorted(item.record.title for item in hits.items),
                titles,
                "what a search with the filter finds",
            )
            same(hits.total, len(titles), "the total of the filtered search")
        return " ".join(titles)
