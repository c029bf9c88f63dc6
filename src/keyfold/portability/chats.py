"""Conversations of other tools as sessions and turns: what is the same for all of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from keyfold.clock import to_text
from keyfold.contract.keys import turn_key
from keyfold.errors import InvalidRequest
from keyfold.memory import checks
from keyfold.model import COMPLETED, SESSION, TURN
from keyfold.portability.drafts import Draft, State
from keyfold.portability.foreign import REPAIRED, clean, cleaned, is_repaired
from keyfold.portability.loader import Loader
from keyfold.portability.report import Report

USER: Final = "user"
ASSISTANT: Final = "assistant"
TOOL: Final = "tool"
# What a tool was given beyond this (a whole file, say) is left out of the turn: metadata holds 64 KiB.
MAX_INPUT: Final = 8 * 1024
MAX_CALLS_BYTES: Final = 48 * 1024


@dataclass(slots=True)
class Turn:
    """One turn as it was read: who spoke, what, when, and which tools were called."""

    role: str
    text: str
    at: datetime
    where: str
    line: int | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Thread:
    """One conversation on its way into a store: its turns are numbered as they come, and at its end comes its session."""

    def __init__(
        self, loader: Loader, report: Report, namespace: str, thread_id: str, *, rewritten: bool
    ) -> None:
        """`rewritten`: the source may change what was said before (a branch is edited), and is then followed."""
        self._loader = loader
        self._report = report
        self._namespace = namespace
        self._rewritten = rewritten
        self.id = clean(thread_id)
        self._renamed = self.id != thread_id
        self.count = 0
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.facts: dict[str, Any] = {}

    def add(self, turn: Turn) -> None:
        """Take the next turn. It keeps its place even when it cannot be stored."""
        metadata: dict[str, Any] = {
            "thread_id": self.id,
            "index": self.count,
            "role": turn.role,
            **cleaned(turn.facts),
        }
        if turn.calls:
            metadata["tool_calls"] = self._fitting(turn.calls)
        text = clean(turn.text)
        if text != turn.text or is_repaired([turn.facts, turn.calls]):
            self._report.note(turn.where, REPAIRED, turn.line)
        state = State(1, TURN, turn.role, text, turn.at, metadata, session_id=self.id)
        self._loader.offer(
            Draft(
                turn.where,
                turn.line,
                self._namespace,
                TURN,
                turn_key(self.id, self.count),
                False,
                state,
                turn.at,
                observed_at=turn.at,
                taint="external" if turn.role == TOOL else "internal",
                current=turn.at if self._rewritten else None,
            )
        )
        self.count += 1
        self.first = turn.at if self.first is None else min(self.first, turn.at)
        self.last = turn.at if self.last is None else max(self.last, turn.at)

    def close(self, where: str) -> None:
        """Store the session, from the first turn to the last. A conversation without turns leaves nothing."""
        if self.first is None or self.last is None:
            self._report.leave_out("conversations in which nothing was said")
            return
        if self._renamed or is_repaired(self.facts):
            self._report.note(where, REPAIRED)
        ended = to_text(self.last)
        metadata = {**cleaned(self.facts), "ended_at": ended, "last_activity_at": ended}
        state = State(1, COMPLETED, "Session", "", self.last, metadata)
        self._loader.offer(
            Draft(where, None, self._namespace, SESSION, self.id, False, state, self.first,
                  current=self.last if self._rewritten else None)
        )  # fmt: skip

    def _fitting(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The calls with their inputs, as far as these fit into the metadata; what does not is counted."""
        found = [self._call(call) for call in calls]
        if len(json.dumps(found, ensure_ascii=False).encode()) > MAX_CALLS_BYTES:
            self._report.leave_out("inputs of tools that are too long", len(found))
            found = [{"name": call.get("name", "")} for call in found[:200]]
        return found

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = cleaned({name: item for name, item in call.items() if name != "input"})
        return {**shown, "input": self._input(call["input"])} if "input" in call else shown

    def _input(self, value: Any) -> Any:
        shown = cleaned(value)
        size = len(json.dumps(shown, ensure_ascii=False).encode())
        if size > MAX_INPUT:
            self._report.leave_out("inputs of tools that are too long")
            return {"left_out_bytes": size}
        try:
            checks.json_value("tool_calls", [shown])
        except InvalidRequest:
            self._report.leave_out("inputs of tools that metadata cannot hold")
            return {"left_out_bytes": size}
        return shown
