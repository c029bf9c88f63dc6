"""The operations of a CortexDB server on one log, whichever wire they are asked for on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tests.doubles.cortexdb_checks import (
    ERASURE_FIELDS,
    FORGET_FIELDS,
    LAYERS,
    MAX_BULK,
    SCOPE_TYPES,
    WAITS,
    Refused,
    closed,
    experience,
    invalid_body,
    moment,
    scope_path,
    selected,
)
from tests.doubles.cortexdb_knobs import Knobs
from tests.doubles.cortexdb_log import Event, Log, page
from tests.doubles.cortexdb_recall import Recall

Body = dict[str, Any]
DEFAULT_SCOPES = 50
MOST_SCOPES = 1_000


class Service:
    """One log and all that can be asked of it. Bodies come parsed, answers leave as objects or as `Refused`."""

    def __init__(self, clock: Callable[[], datetime], knobs: Knobs) -> None:
        self.knobs = knobs
        self.log = Log(clock, knobs)
        self.recalls = Recall(self.log, knobs, clock)
        self.owners: dict[str, Body] = {}  # path -> the record of a registered scope
        self.previews: set[str] = set()
        self.erasures: dict[str, Body] = {}
        self._running: dict[str, tuple[int, str, list[str] | None]] = {}  # looks left, and what to erase
        self._writes = 0

    # --- writing

    def write(self, body: Body, wait: str | None = None, caller: str = "user:local") -> Body:
        self._check_wait(wait)
        self._check_write(body, caller)
        struck = self._struck_before()
        event, event_id = self._append(body, caller)
        self._strike_after(struck, wait)
        status = "captured" if wait in {None, "accepted"} else wait
        return {"event_id": event_id, "status": status} | self._replay(event is None)

    def put(self, body: Body, caller: str = "user:local") -> str:
        """Write as ever, whatever the knobs say; the id."""
        self._check_write(body, caller)
        self._register(body["scope"], caller)
        return self.log.append(body, caller)[1]

    def write_all(self, body: Body, wait: str | None = None, caller: str = "user:local") -> Body:
        """A bulk. A malformed item refuses it before anything is written; a conflict keeps what came before it."""
        closed(body, {"items", "ordering"})
        items = body.get("items")
        if not isinstance(items, list) or not items:
            raise invalid_body("missing field `items`")
        if len(items) > MAX_BULK:
            raise invalid_body(f"{len(items)} items, at most {MAX_BULK} are accepted")
        if body.get("ordering") not in {None, "strict_temporal"}:
            raise invalid_body(f"unknown ordering `{body['ordering']}`")
        self._check_wait(wait)
        for item in items:
            self._check_write(item, caller)
        struck = self._struck_before()
        half = self.knobs.strikes("apply_half_then_fail")
        results = []
        for index, item in enumerate(items[: len(items) // 2] if half else items):
            event, event_id = self._append(item, caller)
            results.append({"index": index, "event_id": event_id} | self._replay(event is None))
        self._strike_after(struck or half, wait)
        return {"accepted": len(results), "results": results}

    def _replay(self, replayed: bool) -> Body:
        return {} if self.knobs.no_replay_flag else {"replayed_from_idempotency": replayed}

    def _check_wait(self, wait: str | None) -> None:
        if wait is not None and wait not in WAITS:
            raise invalid_body(f"unknown wait `{wait}`, expected one of {', '.join(WAITS)}")

    def _check_write(self, body: Body, caller: str) -> None:
        experience(body, types=None if self.knobs.any_scope_type else SCOPE_TYPES)
        if self.knobs.refuse_attribution and ("observed_actor" in body or "subject" in body):
            raise Refused(
                403, "POLICY_DENIED", "scope.write.on_behalf_of or scope.write.about_other is required"
            )
        self.check_member(body["scope"], caller)

    def _struck_before(self) -> bool:
        """Refuse a write that a knob wants lost; else whether its answer shall be."""
        knobs = self.knobs
        if knobs.strikes("state_change_experience"):
            raise Refused(503, "AUTHORIZATION_STATE_CHANGED", "the scope is being registered", retriable=True)
        self._writes += 1
        every = knobs.apply_then_fail_every
        return knobs.strikes("apply_then_fail") or bool(every and self._writes % every == 0)

    def _append(self, body: Body, caller: str) -> tuple[Event | None, str]:
        if self.knobs.nth("fail_nth_experience"):
            raise Refused(self.knobs.fail_nth_status, "INTERNAL", "the event was not written")
        made = self.log.append(body, caller)
        self._register(body["scope"], caller)
        return made

    def _strike_after(self, struck: bool, wait: str | None) -> None:
        self.knobs.written()
        if struck:
            raise Refused(503, "UNAVAILABLE", "the connection to the store was lost", retriable=True)
        if wait is not None and self.knobs.strikes("wait_timeouts"):
            raise Refused(408, "WAIT_TIMEOUT", f"captured, but not {wait} in time", retriable=True)

    def status(self, params: Mapping[str, str]) -> Body:
        """What became of a write. It says indexed at once: it is no signal of what a listing shows."""
        event_id = params.get("event_id")
        if event_id is None:
            held = self.log.held(params.get("idempotency_key"))
            event_id = held.event_id if held else None
        if event_id is None or event_id not in self.log.events:
            return {"found": False, "event_id": None, "status": None, "stages_completed": [], "note": ""}
        stages = ["captured", "indexed"]
        return {
            "found": True,
            "event_id": event_id,
            "status": "indexed",
            "stages_completed": stages,
            "note": "",
        }

    # --- scopes

    def _register(self, scope: str, caller: str) -> None:
        """The first to write to a scope owns it; only the scope that is written to is registered."""
        self.owners.setdefault(scope, {"path": scope, "owner": caller, "members": []})

    def check_member(self, scope: str, caller: str) -> None:
        record = self.owners.get(scope)
        if record and caller != record["owner"] and caller not in record["members"]:
            raise Refused(403, "NOT_A_MEMBER", f"{caller} is no member of {scope}")

    def register(self, body: Body, caller: str) -> Body:
        closed(body, {"path", "members", "owner"})
        path = scope_path(body.get("path"), None if self.knobs.any_scope_type else SCOPE_TYPES)
        if path in self.owners:
            raise Refused(409, "SCOPE_REGISTRATION_EXISTS", f"{path} is registered")
        record = {"path": path, "owner": body.get("owner", caller), "members": body.get("members", [])}
        self.owners[path] = record
        return record

    def record(self, path: str | None) -> Body:
        if path not in self.owners:
            raise Refused(404, "NOT_FOUND", "no such scope")
        return self.owners[path]

    def set_members(self, path: str | None, body: Body) -> Body:
        closed(body, {"members"})
        record = self.record(path)
        record["members"] = list(body.get("members", []))
        return record

    def paths(self, prefix: str = "", limit: str = "") -> list[str]:
        """Registered scopes at or below the prefix, at most a thousand, and no way to ask for the rest."""
        below = prefix if prefix.endswith("/") else prefix + "/"
        nobodys = prefix.rstrip("/") or "app:padding"
        padding = [f"{nobodys}/agent:pad-{n:04}" for n in range(self.knobs.padding_scopes)]
        every = set(self.log.scopes()) | set(self.owners) | set(padding)
        found = sorted(s for s in every if not prefix or s == prefix or s.startswith(below))
        most = int(limit) if limit.isdecimal() and int(limit) else DEFAULT_SCOPES
        return found[: min(most, MOST_SCOPES)]

    # --- reading

    def listed(self, params: Mapping[str, str], caller: str = "user:local") -> Body:
        scope = scope_path(params.get("scope"), None)
        if self.knobs.strikes("state_change_events"):
            raise Refused(503, "AUTHORIZATION_STATE_CHANGED", "the scope is being registered", retriable=True)
        self.check_member(scope, caller)
        if self.knobs.strikes("hide_listing_for"):
            return {"items": [], "has_more": False, "next_cursor": None}
        if not params.get("cursor"):
            self.log.look([scope], recall=False)
        labels = [label.strip() for label in params.get("labels", "").split(",") if label.strip()]
        events = [e for e in self.log.listing(scope, labels) if _in_window(e, params)]
        return page(events, self.rendered, params, self.knobs)

    def rendered(self, event: Event) -> Body:
        return event.rendered(flat=self.knobs.flat_events, role=self.knobs.role_prefix_listed)

    def event(self, event_id: str, caller: str = "user:local") -> Body:
        found = self.log.events.get(event_id)
        if found is None:
            raise Refused(404, "NOT_FOUND", f"no event {event_id}")
        self.check_member(found.scope, caller)
        return self.rendered(found)

    # --- removing

    def forget(self, body: Body, *, dry: bool = False) -> Body:
        closed(body, FORGET_FIELDS)
        scope = scope_path(body.get("scope"), None)
        cascade = body.get("cascade", "derived_only")
        if cascade not in {"derived_only", "redact_events"}:
            raise Refused(400, "INVALID_CASCADE", f"unknown cascade {cascade!r}")
        ids = selected(body, (400, "AMBIGUOUS_SELECTOR_CONFIRM_ALL"))
        self._check_preview(body)
        events = self.log.named(scope, ids)
        layers = body.get("layers") or list(LAYERS)
        redacts = cascade == "redact_events" or (self.knobs.derived_only_deletes and "cascade" not in body)
        redacts = redacts and "events" in layers
        gone = dict.fromkeys(LAYERS, 0) | {"events": len(events) if redacts else 0}
        if dry:
            return self._preview("fpvw", scope) | {"estimated_deleted": gone}
        if redacts:
            # A scope that is redacted whole keeps its keys for their day; ids release theirs.
            self.log.redact(events, release=ids is not None and not self.knobs.forget_keeps_keys)
            if ids is None and self.knobs.dead_after_redaction:
                self.log.dead.add(scope)
        gone["beliefs"] = self.recalls.unbelieve(events)
        self.recalls.drop_packs()
        if self.knobs.strikes("forget_then_fail"):
            raise Refused(503, "UNAVAILABLE", "the connection to the store was lost", retriable=True)
        return {"deleted": gone, "requested": len(ids or []), "matched": len(events)}

    def _preview(self, kind: str, scope: str) -> Body:
        preview_id = f"{kind}_{len(self.previews) + 1}"
        self.previews.add(preview_id)
        return {"preview_id": preview_id, "scope": scope}

    def _check_preview(self, body: Body) -> None:
        if "from_preview_id" in body and body["from_preview_id"] not in self.previews:
            raise Refused(422, "UNKNOWN_PREVIEW_ID", f"no preview {body['from_preview_id']}")

    def erase(self, body: Body, *, dry: bool = False) -> Body:
        """Delete for good, and release the keys, in exactly this scope; what is below is only redacted."""
        closed(body, ERASURE_FIELDS)
        scope = scope_path(body.get("scope"), None)
        ids = selected(body, (400, "AMBIGUOUS_SELECTOR"))
        self._check_preview(body)
        if dry:
            affected = len(self.log.named(scope, ids))
            return self._preview("ervw", scope) | {"estimated_affected": affected, "estimated_duration_ms": 1}
        erasure_id = f"erasure_{len(self.erasures) + 1}"
        self.erasures[erasure_id] = {"erasure_id": erasure_id, "scope": scope, "status": "running"}
        self._running[erasure_id] = (self.knobs.erasure_polls, scope, ids)
        if not self.knobs.erasure_polls:
            self.erasure(erasure_id)
        return {
            "erasure_id": erasure_id,
            "status": self.erasures[erasure_id]["status"],
            "manifest_url": f"/v1/erasures/{erasure_id}/manifest",
            "lifecycle_stream": f"/v1/erasures/{erasure_id}/events",
        }

    def erase_scope(self, scope: str, ids: list[str] | None) -> None:
        events = self.log.named(scope, ids)
        self.log.redact(events, release=True)
        self.log.drop(events)
        self.recalls.unbelieve(events)
        if ids is None:
            for below in self.log.scopes(scope + "/"):
                redacted = self.log.named(below, None)
                self.log.redact(redacted, release=False)
                self.recalls.unbelieve(redacted)
            self.log.unregister(scope)
            self.owners.pop(scope, None)
        self.recalls.drop_packs()

    def erasure(self, erasure_id: str) -> Body:
        """How an erasure goes; it is carried out when it has been looked at often enough."""
        found = self.erasures.get(erasure_id)
        if found is None:
            raise Refused(404, "NOT_FOUND", f"no erasure {erasure_id}")
        if found["status"] == "running":
            left, scope, ids = self._running[erasure_id]
            self._running[erasure_id] = (left - 1, scope, ids)
            if left <= 0:
                self.erase_scope(scope, ids)
                found["status"] = "completed"
        return dict(found)


def _in_window(event: Event, params: Mapping[str, str]) -> bool:
    """The filters of a listing other than labels; one that is not known is ignored, as the service does."""
    if params.get("modality") and event.body["modality"] != params["modality"]:
        return False
    if params.get("observed_actor"):
        actor = event.body.get("observed_actor") or {}
        if actor.get("id") != params["observed_actor"]:
            return False
    if params.get("since") and event.recorded < moment(params["since"], "since"):
        return False
    return not (params.get("until") and event.recorded > moment(params["until"], "until"))
