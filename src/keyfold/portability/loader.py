"""Putting drafts into a store, in chunks, with one bad record costing only itself."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from keyfold.clock import Clock, system_clock
from keyfold.contract.decide import decide
from keyfold.contract.intents import Intent, Ref
from keyfold.contract.protocols import Engine, Whole
from keyfold.errors import Conflict, InvalidRequest, NotFound, Unsupported
from keyfold.model import TURN, Config, Outcome, Receipt, Record, Revision
from keyfold.portability.drafts import Draft, Sealer
from keyfold.portability.held import Address, address_of, held_at, says_the_same
from keyfold.portability.report import Progress, Report

# One transaction. Of 1,000, 2,000 and 4,000 the quickest: half the syncs, and records that still fit a processor's cache.
CHUNK: Final = 2000
CHUNK_BYTES: Final = 8 << 20
# A dry run remembers so much of what it foresaw; a record that recurs after more than this is counted as if it were
# new to it.
FORESEEN: Final = 20_000
FORESEEN_CHARACTERS: Final = 16 << 20

# What one record can be at fault for. Anything else (a full disk, a closed store) ends the import.
_FAULTS: Final = (InvalidRequest, Conflict, NotFound, Unsupported)


class _Waiting(NamedTuple):
    """What is to be stored. Not the draft: its texts need not be kept twice."""

    where: str
    line: int | None
    intent: Intent


class Loader:
    """Collects drafts, stores them chunk by chunk and writes the report."""

    def __init__(
        self,
        engine: Engine,
        report: Report,
        config: Config,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._engine = engine
        self._report = report
        self.sealer = Sealer(config)
        self._clock: Clock = config.clock or system_clock
        self._dry_run = dry_run
        self._progress = progress
        self._waiting: list[_Waiting] = []
        self._size = self._offered_size = 0
        self._offered: list[Draft] = []
        self._foreseen: dict[Address, Record] = {}
        self._foreseen_size = 0
        self._keeps_history = engine.capabilities.history
        # Where the store cannot keep earlier states: what was said last of each record, and the records that lost some.
        self._said: dict[Address, int] = {}
        self._without_past: set[Address] = set()

    def unchanged(self, kind: str, number: int) -> None:
        """Count records that the caller found to say what the input says, letter for letter."""
        if number:
            self._count(kind, "deduped", number)
            self._tell()

    def offer(self, draft: Draft) -> None:
        """Take one draft that may be in the store already, letter for letter: then it is not even checked.

        What is held was checked and redacted when it was stored, so what equals it needs neither.
        """
        self._offered.append(draft)
        self._offered_size += len(draft.now.content)
        if len(self._offered) >= CHUNK or self._offered_size >= CHUNK_BYTES:
            self._sift()

    def _sift(self) -> None:
        """Note what is held as it was offered, and take the rest."""
        offered, self._offered, self._offered_size = self._offered, [], 0
        addresses = [_address(draft) for draft in offered]
        found = held_at(self._engine, filter(None, addresses))
        # what waits, and what a dry run foresees, changes what is held before these are stored
        changed: set[Address | None] = {address_of(item.intent) for item in self._waiting}
        changed.update(address for address in addresses if address in self._foreseen)
        for draft, address in zip(offered, addresses, strict=True):
            held = None if address is None else found.get(address)
            if (
                held is None
                or address in changed
                or draft.past
                or not says_the_same(held, draft.now, current=draft.current is not None)
            ):
                changed.add(address)
                self.add(draft)
            else:
                self._count(held.kind, "deduped")
        self._tell()

    def add(self, draft: Draft) -> bool:
        """Take one draft; False when it is wrong (and reported) or has expired."""
        try:
            intent, regions = self.sealer.seal(draft)
        except InvalidRequest as error:
            self._report.skip(draft.where, str(error), draft.line)
            return False
        if intent.expires_at and intent.expires_at <= self._clock():
            self._report.leave_out("expired")
            return False
        self._report.redacted += regions
        self._waiting.append(_Waiting(draft.where, draft.line, intent))
        self._size += len(intent.content)  # type: ignore[arg-type]  # the sealer sets it
        if draft.past:
            self._size += sum([len(state.content) for state in draft.past])
        if len(self._waiting) >= CHUNK or self._size >= CHUNK_BYTES:
            self._flush()
        return True

    def finish(self) -> None:
        """Store what waits, but for what is there already: that is compared and never written."""
        if self._offered:
            self._sift()
        self._flush()
        if self._without_past:
            self._report.tell_of_the_past(len(self._without_past))

    def _flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        # A service's writing reads what it writes to, in one listing: reading that here too would cost it twice.
        told = isinstance(self._engine, Whole) and not self._dry_run
        held = {} if told else held_at(self._engine, (address_of(item.intent) for item in waiting))
        now = self._clock()
        changing: list[_Waiting] = [] if held else waiting
        changed: set[Address] = set()
        for item in waiting if held else ():
            address = address_of(item.intent)
            record = self._foreseen.get(address) or held.get(address)
            decision = None
            if record is not None and address not in changed:
                decision = decide(record, item.intent, now)
            if decision is not None and decision.outcome == "deduped":
                self._note(item, "deduped", decision.record.normalized_hash)
            else:  # and what comes later for the same record is to find it changed
                changed.add(address)
                changing.append(item)
        if self._dry_run:
            for item in changing:
                self._foresee(item)
        elif changing:
            self._store(changing)
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._report)

    def _store(self, waiting: list[_Waiting]) -> None:
        try:
            receipts = self._engine.store_many([item.intent for item in waiting])
        except _FAULTS:
            for item in waiting:  # one of them is at fault: it is found one by one
                self._store_one(item)
        else:
            self._note_all(waiting, receipts)

    def _store_one(self, item: _Waiting) -> None:
        try:
            receipt = self._engine.store(item.intent)
        except _FAULTS as error:
            self._report.skip(item.where, str(error), item.line)
        else:
            self._note(item, receipt.outcome, receipt.normalized_hash)

    def _foresee(self, item: _Waiting) -> None:
        """Note what storing it would do, by the same decision that the engine takes, after what came before it."""
        intent, address = item.intent, address_of(item.intent)
        held = self._foreseen.pop(address, None)
        if held is not None:
            self._foreseen_size -= len(held.content)
        else:
            held = self._engine.get(
                Ref(intent.namespace, key=intent.key, kind=intent.kind, minted=intent.minted)
            )
        decision = decide(held, intent, self._clock())
        self._foreseen[address] = decision.record
        self._foreseen_size += len(decision.record.content)
        while len(self._foreseen) > FORESEEN or self._foreseen_size > FORESEEN_CHARACTERS:
            oldest = next(iter(self._foreseen))
            self._foreseen_size -= len(self._foreseen.pop(oldest).content)
        self._note(item, decision.outcome, decision.record.normalized_hash)

    def _note_all(self, waiting: list[_Waiting], receipts: list[Receipt]) -> None:
        done: list[Outcome] = [receipt.outcome for receipt in receipts]
        counted = Counter(zip([item.intent.kind for item in waiting], done, strict=True))
        for (kind, outcome), number in counted.items():
            self._count(kind, outcome, number)
        if not self._keeps_history:
            for item in waiting:
                self._leave_past(item.intent)
        if "deduped" in done:
            for item, receipt in zip(waiting, receipts, strict=True):
                self._tell_of_another(item, receipt.outcome, receipt.normalized_hash)

    def _note(self, item: _Waiting, outcome: Outcome, digest: str) -> None:
        self._count(item.intent.kind, outcome)
        if not self._keeps_history:
            self._leave_past(item.intent)
        self._tell_of_another(item, outcome, digest)

    def _leave_past(self, intent: Intent) -> None:
        """Count what of a record a store without a history does not take; also where the rest is there already.

        It is what the record brings along, and what the input said of it before, unless that is among it.
        """
        address, now = address_of(intent), _state(intent)
        past = [_state(state) for state in intent.load.past] if intent.load is not None else []
        before = self._said.get(address, now)
        self._said[address] = now
        another = (
            before != now and before not in past and intent.kind != TURN
        )  # of a turn the first text stays
        lost = len(past) + another
        if lost:
            self._report.dropped += lost
            self._without_past.add(address)

    def _tell_of_another(self, item: _Waiting, outcome: Outcome, digest: str) -> None:
        if outcome == "deduped" and item.intent.kind == TURN and digest != item.intent.normalized_hash:
            told = "the store holds another text for this turn, and a later one: it stays"
            self._report.note(item.where, told, item.line)

    def _count(self, kind: str, outcome: Outcome, number: int = 1) -> None:
        report = self._report
        report.kinds[kind] = report.kinds.get(kind, 0) + number
        if outcome == "created":
            report.created += number
        elif outcome == "updated":
            report.updated += number
        else:
            report.deduped += number


def _address(draft: Draft) -> Address | None:
    """Where a draft belongs; None when its key is none that could be held."""
    try:
        draft.key.encode()
        draft.namespace.encode()
    except (UnicodeEncodeError, AttributeError):
        return None
    return Address(draft.namespace, draft.kind, draft.minted, draft.key) if draft.key else None


def _state(said: Intent | Revision) -> int:
    """A number for what a state of a record says: a run may meet many."""
    return hash((said.normalized_hash, said.title, said.type))
