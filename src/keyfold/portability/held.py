"""What a store holds already at the addresses of a chunk of an import, read in a few calls.

An import of what is there already should cost little more than reading it: so what is held is fetched a page
at a time in the order of keys, and only what differs goes through the write path.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from keyfold.contract.intents import Intent, Query, Ref, key_position
from keyfold.contract.protocols import Engine, Whole
from keyfold.model import Record
from keyfold.portability.drafts import State

# A page is between these long: it grows while all of it is wanted, and shrinks where little of it is.
SHORTEST: Final = 8
LONGEST: Final = 500
# After so many pages in a row of which under a quarter was wanted, the rest is looked up key by key.
POOR: Final = 4


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
    for new (the write path decides, as always); else the listing is read wherever keys are wanted.
    """
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for address in addresses:
        groups.setdefault(address[:3], []).append(address.key)
    found: dict[Address, Record] = {}
    for (namespace, kind, minted), keys in groups.items():
        if isinstance(
            engine, Whole
        ):  # a service: each page of ours would be a reading of the whole namespace
            found.update(_listed(engine, namespace, kind, minted, keys))
            continue
        group = _Group(engine, namespace, kind, minted, sorted(set(keys)), found)
        if group.probe():
            group.read()
    return found


def _listed(
    engine: Engine, namespace: str, kind: str, minted: bool, keys: list[str]
) -> dict[Address, Record]:
    """What is held of these keys; a few are looked up, more are read from the listing."""
    if len(keys) <= SHORTEST:
        refs = [Ref(namespace, key=key, kind=kind, minted=minted) for key in keys]
        records = [record for record in map(engine.get, refs) if record is not None]
    else:
        page = engine.page(Query(namespace, kinds=(kind,), order="key", limit=1 << 40, want_total=False))
        wanted = set(keys)
        records = [record for record in page.items if record.minted == minted and record.key in wanted]
    return {Address(namespace, kind, minted, record.key): record for record in records}


class _Group:
    """The wanted keys of one kind in one namespace, in order."""

    def __init__(
        self,
        engine: Engine,
        namespace: str,
        kind: str,
        minted: bool,
        keys: list[str],
        found: dict[Address, Record],
    ) -> None:
        self._engine = engine
        self._space = (namespace, kind, minted)
        self._keys = keys
        self._wanted = set(keys)
        self._found = found

    def probe(self) -> bool:
        """Look up the first, the middle and the last key; whether that leaves more to read."""
        probes = {self._keys[0], self._keys[len(self._keys) // 2], self._keys[-1]}
        return sum(map(self._get, probes)) > 0 and len(self._keys) > len(probes)

    def read(self) -> None:
        """Read the listing from each wanted key on, page by page."""
        at, limit, poor = 0, 2 * SHORTEST, 0
        while at < len(self._keys):
            if poor == POOR:
                for key in self._keys[at:]:
                    self._get(key)
                return
            asked = min(limit, len(self._keys) - at + SHORTEST)
            hits, last = self._page(self._keys[at], asked)
            if last is None:
                return
            whole = hits == asked
            poor = poor + 1 if hits * 4 < asked else 0
            limit = min(limit * 2, LONGEST) if whole else max(limit // 2, SHORTEST) if poor else limit
            at = max(bisect_right(self._keys, last, at), at + 1)

    def _page(self, key: str, limit: int) -> tuple[int, str | None]:
        """Read a page from a key on: how many of it were wanted, and its last key (None: nothing follows it)."""
        namespace, kind, minted = self._space
        position = key_position(namespace, kind, _before(key), minted=minted)
        page = self._engine.page(
            Query(namespace, kinds=(kind,), order="key", position=position, limit=limit, want_total=False)
        )
        hits, last = 0, None
        for record in page.items:
            if record.minted != minted:
                return hits, None
            last = record.key
            if last in self._wanted:
                self._found[Address(namespace, kind, minted, last)] = record
                hits += 1
        return hits, last if page.position is not None else None

    def _get(self, key: str) -> bool:
        namespace, kind, minted = self._space
        record = self._engine.get(Ref(namespace, key=key, kind=kind, minted=minted))
        if record is not None:
            self._found[Address(namespace, kind, minted, key)] = record
        return record is not None


def _before(key: str) -> str:
    """A text that sorts just before a key: a listing after it begins with the key, or with little before it."""
    last = ord(key[-1])
    if last <= 0x20 or 0xD800 <= last - 1 <= 0xDFFF:
        return key[:-1]
    return f"{key[:-1]}{chr(last - 1)}\U0010ffff"


def says_the_same(held: Record, state: State, *, current: bool) -> bool:
    """Whether a state, as it was read, is letter for letter what is held, so that no check or redaction could differ.

    False says nothing: private regions and the order of tags are looked at later.
    """
    return (
        held.content == state.content
        and held.title == state.title
        and held.type == state.type
        and held.tags == state.tags
        and (
            current or (held.expires_at is None and state.expires_at is None and held.pinned is state.pinned)
        )
        and repr(held.metadata) == repr(state.metadata)
    )
