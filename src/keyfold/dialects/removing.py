"""Removing, so that it is known. A service's word for gone may be a proxy's, and a page instead of an answer no word
at all: whatever is not acknowledged in the service's own form is looked for again, and only its absence is believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from keyfold.dialects import wire
from keyfold.dialects.base import Dialect, Row, Shelf
from keyfold.dialects.held import held_at
from keyfold.errors import OutcomeUnknown, StoreError, Unavailable
from keyfold.flow import Plan

FEW: Final = 8  # records that are looked up one by one; for more of them the shelf is listed

Some = Callable[[Sequence[str]], Plan[Collection[str]]]


def until_gone(shelf: Shelf, ids: Sequence[str], send: Some, held: Some) -> Plan[None]:
    """Remove what has these ids. `send` asks for it, and returns those of which the service says that it removed them;
    `held` returns those that it still holds. OutcomeUnknown when some of them stay.
    """
    left = list(dict.fromkeys(ids))
    for pause in (*wire.PAUSES, None):
        told = yield from send(left)
        left = [identity for identity in left if identity not in told]
        if not left:
            return
        try:
            there = yield from held(left)
        except wire.Closed:
            raise
        except (StoreError, Unavailable) as error:
            raise wire.unknown(str(error)) from None
        left = [identity for identity in left if identity in there]
        if not left:
            return
        if pause is not None:
            yield wire.Wait(pause)
    raise OutcomeUnknown(
        f"the service was asked {wire.TRIES} times to remove {len(left)} of the rows that it holds for namespace "
        f"{shelf.namespace!r:.200}, never said that it did, and holds them still; the rest of this call may have been "
        "carried out: make the same call again"
    )


def remove_rows(
    dialect: Dialect, shelf: Shelf, rows: Sequence[Row], delete: Callable[[Row], Plan[bool]]
) -> Plan[None]:
    """Remove rows, each by a request of its own; `delete` says whether the service acknowledged it."""
    by_id = {row.remote: row for row in rows}

    def send(ids: Sequence[str]) -> Plan[Collection[str]]:
        told: list[bool] = yield wire.Together([delete(by_id[identity]) for identity in ids])
        return {identity for identity, done in zip(ids, told, strict=True) if done}

    def held(ids: Sequence[str]) -> Plan[Collection[str]]:
        digests = {by_id[identity].payload.digest for identity in ids}
        if len(digests) > FEW:
            return {row.remote for row in (yield from dialect.rows(shelf, texts=False))}
        found: set[str] = set()
        for digest in sorted(digests):
            found |= {row.remote for row in (yield from held_at(dialect, shelf, digest, every=True)).rows}
        return found

    yield from until_gone(shelf, list(by_id), send, held)


def said(answer: wire.Answer) -> Any:
    """What an answer to a write says, as JSON; a text that is none stands for what cannot be read."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        return "unreadable"


def says(answer: wire.Answer, *names: str) -> bool:
    """Whether an answer is a JSON object with one of these names in it."""
    found = said(answer)
    return isinstance(found, dict) and not {*names}.isdisjoint(found)
