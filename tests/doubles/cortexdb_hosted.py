"""A double of CortexDB behind the TinyHumans backend (`/memory/...`): envelopes, claims, tenants and its own limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar

from tests.doubles.cortexdb import Call, Cortex
from tests.doubles.cortexdb_checks import Refused
from tests.doubles.cortexdb_service import Body, Service

SCOPE = re.compile(r"[A-Za-z0-9_-]+:[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+:[A-Za-z0-9_-]+)*")
MOST_SEGMENTS = 31  # the engine holds 32, and the tenant's own comes first
WINDOW = timedelta(minutes=1)
ANSWER_FIELDS = frozenset(
    [
        "scope",
        "question",
        "question_type",
        "question_date",
        "temporal",
        "filters",
        "answer_max_tokens",
        "answer_instructions",
        "cite_sources",
        "include_context",
        "use_pack_id",
    ]
)
TOO_MANY: Body = {
    "error": {
        "message": "Rate limit exceeded. Please retry after a brief wait.",
        "type": "rate_limit_error",
    }
}
#: What the backend says for what the engine said; another 4xx is a bad request, another 5xx the upstream's.
UPSTREAM = {
    401: (502, "UPSTREAM_UNAVAILABLE"),
    402: (402, "USER_INSUFFICIENT_CREDITS"),
    403: (502, "UPSTREAM_UNAVAILABLE"),
    404: (404, "NOT_FOUND"),
    413: (413, "PAYLOAD_TOO_LARGE"),
    503: (503, "UPSTREAM_UNAVAILABLE"),
}


#: What the backend calls a status of its own.
CODES = {401: "UNAUTHORIZED", 402: "USER_INSUFFICIENT_CREDITS", 403: "FORBIDDEN", 404: "NOT_FOUND"}
CODES |= {400: "BAD_REQUEST", 409: "CONFLICT", 502: "UPSTREAM_UNAVAILABLE", 503: "UPSTREAM_UNAVAILABLE"}


class Own(Refused):
    """A refusal of the backend's own, which is not translated."""


class Limited(Own):
    """The backend's limiter, which stands before everything and answers outside the envelope."""

    def __init__(self) -> None:
        super().__init__(429, "RATE_LIMITED")


