"""Recall, answers and beliefs of the CortexDB doubles: packs with budgets, which live a minute or until any forget."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.doubles.cortexdb_checks import (
    ANSWER_FIELDS,
    FILTERS,
    LAYERS,
    MAX_INSTRUCTIONS,
    MAX_TOKENS,
    RECALL_FIELDS,
    VIEWS,
    Refused,
    closed,
    invalid_body,
    scope_path,
)
from tests.doubles.cortexdb_knobs import Knobs
from tests.doubles.cortexdb_log import Event, Log

DEFAULT_TOKENS = 4_000
BYTES_A_TOKEN = 3.5  # 4,000 tokens are some 14 KB
LEAST_EXCERPT = 16  # bytes; with less room than this an event is left out


@dataclass(slots=True)
class Pack:
    """What a recall gathered, until it dies."""

    id: str
    scope: str
    made: datetime
    body: dict[str, Any]


@dataclass(slots=True)
class Belief:
    """A belief and the event that it was built from."""

    id: str
    event: Event

    def rendered(self) -> dict[str, Any]:
        said = f"{self.event.content.get('role', 'user')} said {self.event.text}"
        return {"id": self.id, "scope": self.event.scope, "statement": said, "supports": [self.event.id]}


def words_of(query: str) -> list[str]:
    """The words of a query that count: three characters and more, in lower case."""
    return [word.lower() for word in re.findall(r"\w+", query) if len(word) >= 3]


class Recall:
    """What is asked of a log by meaning, which this double takes to be words in common."""

    def __init__(self, log: Log, knobs: Knobs, clock: Callable[[], datetime]) -> None:
        self.log = log
        self.knobs = knobs
        self.clock = clock
        self.packs: dict[str, Pack] = {}
        self.beliefs: list[Belief] = []
        self._packs_made = 0

    # --- packs

    def recall(self, body: Mapping[str, Any]) -> dict[str, Any]:
        self._check(body)
        if self.knobs.recall_down:
            raise Refused(503, "STORAGE_UNWIRED", "recall is not available")
        scope, view = body["scope"], body.get("view", "holistic")
        scopes = self.log.within(scope, view)
        self.log.look(scopes, recall=True)
        words = words_of(body.get("query") or "")
        events = self._ranked(scopes, words, (body.get("filters") or {}).get("metadata") or {})
        budgets = body.get("budgets") or {}
        limits = budgets.get("per_layer_limits") or {}
        beliefs = [b for b in reversed(self.beliefs) if b.event.scope in scopes]
        if words:
            beliefs = [b for b in beliefs if any(word in b.event.text.lower() for word in words)]
        room = int(budgets.get("max_tokens", DEFAULT_TOKENS) * BYTES_A_TOKEN)
        layers: dict[str, list[dict[str, Any]]] = {name: [] for name in LAYERS}
        warnings: list[str] = []
        # Layers take room in the order they are asked for, so who names events late may get none.
        for layer in body.get("include") or ["facts", "beliefs", "episodes", "understanding", "events"]:
            if layer == "beliefs":
                layers[layer] = [belief.rendered() for belief in beliefs[: limits.get(layer)]]
                room -= sum(len(item["statement"].encode()) for item in layers[layer])
            elif layer == "events":
                layers[layer], room = self._fitted(events[: limits.get(layer)], room)
        made: dict[str, Any] = {
            "pack_id": self._next_id(),
            "layers": layers,
            "context_block": "\n".join(
                f"[{i['content'].get('role', 'user')}] {_text(i)}" for i in layers["events"]
            ),
            "provenance": [],
            "warnings": warnings,
        }
        self.packs[made["pack_id"]] = Pack(made["pack_id"], scope, self.clock(), made)
        return made

    def _next_id(self) -> str:
        self._packs_made += 1
        return f"pack_{self._packs_made}"

    def _check(self, body: Mapping[str, Any]) -> None:
        closed(body, RECALL_FIELDS)
        scope_path(body.get("scope"), None)
        if body.get("view", "holistic") not in VIEWS:
            raise invalid_body(f"unknown view `{body['view']}`")
        for layer in body.get("include") or []:
            if layer not in LAYERS:
                raise invalid_body(f"unknown layer `{layer}`")
        budgets = body.get("budgets") or {}
        closed(budgets, {"max_tokens", "per_layer_limits"}, "budgets.")
        closed(budgets.get("per_layer_limits") or {}, LAYERS, "budgets.per_layer_limits.")
        for number in [budgets.get("max_tokens", 0), *(budgets.get("per_layer_limits") or {}).values()]:
            if type(number) is not int or not 0 <= number <= MAX_TOKENS:
                raise invalid_body(f"budgets hold whole numbers of at most {MAX_TOKENS}")
        filters = body.get("filters") or {}
        closed(filters, {"metadata"}, "filters.")
        closed(filters.get("metadata") or {}, FILTERS, "filters.metadata.")
        if body.get("diagnostics", "none") != "none" and not self.knobs.diagnostics_allowed:
            raise Refused(403, "POLICY_DENIED", "diagnostics.read is required")

    def _ranked(self, scopes: list[str], words: list[str], filters: Mapping[str, Any]) -> list[Event]:
        """By how many of the words an event holds, the newest first among equals."""
        scored = []
        for scope in scopes:
            for event in self.log.listing(scope):
                if event.redacted or not event.recallable or not passes(event, filters):
                    continue
                text = event.text.lower()
                score = sum(word in text for word in words)
                if score or not words:
                    scored.append((-score, -event.number, event))
        scored.sort(key=lambda one: one[:2])
        return [event for _, _, event in scored]

    def _fitted(self, events: list[Event], room: int) -> tuple[list[dict[str, Any]], int]:
        """The events that there is room for; one that is longer than what is left is served as an excerpt."""
        items = []
        for event in events:
            item = event.rendered(flat=self.knobs.flat_events, role=self.knobs.role_prefix)
            size = len(_text(item).encode())
            if size > room:
                if room < LEAST_EXCERPT:
                    continue
                excerpt = _text(item).encode()[:room].decode(errors="ignore")
                kept = len(excerpt.encode())
                item["content"] |= {
                    "text": excerpt,
                    "_partial": True,
                    "_partial_reason": "budget_excerpt",
                    "_original_bytes": size,
                    "_excerpt_ranges": [{"start": 0, "end": kept}],
                }
                size = kept
            room -= size
            items.append(item)
        return items, room

    def drop_packs(self) -> None:
        """What any forget does, whatever the scope."""
        if self.knobs.packs_die_at_forget:
            self.packs.clear()

    def pack(self, pack_id: str) -> Pack | None:
        found = self.packs.get(pack_id)
        if found and self.clock() - found.made >= timedelta(seconds=self.knobs.pack_seconds):
            del self.packs[pack_id]
            return None
        return found

    # --- answers

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        closed(body, ANSWER_FIELDS)
        scope = scope_path(body.get("scope"), None)
        question = body.get("question")
        if not isinstance(question, str) or not question.strip():
            raise invalid_body("missing field `question`")
        if len(body.get("answer_instructions") or "") > MAX_INSTRUCTIONS:
            raise invalid_body(f"answer_instructions is over {MAX_INSTRUCTIONS} characters")
        pack = self._pack_for(body, scope, question)
        if self.knobs.no_answer_model:
            raise Refused(503, "ANSWER_UNAVAILABLE", "no answer model is configured")
        events = pack.body["layers"]["events"]
        grounds = f": {_text(events[0])}" if events else ""
        made: dict[str, Any] = {
            "answer": f"grounded answer for {question}{grounds}",
            "citations": [],
            "diagnostics": {"answer_model": "double"},
        }
        if body.get("cite_sources"):
            made["citations"] = [
                {"id": _id(item), "key": _id(item), "content": _text(item), "score": 1 / (1 + rank)}
                for rank, item in enumerate(events[:5])
            ]
        if body.get("include_context"):
            made["context_block"] = pack.body["context_block"]
        return made

    def _pack_for(self, body: Mapping[str, Any], scope: str, question: str) -> Pack:
        pack_id = body.get("use_pack_id")
        if not pack_id:
            if self.knobs.answer_needs_pack:
                raise Refused(400, "MISSING_PACK", "use_pack_id is required")
            return self.packs[
                self.recall({"scope": scope, "query": question, "include": ["events"]})["pack_id"]
            ]
        if self.knobs.strikes("expire_packs"):
            self.packs.pop(pack_id, None)
        pack = self.pack(pack_id)
        if pack is None:
            raise Refused(404, "NOT_FOUND", f"pack {pack_id} is unknown or has expired")
        if pack.scope != scope:
            raise invalid_body("the pack was made for another scope")
        return pack

    # --- beliefs

    def build(self, scope: str) -> dict[str, Any]:
        """Build a belief from each event of the scope that may be derived from, once."""
        events = [event for event in self.log.named(scope, None) if event.derives]
        known = {belief.event.id for belief in self.beliefs}
        built = [Belief(f"blf_{event.number}", event) for event in events if event.id not in known]
        self.beliefs += built
        return {
            "built": len(built),
            "items": [belief.rendered() for belief in built],
            "facts_scanned": len(events),
            "events_scanned": len(events),
            "reasons": [],
        }

    def beliefs_of(self, scope: str, limit: int) -> dict[str, Any]:
        found = [belief.rendered() for belief in self.beliefs if belief.event.scope == scope]
        return {"items": found[:limit], "has_more": len(found) > limit}

    def unbelieve(self, events: list[Event]) -> int:
        """Drop what was derived from these events; how many beliefs that were."""
        ids, before = {event.id for event in events}, len(self.beliefs)
        self.beliefs = [belief for belief in self.beliefs if belief.event.id not in ids]
        return before - len(self.beliefs)


def passes(event: Event, filters: Mapping[str, Any]) -> bool:
    """Whether an event has, for each of the filters, any of the values asked for."""
    context = event.body.get("context") or {}
    actor = event.body.get("observed_actor") or {}
    held: dict[str, list[Any]] = {
        "labels": event.labels,
        "intent": [context.get("intent")],
        "modality": [event.body["modality"]],
        "caller": [event.caller],
        "observed_actor": [actor.get("id")],
    }
    return all(
        any(value in held[name] for value in (wanted if isinstance(wanted, list) else [wanted]))
        for name, wanted in filters.items()
    )


def _text(item: Mapping[str, Any]) -> str:
    return str(item["content"].get("text", ""))


def _id(item: Mapping[str, Any]) -> str:
    return str(item.get("id") or item["event_id"])
