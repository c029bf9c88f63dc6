"""Engram's prompts as turns: one thread a session, in time order, each with a place that stays its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from keyfold.contract.intents import Query
from keyfold.contract.keys import turn_key
from keyfold.contract.protocols import Engine
from keyfold.model import TURN, Record
from keyfold.portability.drafts import Draft, State
from keyfold.portability.engram_fields import identity, metadata_of, optional_text, time_of
from keyfold.portability.engram_files import Item

# The thread of prompts that name no session.
NO_SESSION = "engram"
# Where a prompt's name stands when Engram's own cannot be kept.
IDENTITY = "identity"


class Turns:
    """Gives each prompt its index in its session's thread.

    A prompt that the store holds already keeps the index it has there, and new ones come after those: so
    chunks may be imported one by one, in any number, and no turn takes another's place.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._places: dict[tuple[str, str, str], int] = {}  # (namespace, thread, identity) -> index
        self._next: dict[tuple[str, str], int] = {}
        self._read: set[str] = set()

    def draft(self, item: Item, namespace: str) -> Draft:
        """The turn of one prompt, not yet in its place. BadInput."""
        value = item.value
        at = time_of(value, "created_at")
        session = optional_text(value, "session_id")
        thread = session if session is not None else NO_SESSION
        metadata = metadata_of(value)
        name, told = identity(value), metadata["engram"].get("sync_id")
        if told != name:  # a private one stays beside it, as the mark that it becomes
            metadata["engram"][IDENTITY if told and told.strip() else "sync_id"] = name
        metadata |= {"thread_id": thread, "index": 0, "role": "user"}
        state = State(1, TURN, "prompt", value.get("content"), at, metadata, session_id=session)
        return Draft(item.where, None, namespace, TURN, turn_key(thread, 0), False, state, at, observed_at=at)

    def drafts(self, turns: Iterable[Draft]) -> Iterator[Draft]:
        """The turns in their places. One that comes twice comes out twice, in the same place."""
        for turn in sorted(turns, key=_moment):
            self._read_held(turn.namespace)
            thread, metadata = turn.now.metadata["thread_id"], turn.now.metadata
            name = _name(metadata)
            index = self._place(turn.namespace, thread, name)
            state = replace(turn.now, metadata={**metadata, "index": index})
            yield replace(turn, key=turn_key(thread, index), now=state)

    def _place(self, namespace: str, thread: str, name: str) -> int:
        known = self._places.get((namespace, thread, name))
        if known is not None:
            return known
        index = self._next.get((namespace, thread), 0)
        self._take(namespace, thread, name, index)
        return index

    def _take(self, namespace: str, thread: str, name: Any, index: int) -> None:
        self._places[namespace, thread, name] = index
        self._next[namespace, thread] = max(self._next.get((namespace, thread), 0), index + 1)

    def _read_held(self, namespace: str) -> None:
        """Learn the places that are taken in a namespace, once."""
        if namespace in self._read:
            return
        self._read.add(namespace)
        position: str | None = None
        while True:
            page = self._engine.page(
                Query(namespace, kinds=(TURN,), order="key", position=position, limit=500, want_total=False)
            )
            for record in page.items:
                self._learn(record)
            position = page.position
            if position is None:
                return

    def _learn(self, record: Record) -> None:
        thread, index = record.metadata.get("thread_id"), record.metadata.get("index")
        if isinstance(thread, str) and isinstance(index, int):
            self._take(record.namespace, thread, _name(record.metadata), index)


def _name(metadata: dict[str, Any]) -> Any:
    """What a turn is known by; None of one that is not Engram's."""
    source = metadata.get("engram")
    return (source.get(IDENTITY) or source.get("sync_id")) if isinstance(source, dict) else None


def _moment(turn: Draft) -> tuple[Any, ...]:
    number = turn.now.metadata["engram"].get("id")
    return turn.now.written_at, number if isinstance(number, int) else 0, turn.where
