"""CortexDB's own wire: many events in a request, a wait on request, and a header that says who acts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from keyfold.dialects.cortexdb_wire import (
    FINE,
    KeyTaken,
    Wire,
    Written,
    code_of,
    paths_of,
    unreadable,
    written_of,
)
from keyfold.dialects.wire import Answer, Closed, Http, doubtful
from keyfold.errors import KeyfoldError, StoreError, Unavailable
from keyfold.flow import Plan
from keyfold.text.counted import counted

MOST_BULK: Final = 1_000  # events a request
LARGEST_BULK: Final = 8 << 20  # bytes of it


class DirectWire(Wire):
    """CortexDB's own. Who acts is learned from the service, once; every request says it."""

    def __init__(self) -> None:
        self._actor: str | None = None  # "" when the service does not say

    def headers(self) -> Plan[dict[str, str]]:
        if self._actor is None:
            self._actor = yield from self._whoami()
        return {"X-Cortex-Actor": self._actor} if self._actor else {}

    def _whoami(self) -> Plan[str | None]:
        try:
            answer: Answer = yield Http("GET", f"{self.base}/auth/whoami", reads=True)
        except Closed:
            raise
        except Unavailable:
            return None  # the request that wanted to know goes out without, and the next one asks again
        if answer.status in (404, 405):
            return ""
        if answer.status not in FINE:
            return None
        caller = answer.object().get("caller")
        good = isinstance(caller, str) and caller.isascii() and caller.isprintable()
        return caller if good else ""

    def unauthorized(self, answer: Answer) -> bool:
        known, self._actor = self._actor, None
        return bool(known) and code_of(answer) == "ACTOR_MISMATCH"

    def write(self, bodies: Sequence[dict[str, Any]], taken: list[Written], *, wait: bool) -> Plan[None]:
        if len(bodies) == 1:
            answer, late = yield from self._sent("/experience", bodies[0], wait)
            with unreadable():
                taken.append(self._told(answer, self.data(answer), late))
            return
        for group in _groups(bodies):
            body = {"items": group, "ordering": "strict_temporal"}
            answer, late = yield from self._sent("/experience/bulk", body, wait)
            with unreadable():
                taken += [self._told(answer, item, late) for item in self._results(answer, len(group))]

    def _results(self, answer: Answer, number: int) -> list[Any]:
        """What a bulk says of its events, in their order."""
        results = self.data(answer).get("results")
        if not isinstance(results, list) or len(results) != number:
            raise StoreError(
                f"{answer.host} took {counted(number, 'event')} and answered for others: is this CortexDB?"
            )
        places = [item.get("index", 0) if isinstance(item, dict) else 0 for item in results]
        if not all(type(place) is int for place in places):
            raise StoreError(f"{answer.host} numbered events in a form that is not CortexDB's")
        return [item for _, item in sorted(zip(places, results, strict=True), key=lambda pair: pair[0])]

    def _sent(self, path: str, body: Any, wait: bool) -> Plan[tuple[Answer, bool]]:
        """Send events: the answer, and whether it came only after the wait's time was over.

        When that time is over the events are kept: sent again they are answered with their ids.
        """
        tries: list[int] = []
        late = False
        if wait:
            query = (("wait", "indexed"),)
            answer = yield from self.post(path, body, query=query, absent=(408,), tries=tries)
            late = answer.status == 408
            if not late:
                return answer, False
        try:
            return (yield from self.post(path, body, tries=tries)), late and len(tries) == 2
        except KeyfoldError as error:
            if not late or isinstance(error, KeyTaken):
                raise
            raise doubtful(error) from None

    def _told(self, answer: Answer, item: Any, late: bool) -> Written:
        said = written_of(answer, item)
        return said._replace(replayed=said.replayed and not late)

    def scopes(self, prefix: str, limit: int) -> Plan[list[str]]:
        answer = yield from self.get("/scopes/list", (("prefix", prefix), ("limit", str(limit))))
        return paths_of(answer, self.data(answer).get("items"))


def _groups(bodies: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = [[]]
    size = 0
    for body in bodies:
        length = len(json.dumps(body, ensure_ascii=False).encode())
        if groups[-1] and (len(groups[-1]) == MOST_BULK or size + length > LARGEST_BULK):
            groups.append([])
            size = 0
        groups[-1].append(body)
        size += length
    return groups
