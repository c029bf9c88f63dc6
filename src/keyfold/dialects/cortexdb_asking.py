"""What CortexDB is asked by meaning: recall, answers, and (because it is asked as seldom) the erasure of a scope.

A recall makes a pack: of this scope alone (granular), with room enough that no event comes as an excerpt. A pack
lives a minute, and any forget in any scope drops all of them; then all are made again. What was just written is
recalled about a second after it is listed, so who looks for it here waits for what this process wrote last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

from keyfold.dialects.base import Recalled, Row, Shelf
from keyfold.dialects.cortexdb_names import scope_of
from keyfold.dialects.cortexdb_wire import FINE, Wire, pauses
from keyfold.dialects.payload import Payload, share, wire_text
from keyfold.dialects.removing import said as told
from keyfold.dialects.wire import Closed, Together, Wait
from keyfold.errors import (
    InvalidRequest,
    KeyfoldError,
    NotFound,
    StoreError,
    Unauthorized,
    Unavailable,
    Unsupported,
)
from keyfold.flow import Plan

MOST_EVENTS: Final = 1_000  # of a pack
ROOM: Final = 786_432  # tokens an event, so that none is cut
MOST_ROOM: Final = 8_388_608
SETTLED_WITHIN: Final = 10.0  # seconds
ERASED_WITHIN: Final = 60.0
HEAD: Final = 256  # characters of a text that it is looked for by
ROUNDS: Final = 3  # of packs, before it is said that they die too fast
GROUNDS: Final = 30  # events that an answer may rest on
SHELVES: Final = 256  # of which the last write is remembered


class Asking:
    """Recall over a wire. It remembers the last write to each shelf until it has seen that it is found."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._fresh: OrderedDict[Shelf, tuple[str, str]] = OrderedDict()  # event, the start of its text

    def wrote(self, shelf: Shelf, event: str, payload: Payload) -> None:
        """Note the last write to a shelf."""
        self._fresh[shelf] = (event, wire_text(payload)[:HEAD])
        if len(self._fresh) > SHELVES:
            self._fresh.pop(next(iter(list(self._fresh))), None)

    def removed(self, shelf: Shelf, events: Sequence[str]) -> None:
        """Note that events are gone: nobody waits for them."""
        fresh = self._fresh.get(shelf)
        if fresh is not None and fresh[0] in events:
            self._fresh.pop(shelf, None)

    def found(self, shelf: Shelf, text: str, limit: int) -> Plan[tuple[list[dict[str, Any]], bool]]:
        """The events that a recall finds, best first, and whether there may be more."""
        items = (yield from self._pack(shelf, text, limit))[1]
        fresh = self._fresh.get(shelf)
        if fresh is not None and not any(_id(item) == fresh[0] for item in items):
            try:
                yield from self.settled(shelf)
                items = (yield from self._pack(shelf, text, limit))[1]
            except KeyfoldError as error:
                if not items or isinstance(error, Closed):
                    raise
                return items, True  # what was written last may be missing
        self._fresh.pop(shelf, None)
        return items, len(items) >= limit or _fills(items, min(MOST_ROOM, limit * ROOM))

    def settled(self, shelf: Shelf) -> Plan[None]:
        """Wait until what was written last is found. At its best: a recall may have better answers to its words."""
        fresh = self._fresh.get(shelf)
        if fresh is None:
            return
        event, head = fresh
        for pause in (*pauses(hosted=True, seconds=SETTLED_WITHIN), None):
            try:
                items = (yield from self._pack(shelf, head, 50))[1]
            except Closed:
                raise
            except Unavailable:
                items = []
            if any(_id(item) == event for item in items):
                break
            if pause is not None:
                yield Wait(pause)
        self._fresh.pop(shelf, None)

    def _pack(self, shelf: Shelf, text: str, limit: int) -> Plan[tuple[str, list[dict[str, Any]]]]:
        count = min(limit, MOST_EVENTS)
        body = {
            "scope": scope_of(shelf),
            "query": text,
            "view": "granular",
            "include": ["events"],
            "budgets": {"max_tokens": min(MOST_ROOM, count * ROOM), "per_layer_limits": {"events": count}},
            "diagnostics": "none",
        }
        status, pack = yield from self._wire.asked("/recall", body, absent=(404,))
        if status == 404:
            return "", []  # a scope that was never written to
        layers = pack.get("layers") if isinstance(pack, dict) else None
        events = layers.get("events") if isinstance(layers, dict) else None
        if not isinstance(events, list):
            raise StoreError("the service recalled without `layers.events`: is this CortexDB?")
        return str(pack.get("pack_id") or ""), [item for item in events if isinstance(item, dict)]

    # --- answers

    def answered(
        self,
        shelves: Sequence[Shelf],
        question: str,
        rows_of: Callable[[Sequence[dict[str, Any]]], list[Row]],
    ) -> Plan[Recalled]:
        """An answer, from the pack of the shelf that has the most to say."""
        for shelf in shelves:
            if shelf in self._fresh:
                yield from self.settled(shelf)
        yield from self._wire.headers()  # who acts is asked once, not side by side
        for _ in range(ROUNDS):
            plans = [self._pack(shelf, question, GROUNDS) for shelf in shelves]
            packs: list[tuple[str, list[dict[str, Any]]]] = yield Together(plans, 4)
            _, best = max((len(items), place) for place, (_, items) in enumerate(packs))
            pack, items = packs[best]
            if not items:
                return Recalled("", ())
            body = {
                "scope": scope_of(shelves[best]),
                "question": question,
                "use_pack_id": pack,
                "cite_sources": True,
                "include_context": False,
            }
            status, said = yield from self._wire.asked("/answer", body, absent=(404,))
            if status == 404:  # the pack died: of age, or of a forget anywhere
                continue
            text = said.get("answer")
            if not isinstance(text, str):
                raise StoreError("the service answered without `answer`: is this CortexDB?")
            every = [item for _, part in packs for item in part]
            return Recalled(text, _cited(said.get("citations"), rows_of(every)))
        raise Unavailable(
            f"the service dropped what the answer rests on {ROUNDS} times (any forget does that): ask again"
        )

    # --- erasing

    def erased(self, shelf: Shelf) -> Plan[bool]:
        """Erase a shelf's scope for good; False where the service does not offer that."""
        body: dict[str, Any] = {
            "scope": scope_of(shelf),
            "confirm_all": True,
            "audit_note": "keyfold: all of one user",
        }
        path = "/v1/erasures" if self._wire.hosted else "/erasures"
        try:
            answer = yield from self._wire.post(path, body, absent=(400, 404, 405, 501))
            if answer.status == 400:  # a backend that takes the scope alone
                del body["confirm_all"]
                answer = yield from self._wire.post(path, body, absent=(404, 405, 501))
        except (Unauthorized, Unsupported, InvalidRequest, NotFound):
            return False  # it may be reserved to administrators
        said = told(answer)  # passed through as the engine says it, on both wires
        if answer.status not in FINE or not isinstance(said, dict):
            return False  # nor does what says nothing tell that anything is gone: the events are removed one by one
        identity = said.get("erasure_id")
        for pause in pauses(hosted=False, seconds=ERASED_WITHIN):
            if said.get("status") == "completed" or said.get("erased") is True:
                self._fresh.pop(shelf, None)
                return True
            if not isinstance(identity, str):
                return False
            yield Wait(pause)
            said = told((yield from self._wire.get(f"{path}/{identity}")))
            if not isinstance(said, dict):
                return False
        raise Unavailable("the erasure is still running: it will end by itself; read again later")


def _id(item: dict[str, Any]) -> Any:
    return item.get("id") or item.get("event_id")


def _fills(items: Sequence[dict[str, Any]], room: int) -> bool:
    """Whether events may have used up the room of a pack (a token is a byte at least): others were left out then."""
    contents = [content for item in items if isinstance(content := item.get("content"), dict)]
    size = sum(len(str(content.get("text") or "")) for content in contents)
    return size >= room or any(content.get("_partial") for content in contents)


def _cited(citations: Any, rows: Sequence[Row]) -> tuple[tuple[Row, float], ...]:
    """The rows that an answer cites: each once, in the answer's order."""
    by_event = {event: row for row in rows for event in row.parts}
    found: dict[str, tuple[Row, float]] = {}
    for rank, citation in enumerate(citations if isinstance(citations, list) else []):
        if not isinstance(citation, dict):
            continue
        row = by_event.get(str(citation.get("id") or citation.get("event_id") or citation.get("key")))
        if row is not None and row.remote not in found:
            score = citation.get("score")
            found[row.remote] = (row, share(score) if type(score) in (int, float) else 1 / (1 + rank))
    return tuple(found.values())