class CortexHosted(Cortex):
    """The hosted wire. Every token is a tenant of its own, with a log of its own below `org:<id>/`."""

    rate_limited: ClassVar[Any] = TOO_MANY

    def __init__(self, *, key: str = "secret") -> None:
        super().__init__(key=key)
        self.tenants: dict[str, str] = {}
        self.services: dict[str, Service] = {}
        self.claimed: set[str] = set()
        self._spent: dict[str, list[datetime]] = {}
        self._routes: dict[tuple[str, str], Callable[[Call], tuple[int, Any]]] = {
            ("POST", "experience"): self._write,
            ("GET", "events"): self._events,
            ("GET", "events/*"): lambda c: (200, self.service(c).event(c.last)),
            ("POST", "recall"): lambda c: (200, self.service(c).recalls.recall(self._scoped(c))),
            ("POST", "answer"): self._grounded,
            ("POST", "forget"): self._forget,
            ("GET", "scopes"): self._paths,
            ("DELETE", ""): self._erase_all,
            ("POST", "v1/erasures"): self._erase,
            ("GET", "v1/erasures/*"): lambda c: (200, self.service(c).erasure(c.last)),
        }

    # --- tenants

    def tenant(self, token: str) -> str:
        return self.tenants.setdefault(token, f"tenant-{len(self.tenants) + 1}")

    def service(self, call: Call | None = None) -> Service:
        name = self.tenant(call.token if call else next(iter(self.tokens), ""))
        if name not in self.services:
            self.services[name] = Service(lambda: self.clock(), self.knobs)
        return self.services[name]

    def rooted(self, body: Body, call: Call | None = None) -> Body:
        """The body with its scope below the tenant's, where it may lie already."""
        root = f"org:{self.tenant(call.token if call else next(iter(self.tokens), ''))}"
        scope = body["scope"]
        inside = scope == root or scope.startswith(root + "/")
        return body | {"scope": scope if inside else f"{root}/{scope}"}

    def _scoped(self, call: Call) -> Body:
        body = call.body
        self._check_scope(body.get("scope"), call)
        return self.rooted(body, call)

    def _check_scope(self, scope: Any, call: Call) -> None:
        if isinstance(scope, str):  # the tenant's own segment is not counted
            scope = scope.removeprefix(f"org:{self.tenant(call.token)}/")
        fits = isinstance(scope, str) and SCOPE.fullmatch(scope) and scope.count("/") < MOST_SEGMENTS
        if not fits:
            raise Own(400, "BAD_REQUEST", "scope must be type:id segments")

    # --- before and after

    def route(self, call: Call) -> tuple[Callable[[Call], tuple[int, Any]], bool]:
        name = call.path.removeprefix("/memory").removeprefix("/")
        found = self._routes.get((call.method, name)) or self._routes.get(
            (call.method, name.rpartition("/")[0] + "/*")
        )
        if found is None or not re.match(r"/memory(/|$)", call.path):
            raise Own(404, "NOT_FOUND", f"no route {call.method} {call.path}")
        return found, False

    def gate(self, call: Call) -> None:
        if self.tokens and call.token not in self.tokens:
            raise Own(401, "UNAUTHORIZED", "missing or unknown bearer")
        now = self.clock()
        spent = [at for at in self._spent.get(call.token, []) if now - at < WINDOW]
        if len(spent) >= self.knobs.rate_limit:
            self._spent[call.token] = spent
            raise Limited
        self._spent[call.token] = [*spent, now]

    def told_to_fail(self, code: int) -> Refused:
        return Limited() if code == 429 else Own(code, CODES.get(code, f"HTTP_{code}"), "told to fail")

    def failure(self, refused: Refused, call: Call) -> tuple[int, Any]:
        if isinstance(refused, Limited):
            return 429, TOO_MANY
        if "/v1/erasures" in call.path and not isinstance(refused, Own):
            return super().failure(refused, call)  # passed through as the engine answered it
        status, code = refused.status, refused.code
        if not isinstance(refused, Own):
            if status == 409:
                status, code = (409 if self.knobs.conflict_is_409 else 400), "CONFLICT"
            else:
                other = (400, "BAD_REQUEST") if status < 500 else (502, "UPSTREAM_UNAVAILABLE")
                status, code = UPSTREAM.get(status, other)
        return status, {"success": False, "error": refused.message, "errorCode": code}

    def _answered(self, call: Call) -> tuple[int, Any, dict[str, str]]:
        status, body, headers = super()._answered(call)
        if status < 300 and "/v1/erasures" not in call.path:
            odd = self.knobs.answer_odd
            return 200, odd if odd is not None else {"success": True, "data": body}, headers
        return status, body, headers

    def _limit(self, knob: str) -> None:
        if self.knobs.strikes(knob):
            raise Limited

    def _claim(self, call: Call) -> None:
        """Take the claim of a write before anything is forwarded. One that was taken before is a conflict."""
        claim = call.headers.get("idempotency-key")
        if claim is None:
            return
        if claim in self.claimed:
            raise Refused(409, "CONFLICT", "already claimed")
        self.claimed.add(claim)

    # --- the routes

    def _write(self, call: Call) -> tuple[int, Any]:
        body = self._scoped(call)
        self._limit("rate_limit_experience")
        if not body.get("idempotency_key"):
            raise Own(400, "MISSING_IDEMPOTENCY_KEY", "idempotency_key is required")
        if "wait" in call.params:
            raise Own(400, "BAD_REQUEST", "unknown parameter wait")
        self._claim(call)
        if self.knobs.strikes("claim_then_fail"):
            raise Own(502, "UPSTREAM_UNAVAILABLE", "claimed, and not forwarded")
        return 200, self.service(call).write(body)

    def _events(self, call: Call) -> tuple[int, Any]:
        self._check_scope(call.params.get("scope"), call)
        if sum(name == "labels" for name, _ in call.pairs) > 1:
            raise Own(400, "BAD_REQUEST", "labels is given more than once")
        self._limit("rate_limit_events")
        return 200, self.service(call).listed(self.rooted(call.params, call))

    def _grounded(self, call: Call) -> tuple[int, Any]:
        body = call.body
        for name, value in body.items():
            if name not in ANSWER_FIELDS or value is None:
                raise Own(400, "VALIDATION_ERROR", f"unknown or null key {name}")
        self._claim(call)
        return 200, self.service(call).recalls.answer(self._scoped(call))

    def _forget(self, call: Call) -> tuple[int, Any]:
        body = self._scoped(call)
        self._limit("rate_limit_forget")
        self._claim(call)
        return 200, self.service(call).forget(body)

    def _paths(self, call: Call) -> tuple[int, Any]:
        root, prefix = f"org:{self.tenant(call.token)}", call.params.get("prefix")
        if prefix is not None:
            self._check_scope(prefix, call)
            prefix = self.rooted({"scope": prefix}, call)["scope"]
        paths = self.service(call).paths(prefix or root, call.params.get("limit", ""))
        shapes: dict[str, Any] = {
            "strings": {"scopes": paths},
            "paths": {"scopes": [{"path": path} for path in paths]},
            "items": {"items": [{"path": path} for path in paths]},
        }
        return 200, shapes[self.knobs.scopes_shape]

    def _erase(self, call: Call) -> tuple[int, Any]:
        body = call.body
        if not self.knobs.scoped_erasures:
            return 202, self.service(call).erase(self._scoped(call))
        for name in body:
            if name not in {"scope", "audit_note"}:
                raise Refused(400, "UNKNOWN_FIELD", name)
        service, scope = self.service(call), self._scoped(call)["scope"]
        held = service.paths(scope, "1000")
        for path in reversed(held):
            service.erase_scope(path, None)
        ids = [f"erasure_{number}" for number, _ in enumerate(held, 1)]
        return 200, {"erased": True, "scope": scope, "scopes": len(held), "erasure_ids": ids}

    def _erase_all(self, call: Call) -> tuple[int, Any]:
        if self.knobs.erase_all_missing:
            raise Own(404, "NOT_FOUND", "no route DELETE /memory")
        service = self.service(call)
        held = service.log.scopes()
        for path in reversed(held):  # the deepest first: what is below one that is erased is only redacted
            service.erase_scope(path, None)
        return 200, {"erased": True, "scopes": len(held)}
