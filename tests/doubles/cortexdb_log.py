"""The event log of the CortexDB doubles: what is held, under which keys, and who sees it when."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.doubles.cortexdb_checks import Refused, flattened, identity
from tests.doubles.cortexdb_knobs import Knobs


@dataclass(slots=True)
class Event:
    """An event as it was written, and how far it has come."""

    id: str
    number: int
    body: dict[str, Any]
    caller: str
    recorded: datetime
    listed: bool = False
    recallable: bool = False
    list_misses: int = 0
    recall_misses: int = 0
    redacted: bool = False

    @property
    def scope(self) -> str:
        return str(self.body["scope"])

    @property
    def content(self) -> dict[str, Any]:
        return dict(self.body["content"])

    @property
    def text(self) -> str:
        """The text as it was sent; of a content without one, what is indexed for it."""
        content = self.body["content"]
        return str(content["text"]) if "text" in content else flattened(content).decode()

    @property
    def labels(self) -> list[str]:
        return list((self.body.get("context") or {}).get("labels", []))

    @property
    def key(self) -> str | None:
        return self.body.get("idempotency_key")

    @property
    def directives(self) -> dict[str, Any] | None:
        """What the writer told the server to do with it; None when it said nothing."""
        return self.body.get("directives")

    @property
    def derives(self) -> bool:
        """Whether facts and beliefs may be drawn from it."""
        return (self.directives or {}).get("extract") != []

    def rendered(self, *, flat: bool = False, role: bool = False) -> dict[str, Any]:
        """The event as the service shows it; `flat` as the documents have it, `role` as older servers do."""
        content = self.content
        if self.redacted:
            content = {name: "" if name == "text" else value for name, value in content.items()}
        elif role and content["kind"] == "message":
            content["text"] = f"[{content['role']}] {content['text']}"
        recorded = stamp(self.recorded)
        context = {"observed_at": recorded} | (self.body.get("context") or {}) | {"recorded_at": recorded}
        shared = {"scope": self.scope, "modality": self.body["modality"], "content": content}
        if flat:
            return {"event_id": self.id} | shared | {"labels": self.labels} | context
        return {"id": self.id} | shared | {"context": context}


@dataclass(slots=True)
class Held:
    """What an idempotency key stands for."""

    identity: str
    text: str
    event_id: str
    since: datetime


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Log:
    """Events in the order they came, by scope and by label, and the keys they came under."""

    def __init__(self, clock: Callable[[], datetime], knobs: Knobs) -> None:
        self.clock = clock
        self.knobs = knobs
        self.events: dict[str, Event] = {}
        self.keys: dict[str, Held] = {}
        self.forgotten: list[str] = []
        self.dead: set[str] = set()  # scopes that take writes and show none
        self._numbers = 0
        self._by_scope: dict[str, list[Event]] = defaultdict(list)
        self._by_label: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self._fresh: dict[str, list[Event]] = defaultdict(list)  # not listed or not recallable yet

    # --- writing

    def append(self, body: dict[str, Any], caller: str = "user:local") -> tuple[Event | None, str]:
        """Carry out a write that was checked: the new event and its id, or None and the id of the first."""
        now = self.clock()
        key, same = body.get("idempotency_key"), identity(body)
        text = flattened(body["content"]).decode()
        held = self.held(key, now)
        if held is not None:
            if (text != held.text) if self.knobs.compare_text_only else (same != held.identity):
                raise Refused(
                    409,
                    "IDEMPOTENCY_CONFLICT",
                    "idempotency_key was used with another body",
                    details={"existing_event_id": held.event_id},
                )
            return None, held.event_id
        self._numbers += 1
        event = Event(f"evt_{self._numbers}", self._numbers, body, caller, now)
        self._add(event)
        if key is not None:
            self.keys[key] = Held(same, text, event.id, now)
        return event, event.id

    def held(self, key: str | None, now: datetime | None = None) -> Held | None:
        """What the key stands for, unless a day has passed since."""
        found = self.keys.get(key) if key is not None else None
        if found is None:
            return None
        if (now or self.clock()) - found.since >= timedelta(hours=self.knobs.key_hours):
            del self.keys[key]  # type: ignore[arg-type]
            return None
        return found

    def _add(self, event: Event) -> None:
        self.events[event.id] = event
        self._by_scope[event.scope].append(event)
        for label in dict.fromkeys(event.labels):
            self._by_label[event.scope, label].append(event)
        self._fresh[event.scope].append(event)

    # --- reading

    def look(self, scopes: Iterable[str], *, recall: bool) -> None:
        """A listing or a recall of these scopes comes by: what it does not see yet, the next one will."""
        now = self.clock()
        for scope in scopes:
            if scope in self.dead:
                continue
            waiting = self._fresh.get(scope)
            if waiting:
                self._fresh[scope] = [event for event in waiting if not self._ripen(event, now, recall)]

    def _ripen(self, event: Event, now: datetime, recall: bool) -> bool:
        knobs, age = self.knobs, (now - event.recorded).total_seconds()
        if not event.listed:
            event.listed = event.list_misses >= knobs.listing_lag or age >= knobs.listing_lag_seconds
            event.list_misses += not recall and not event.listed
        if event.listed and not event.recallable:
            event.recallable = event.recall_misses >= knobs.recall_lag or age >= knobs.recall_lag_seconds
            event.recall_misses += recall and not event.recallable
        return event.listed and event.recallable

    def settle(self) -> None:
        """Time has passed: whatever is held is listed and found."""
        for event in self.events.values():
            if event.scope not in self.dead:
                event.listed = event.recallable = True
        self._fresh.clear()

    def listing(self, scope: str, labels: Sequence[str] = ()) -> list[Event]:
        """The events of a scope that carry any of the labels, newest first, as far as they are listed."""
        if labels:
            found = {e.number: e for label in labels for e in self._by_label.get((scope, label), ())}
            events: Iterable[Event] = (found[number] for number in sorted(found, reverse=True))
        else:
            events = reversed(self._by_scope.get(scope, []))
        return [event for event in events if event.listed]

    def within(self, scope: str, view: str) -> list[str]:
        """The scopes that a recall of this scope reads."""
        above, below = scope.split("/"), scope + "/"
        ancestors = {"/".join(above[:n]) for n in range(1, len(above))}

        def reads(other: str) -> bool:
            if other == scope:
                return True
            down = view in {"holistic", "descend"} and other.startswith(below)
            return down or (view in {"holistic", "lineage"} and other in ancestors)

        return [other for other in self._by_scope if reads(other)]

    def scopes(self, prefix: str = "") -> list[str]:
        """The scopes that hold or held an event, at or below the prefix, on whole segments."""
        below = prefix if prefix.endswith("/") else prefix + "/"
        return sorted(s for s in self._by_scope if not prefix or s == prefix or s.startswith(below))

    def unregister(self, scope: str) -> None:
        """Forget that there is such a scope, once it holds nothing."""
        if not self._by_scope.get(scope):
            self._by_scope.pop(scope, None)

    # --- removing

    def redact(self, events: Sequence[Event], *, release: bool) -> None:
        """Take the events out of every read; `release` lets their keys be used again."""
        gone = {event.id: event for event in events}
        for event in events:
            event.redacted = True
            self.forgotten.append(event.id)
        if release:
            for event in events:
                held = self.keys.get(event.key) if event.key is not None else None
                if held is not None and held.event_id in gone:
                    del self.keys[event.key]  # type: ignore[arg-type]
        if not self.knobs.redacted_still_list:
            self.drop(events)

    def drop(self, events: Sequence[Event]) -> None:
        """Remove the events from the log, as if they had never come."""
        gone = {event.id for event in events}
        if not gone:
            return
        for scope in {event.scope for event in events}:
            # The scope itself stays known: it is registered.
            self._by_scope[scope] = [e for e in self._by_scope[scope] if e.id not in gone]
            self._fresh[scope] = [e for e in self._fresh.get(scope, []) if e.id not in gone]
        for at in {(event.scope, label) for event in events for label in event.labels}:
            self._by_label[at] = [e for e in self._by_label[at] if e.id not in gone]
        for event_id in gone:
            self.events.pop(event_id, None)

    def lose(self, event: Event) -> None:
        """Lose an event that was acknowledged: it was never written, and its key is free."""
        if event.key is not None:
            self.keys.pop(event.key, None)
        self.drop([event])

    def named(self, scope: str, ids: Sequence[str] | None) -> list[Event]:
        """The events of exactly this scope, those with these ids, that are not redacted yet."""
        if ids is None:
            return [event for event in self._by_scope.get(scope, []) if not event.redacted]
        found = (self.events.get(one) for one in dict.fromkeys(ids))
        return [event for event in found if event and event.scope == scope and not event.redacted]


def page(
    events: Sequence[Any], render: Callable[[Any], Any], params: Mapping[str, str], knobs: Knobs
) -> dict[str, Any]:
    """One page of a listing: every event twice, the limit counting copies, the cursor an offset into them."""
    copies = 2 if knobs.doubled else 1
    sent = params.get("cursor", "")
    start = int(sent) if sent.isdecimal() else 0
    asked = params.get("limit", "")
    limit = max(1, min(int(asked), 500)) if asked.isdecimal() else 50
    total = len(events) * copies
    end = min(start + limit, total)
    items = [render(events[at // copies]) for at in range(start, end)]
    answer: dict[str, Any] = {"items": items, "has_more": end < total, "next_cursor": str(end)}
    if knobs.strikes("stuck_cursor"):
        answer |= {"has_more": True, "next_cursor": sent or "0"}
    return answer


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
