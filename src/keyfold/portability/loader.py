"""Putting drafts into a store, in chunks, with one bad record costing only itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from keyfold.clock import Clock, system_clock
from keyfold.contract.decide import decide
from keyfold.contract.intents import Intent, Ref
from keyfold.contract.protocols import Engine
from keyfold.errors import Conflict, InvalidRequest, NotFound, Unsupported
from keyfold.model import Config, Outcome
from keyfold.portability.drafts import Draft, Sealer
from keyfold.portability.report import Progress, Report

CHUNK: Final = 500
CHUNK_BYTES: Final = 8 << 20

# What one record can be at fault for. Anything else (a full disk, a closed store) ends the import.
_FAULTS: Final = (InvalidRequest, Conflict, NotFound, Unsupported)


class _Waiting(NamedTuple):
    draft: Draft
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
        self._size = 0

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
        self._waiting.append(_Waiting(draft, intent))
        self._size += sum(len(state.content) for state in (draft.now, *draft.past))
        if len(self._waiting) >= CHUNK or self._size >= CHUNK_BYTES:
            self.finish()
        return True

    def finish(self) -> None:
        """Store what waits."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        if self._dry_run:
            outcomes: list[Outcome] = [self._foresee(item.intent) for item in waiting]
            self._note(waiting, outcomes)
        else:
            self._store(waiting)
        if self._progress is not None:
            self._progress(self._report)

    def _store(self, waiting: list[_Waiting]) -> None:
        try:
            receipts = self._engine.store_many([item.intent for item in waiting])
        except _FAULTS:
            for item in waiting:  # one of them is at fault: it is found one by one
                self._store_one(item)
        else:
            done: list[Outcome] = [receipt.outcome for receipt in receipts]
            self._note(waiting, done)

    def _store_one(self, item: _Waiting) -> None:
        try:
            receipt = self._engine.store(item.intent)
        except _FAULTS as error:
            self._report.skip(item.draft.where, str(error), item.draft.line)
        else:
            self._note([item], [receipt.outcome])

    def _foresee(self, intent: Intent) -> Outcome:
        """What storing it would do, by the same decision that the engine takes."""
        held = self._engine.get(Ref(intent.namespace, key=intent.key, kind=intent.kind, minted=intent.minted))
        return decide(held, intent, self._clock()).outcome

    def _note(self, waiting: list[_Waiting], outcomes: Sequence[Outcome]) -> None:
        report = self._report
        for item, outcome in zip(waiting, outcomes, strict=True):
            kind = item.intent.kind
            report.kinds[kind] = report.kinds.get(kind, 0) + 1
            if outcome == "created":
                report.created += 1
            elif outcome == "updated":
                report.updated += 1
            else:
                report.deduped += 1
