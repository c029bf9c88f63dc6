"""What can go wrong between a client and a service, whatever the service: a queue of faults to strike with."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

KINDS = (
    "status",  # an answer of `code`, `body`, `headers`; nothing is carried out
    "apply_then_status",  # carried out, then that answer
    "rate_limit",  # 429 with Retry-After: `after`; nothing is carried out
    "stall",  # no answer until the client goes away; nothing is carried out; `run()` is called then
    "apply_then_stall",  # carried out, then no answer; `run()` is called in between
    "drop",  # the connection is cut; nothing is carried out
    "apply_then_drop",  # carried out, then the connection is cut
    "truncate",  # carried out, then the first half of the answer, with the length of that half
    "content_type",  # 200 and a page of HTML, as a proxy or a sign-in page answers; nothing is carried out
    "huge",  # 200 and a JSON array of some `size` bytes, without a Content-Length; nothing is carried out
    "call_before",  # `run()` on a thread of its own first, then all as ever
    "call_after",  # carried out, then `run()`, then the answer
)
ANSWERED_TRULY = {"", "call_before", "call_after", "truncate"}
CARRIED_OUT = ANSWERED_TRULY | {kind for kind in KINDS if kind.startswith("apply_then_")}


@dataclass(frozen=True)
class Seen:
    """One request as it came: the path is neither decoded nor normalised, header names are in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Fault:
    """A fault, which requests it waits for, and how often it has struck."""

    kind: str
    method: str | None
    path: str | None
    times: float
    skip: int
    how: dict[str, Any]
    struck: int = 0

    def waits_for(self, seen: Seen) -> bool:
        return (self.method is None or self.method == seen.method) and (
            self.path is None or self.path in seen.path
        )


@dataclass
class Faults:
    """The queue. The first fault that waits for a request is the one that strikes it."""

    waiting: list[Fault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self,
        kind: str,
        *,
        method: str | None = None,
        path: str | None = None,
        times: float = 1,
        skip: int = 0,
        **how: Any,
    ) -> Fault:
        """Strike the next `times` requests (`math.inf`: all) of `method` whose path contains `path`.

        The first `skip` of them are let through. `how` is what the kind takes, see KINDS.
        """
        if kind not in KINDS:
            raise ValueError(f"unknown fault {kind!r}; there are {', '.join(KINDS)}")
        fault = Fault(kind, method, path, times, skip, how)
        with self._lock:
            self.waiting.append(fault)
        return fault

    def clear(self) -> None:
        with self._lock:
            self.waiting.clear()

    def take(self, seen: Seen) -> Fault | None:
        with self._lock:
            for fault in self.waiting:
                if not fault.waits_for(seen):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.struck += 1
                if fault.struck >= fault.times:
                    self.waiting.remove(fault)
                return fault
        return None
