"""Forgetting events of CortexDB, until the service has counted them or lists them no more."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from keyfold.dialects.base import Shelf
from keyfold.dialects.cortexdb_envelope import item_label
from keyfold.dialects.cortexdb_names import scope_of
from keyfold.dialects.cortexdb_rows import events_of
from keyfold.dialects.cortexdb_wire import LISTED_WITHIN, MOST_LABELS, Wire, pauses
from keyfold.dialects.removing import until_gone
from keyfold.dialects.wire import Wait
from keyfold.errors import Unavailable
from keyfold.flow import Plan


def forget(wire: Wire, shelf: Shelf, events: Sequence[str], digests: Sequence[str]) -> Plan[None]:
    """Forget events of the records with these digests. What is only taken note of is waited for."""
    scope, queued = scope_of(shelf), False
    labels = [item_label(digest) for digest in digests] if len(digests) <= MOST_LABELS else []

    def send(ids: Sequence[str]) -> Plan[Collection[str]]:
        nonlocal queued
        done, queued = yield from wire.forget(scope, ids)
        return ids if done else ()

    def held(ids: Sequence[str]) -> Plan[Collection[str]]:
        waits = pauses(hosted=wire.hosted, seconds=LISTED_WITHIN) if queued else []
        for pause in (*waits, None):
            there = events_of((yield from wire.events(scope, labels)).items)
            if there.isdisjoint(ids) or not queued:
                return there
            if pause is not None:
                yield Wait(pause)
        raise Unavailable(
            f"the service took note of what to forget (202), and after {LISTED_WITHIN:.0f} s it lists it still"
        )

    yield from until_gone(shelf, events, send, held)
