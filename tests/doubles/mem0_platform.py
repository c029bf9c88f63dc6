"""A double of the Mem0 platform (its third API, by its documentation and its SDK 2.2.1; never measured)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.doubles.mem0_platform_filters import ENTITIES, FilterValidationError, check, mentioned
from tests.doubles.mem0_platform_rows import Shelf, shown
from tests.doubles.serving import Double

BATCH_MOST = 1000
PAGE_MOST = 200
QUEUED = "Memory processing has been queued for background execution"
STORED = "Memories stored successfully"


class Refused(Exception):
    """An answer that is an error: its code and its body."""


def bad(message: str) -> Refused:
    return Refused(400, {"error": "400 Bad Request", "details": {"message": message}})


class Mem0Platform(Double):
    """The platform. What it keeps is on `shelf`; `seed()` puts memories there without a request."""

    rate_limited: ClassVar[Any] = {"detail": "Request was throttled. Expected available in 1 second."}

    def __init__(self, *, key: str = "m0-secret") -> None:
        super().__init__(key=key)
        self.shelf = Shelf()
        self.drop_repeats = (
            False  # an add of the very text in the very scope stores nothing (the pages disagree)
        )
        self.null_scoping = False  # an id that a filter does not name must be null (an older page says so)
        self.ignore_filters = False  # lists and searches answer every scope, whatever filter is sent
        self.merge_metadata = (
            False  # whether a PUT adds to the metadata or replaces it is not written anywhere
        )
        self.misleading_status: str | None = None  # what an add that stored everything says of itself
        self.page_shift: list[
            Callable[[], object]
        ] = []  # each is run once, after a page that has another behind it
        self.count_off = 0  # how far the count of a list is wrong
        self.next_base: str | None = None  # where the links to further pages lead, if not back here
        self.slow_deletes = False  # a bulk delete is done at `settle()`, or when its event is asked for
        self.notice: str | None = None  # what unclaimed accounts find in every answer
        self.inferred: list[
            dict[str, Any]
        ] = []  # bodies that asked, or did not forbid, to have facts extracted
        self._later: dict[str, list[dict[str, Any]]] = {}

    def seed(
        self, text: str, *, metadata: dict[str, Any] | None = None, times: int = 1, **ids: str
    ) -> list[str]:
        """Put a memory, or `times` of the same; answers the ids."""
        with self.lock:
            now = self.clock()
            return [self.shelf.insert(text, ids, now, metadata=metadata)["id"] for _ in range(times)]

    def remove(self, memory_id: str) -> None:
        with self.lock:
            self.shelf.remove(self.shelf.rows[memory_id], self.clock())

    def items(self) -> list[dict[str, Any]]:
        """All memories in the order in which they came, with both of the names of a run."""
        with self.lock:
            return [shown(row) | {"run_id": row["run_id"]} for row in self.shelf.rows.values()]

    def settle(self) -> None:
        """Carry out what was said to be in progress."""
        with self.lock:
            for event_id in list(self._later):
                self._finish(event_id)

    def app(self) -> ASGIApp:
        handlers = {Refused: _refused, FilterValidationError: _misfiltered, HTTPException: _missed}
        app = Starlette(routes=self.routes(), exception_handlers=handlers)  # type: ignore[arg-type]
        app.router.redirect_slashes = False
        return app

    def routes(self) -> Sequence[Route]:
        return [
            self._route("GET", "/v1/ping/", self._ping),
            self._route("POST", "/v3/memories/add/", self._add),
            self._route("POST", "/v3/memories/search/", self._search),
            self._route("POST", "/v3/memories/", self._list),
            self._route("DELETE", "/v1/memories/", self._delete_all),
            self._route("GET", "/v1/memories/{id}/", self._get),
            self._route("PUT", "/v1/memories/{id}/", self._update),
            self._route("DELETE", "/v1/memories/{id}/", self._delete),
            self._route("GET", "/v1/memories/{id}/history/", self._history),
            self._route("PUT", "/v1/batch/", self._batch_update),
            self._route("DELETE", "/v1/batch/", self._batch_delete),
            self._route("GET", "/v1/entities/", self._entities),
            self._route("DELETE", "/v2/entities/{type}/{id}/", self._delete_entity),
            self._route("GET", "/v1/event/{id}/", self._event),
            self._route("GET", "/v1/events/", self._events),
        ]

    def _route(self, method: str, path: str, handle: Callable[[Request, dict[str, Any]], Any]) -> Route:
        async def endpoint(request: Request) -> Response:
            self._authenticate(request)
            body = _object(await request.body())
            with self.lock:
                answer = handle(request, body)
            headers = {}
            if self.notice is not None:
                headers["X-Mem0-Notice-Message"] = self.notice
                answer = answer | {"mem0_notice": self.notice} if isinstance(answer, dict) else answer
            return JSONResponse(answer, headers=headers)

        return Route(path, endpoint, methods=[method])

    def _authenticate(self, request: Request) -> None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme == "Bearer":
            words = "Given token not valid for any token type"
            raise Refused(401, {"detail": words, "code": "token_not_valid"})
        if scheme != "Token":
            raise Refused(401, {"detail": "Authentication credentials were not provided."})
        if token != self.key:
            raise Refused(401, {"detail": "Invalid API key. Please check your API key and try again."})

    def _today(self, body: dict[str, Any]) -> date | None:
        return None if body.get("show_expired") else self.clock().astimezone(UTC).date()

    def _ping(self, _: Request, __: dict[str, Any]) -> Any:
        return {"status": "ok", "org_id": "org-1", "project_id": "proj-1", "user_email": None}

    def _add(self, _: Request, body: dict[str, Any]) -> Any:
        messages, metadata, now = body.get("messages"), body.get("metadata"), self.clock()
        if not isinstance(messages, list) or not all(_is_message(one) for one in messages) or not messages:
            raise bad("messages must be a non-empty list of objects with a role and a content.")
        ids = {key: body[key] for key in ENTITIES if body.get(key)}
        if not ids or not all(isinstance(value, str) for value in ids.values()):
            raise bad("At least one of user_id, agent_id, app_id, run_id is required.")
        if metadata is not None and not isinstance(metadata, dict):
            raise bad("metadata must be an object.")
        ends = _day(body.get("expiration_date"))
        if body.get("infer", True):
            # There is no model: the event will succeed, and nothing is kept of what was said.
            self.inferred.append(body)
            event_id = self.shelf.event("ADD", now, status="PENDING", payload=body, results=[])
            return {"message": QUEUED, "status": "PENDING", "event_id": event_id}
        seconds = body.get("timestamp")
        if seconds is not None and not isinstance(seconds, int | float):
            raise bad("timestamp must be in seconds since 1970.")
        created = now if seconds is None else datetime.fromtimestamp(seconds, UTC)
        results = []
        for said in messages:
            if said["role"] == "system" or not isinstance(said["content"], str):
                continue
            if self.drop_repeats and self.shelf.has(said["content"], ids):
                continue
            row = self.shelf.insert(
                said["content"],
                ids,
                created,
                metadata=metadata,
                expiration_date=ends,
                immutable=bool(body.get("immutable")),
            )
            results.append({"id": row["id"], "data": {"memory": row["memory"]}, "event": "ADD"})
        event_id = self.shelf.event("ADD", now, status="SUCCEEDED", payload=body, results=results)
        status = self.misleading_status or "SUCCEEDED"
        return {"message": STORED, "status": status, "event_id": event_id, "results": results}

    def _filtered(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        named = [key for key in ENTITIES if key in body]
        if named:
            raise bad(f"Entity IDs must be inside filters, not at the top level: {', '.join(named)}.")
        check(body.get("filters"))
        filters = {} if self.ignore_filters else body["filters"]
        null_scoping = self.null_scoping and not self.ignore_filters
        return self.shelf.where(filters, null_scoping=null_scoping, today=self._today(body))

    def _list(self, request: Request, body: dict[str, Any]) -> Any:
        rows = self._filtered(body)
        answer = self._page(request, body, [shown(row) for row in rows])
        answer["count"] += self.count_off
        if body.get("fields"):
            answer["results"] = [{key: item[key] for key in body["fields"]} for item in answer["results"]]
        if answer["next"] and self.page_shift:
            self.page_shift.pop(0)()
        return answer

    def _page(self, request: Request, body: dict[str, Any], items: list[dict[str, Any]]) -> dict[str, Any]:
        asked = body | dict(request.query_params)  # the query string wins
        size = min(_count(asked.get("page_size"), 100), PAGE_MOST)
        page = _count(asked.get("page"), 1)
        last = max(1, -(-len(items) // size))
        if page > last:
            raise Refused(404, {"detail": "Invalid page."})

        def link(number: int) -> str | None:
            base = self.next_base or str(request.base_url).rstrip("/")
            inside = 1 <= number <= last
            return f"{base}{request.url.path}?page={number}&page_size={size}" if inside else None

        results = items[(page - 1) * size : page * size]
        return {"count": len(items), "next": link(page + 1), "previous": link(page - 1), "results": results}

    def _search(self, _: Request, body: dict[str, Any]) -> Any:
        query, top_k = body.get("query"), body.get("top_k", 10)
        threshold = body.get("threshold", 0.1)
        if not isinstance(query, str) or not query:
            raise bad("query is required.")
        if not isinstance(top_k, int) or not 1 <= top_k <= 1000:
            raise bad("top_k must be between 1 and 1000.")
        if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
            raise bad("threshold must be between 0 and 1.")
        rows = self._filtered(body)
        if mentioned(body["filters"], ("keywords",)):
            raise Refused(500, {"error": "Internal server error"})  # a list takes it, a search does not
        ranked = self.shelf.ranked(rows, query)
        kept = [item for item in ranked if item["score_breakdown"]["semantic"] >= threshold]
        return {"results": kept[:top_k]}

    def _row(self, memory_id: Any) -> dict[str, Any]:
        try:
            row = self.shelf.rows.get(str(uuid.UUID(memory_id)))
        except (AttributeError, TypeError, ValueError):
            raise Refused(400, {"error": "memory_id should be a valid UUID"}) from None
        if row is None:
            raise Refused(404, {"error": "Memory not found!"})
        return row

    def _get(self, request: Request, _: dict[str, Any]) -> Any:
        return shown(self._row(request.path_params["id"]))

    def _change(self, row: dict[str, Any], body: dict[str, Any]) -> None:
        values: dict[str, Any] = {}
        if row["immutable"]:
            raise bad("Immutable memories cannot be updated.")
        if body.get("text") is not None:
            values["memory"] = body["text"]
        if body.get("metadata") is not None:
            kept = (row["metadata"] or {}) if self.merge_metadata else {}
            values["metadata"] = kept | body["metadata"]
        if "expiration_date" in body:
            values["expiration_date"] = _day(body["expiration_date"])
        if not values:
            raise bad("At least one of text, metadata, timestamp or expiration_date is required.")
        self.shelf.change(row, self.clock(), **values)

    def _update(self, request: Request, body: dict[str, Any]) -> Any:
        row = self._row(request.path_params["id"])
        self._change(row, body)
        return shown(row)

    def _delete(self, request: Request, _: dict[str, Any]) -> Any:
        self.shelf.remove(self._row(request.path_params["id"]), self.clock())
        return {"message": "Memory deleted successfully!"}

    def _history(self, request: Request, _: dict[str, Any]) -> Any:
        return [entry for entry in self.shelf.history if entry["memory_id"] == request.path_params["id"]]

    def _in_progress(self, filters: dict[str, Any]) -> Any:
        rows = self.shelf.where(filters, null_scoping=False, today=None)
        event_id = self.shelf.event("DELETE", self.clock(), status="PENDING", payload=filters, results=[])
        self._later[event_id] = rows
        if not self.slow_deletes:
            self._finish(event_id)
        return {"message": "Delete in progress. This may take some time.", "event_id": event_id}

    def _finish(self, event_id: str) -> None:
        for row in self._later.pop(event_id, []):
            self.shelf.remove(row, self.clock())

    def _delete_all(self, request: Request, _: dict[str, Any]) -> Any:
        filters = {key: request.query_params[key] for key in ENTITIES if request.query_params.get(key)}
        if not filters:
            raise bad("At least one filter is required.")
        return self._in_progress(filters)

    def _batch(self, body: dict[str, Any], verb: str) -> list[dict[str, Any]]:
        memories = body.get("memories")
        if not isinstance(memories, list) or not memories:
            raise Refused(400, {"error": "memories is required."})
        if len(memories) > BATCH_MOST:
            raise Refused(400, {"error": f"Maximum of 1000 memories can be {verb} at once."})
        return memories

    def _batch_update(self, _: Request, body: dict[str, Any]) -> Any:
        memories = self._batch(body, "updated")
        for row, change in [(self._row(one.get("memory_id")), one) for one in memories]:
            self._change(row, change)
        return {"message": f"Successfully updated {len(memories)} memories"}

    def _batch_delete(self, _: Request, body: dict[str, Any]) -> Any:
        memories = self._batch(body, "deleted")
        for row in [self._row(one.get("memory_id")) for one in memories]:
            self.shelf.remove(row, self.clock())
        return {"message": f"Successfully deleted {len(memories)} memories"}

    def _entities(self, request: Request, body: dict[str, Any]) -> Any:
        return self._page(request, body, self.shelf.entities())

    def _delete_entity(self, request: Request, _: dict[str, Any]) -> Any:
        key = f"{request.path_params['type']}_id"
        if key not in ENTITIES:
            raise Refused(400, {"error": "Invalid entity type."})
        return self._in_progress({key: request.path_params["id"]})

    def _event(self, request: Request, _: dict[str, Any]) -> Any:
        event = self.shelf.events.get(request.path_params["id"])
        if event is None:
            raise Refused(404, {"error": "Event not found."})
        answer = dict(event)
        event["status"] = {"PENDING": "RUNNING"}.get(event["status"], "SUCCEEDED")
        if answer["status"] == "RUNNING":
            self._finish(event["id"])
        return answer

    def _events(self, request: Request, body: dict[str, Any]) -> Any:
        return self._page(request, body, list(self.shelf.events.values()))


def _is_message(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("role") in {"user", "assistant", "system"}
        and "content" in value
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError as error:
        raise Refused(400, {"detail": f"JSON parse error - {error}"}) from None
    if not isinstance(value, dict):
        raise bad("Invalid data. Expected a dictionary.")
    return value


def _day(value: Any) -> str | None:
    try:
        return None if value is None else date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise bad("expiration_date must be in YYYY-MM-DD format.") from None


def _count(value: Any, default: int) -> int:
    """A number of pages or of rows; what is none is as if it had not come."""
    try:
        return max(int(value), 1)
    except (TypeError, ValueError):
        return default


def _refused(_: Request, error: Refused) -> Response:
    code, body = error.args
    return JSONResponse(body, code)


def _misfiltered(_: Request, error: FilterValidationError) -> Response:
    refused = bad(str(error))
    return JSONResponse(refused.args[1], 400)


def _missed(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        return JSONResponse({"detail": f'Method "{request.method}" not allowed.'}, 405, error.headers)
    return HTMLResponse("<!doctype html><html><body><h1>Not Found</h1></body></html>", 404)
