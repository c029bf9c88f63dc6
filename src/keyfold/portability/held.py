"""What a store holds already at the addresses of a chunk of an import, read in a few calls.

An import of what is there already should cost little more than reading it: so what is held is fetched a page
at a time in the order of keys, and only what differs goes through the write path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from keyfold.contract.intents import Intent, Query, Ref, key_position
from keyfold.contract.protocols import Engine
from keyfold.model import Record

# Where fewer than one in this many of a page's records are wanted, reading on costs more than it saves.
SPARSE: Final = 4
PAGE: Final = 500


class Address(NamedTuple):
    """What makes a record one and the same on every engine. It sorts as listings do within a kind."""

    namespace: str
    kind: str
    minted: bool
    key: str


def address_of(intent: Intent) -> Address:
    """The address that an intent with a key writes to."""
    assert intent.key is not None
    return Address(intent.namespace, intent.kind, intent.minted, intent.key)


def held_at(engine: Engine, addresses: Iterable[Address]) -> dict[Address, Record]:
    """The records at these addresses, as far as a few reads find them: what is missing here may be held.

    Three of the addresses of each kind and namespace are looked up. When none is there the rest is taken
    for new (the write path decides, as always); else the listing is read from the first to the last key, for
    as long as enough of it is wanted.
    """
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for address in addresses:
        groups.setdefault(address[:3], []).append(address.key)
    found: dict[Address, Record] = {}
    for (namespace, kind, minted), keys in groups.items():
        ordered = sorted(set(keys))
        probes = {ordered[0], ordered[len(ordered) // 2], ordered[-1]}
        for key in probes:
            record = engine.get(Ref(namespace, key=key, kind=kind, minted=minted))
            if record is not None:
                found[Address(namespace, kind, minted, key)] = record
        if len(ordered) > len(probes) and any(
            Address(namespace, kind, minted, key) in found for key in probes
        ):
            _read_listing(engine, Address(namespace, kind, minted, ordered[0]), ordered, found)
    return found


def _read_listing(engine: Engine, first: Address, ordered: list[str], found: dict[Address, Record]) -> None:
    """Add what the listing holds between the first and the last key."""
    namespace, kind, minted, key = first
    wanted = set(ordered)
    limit = min(PAGE, len(ordered))
    position: str | None = key_position(namespace, kind, key, minted=minted)
    while position is not None:
        page = engine.page(
            Query(namespace, kinds=(kind,), order="key", position=position, limit=limit, want_total=False)
        )
        hits = 0
        for record in page.items:
            if record.minted == minted and record.key in wanted:
                found[Address(namespace, kind, minted, record.key)] = record
                hits += 1
        if not page.items or hits * SPARSE < len(page.items):
            return
        last = page.items[-1]
        if (last.minted, last.key) >= (minted, ordered[-1]):
            return
        position = page.position
