"""A double of CortexDB on its direct wire (`/v1/...`), and what it shares with the hosted one.

double = running(CortexDirect(key="k"))
double.knobs.listing_lag = 0     # how the service is, see cortexdb_knobs
double.log.events                # what it holds
double.settle()                  # time passes: what was written is listed and found
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qsl, unquote

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.doubles.cortexdb_checks import Refused, parsed, scope_path
from tests.doubles.cortexdb_knobs import Knobs
from tests.doubles.cortexdb_log import Event, Log, dumps
from tests.doubles.cortexdb_service import DEFAULT_SCOPES, Body, Service
from tests.doubles.serving import Double

VERSION = "v0.10.5"
CAPABILITIES = ("budget_excerpt_v1", "capture_language_v1", "refers_to_v1", "temporal_lenient_v1")
CALLER = "user:local"  # who a static key is
#: What a status that a knob asks for is called.
CODES = {
    401: "MISSING_TOKEN",
    403: "POLICY_DENIED",
    404: "NOT_FOUND",
    408: "WAIT_TIMEOUT",
    409: "IDEMPOTENCY_CONFLICT",
}
CODES |= {422: "INVALID_BODY", 429: "RATE_LIMITED", 503: "STORAGE_UNWIRED"}
RETRIABLE = {408, 429, 500, 502, 504}
TOO_MANY = {"error_code": "RATE_LIMITED", "message": "rate limited", "request_id": "req_0", "retriable": True}


class Call:
    """A request as the routes see it: decoded, and asked by whom."""

    def __init__(self, method: str, path: str, query: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.method = method
        self.path = path
        self.pairs = parse_qsl(query, keep_blank_values=True)
        self.params = dict(reversed(self.pairs))  # of a name given twice, the first
        self.headers = headers
        self.raw = raw
        self.caller = CALLER

    @property
    def body(self) -> Body:
        return parsed(self.raw)

    @property
    def token(self) -> str:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def last(self) -> str:
        """The last segment of the path, decoded."""
        return unquote(self.path.rpartition("/")[2])


class Cortex(Double):
    """What both wires share: the knobs, what was recorded, and how a route is found and answered."""

    rate_limited: ClassVar[Any] = TOO_MANY

    def __init__(self, *, key: str = "secret") -> None:
        self.knobs = Knobs()
        self.tokens: dict[str, str] = {key: CALLER} if key else {}
        self.revoked: set[str] = set()
        self.requests_answered = 0
        super().__init__(key=key)

    # --- what a test asks

    @property
    def log(self) -> Log:
        """The log that the key of this double writes to."""
        return self.service().log

    @property
    def events(self) -> list[Event]:
        """What is held, in the order it came."""
        with self.lock:
            return list(self.log.events.values())

    @property
    def writes(self) -> list[Body]:
        """The body of every event that was sent, carried out or not, a bulk taken apart."""
        return [body for body, _ in self._sent()]

    @property
    def claims(self) -> list[tuple[str | None, str | None]]:
        """The (body key, claim header) of every event that was sent."""
        return [(body.get("idempotency_key"), claim) for body, claim in self._sent()]

    def bodies(self, path: str) -> list[Body]:
        """The bodies of every POST whose path ends with this: "recall", "forget", "answer"."""
        return [seen.json() for seen in self.seen if seen.method == "POST" and seen.path.endswith(path)]

    def _sent(self) -> list[tuple[Body, str | None]]:
        sent: list[tuple[Body, str | None]] = []
        for seen in self.seen:
            if seen.method == "POST" and seen.path.endswith(("/experience", "/experience/bulk")):
                body, claim = seen.json(), seen.headers.get("idempotency-key")
                sent += [(item, claim) for item in body.get("items", [body])]
        return sent

    # --- what a test does

    def settle(self) -> None:
        """Time passes: whatever is held is listed and found."""
        with self.lock:
            self.log.settle()

    def accept_token(self, token: str, caller: str = CALLER) -> None:
        """From now on this token is the one that counts; those before it are revoked."""
        self.revoked |= set(self.tokens)
        self.revoked.discard(token)
        self.tokens = {token: caller}

    def seed(self, bodies: list[Body], *, settled: bool = True) -> list[str]:
        """Write events past the wire and past every knob; their ids."""
        with self.lock:
            ids = [self.service().put(self.rooted(body)) for body in bodies]
        if settled:
            self.settle()
        return ids

    def lose(self, event_id: str) -> None:
        """Lose an acknowledged event, as a server that failed part way does: its key is free again."""
        with self.lock:
            self.log.lose(self.log.events[event_id])

    def lose_last(self, scope: str) -> str:
        """Lose the newest event of a scope; its id."""
        with self.lock:
            event = self.log.named(self.rooted({"scope": scope})["scope"], None)[-1]
            self.log.lose(event)
        return event.id

    # --- what the two wires differ in

    def service(self, call: Call | None = None) -> Service:
        raise NotImplementedError

    def rooted(self, body: Body) -> Body:
        """A body of a request as the log takes it."""
        return body

    def gate(self, call: Call) -> None:
        """Refuse who is not known, and whatever a knob refuses."""
        raise NotImplementedError

    def route(self, call: Call) -> tuple[Callable[[Call], tuple[int, Any]], bool]:
        """What answers a request, and whether anyone may ask it."""
        raise NotImplementedError

    def failure(self, refused: Refused, call: Call) -> tuple[int, Any]:
        return refused.status, refused.body(f"req_{self.requests_answered}")

    def headers(self, call: Call) -> dict[str, str]:
        return {}

    def told_to_fail(self, code: int) -> Refused:
        return Refused(code, CODES.get(code, "INTERNAL"), "told to fail", retriable=code in RETRIABLE)

    # --- answering

    def app(self) -> ASGIApp:
        return self._respond  # not through a router: ten thousand writes in a row have to be quick

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = (await receive())["body"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
        call = Call(scope["method"], path, query, headers, raw)
        if self.knobs.listing_delay and call.method == "GET" and path.endswith("/events"):
            await asyncio.sleep(self.knobs.listing_delay)
        with self.lock:
            status, body, extra = self._answered(call)
        response = Response(dumps(body), status, {**self.headers(call), **extra}, "application/json")
        await response(scope, receive, send)

    def _answered(self, call: Call) -> tuple[int, Any, dict[str, str]]:
        self.requests_answered += 1
        try:
            if self.knobs.fail_all:
                raise self.told_to_fail(self.knobs.fail_all)
            handler, public = self.route(call)
            if not public:
                self.gate(call)
            status, body = handler(call)
        except Refused as refused:
            status, body = self.failure(refused, call)
            return status, body, refused.headers
        return status, body, {}


class CortexDirect(Cortex):
    """CortexDB itself, at http://localhost:3141 and https://api-v1.cortexdb.ai. `key=""` is a development server."""

    def __init__(self, *, key: str = "secret") -> None:
        super().__init__(key=key)
        self._service = Service(lambda: self.clock(), self.knobs)
        self._routes: dict[tuple[str, str], Callable[[Call], tuple[int, Any]]] = {
            ("POST", "experience"): self._write,
            ("POST", "experience/bulk"): self._write_all,
            ("GET", "experience/status"): lambda c: (200, self._service.status(c.params)),
            ("GET", "events"): self._events,
            ("GET", "events/*"): lambda c: (200, self._service.event(c.last, c.caller)),
            ("POST", "recall"): self._recall,
            ("POST", "answer"): lambda c: (200, self._service.recalls.answer(c.body)),
            ("POST", "forget"): self._forget,
            ("POST", "forget/preview"): lambda c: (200, self._service.forget(c.body, dry=True)),
            ("POST", "erasures"): lambda c: (202, self._service.erase(c.body)),
            ("POST", "erasures/preview"): lambda c: (200, self._service.erase(c.body, dry=True)),
            ("GET", "erasures/*"): lambda c: (200, self._service.erasure(c.last)),
            ("GET", "scopes/list"): self._paths,
            ("POST", "scopes"): lambda c: (201, self._service.register(c.body, c.caller)),
            ("GET", "scopes"): lambda c: (200, self._service.record(c.params.get("path"))),
            ("PUT", "scopes/members"): lambda c: (
                200,
                self._service.set_members(c.params.get("path"), c.body),
            ),
            ("POST", "beliefs/build"): self._build,
            ("GET", "beliefs"): self._beliefs,
            ("GET", "auth/whoami"): self._whoami,
            ("POST", "auth/signup"): self._no_minter,
            ("GET", "admin/health"): lambda c: (200, {"status": "healthy"}),
            ("GET", "admin/version"): self._version,
        }

    def service(self, call: Call | None = None) -> Service:
        return self._service

    def route(self, call: Call) -> tuple[Callable[[Call], tuple[int, Any]], bool]:
        name = call.path.removeprefix("/v1/")
        found = self._routes.get((call.method, name))
        if found is None:
            found = (
                self._routes.get((call.method, name.partition("/")[0] + "/*"))
                if name.count("/") == 1
                else None
            )
        if found is None or not call.path.startswith("/v1/"):
            raise Refused(404, "NOT_FOUND", f"no route {call.method} {call.path}")
        return found, name in {"admin/health", "admin/version", "auth/signup"}

    def gate(self, call: Call) -> None:
        if self.tokens:
            if not call.token:
                raise Refused(401, "MISSING_TOKEN", "a bearer token is required")
            if call.token in self.revoked:
                raise Refused(401, "REVOKED_TOKEN", "the token was revoked")
            if call.token not in self.tokens:
                raise Refused(401, "INVALID_TOKEN_SIGNATURE", "the token is not known")
            call.caller = self.tokens[call.token]
        actor = call.headers.get("x-cortex-actor")
        if actor is not None and actor != call.caller and not self.knobs.whoami_missing:
            raise Refused(401, "ACTOR_MISMATCH", f"{actor} is not the subject of the token")

    def headers(self, call: Call) -> dict[str, str]:
        if call.token not in self.tokens:
            return {}
        return {"X-RateLimit-Limit": "600", "X-RateLimit-Reset": "60", "X-Cortex-Token-Expires-In": "604800"}

    def _limit(self, knob: str) -> None:
        if self.knobs.strikes(knob):
            raise Refused(429, "RATE_LIMITED", "rate limited", retriable=True)

    def _write(self, call: Call) -> tuple[int, Any]:
        self._limit("rate_limit_experience")
        return 202, self._service.write(call.body, call.params.get("wait"), call.caller)

    def _write_all(self, call: Call) -> tuple[int, Any]:
        self._limit("rate_limit_experience")
        return 200, self._service.write_all(call.body, call.params.get("wait"), call.caller)

    def _events(self, call: Call) -> tuple[int, Any]:
        self._limit("rate_limit_events")
        return 200, self._service.listed(call.params, call.caller)

    def _recall(self, call: Call) -> tuple[int, Any]:
        body = call.body
        self._service.check_member(body.get("scope", ""), call.caller)
        return 200, self._service.recalls.recall(body)

    def _forget(self, call: Call) -> tuple[int, Any]:
        self._limit("rate_limit_forget")
        body = call.body
        self._service.check_member(body.get("scope", ""), call.caller)
        return 200, self._service.forget(body)

    def _paths(self, call: Call) -> tuple[int, Any]:
        paths = self._service.paths(call.params.get("prefix", ""), call.params.get("limit", ""))
        return 200, {"items": [{"path": path} for path in paths]}

    def _build(self, call: Call) -> tuple[int, Any]:
        return 200, self._service.recalls.build(scope_path(call.body.get("scope"), None))

    def _beliefs(self, call: Call) -> tuple[int, Any]:
        limit = call.params.get("limit", "")
        most = int(limit) if limit.isdecimal() else DEFAULT_SCOPES
        return 200, self._service.recalls.beliefs_of(call.params.get("scope", ""), most)

    def _whoami(self, call: Call) -> tuple[int, Any]:
        if self.knobs.whoami_missing:
            raise Refused(404, "NOT_FOUND", "no route GET /v1/auth/whoami")
        return 200, {"caller": call.caller, "tenant": "default", "capabilities": [], "preset": "self_hosted"}

    def _no_minter(self, call: Call) -> tuple[int, Any]:
        raise Refused(503, "NOT_CONFIGURED", "no minter of tokens is configured")

    def _version(self, call: Call) -> tuple[int, Any]:
        if self.knobs.version_down:
            raise Refused(500, "INTERNAL", "no version")
        return 200, {"version": VERSION, "capabilities": list(CAPABILITIES)}
