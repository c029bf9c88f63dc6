"""CortexDB: an event log on which every write is safe to repeat.

A record is an event (or several, for a long text); a new revision is a new event, and the newest counts. Events
carry the digest of their record as the first label, so one request reads one record at any size. What is accepted
is not listed at once, and what is listed is not found at once: writes wait for the listing, and a search waits for
what this process wrote last. The wires differ (cortexdb_direct, cortexdb_hosted), the log does not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from keyfold.contract.intents import Idempotency
from keyfold.dialects.base import (
    BaseDialect,
    Looked,
    Recalled,
    Replays,
    Row,
    Searched,
    Shelf,
    Wanted,
    newest_first,
)
from keyfold.dialects.cortexdb_asking import MOST_EVENTS, Asking
from keyfold.dialects.cortexdb_envelope import call_label, encode, item_label, piece_of
from keyfold.dialects.cortexdb_forgetting import forget
from keyfold.dialects.cortexdb_names import ROOT, scope_of, shelf_of
from keyfold.dialects.cortexdb_rows import (
    PASSED,
    REMEMBERED,
    as_taken,
    damaged,
    earlier,
    events_of,
    hits_of,
    ranked,
    remember,
    rows_of,
)
from keyfold.dialects.cortexdb_untold import Untold, accepted, in_doubt
from keyfold.dialects.cortexdb_wire import LISTED_WITHIN, MOST_LABELS, Bodies, Wire, Written, pauses
from keyfold.dialects.payload import KeptCall, Payload
from keyfold.dialects.wire import Closed, Together, Wait
from keyfold.errors import KeyfoldError, StoreError, Unavailable
from keyfold.flow import Plan

MOST_FORGOTTEN: Final = 100  # ids a forget
MOST_SCOPES: Final = 1_000  # that are listed, and there is no next page
EMPTY_FOR: Final = (0.25, 0.5, 1.0)  # between looks at a scope that seems empty, before it is erased
AGAIN: Final = (0.25, 0.5)  # looks at a record whose pieces are not all there: they may be on their way


class CortexDB(BaseDialect):
    """The dialect. What it remembers is only of its own writes: which it has not seen listed or found yet, of which
    it never learned the outcome, and which events it removed."""

    erases = "the server keeps redacted events, without their text; an erasure of the whole user removes them"
    bare_turns = True
    finds_calls = True
    most_hits = MOST_EVENTS

    def __init__(
        self,
        wire: Wire,
        nonce: Callable[[], str],
        *,
        history: Literal["keep", "none"] = "keep",
        derive: Literal["on", "off"] | None = None,
    ) -> None:
        self.wire = wire
        self.appends = history == "keep"
        self.appends_blindly = not wire.hosted
        self.capabilities = replace(
            BaseDialect.capabilities,
            engine="cortexdb",
            history=self.appends,
            keyed_reads=True,
            answers=True,
            derives=True,
        )
        self._derive = None if derive is None else derive == "on"
        self._nonce = nonce
        self._asking = Asking(wire)
        self._unlisted: OrderedDict[tuple[Shelf, str], str] = OrderedDict()  # accepted: digest -> event
        self._untold = Untold()
        self._removed: OrderedDict[str, None] = OrderedDict()  # events

    # --- reading

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        rows, more = yield from self._at(shelf, digest, first=True)
        mine = [row for row in rows if row.payload.digest == digest]
        if more and (not mine or newest_first(mine)[0].missing):
            return (yield from self.lookup_every(shelf, digest))
        return Looked(tuple(rows))

    def lookup_called(self, shelf: Shelf, digest: str, call: Idempotency) -> Plan[Looked]:
        labels = [item_label(digest), call_label(call.operation, call.key.hex())]
        rows, more = yield from self._read(shelf, labels, first=True)
        if more or (shelf, digest) in self._unlisted:
            rows = [*(yield from self.lookup(shelf, digest)).rows, *rows]
        mine = {row.remote: row for row in rows if row.payload.digest == digest}
        others = [row for row in rows if row.payload.digest != digest]
        strayed = [row for row in others if not any(_is(kept, call) for kept in row.payload.calls)]
        return Looked((*mine.values(), *strayed), others=tuple(others))

    def lookup_every(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        return Looked(tuple((yield from self._at(shelf, digest))[0]))

    def _at(self, shelf: Shelf, digest: str, *, first: bool = False) -> Plan[tuple[list[Row], bool]]:
        """The rows at an address, and whether older ones were left unread. What this process wrote there is among them."""
        rows, more = yield from self._read(shelf, [item_label(digest)], first=first)
        event = self._unlisted.pop((shelf, digest), None)
        if event is not None and not any(event in row.parts for row in rows):
            yield from self._listed(shelf, digest, event, fatal=False)
            rows, more = yield from self._read(shelf, [item_label(digest)], first=first)
        return rows, more

    def lookup_many(self, shelf: Shelf, digests: Sequence[str]) -> Plan[list[Row] | None]:
        groups = [digests[at : at + MOST_LABELS] for at in range(0, len(digests), MOST_LABELS)]
        yield from self.wire.headers()  # who acts is asked once, not side by side
        plans = [self._read(shelf, [item_label(digest) for digest in group]) for group in groups]
        found: list[tuple[list[Row], bool]] = yield Together(plans)
        rows = [row for part, _ in found for row in part]
        return rows if {row.payload.digest for row in rows} <= set(digests) else None

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:  # noqa: ARG002  # texts always come along
        rows, _ = yield from self._read(shelf, ())
        if (yield from self._caught_up(shelf, {event for row in rows for event in row.parts})):
            rows, _ = yield from self._read(shelf, ())
        return rows

    def _caught_up(self, shelf: Shelf, seen: Collection[str] = ()) -> Plan[bool]:
        """Wait until what was accepted from this process is listed; whether there was anything to wait for."""
        owed = {key: event for key, event in list(self._unlisted.items()) if key[0] == shelf}
        late = [(digest, event) for (_, digest), event in owed.items() if event not in seen]
        if late:
            yield from self._listed(shelf, *late[-1], fatal=False)  # they are listed in the order they came
        for key in owed:
            self._unlisted.pop(key, None)
        return bool(late)

    def versions(self, shelf: Shelf, digest: str) -> Plan[list[Row]]:
        rows, _ = yield from self._at(shelf, digest)
        return newest_first([row for row in rows if row.payload.digest == digest])

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        found: list[tuple[Shelf, Row]] = []
        for shelf in (yield from self.shelves()):
            records: dict[str, list[Row]] = {}
            for row in (yield from self.rows(shelf)):
                records.setdefault(row.payload.digest, []).append(row)
            for rows in records.values():
                first, *rest = newest_first(rows)
                found.append((shelf, replace(first, earlier=tuple(rest))))
                found += [(shelf, row) for row in rest]
        return found

    def _read(
        self, shelf: Shelf, labels: Sequence[str], *, first: bool = False
    ) -> Plan[tuple[list[Row], bool]]:
        """The rows of a listing. Where pieces of one that counts are missing, it is read again: they may be on their way."""
        for pause in (*AGAIN, None):
            listing = yield from self.wire.events(scope_of(shelf), labels, first=first)
            rows = as_taken(rows_of(listing.items))
            if pause is None or listing.more or not damaged(rows):
                return rows, listing.more
            yield Wait(pause)
        raise AssertionError("the last look returns")

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:
        """What the service finds, each looked up: an event that was found may say what a record said once.

        Without a history too: a rewrite that was interrupted leaves one, and a recall does not tell.
        """
        yield from self._caught_up(shelf)
        items, more = yield from self._asking.found(shelf, text, limit)
        ranks = ranked(items, wanted)
        if not ranks:
            return Searched((), more, len(items))
        rows = yield from self.lookup_many(shelf, list(ranks))
        if rows is None:
            rows = yield from self.rows(shelf)
        return Searched(hits_of(ranks, rows), more, len(items))

    def recall(self, shelves: Sequence[Shelf], question: str) -> Plan[Recalled]:
        for shelf in shelves:
            yield from self._caught_up(shelf)
        return (yield from self._asking.answered(shelves, question, rows_of))

    def shelves(self) -> Plan[list[Shelf]]:
        paths = yield from self.wire.scopes(ROOT, MOST_SCOPES)
        if len(paths) >= MOST_SCOPES:
            raise StoreError(
                f"CortexDB lists at most {MOST_SCOPES:,} scopes and holds that many: namespaces cannot be listed; "
                "name the ones you read"
            )
        return sorted({shelf for shelf in map(shelf_of, paths) if shelf is not None})

    def probe(self) -> Plan[dict[str, Any]]:
        yield from self.wire.scopes("app:keyfold-probe" if self.wire.hosted else ROOT, 1)
        return {"service": "CortexDB", "wire": "hosted" if self.wire.hosted else "direct"}

    # --- writing

    def check(self, shelf: Shelf, payload: Payload) -> None:
        self._bodies(shelf, payload)

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[Replays]:
        known = [self._untold.first_try(payload) for payload in payloads]
        # All of it is checked before the first is sent.
        bodies = [self._bodies(shelf, payload) for payload in known]
        taken: list[Written] = []
        try:
            until = {payload.wait for payload in payloads}
            replays = yield from self._inserted(shelf, known, bodies, until, taken)
        except (KeyfoldError, GeneratorExit) as error:
            if taken or in_doubt(error):
                self._untold.note(known)
            if isinstance(error, KeyfoldError) and len(taken) >= sum(map(len, bodies)):
                raise accepted(error) from None
            raise
        self._untold.told([payload.digest for payload in known])
        return replays

    def _inserted(
        self,
        shelf: Shelf,
        payloads: Sequence[Payload],
        bodies: Sequence[Bodies],
        until: Collection[str],
        taken: list[Written],
    ) -> Plan[set[str]]:
        waits = any(wait != "accepted" for wait in until)
        sent = yield from self._write(bodies, taken, wait=waits)
        replays: set[str] = set()
        for payload, made, told in zip(payloads, bodies, sent, strict=True):
            if all(item.replayed for item in told):
                replays.add(payload.digest)
            gone = yield from self._gone(shelf, payload.digest, told)
            if gone:
                replays.discard(payload.digest)
                told[:] = yield from self._anew(shelf, payload, made, told, gone)
        for payload, told in zip(payloads, sent, strict=True):
            self._asking.wrote(shelf, told[-1].event, payload)
        last, event = payloads[-1], sent[-1][-1].event
        if not waits:
            remember(self._unlisted, (shelf, last.digest), event)
            return replays
        yield from self._listed(shelf, last.digest, event)
        if "settled" in until:
            yield from self._asking.settled(shelf)
        return replays

    def append(self, shelf: Shelf, payload: Payload) -> Plan[bool]:
        bodies = [self._bodies(shelf, payload)]
        (told,) = yield from self._write(bodies, wait=False)
        replayed = all(item.replayed for item in told)
        gone = {item.event for item in told if item.replayed and item.event in self._removed}
        if gone:  # it was forgotten here, and the server kept its key
            told = yield from self._anew(shelf, payload, bodies[0], told, gone)
            replayed = False
        remember(self._unlisted, (shelf, payload.digest), told[-1].event)
        self._asking.wrote(shelf, told[-1].event, payload)
        return replayed

    def _bodies(self, shelf: Shelf, payload: Payload, nonce: str = "") -> Bodies:
        return encode(payload, scope_of(shelf), derive=self._derive, nonce=nonce)

    def _write(
        self, bodies: Sequence[Bodies], taken: list[Written] | None = None, *, wait: bool
    ) -> Plan[list[list[Written]]]:
        taken = [] if taken is None else taken
        yield from self.wire.write([body for made in bodies for body in made], taken, wait=wait)
        sent = iter(taken)
        return [[next(sent) for _ in made] for made in bodies]

    def _gone(self, shelf: Shelf, digest: str, told: Sequence[Written]) -> Plan[set[str]]:
        """Those events that a replay named and that are no more: a server may keep the keys of what is forgotten."""
        gone: set[str] = set()
        for item in told:
            if item.replayed:
                found = yield from self.wire.event(item.event, scope_of(shelf), item_label(digest))
                if found is None or piece_of(found) is None:
                    gone.add(item.event)
        return gone

    def _anew(
        self,
        shelf: Shelf,
        payload: Payload,
        made: Sequence[dict[str, Any]],
        told: Sequence[Written],
        gone: set[str],
    ) -> Plan[list[Written]]:
        """Send again what a replay named and what is gone, as bytes that were never sent."""
        fresh = self._bodies(shelf, payload, self._nonce())
        lost = [index for index in range(len(made)) if told[index].event in gone]
        (again,) = yield from self._write([[fresh[index] for index in lost]], wait=False)
        written = dict(zip(lost, again, strict=True))
        return [written.get(index, item) for index, item in enumerate(told)]

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[Replays]:
        return (yield from self.grow(shelf, rows, [payload]))

    def grow(self, shelf: Shelf, rows: Sequence[Row], payloads: Sequence[Payload]) -> Plan[Replays]:
        kept = payloads if self.appends else payloads[-1:]
        replays = yield from self.insert(shelf, kept)
        # A log keeps the states of this life of the record; what is of an earlier life would outrank its first ones.
        gone = [row for row in rows if not (self.appends and earlier(row, kept[0]))]
        if gone:
            yield from self.remove(shelf, gone)
        return replays

    def mend(self, shelf: Shelf, row: Row, payload: Payload) -> Plan[None]:
        bodies = self._bodies(shelf, payload)
        lost = [bodies[index] for index in row.missing if index < len(bodies)]
        if len(bodies) <= max(row.missing) or row.proof == PASSED:
            yield from self.rewrite(shelf, [row], payload)
            return
        (told,) = yield from self._write([lost], wait=True)
        gone = yield from self._gone(shelf, payload.digest, told)
        if gone:
            fresh = self._bodies(shelf, payload, self._nonce())
            anew = [fresh[index] for index, item in zip(row.missing, told, strict=True) if item.event in gone]
            (told,) = yield from self._write([anew], wait=True)
        yield from self._listed(shelf, payload.digest, told[-1].event)

    def _listed(self, shelf: Shelf, digest: str, event: str, *, fatal: bool = True) -> Plan[None]:
        """Wait until what was accepted is listed."""
        for pause in (*pauses(hosted=self.wire.hosted, seconds=LISTED_WITHIN), None):
            try:
                listing = yield from self.wire.events(scope_of(shelf), [item_label(digest)], first=True)
            except Closed:
                raise
            except Unavailable:  # then it is not yet seen: the write itself is done
                listing = None
            if listing is not None and event in events_of(listing.items):
                self._unlisted.pop((shelf, digest), None)
                return
            if pause is not None:
                yield Wait(pause)
        if fatal:
            raise Unavailable(
                f"the write was accepted and is kept (event {event}), but in {LISTED_WITHIN:.0f} s the service did "
                "not list it: read again later"
            )

    # --- removing

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        events = list(dict.fromkeys(event for row in rows for event in row.parts))
        digests = list(dict.fromkeys(row.payload.digest for row in rows))
        for at in range(0, len(events), MOST_FORGOTTEN):
            yield from forget(self.wire, shelf, events[at : at + MOST_FORGOTTEN], digests)
        self._forgot(shelf, rows, events)

    def erase(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        """Remove a whole scope, its name too. Where the service does not offer that, its events."""
        events = list(dict.fromkeys(event for row in rows for event in row.parts))
        if not events and not (yield from self._empty(shelf)):
            return
        if not (yield from self._asking.erased(shelf)):
            yield from self.remove(shelf, rows)
        self._forgot(shelf, rows, events)

    def _empty(self, shelf: Shelf) -> Plan[bool]:
        """Whether a scope is known and holds nothing: its name outlives records that were removed one by one.

        What another process just wrote is listed late, and was not counted: it is not erased unseen.
        """
        if shelf not in map(shelf_of, (yield from self.wire.scopes(scope_of(shelf), MOST_SCOPES))):
            return False
        for pause in EMPTY_FOR:
            yield Wait(pause)
            if (yield from self.rows(shelf)):
                return False
        return True

    def _forgot(self, shelf: Shelf, rows: Sequence[Row], events: Sequence[str]) -> None:
        for event in events:
            remember(self._removed, event, None, 8 * REMEMBERED)
        self._untold.told([row.payload.digest for row in rows])
        for row in rows:
            self._unlisted.pop((shelf, row.payload.digest), None)
        self._asking.removed(shelf, events)


def _is(kept: KeptCall, call: Idempotency) -> bool:
    return (kept.operation, kept.key) == (call.operation, call.key.hex())
