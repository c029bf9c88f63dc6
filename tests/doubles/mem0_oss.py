"""A double of the open-source Mem0 server (its routes, limits and bodies as measured on mem0ai 2.2.1)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.doubles import mem0_oss_rows as kept
from tests.doubles.mem0_oss_rows import IDS, Heap, Row, Upstream
from tests.doubles.serving import Double

#: What metadata cannot set: the scope, and what the server writes itself. `created_at` is not among them.
OWNED = {*IDS, "actor_id", "role", "data", "hash", "updated_at", "text_lemmatized", "id"}


class Said(BaseModel):
    role: str
    content: str
    name: str | None = None


class Ids(BaseModel):
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def given(self) -> dict[str, str]:
        return {key: value for key in IDS if (value := getattr(self, key))}


class Add(Ids):
    messages: list[Said]
    metadata: dict[str, Any] | None = None
    infer: bool | None = None
    expiration_date: str | None = None
    memory_type: str | None = None
    prompt: str | None = None


class Update(BaseModel):
    text: str | None = None
    metadata: dict[str, Any] | None = None
    expiration_date: str | None = None


class Search(Ids):
    query: str
    filters: dict[str, Any] | None = None
    top_k: int | None = None
    threshold: float | None = None
    explain: bool | None = None
    show_expired: bool | None = None


class Listing(Ids):
    top_k: int = Field(default=20, ge=0, le=1000)
    show_expired: bool = False


M = TypeVar("M", bound=BaseModel)


class Mem0Oss(Double):
    """The server. What it keeps is in `heap`; `seed()` puts rows there without a request."""

    rate_limited: ClassVar[Any] = {"error": "Rate limit exceeded: 10 per 1 minute"}

    def __init__(self, *, key: str = "secret") -> None:
        super().__init__(key=key)
        self.heap = Heap()
        self.jwt = "a.valid.jwt"
        self.user_keys = {"m0sk_user"}  # may use the memories, but not the routes of admins
        self.auth_disabled = False
        self.ignore_filters = False  # every list, search and bulk delete reaches every row
        self.embedder_down = False
        self.inferred: list[
            dict[str, Any]
        ] = []  # bodies that asked, or did not forbid, to have facts extracted

    def seed(
        self, text: str, *, metadata: dict[str, Any] | None = None, times: int = 1, **ids: str
    ) -> list[str]:
        """Put a row, or `times` of the same, as an add of a user's message would; answers the ids."""
        with self.lock:
            payload = {**(metadata or {}), **ids, "role": "user", "data": text}
            return [self.heap.insert(dict(payload), self._now()).id for _ in range(times)]

    def items(self) -> list[dict[str, Any]]:
        with self.lock:
            return [row.item() for row in self.heap.rows.values()]

    def app(self) -> ASGIApp:
        handlers = {
            HTTPException: _told,
            ValueError: _bad,
            Upstream: _upstream,
            Unprocessable: _unprocessable,
        }
        inner = Starlette(routes=self.routes(), exception_handlers=handlers)  # type: ignore[arg-type]
        inner.router.redirect_slashes = False

        async def with_request_id(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("state", {})["request_id"] = request_id = uuid.uuid4().hex[:8]

            async def stamped(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
                await send(message)

            await inner(scope, receive, stamped)

        return with_request_id

    def routes(self) -> Sequence[Route]:
        return [
            Route("/", lambda _: RedirectResponse("/docs", 307)),
            Route("/docs", lambda _: HTMLResponse("<title>Mem0 REST APIs - Swagger UI</title>")),
            self._route("GET", "/auth/me", self._me),
            self._route("POST", "/configure", self._configure, admin=True),
            self._route("POST", "/reset", self._reset, admin=True),
            self._route("POST", "/search", self._search),
            self._route("GET", "/entities", self._entities),
            self._route("DELETE", "/entities/{type}/{id}", self._delete_entity, admin=True),
            self._route("POST", "/memories", self._add),
            self._route("GET", "/memories", self._list),
            self._route("DELETE", "/memories", self._delete_all, admin=True),
            self._route("GET", "/memories/{id}", self._get),
            self._route("PUT", "/memories/{id}", self._update),
            self._route("DELETE", "/memories/{id}", self._delete),
            self._route("GET", "/memories/{id}/history", self._history),
        ]

    def _route(
        self, method: str, path: str, handle: Callable[[Request, bytes], Any], *, admin: bool = False
    ) -> Route:
        async def endpoint(request: Request) -> Response:
            self._authenticate(request, admin)
            body = await request.body()
            with self.lock:
                return JSONResponse(handle(request, body))

        return Route(path, endpoint, methods=[method])

    def _authenticate(self, request: Request, admin: bool) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = request.headers.get("x-api-key")
        is_admin = True
        if scheme.lower() == "bearer":  # even a bad one beats a good key
            if token != self.jwt:
                raise HTTPException(401, "Invalid or expired token.")
        elif key:
            is_admin = key == self.key
            if not is_admin and key not in self.user_keys:
                raise HTTPException(401, "Invalid API key.")
        elif not self.auth_disabled:
            words = "Authentication required. Provide a Bearer token or X-API-Key header."
            raise HTTPException(401, words, {"WWW-Authenticate": "Bearer"})
        if admin and not is_admin:
            raise HTTPException(403, "Admin access required.")

    def _now(self) -> datetime:
        return self.clock().astimezone(UTC)

    def _today(self, show_expired: bool | None) -> date | None:
        return None if show_expired else self._now().date()

    def _embed(self) -> None:
        if self.embedder_down:
            raise Upstream("provider_unavailable")

    def _where(self, filters: dict[str, Any]) -> list[Row]:
        return list(self.heap.where({} if self.ignore_filters else filters))

    def _row(self, request: Request) -> Row | None:
        try:
            return self.heap.rows.get(str(uuid.UUID(request.path_params["id"])))
        except ValueError:
            raise Upstream from None  # PostgreSQL knows no such UUID

    def _add(self, _: Request, body: bytes) -> Any:
        add = parsed(Add, body)
        if not add.given():
            raise HTTPException(400, "At least one identifier (user_id, agent_id, run_id) is required.")
        expires = kept.expiration(add.expiration_date)
        ids = {key: kept.entity_id(value, key) for key, value in add.given().items()}
        if add.memory_type not in {None, "procedural_memory"}:
            raise ValueError(
                "Invalid 'memory_type'. Please pass procedural_memory to create procedural memories."
            )
        if add.infer is not False:
            # The model finds no facts: nothing is kept of what was said, and nothing says so.
            self.inferred.append(json.loads(body))
            return {"results": []}
        results = []
        for said in add.messages:  # one by one: when a later one is refused, the earlier ones stay
            if said.role == "system":
                continue
            self._embed()
            payload = {key: value for key, value in (add.metadata or {}).items() if key not in OWNED} | ids
            if expires is not None:
                payload["expiration_date"] = expires
            if said.name:
                payload["actor_id"] = said.name
            row = self.heap.insert(payload | {"role": said.role, "data": said.content}, self._now())
            results.append({
                "id": row.id,
                "memory": said.content,
                "event": "ADD",
                "actor_id": said.name or None,
                "role": said.role,
            })  # fmt: skip
        return {"results": results}

    def _list(self, request: Request, _: bytes) -> Any:
        listing = checked(Listing, dict(request.query_params), "query")
        if not listing.given():
            return {"results": [row.raw() for row in [*self.heap.rows.values()][: kept.LIST_MOST]]}
        try:
            filters = {key: kept.entity_id(value, key) for key, value in listing.given().items()}
        except ValueError:
            raise Upstream from None
        # Four times as many are fetched as wanted, and only then does what has expired fall out: behind many such
        # rows others are not found. And at least one comes, as the look whether it is enough follows the first.
        today, wanted = self._today(listing.show_expired), listing.top_k
        fetched = self._where(filters)[: max(4 * wanted, 60) if today else wanted]
        shown = [row.item() for row in fetched if not (today and row.expired(today))][: max(wanted, 1)]
        for item in shown:
            del item["score"]
        return {"results": shown}

    def _search(self, _: Request, body: bytes) -> Any:
        search = parsed(Search, body)
        top_k = 20 if search.top_k is None else search.top_k
        threshold = 0.1 if search.threshold is None else search.threshold
        if not 0 <= threshold <= 1:
            raise ValueError(f"Invalid threshold: {threshold}. Must be between 0 and 1 (inclusive).")
        if top_k < 0:
            raise ValueError(f"Invalid top_k: {top_k}. Must be a non-negative integer.")
        if not search.query.strip():
            raise ValueError("Invalid query: cannot be empty or whitespace-only.")
        filters = kept.store_filters((search.filters or {}) | search.given())
        self._embed()
        found = kept.ranked(
            self._where(filters),
            search.query,
            top_k=top_k,
            threshold=threshold,
            today=self._today(search.show_expired),
        )
        return {"results": [row.item(score) for score, row in found]}

    def _get(self, request: Request, _: bytes) -> Any:
        row = self._row(request)
        return None if row is None else row.item()

    def _update(self, request: Request, body: bytes) -> Any:
        update = parsed(Update, body)
        clears = "expiration_date" in update.model_fields_set
        if update.text is None and update.metadata is None and not clears:
            raise ValueError("At least one of text, metadata, or expiration_date must be provided.")
        change = {key: value for key, value in (update.metadata or {}).items() if key not in OWNED}
        change.pop("created_at", None)
        if clears:
            change["expiration_date"] = kept.expiration(update.expiration_date)
        self._embed()
        row = self._row(request)
        if row is None:
            given = request.path_params["id"]
            raise HTTPException(404, f"Memory with id {given} not found. Please provide a valid 'memory_id'")
        old = row.payload["data"]
        text = old if update.text is None else update.text
        self.heap.put(row, row.payload | change | {"data": text}, self._now())
        self.heap.log(row, "UPDATE", old, text, row.payload["updated_at"])
        return {"message": "Memory updated successfully!"}

    def _delete(self, request: Request, _: bytes) -> Any:
        row = self._row(request)
        if row is None:
            raise HTTPException(404, f"Memory with id {request.path_params['id']} not found")
        self.heap.remove(row, self._now())
        return {"message": "Memory deleted successfully"}

    def _delete_all(self, request: Request, _: bytes) -> Any:
        ids = checked(Ids, dict(request.query_params), "query").given()
        if not ids:
            raise HTTPException(400, "At least one identifier is required.")
        try:
            filters = {key: kept.entity_id(value, key) for key, value in ids.items()}
        except ValueError:
            raise Upstream from None
        for row in self._where(filters):
            self.heap.remove(row, self._now())
        return {"message": "All relevant memories deleted"}

    def _history(self, request: Request, _: bytes) -> Any:
        return [entry for entry in self.heap.history if entry["memory_id"] == request.path_params["id"]]

    def _entities(self, _: Request, __: bytes) -> Any:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for row in [*self.heap.rows.values()][: kept.ENTITIES_SCANNED]:
            created, updated = row.payload["created_at"], row.payload["updated_at"]
            for key in IDS:
                if key in row.payload:
                    fresh = {"total_memories": 0, "created_at": created, "updated_at": updated}
                    entity = found.setdefault((key, row.payload[key]), fresh)
                    entity["total_memories"] += 1
                    entity["created_at"] = min(entity["created_at"], created)
                    entity["updated_at"] = max(entity["updated_at"], updated)
        return [
            {"id": name, "type": key.removesuffix("_id")} | entity for (key, name), entity in found.items()
        ]

    def _delete_entity(self, request: Request, _: bytes) -> Any:
        key = f"{request.path_params['type']}_id"
        if key not in IDS:
            raise HTTPException(400, "Invalid entity type.")
        for row in self._where({key: request.path_params["id"]}):
            self.heap.remove(row, self._now())
        return {"message": "Entity deleted successfully"}

    def _reset(self, _: Request, __: bytes) -> Any:
        self.heap = Heap()
        return {"message": "All memories reset"}

    def _configure(self, _: Request, __: bytes) -> Any:
        return {"message": "Configuration set successfully"}

    def _me(self, _: Request, __: bytes) -> Any:
        return {"id": str(uuid.UUID(int=0)), "email": "admin@example.com", "role": "admin"}


class Unprocessable(Exception):
    """What FastAPI answers with 422: a list of what is wrong with which part of the request."""


def checked(model: type[M], value: Any, part: str) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise Unprocessable([{**one, "loc": [part, *one["loc"]]} for one in found]) from None


def parsed(model: type[M], body: bytes) -> M:
    try:
        value = json.loads(body)
    except json.JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ["body", error.pos], "msg": "JSON decode error"}
        raise Unprocessable([wrong | {"input": {}, "ctx": {"error": error.msg}}]) from None
    return checked(model, value, "body")


def _told(_: Request, error: HTTPException) -> Response:
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


def _bad(_: Request, error: ValueError) -> Response:
    return JSONResponse({"detail": str(error)}, 400)


def _unprocessable(_: Request, error: Unprocessable) -> Response:
    return JSONResponse({"detail": error.args[0]}, 422)


def _upstream(request: Request, error: Upstream) -> Response:
    body = {"detail": "Upstream provider error.", "code": error.args[0] if error.args else "unknown"}
    return JSONResponse(body | {"request_id": request.state.request_id}, 502)
