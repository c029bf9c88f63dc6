"""Mem0's open-source server, as a shell of our own over the real `mem0.Memory`: its routes, limits and answers.

    python mem0_app.py PORT      (run by the environment that mem0ai is installed in)

What the library decides (filters, ranking, merging, wildcards, what an absent id is) comes from the library; only
routes, keys, page limits and the classing of errors are restated here. Left out: registration, login and the
keys of ordinary users, `/auth/*`, `/configure` and the dashboard's routes.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import Depends, FastAPI, Header, HTTPException, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from mem0 import Memory
from mem0.exceptions import ValidationError
from pydantic import BaseModel

LOG = logging.getLogger("mem0_app")
LIST_LIMIT = 1000
SCAN_LIMIT = 10_000  # rows that the entities are counted from
SCOPES = {"user": "user_id", "agent": "agent_id", "run": "run_id"}
NO_SCOPE = "At least one identifier is required."

memory = Memory.from_config(
    {
        "version": "v1.1",
        "vector_store": {
            "provider": "pgvector",
            "config": {
                "host": "127.0.0.1",
                "port": int(os.environ["POSTGRES_PORT"]),
                "dbname": "postgres",
                "user": "postgres",
                "password": "postgres",
                "collection_name": "memories",
            },
        },
        "llm": {"provider": "openai", "config": {"model": "gpt-4.1-nano-2025-04-14", "temperature": 0.2}},
        "embedder": {"provider": "openai", "config": {"model": "text-embedding-3-small"}},
        "history_db_path": os.environ["HISTORY_DB_PATH"],
    }
)
# A path that ends in a slash is not found, rather than redirected.
app = FastAPI(title="Mem0 REST APIs", redirect_slashes=False)


class Message(BaseModel):
    role: str
    content: str


class Create(BaseModel):
    messages: list[Message]
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    metadata: dict[str, Any] | None = None
    expiration_date: str | None = None
    infer: bool | None = None
    memory_type: str | None = None
    prompt: str | None = None


class Update(BaseModel):
    text: str | None = None
    metadata: dict[str, Any] | None = None
    expiration_date: str | None = None


class Search(BaseModel):
    query: str
    filters: dict[str, Any] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    top_k: int | None = None
    threshold: float | None = None
    explain: bool | None = None
    show_expired: bool | None = None


class UpstreamFailure(Exception):
    """Something below the server failed; it answers 502 with a code."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def code_of(error: BaseException) -> str:
    """The code for one error, by its name and the status it carries."""
    name, status = type(error).__name__, getattr(error, "status_code", None)
    if name in {"AuthenticationError", "PermissionDeniedError"}:
        return "provider_auth_failed"
    if name == "RateLimitError":
        return "provider_rate_limited"
    if name == "APITimeoutError" or isinstance(error, TimeoutError):
        return "provider_timeout"
    if name == "APIConnectionError" or (isinstance(status, int) and status >= 500):
        return "provider_unavailable"
    if name in {"BadRequestError", "UnprocessableEntityError"}:
        return "provider_bad_request"
    return "datastore_unavailable" if name == "OperationalError" else "unknown"


def failure_of(error: BaseException) -> UpstreamFailure:
    """The failure to answer with: the first in the chain of causes that has a code."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        if (code := code_of(current)) != "unknown":
            return UpstreamFailure(code, f"What the server depends on failed: {code.replace('_', ' ')}.")
        current = current.__cause__ or current.__context__
    return UpstreamFailure("unknown", "Upstream provider error.")


@contextmanager
def answered(*, refusals: bool) -> Iterator[None]:
    """Turn what the library raises into an answer: 400 or 404 where the route tells refusals apart, else 502."""
    try:
        yield
    except HTTPException:
        raise
    except Exception as error:
        if refusals and isinstance(error, (ValueError, ValidationError)):
            absent = isinstance(error, ValueError) and "not found" in str(error).lower()
            raise HTTPException(404 if absent else 400, str(error)) from error
        LOG.exception("Upstream provider error")
        raise failure_of(error) from error


@app.middleware("http")
async def name_request(request: Request, call_next: Any) -> Response:
    request.state.request_id = uuid.uuid4().hex[:8]
    response: Response = await call_next(request)
    response.headers["X-Request-ID"] = request.state.request_id
    return response


@app.exception_handler(UpstreamFailure)
async def answer_failure(request: Request, error: UpstreamFailure) -> JSONResponse:
    body = {"detail": error.detail, "code": error.code, "request_id": request.state.request_id}
    return JSONResponse(body, 502)


async def authenticated(
    authorization: Annotated[str | None, Header()] = None, x_api_key: Annotated[str | None, Header()] = None
) -> None:
    """A Bearer token comes first, even a bad one beside a good key; there are no tokens here, so each is bad."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() == "bearer" and token:
        raise HTTPException(401, "Invalid or expired token.")
    if x_api_key is None:
        detail = "Authentication required. Provide a Bearer token or X-API-Key header."
        raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
    if not secrets.compare_digest(x_api_key.encode(), os.environ["ADMIN_API_KEY"].encode()):
        raise HTTPException(401, "Invalid API key.")


