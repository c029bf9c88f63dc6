"""The Cognee API server as a double: what its releases answer, in single-user mode and with tenants.

    double = running(CogneeDouble(version="1.6.0"))                # single-user mode, nobody signs in
    double = running(CogneeDouble(multi_tenant=True, key="k"))     # X-Api-Key, bearer or cookie

Left out: /remember, node sets, raw_data, graphs, and everything that calls a model.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from email.utils import format_datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.doubles.cognee_forms import (
    body_of,
    dataset_shown,
    files_of,
    page_of,
    path_id,
    run_info,
    update_failed,
    update_result,
    uploads_of,
)
from tests.doubles.cognee_search import NEEDS_A_MODEL, either, recall, search
from tests.doubles.cognee_state import Dataset, Row, Store, Upload, User
from tests.doubles.cognee_wire import (
    SIGN_IN,
    ApiError,
    Behaviour,
    Invalid,
    PlainError,
    already_exists,
    denied,
    missing,
    no_file,
    no_such_data,
    not_accessible,
    openapi,
    untyped,
    uuid_of,
)
from tests.doubles.serving import Double

Handler = Callable[[Request, User], Awaitable[Any]]


class CogneeDouble(Double):
    """One server. Its knobs are the attributes below."""

    def __init__(self, version: str = "1.6.5", *, multi_tenant: bool = False, key: str = "secret") -> None:
        self.behaviour = Behaviour.of(version)
        self.multi_tenant = multi_tenant
        #: Whether anyone has to sign in. With tenants it is so by default.
        self.signs_in = multi_tenant
        #: PATCH /update: "works", "absent" (404), "not allowed" (405), or "applies then 422" / "applies then 500".
        self.update = "works"
        #: A PATCH builds the whole document anew although it need not, which wipes its metadata.
        self.rebuilds = False
        #: Changed bytes under a known name are 409 for .json too, as a later release may well have it.
        self.conflict_on_json = False
        #: So many adds pass the check of their names before the first of them writes.
        self.racing_adds = 0
        #: Called while a PATCH is under way, after it has found its row.
        self.during_update: Callable[[], None] | None = None
        #: Each is called once, after a page of a listing is read and before the next one. They send no requests.
        self.after_page: list[Callable[[Dataset], None]] = []
        self._racing: list[asyncio.Event] = []
        super().__init__(key=key)
        self.store = Store(self.behaviour, lambda: self.clock(), multi_tenant=multi_tenant)
        self.users: list[User] = []
        self.owner = self.user("default_user@example.com", key)

    # For tests: state without requests.

    def user(self, name: str, key: str) -> User:
        user = User(name, key, str(uuid.uuid5(uuid.NAMESPACE_URL, name)))
        self.users.append(user)
        return user

    def dataset(self, name: str, user: User | None = None) -> Dataset:
        with self.lock:
            return self.store.dataset(user or self.owner, name)[0]

    def put(
        self,
        dataset: str,
        filename: str,
        content: bytes,
        *,
        label: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Row:
        """A row whatever is there already: a duplicate, or what somebody else wrote."""
        with self.lock:
            return self.store.put(
                self.owner, self.dataset(dataset), Upload(filename, content, label, metadata)
            )

    def seed(self, dataset: str, n: int, *, label: str | None = None) -> list[Row]:
        """That many rows of somebody else's, `foreign-0.txt` and on."""
        return [self.put(dataset, f"foreign-{i}.txt", b"foreign row %d" % i, label=label) for i in range(n)]

    def page_shift(self, what: str, times: int = 1) -> None:
        """After each of the next pages a row is added ("add"), or the newest is deleted ("delete")."""

        def shift(dataset: Dataset) -> None:
            if what == "add":
                self.put(dataset.name, f"{uuid.uuid4()}.txt", uuid.uuid4().bytes.hex().encode())
            else:
                del dataset.rows[self.store.listing(dataset)[0].id]

        if what not in {"add", "delete"}:
            raise ValueError(f"page_shift takes add or delete, not {what!r}")
        self.after_page += [shift] * times

    # The server.

    def app(self) -> ASGIApp:
        async def plain(request: Request, fault: Exception) -> Response:
            assert isinstance(fault, HTTPException)
            if self.update == "absent" and request.url.path == "/api/v1/update":
                return JSONResponse({"detail": "Not Found"}, 404)
            return JSONResponse({"detail": fault.detail}, fault.status_code, fault.headers)

        return Starlette(routes=self.routes(), exception_handlers={HTTPException: plain})

    def routes(self) -> Sequence[Route]:
        data = "/api/v1/datasets/{dataset}/data"
        counted = [("GET", f"{data}/count", self._count)] if self.behaviour.paged else []
        closed: list[tuple[str, str, Handler]] = [
            ("GET", "/api/v1/datasets", self._datasets),
            ("POST", "/api/v1/datasets", self._create),
            ("DELETE", "/api/v1/datasets/{dataset}", self._delete_dataset),
            ("DELETE", data + "/{data}", self._delete),
            ("GET", data, self._list),
            *counted,
            ("GET", data + "/{data}/raw", self._raw),
            ("POST", "/api/v1/add", self._add),
            ("PATCH", "/api/v1/update", self._update),
            ("POST", "/api/v1/forget", self._forget),
            ("POST", "/api/v1/cognify", self._cognify),
            ("POST", "/api/v1/search", self._search),
            ("POST", "/api/v1/recall", self._recall),
        ]
        routes = [
            Route("/", lambda _: JSONResponse({"message": "Hello, World, I am alive!"}), methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            Route("/api/v1/auth/login", self._login, methods=["POST"]),
            *(Route(path, self._guarded(handler), methods=[verb]) for verb, path, handler in closed),
        ]
        for route in routes:
            (route.methods or set()).discard("HEAD")  # which Starlette adds to a GET, and this server has not
        return routes

    def _guarded(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            user = self._signed_in(request)
            if user is None:
                detail = SIGN_IN if self.behaviour.explains_401 else "Unauthorized"
                return JSONResponse({"detail": detail}, 401)
            try:
                result = await handler(request, user)
            except ApiError as fault:
                typed = self.behaviour.typed_errors
                return fault.answer() if typed else untyped(request.url.path, fault).answer()
            except (PlainError, Invalid) as fault:
                return fault.answer()
            return result if isinstance(result, Response) else JSONResponse(result)

        return answer

    def _signed_in(self, request: Request) -> User | None:
        if not self.signs_in:
            return self.owner
        key = request.headers.get("x-api-key")
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        tokens = {bearer if scheme.lower() == "bearer" else "", request.cookies.get("auth_token", "")}
        return next((user for user in self.users if user.key == key or user.token in tokens), None)

    async def _login(self, request: Request) -> Response:
        form = await request.form()
        for user in self.users:
            if (form.get("username"), form.get("password")) == (user.name, user.password):
                answer = JSONResponse({"access_token": user.token, "token_type": "bearer"})
                answer.set_cookie("auth_token", user.token, httponly=True, samesite="lax")
                return answer
        return JSONResponse({"detail": "LOGIN_BAD_CREDENTIALS"}, 400)

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ready", "health": "healthy", "version": self.behaviour.version})

    async def _openapi(self, request: Request) -> Response:
        offered = self.update not in {"absent", "not allowed"}
        return JSONResponse(openapi(self.behaviour, with_update=offered))

    # Datasets.

    def _mine(self, user: User, dataset_id: str, permission: str) -> Dataset:
        dataset = self.store.datasets.get(dataset_id)
        shared = dataset is not None and permission == "read" and user.id in dataset.shared_with
        if dataset is None or not (dataset.owner == user.id or shared):
            raise denied(permission)
        return dataset

    async def _datasets(self, request: Request, user: User) -> Any:
        seen = [d for d in self.store.datasets.values() if d.owner == user.id or user.id in d.shared_with]
        return [dataset_shown(dataset) for dataset in seen]

    async def _create(self, request: Request, user: User) -> Any:
        body = await body_of(request)
        if not isinstance(body, dict) or "name" not in body:
            raise Invalid(missing("body", "name", given=body), body=body)
        dataset, new = self.store.dataset(user, str(body["name"]))
        return dataset_shown(dataset, new=new)

    async def _delete_dataset(self, request: Request, user: User) -> Any:
        dataset = self._mine(user, path_id(request, "dataset"), "delete")
        del self.store.datasets[dataset.id]

    # Rows.

    async def _list(self, request: Request, user: User) -> Any:
        dataset_id = path_id(request, "dataset")
        limit, offset = page_of(request) if self.behaviour.paged else (None, 0)
        with self.lock:
            dataset = self._mine(user, dataset_id, "read")
            rows = self.store.listing(dataset)[offset : None if limit is None else offset + limit]
            shown = [self.store.described(dataset, row) for row in rows]
            if self.after_page and rows:
                self.after_page.pop(0)(dataset)
        return shown

    async def _count(self, request: Request, user: User) -> Any:
        return {"count": len(self._mine(user, path_id(request, "dataset"), "read").rows)}

    async def _raw(self, request: Request, user: User) -> Any:
        dataset_id, data_id = path_id(request, "dataset"), path_id(request, "data")
        row = self._mine(user, dataset_id, "read").rows.get(data_id)
        if row is None:
            raise no_such_data(data_id, dataset_id)
        etag = hashlib.md5(f"{row.updated}{row.size}".encode(), usedforsecurity=False).hexdigest()
        headers = {"etag": f'"{etag}"', "last-modified": format_datetime(row.created, usegmt=True)}
        return Response(row.text, media_type="text/plain", headers={"accept-ranges": "bytes"} | headers)

    async def _delete(self, request: Request, user: User) -> Any:
        dataset_id, data_id = path_id(request, "dataset"), path_id(request, "data")
        self._deletable(user, dataset_id).rows.pop(data_id, None)

    def _deletable(self, user: User, dataset_id: str) -> Dataset:
        try:
            return self._mine(user, dataset_id, "delete")
        except ApiError:
            raise not_accessible(dataset_id) from None

    async def _forget(self, request: Request, user: User) -> Any:
        body = await body_of(request)
        data, dataset_id = either(body, "dataId", "data_id"), either(body, "datasetId", "dataset_id")
        name, memory_only = body.get("dataset"), either(body, "memoryOnly", "memory_only", False)
        if (not name) == (not dataset_id):
            words = "Specify dataset or dataset_id, data_id+dataset, or everything=True."
            raise PlainError(422, f"Invalid request parameters. {words}", bare=True)
        if name:
            found = [d for d in self.store.datasets.values() if (d.owner, d.name) == (user.id, name)]
            if not found:
                raise ApiError(404, "DatasetNotFoundError", f"Dataset '{name}' not found or not accessible.")
            dataset = found[0]
        else:
            dataset = self._mine(user, uuid_of(dataset_id, "body", "datasetId", body=body), "delete")
        rows = [row for row in dataset.rows.values() if data in {None, row.id}]
        for row in rows:
            if memory_only:
                row.chunks = None
            else:
                del dataset.rows[row.id]
        if memory_only:
            return {"dataset_id": dataset.id, "data_records_reset": len(rows), "status": "success"}
        if data:
            return {"data_id": data, "dataset_id": dataset.id, "status": "success"}
        del self.store.datasets[dataset.id]
        return {"dataset_id": dataset.id, "status": "success"}

    async def _add(self, request: Request, user: User) -> Any:
        async with request.form() as form:
            dataset_id, name = str(form.get("datasetId") or ""), str(form.get("datasetName") or "")
            if dataset_id:
                dataset_id = uuid_of(dataset_id, "body", "datasetId", "uuid", body={"datasetId": dataset_id})
            elif not name:
                raise PlainError(400, "Either datasetId or datasetName must be provided.")
            uploads = await uploads_of(form, self.behaviour)
            background = str(form.get("run_in_background", "")).lower() in {"1", "true", "on", "yes"}
        if not uploads:
            raise no_file(told=self.behaviour.refuses_no_file)
        dataset = self._to_add_to(user, dataset_id, name)
        extensions = {"txt", "json"} if self.conflict_on_json else {"txt"}
        conflicts = self.store.conflicts(user, dataset, uploads, extensions)
        if conflicts and (self.behaviour.refuses_changed or self.conflict_on_json):
            raise already_exists(conflicts, dataset.id)
        await self._race()
        with self.lock:
            answered = self.store.ingest(user, dataset, uploads)
        return run_info(dataset, None if background else answered)

    def _to_add_to(self, user: User, dataset_id: str, name: str) -> Dataset:
        if dataset_id:
            return self._mine(user, dataset_id, "write")
        if "." in name or " " in name:
            raise PlainError(500, "Internal server error", "Dataset name cannot contain spaces or dots.")
        return self.store.dataset(user, name)[0]

    async def _race(self) -> None:
        """Hold adds here, where they have looked and not yet written, until all that race have come."""
        if not self.racing_adds:
            return
        mine = asyncio.Event()
        self._racing.append(mine)
        if len(self._racing) == self.racing_adds:
            self.racing_adds = 0
            for event in self._racing:
                event.set()
            self._racing.clear()
        await mine.wait()

    # What needs a model on the real server.

    async def _update(self, request: Request, user: User) -> Any:
        if self.update == "absent":
            raise HTTPException(404)
        if self.update == "not allowed":
            raise HTTPException(405, headers={"allow": "GET"})
        started = time.perf_counter()
        ids = [request.query_params.get(name) for name in ("data_id", "dataset_id")]
        absent = [
            missing("query", name) for name in ("data_id", "dataset_id") if name not in request.query_params
        ]
        if absent:
            raise Invalid(*absent, body={})
        data_id, dataset_id = (uuid_of(str(each), "query", "data_id") for each in ids)
        async with request.form() as form:
            uploads = await files_of(form)
        if not uploads:
            raise Invalid(missing("body", "data"), body={})
        if len(uploads) > 1:
            message = f"update() replaces exactly one document; got a list of {len(uploads)} items."
            raise ApiError(415, "IngestionError", message)
        dataset = self.store.known(dataset_id, data_id)
        self._deletable(user, dataset.id)
        if self.during_update:
            await asyncio.to_thread(self.during_update)
        with self.lock:
            outcome = self.store.update(user, dataset, data_id, uploads[0], rebuild=self.rebuilds)
            if self.update == "applies then 422":
                raise NEEDS_A_MODEL
            result = update_result(outcome, data_id, dataset, self.behaviour, time.perf_counter() - started)
            if self.update == "applies then 500":
                return update_failed(result, self.behaviour)
            done = self.store.cognify(dataset)
        return result if self.behaviour.update == "keeps" else {dataset.id: run_info(dataset, done)}

    async def _cognify(self, request: Request, user: User) -> Any:
        body = await body_of(request)
        ids = either(body, "datasetIds", "dataset_ids") or []
        names = body.get("datasets") or []
        mine = [dataset.id for dataset in self.store.datasets.values() if dataset.owner == user.id]
        ids = ids or [each for each in mine if self.store.datasets[each].name in names]
        if not ids:
            raise PlainError(400, "No datasets or dataset_ids provided")
        with self.lock:
            datasets = [self._mine(user, each, "write") for each in ids]
            return {dataset.id: run_info(dataset, self.store.cognify(dataset)) for dataset in datasets}

    async def _search(self, request: Request, user: User) -> Any:
        return search(self.store, user, await body_of(request))

    async def _recall(self, request: Request, user: User) -> Any:
        return recall(self.store, user, await body_of(request))
