"""CortexDB behind the TinyHumans backend: wrapped answers, one event a request, and a claim for each write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from keyfold.dialects.cortexdb_envelope import holds
from keyfold.dialects.cortexdb_wire import (
    ClaimTaken,
    Listing,
    Wire,
    Written,
    code_of,
    paths_of,
    pauses,
    unreadable,
    written_of,
)
from keyfold.dialects.wire import Answer, Closed, Wait, unknown
from keyfold.errors import StoreError, Unauthorized, Unavailable
from keyfold.flow import Plan

LISTED_SOON: Final = 5.0  # seconds after which what is not listed is taken to be gone


class HostedWire(Wire):
    """Behind the TinyHumans backend. `claim` gives a claim that no other write has."""

    hosted = True
    base = "/memory"
    view = ()

    def __init__(self, claim: Callable[[], str]) -> None:
        self._claim = claim

    def data(self, answer: Answer) -> Any:
        said = answer.object()
        if said.get("success") is not True or "data" not in said:
            raise StoreError(
                f"{answer.host} answered {answer.status} without `success` and `data`: {answer.quoted()}"
            )
        return said["data"] if isinstance(said["data"], dict) else {}

    def conflicts(self, answer: Answer) -> bool:
        return answer.status == 409 or (answer.status == 400 and code_of(answer) == "CONFLICT")

    def claimed(self) -> tuple[tuple[str, str], ...]:
        return (("Idempotency-Key", self._claim()),)

    def write(self, bodies: Sequence[dict[str, Any]], taken: list[Written], *, wait: bool) -> Plan[None]:  # noqa: ARG002  # it cannot be asked to wait
        for body in bodies:
            try:
                answer = yield from self.post("/experience", body, headers=self.claimed())
            except ClaimTaken as claimed:
                taken.append((yield from self._look_for(body, claimed)))
            else:
                with unreadable():
                    taken.append(written_of(answer, self.data(answer)))

    def _look_for(self, body: dict[str, Any], taken: ClaimTaken) -> Plan[Written]:
        """Whether the first try of a write was carried out: its event is there, or the outcome stays unknown."""
        label = body["context"]["labels"][0]
        for pause in pauses(hosted=True):
            try:
                listing = yield from self.events(body["scope"], [label], first=True)
            except (Closed, StoreError, Unauthorized) as error:
                raise unknown(f"{taken}, and {error}") from None
            except Unavailable:
                listing = Listing([])
            for item in listing.items:
                if holds(item, body):
                    return Written(str(item.get("id") or item.get("event_id")), False)
            yield Wait(pause)
        raise unknown(f"{taken}, and in 30 s its event was not listed")

    def event(self, identity: str, scope: str, label: str) -> Plan[dict[str, Any] | None]:
        # The backend may have no route for one event: a 404 would say nothing. What was accepted is listed soon.
        for pause in (*pauses(hosted=True, seconds=LISTED_SOON), None):
            listing = yield from self.events(scope, [label], first=True)
            for item in listing.items:
                if identity in (item.get("id"), item.get("event_id")):
                    return item
            if pause is not None:
                yield Wait(pause)
        return None

    def scopes(self, prefix: str, limit: int) -> Plan[list[str]]:
        answer = yield from self.get("/scopes", (("prefix", prefix), ("limit", str(limit))))
        said = self.data(answer)
        return paths_of(answer, said.get("scopes", said.get("items")))