guarded: dict[str, Any] = {"dependencies": [Depends(authenticated)]}


@app.get("/", include_in_schema=False)
def home() -> RedirectResponse:
    return RedirectResponse("/docs")


@app.post("/memories", **guarded)
def add(body: Create) -> Any:
    if not (body.user_id or body.agent_id or body.run_id):
        raise HTTPException(400, "At least one identifier (user_id, agent_id, run_id) is required.")
    given = body.model_dump(exclude={"messages"}, exclude_none=True)
    with answered(refusals=True):
        return JSONResponse(memory.add([message.model_dump() for message in body.messages], **given))


def dumped(row: Any) -> dict[str, Any]:
    """A row of the listing without a scope, which shows the stored payload as it is."""
    payload = dict(row.payload or {})
    item = {"id": row.id, "memory": payload.pop("data", None)}
    for name in ("user_id", "agent_id", "run_id", "hash", "expiration_date", "created_at", "updated_at"):
        item[name] = payload.pop(name, None)
    return {**item, "metadata": payload}


@app.get("/memories", **guarded)
def page(
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    top_k: Annotated[int | None, Query(ge=0, le=LIST_LIMIT)] = None,
    show_expired: bool = False,
) -> Any:
    scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    filters = {name: value for name, value in scope.items() if value}
    with answered(refusals=False):
        if not filters:
            rows = memory.vector_store.list(top_k=LIST_LIMIT if top_k is None else top_k)[0]
            return {"results": [dumped(row) for row in rows]}
        limit = {} if top_k is None else {"top_k": top_k}
        return memory.get_all(filters=filters, show_expired=show_expired, **limit)


@app.get("/memories/{memory_id}", **guarded)
def get(memory_id: str) -> Any:
    with answered(refusals=False):
        return memory.get(memory_id)


@app.get("/memories/{memory_id}/history", **guarded)
def history(memory_id: str) -> Any:
    with answered(refusals=False):
        return memory.history(memory_id)


@app.put("/memories/{memory_id}", **guarded)
def update(memory_id: str, body: Update) -> Any:
    given = {name: getattr(body, name) for name in body.model_fields_set}
    with answered(refusals=True):
        return memory.update(memory_id, **given)


@app.delete("/memories/{memory_id}", **guarded)
def delete(memory_id: str) -> Any:
    with answered(refusals=True):
        memory.delete(memory_id)
    return {"message": "Memory deleted successfully"}


@app.delete("/memories", **guarded)
def delete_all(user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None) -> Any:
    scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    if not any(scope.values()):
        raise HTTPException(400, NO_SCOPE)
    with answered(refusals=False):
        memory.delete_all(**{name: value for name, value in scope.items() if value is not None})
    return {"message": "All relevant memories deleted"}


@app.post("/search", **guarded)
def search(body: Search) -> Any:
    filters = dict(body.filters or {})
    for name in SCOPES.values():
        if value := getattr(body, name):
            filters[name] = value
    given = body.model_dump(include={"top_k", "threshold", "explain", "show_expired"}, exclude_none=True)
    with answered(refusals=True):
        return memory.search(body.query, filters=filters, **given)


def moment(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)) if value else None
    except ValueError:
        return None


@app.get("/entities", **guarded)
def entities() -> Any:
    found: dict[tuple[str, str], dict[str, Any]] = {}
    with answered(refusals=False):
        rows = memory.vector_store.list(top_k=SCAN_LIMIT)[0]
    for payload in (row.payload or {} for row in rows):
        created = moment(payload.get("created_at"))
        updated = moment(payload.get("updated_at")) or created
        for kind, name in SCOPES.items():
            if not (value := payload.get(name)):
                continue
            empty = {
                "id": str(value),
                "type": kind,
                "total_memories": 0,
                "created_at": None,
                "updated_at": None,
            }
            entity = found.setdefault((kind, str(value)), empty)
            entity["total_memories"] += 1
            entity["created_at"] = min(filter(None, (entity["created_at"], created)), default=None)
            entity["updated_at"] = max(filter(None, (entity["updated_at"], updated)), default=None)
    return [found[place] for place in sorted(found)]


@app.delete("/entities/{kind}/{name}", **guarded)
def delete_entity(kind: Literal["user", "agent", "run"], name: str) -> Any:
    with answered(refusals=False):
        memory.delete_all(**{SCOPES[kind]: name})
    return {"message": "Entity deleted"}


@app.post("/reset", **guarded)
def reset() -> Any:
    with answered(refusals=False):
        memory.reset()
    return {"message": "All memories reset"}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
