"""Cognee's wire without its state: what each version does, its errors word for word, names, feature detection."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PureWindowsPath
from typing import Any
from uuid import UUID

from starlette.responses import JSONResponse

SEARCH_TYPES = [
    "SUMMARIES",
    "CHUNKS",
    "RAG_COMPLETION",
    "HYBRID_COMPLETION",
    "GRAPH_COMPLETION",
    "GRAPH_COMPLETION_DECOMPOSITION",
    "GRAPH_SUMMARY_COMPLETION",
    "CYPHER",
    "NATURAL_LANGUAGE",
    "GRAPH_COMPLETION_COT",
    "GRAPH_COMPLETION_CONTEXT_EXTENSION",
    "FEELING_LUCKY",
    "TEMPORAL",
    "CODING_RULES",
    "CHUNKS_LEXICAL",
    "AGENTIC_COMPLETION",
    "CODE",
    "GRAPH_REPORT",
    "BROAD",
    "SKILLS",
    "TRIPLET_COMPLETION",
]
SEARCHES_IN_WORDS = ", ".join(f"'{name}'" for name in SEARCH_TYPES[:-1]) + f" or '{SEARCH_TYPES[-1]}'"

SIGN_IN = (
    "Authentication required (auth posture: explicit REQUIRE_AUTHENTICATION). "
    "For single-user local use, set ENABLE_BACKEND_ACCESS_CONTROL=false and restart. "
    "To keep authentication and log in instead, set DEFAULT_USER_PASSWORD to make the "
    "default account loginable — see docs/minimal-docker-compose.md."
)


@dataclass(frozen=True)
class Behaviour:
    """What the releases differ in, as far as a client can tell."""

    version: str
    labels: bool  # labels and external_metadata are taken and listed
    rows_of_their_own: bool  # the same bytes in two datasets are two rows with two ids
    source_uri: bool  # `_cognee` is put into every externalMetadata
    refuses_changed: bool  # an add of changed bytes under a known name is 409
    paged: bool  # the listing has limit, offset, a count and dataSize; newest first
    typed_errors: (
        bool  # adds, forgets and cognifies of unknown datasets are 403, not 500; searches name theirs
    )
    refuses_no_file: bool  # an add without a file is 400, not 500; and how labels are counted is worded anew
    names_the_unreadable: bool  # bytes that are no text are 415, not 500
    explains_401: bool
    redated: bool  # the result of a PATCH has one counter more
    update: str  # "recreates", "resets" or "keeps" the row
    scores: bool

    @classmethod
    def of(cls, version: str) -> Behaviour:
        number = tuple(int(part) for part in version.split("."))
        return cls(
            version=version,
            labels=number >= (1, 5, 0),
            rows_of_their_own=number >= (1, 5, 0),
            source_uri=number >= (1, 5, 4),
            refuses_changed=number >= (1, 6, 0),
            paged=number >= (1, 6, 1),
            typed_errors=number >= (1, 6, 0),
            refuses_no_file=number >= (1, 5, 4),
            names_the_unreadable=number >= (1, 6, 1),
            explains_401=number >= (1, 6, 2),
            redated=number >= (1, 6, 3),
            update="keeps" if number >= (1, 6, 0) else "resets" if number >= (1, 5, 0) else "recreates",
            scores=number >= (1, 6, 0),
        )


class ApiError(Exception):
    """An error with a class of Cognee's own, which ends its message in brackets."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.status, self.name, self.message = status, name, message

    def answer(self) -> JSONResponse:
        return JSONResponse({"detail": f"{self.message} [{self.name}]"}, self.status)


class PlainError(Exception):
    """An error that a handler answers by itself, as `{"error", "detail"}`; some leave the detail out."""

    def __init__(self, status: int, error: str, detail: str | None = None, *, bare: bool = False) -> None:
        super().__init__(error)
        self.status, self.body = status, {"error": error} if bare else {"error": error, "detail": detail}

    def answer(self) -> JSONResponse:
        return JSONResponse(self.body, self.status)


class Invalid(Exception):
    """A request that does not fit its model: 400 here, where FastAPI would say 422."""

    def __init__(self, *found: dict[str, Any], body: Any = None) -> None:
        super().__init__(found)
        self.content = {"detail": list(found), "body": body}

    def answer(self) -> JSONResponse:
        return JSONResponse(self.content, 400)


def denied(permission: str) -> ApiError:
    """Unknown and foreign datasets are the same to a caller: nothing says which it was."""
    message = f"Request owner does not have necessary permission: [{permission}] for all datasets requested."
    return ApiError(403, "PermissionDeniedError", message)


def not_accessible(dataset: str) -> ApiError:
    """401, and yet the credentials are good."""
    return ApiError(401, "UnauthorizedDataAccessError", f"Dataset {dataset} not accessible.")


def untyped(path: str, fault: ApiError) -> ApiError | PlainError:
    """What some routes made of an error with a class up to 1.5.4: a 500, the status left in its words at best."""
    if fault.status in {403, 404} and path.endswith("/forget"):
        return PlainError(500, "An error occurred during deletion.", bare=True)
    if fault.status in {403, 404} and path.endswith(("/add", "/cognify")):
        detail = f"{fault.name}: {fault.message} (Status code: {fault.status})"
        return PlainError(500, "Internal server error", detail)
    return fault


def no_file(*, told: bool) -> PlainError:
    if told:
        return PlainError(400, "Provide at least one file in 'data' or one entry in 'raw_data'.")
    detail = "IngestionError: Data type not supported: <class 'cognee.modules.data.models.Data.Data'> (Status code: 415)"
    return PlainError(500, "Internal server error", detail)


def no_such_data(data: str, dataset: str) -> ApiError:
    return ApiError(404, "DataNotFoundError", f"Data ({data}) not found in dataset ({dataset}).")


def nothing_to_update(data: str, dataset: str) -> ApiError:
    message = (
        f"No document found to update: data_id '{data}' does not exist in dataset '{dataset}' (neither as a "
        "document id nor as a pre-fork legacy id). Use add() to create new documents."
    )
    return ApiError(404, "UpdateTargetNotFoundError", message)


def no_memory_in(name: str, dataset: str, why: str, *, named: bool) -> ApiError:
    where = f"No searchable memory in dataset '{name}' (id: {dataset}): "
    return ApiError(404, "NoDataError", f"{where if named else ''}{why}")


def no_dataset_named(names: list[str], *, told: bool) -> ApiError:
    if not told:
        return ApiError(404, "DatasetNotFoundError", "No datasets found.")
    message = (
        f"Dataset(s) not found: {', '.join(map(repr, names))}. Dataset names resolve only among the datasets you "
        "own in the current tenant; pass dataset_ids for datasets shared with you."
    )
    return ApiError(404, "DatasetNotFoundError", message)


def already_exists(conflicts: list[tuple[str, str]], dataset: str) -> PlainError:
    """The answer to an add of changed bytes under a known name; `conflicts` are file names and row ids."""
    listed = ", ".join(f"'{name}' (data_id {data})" for name, data in conflicts)
    data, verb = (conflicts[0][1], "exists") if len(conflicts) == 1 else ("<data_id>", "exist")
    detail = (
        f"POST /api/v1/add does not update documents. {listed} already {verb} in dataset {dataset} with different "
        f"content. Send the new version to PATCH /api/v1/update?data_id={data}&dataset_id={dataset} (multipart "
        "field 'data'), or cognee.update(...) from the SDK; identical content can be re-added and is a no-op."
    )
    return PlainError(409, "Document already exists; use the update endpoint", detail)


def unreadable(filename: str, fault: UnicodeDecodeError, *, named: bool) -> ApiError | PlainError:
    if not named:
        return PlainError(500, "Internal server error", str(fault))
    message = (
        f"'{filename}' cannot be read as text: decoding it as utf-8 failed ({fault.reason} at byte {fault.start}). "
        "Its content was detected as plain text, but the bytes are binary, so no cognee loader can read this file. "
        "Supported text extensions: txt, md, json, xml, yaml, yml, log; PDFs and office documents need their own "
        "loader (the `docling` extra)."
    )
    return ApiError(415, "UnreadableFileContentError", message)


def missing(*loc: str, given: Any = None) -> dict[str, Any]:
    return {"type": "missing", "loc": list(loc), "msg": "Field required", "input": given}


def uuid_of(text: str, *loc: str, body: Any = None) -> str:
    """The id in its one spelling."""
    try:
        return str(UUID(text))
    except ValueError:
        odd = next((at for at, char in enumerate(text) if char not in "0123456789abcdefABCDEF-"), 0)
        error = f"invalid character: found `{text[odd : odd + 1]}` at {odd}"
        found = {"type": "uuid_parsing", "loc": list(loc), "msg": f"Input should be a valid UUID, {error}"}
        raise Invalid(found | {"input": text, "ctx": {"error": error}}, body=body) from None


def whole_number(text: str, name: str, low: int, high: int) -> tuple[int, list[dict[str, Any]]]:
    """The number, and what is wrong with it."""

    def wrong(kind: str, message: str, **limit: int) -> tuple[int, list[dict[str, Any]]]:
        found = {"type": kind, "loc": ["query", name], "msg": f"Input should be {message}", "input": text}
        return 0, [found | ({"ctx": limit} if limit else {})]

    try:
        number = int(text)
    except ValueError:
        return wrong("int_parsing", "a valid integer, unable to parse string as an integer")
    if number < low:
        return wrong("greater_than_equal", f"greater than or equal to {low}", ge=low)
    if number > high:
        return wrong("less_than_equal", f"less than or equal to {high}", le=high)
    return number, []


def name_of(filename: str) -> str:
    """A row's name: the last part of the file name, either slash counting, minus its last extension."""
    base = PureWindowsPath(filename).name or filename
    if base == "..":
        raise PlainError(500, "Internal server error", "File path is outside the configured storage root.")
    dot = base.rfind(".")
    return base[:dot] if 0 < dot < len(base) - 1 else base


def extension_of(filename: str) -> str:
    base = PureWindowsPath(filename).name
    return base[len(name_of(filename)) + 1 :]


def stamp(at: datetime | None) -> str | None:
    """A time as the listing writes it: UTC, and nothing that says so."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat() if at else None


def labels_of(text: str | None) -> list[str | None]:
    """The labels: a JSON array, or else anything at all, cut at its commas."""
    if not (text or "").strip():
        return []
    try:
        parsed = json.loads(text or "")
    except ValueError:
        parsed = None
    if not isinstance(parsed, list):
        return [part.strip() or None for part in (text or "").split(",")]
    if not all(entry is None or isinstance(entry, str) for entry in parsed):
        raise ApiError(
            400, "InvalidLabelsError", 'labels must be a JSON array of strings, e.g. ["finance", ""].'
        )
    return [entry or None for entry in parsed]


def metadata_of(text: str | None) -> list[dict[str, Any] | None]:
    name = "InvalidExternalMetadataError"
    if not (text or "").strip():
        return []
    try:
        parsed = json.loads(text or "")
    except ValueError as fault:
        raise ApiError(400, name, f"external_metadata is not valid JSON: {fault}") from None
    if not isinstance(parsed, list) or not all(entry is None or isinstance(entry, dict) for entry in parsed):
        message = 'external_metadata must be a JSON array of objects, e.g. [{"source": "crm"}, null].'
        raise ApiError(400, name, message)
    if any(entry and "node_set" in entry for entry in parsed):
        message = (
            "external_metadata entries cannot contain the reserved key 'node_set' — use the node_set parameter "
            "instead."
        )
        raise ApiError(400, name, message)
    return [entry or None for entry in parsed]


def paired(entries: list[Any], files: int, what: str, error: str, *, items: bool) -> list[Any]:
    """One entry a file. A list without a word in it counts as none, whatever its length."""
    if not any(entries):
        return [None] * files
    if len(entries) != files:
        noun = {"label": "labels", "external_metadata entry": "entries"}[what]
        unit = "data item (uploads first, then raw_data entries)" if items else "uploaded file"
        got = f"got {len(entries)} {noun} for {files} {'items' if items else 'files'}."
        raise ApiError(400, error, f"Provide one {what} per {unit}: {got}")
    return entries


def openapi(behaviour: Behaviour, *, with_update: bool = True) -> dict[str, Any]:
    """What of /openapi.json tells the releases apart. Its own version number is 1.0.0 in all of them."""

    def parameters(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]

    page = parameters("limit", "offset") if behaviour.paged else []
    fields = ["data", "datasetName", "datasetId", "node_set", "run_in_background"]
    fields += ["labels", "external_metadata"] if behaviour.labels else []
    fields += ["raw_data"] if behaviour.update == "keeps" else []
    schemas: dict[str, Any] = {
        "Body_add_api_v1_add_post": {"type": "object", "properties": {name: {} for name in fields}}
    }
    paths: dict[str, Any] = {
        "/api/v1/add": {"post": {}},
        "/api/v1/datasets": {"get": {}, "post": {}, "delete": {}},
        "/api/v1/datasets/{dataset_id}": {"delete": {}},
        "/api/v1/datasets/{dataset_id}/data": {"get": {"parameters": [*parameters("dataset_id"), *page]}},
        "/api/v1/datasets/{dataset_id}/data/{data_id}": {"delete": {}},
        "/api/v1/datasets/{dataset_id}/data/{data_id}/raw": {"get": {}},
        "/api/v1/forget": {"post": {}},
        "/api/v1/search": {"get": {}, "post": {}},
        "/api/v1/recall": {"get": {}, "post": {}},
    }
    if behaviour.paged:
        paths["/api/v1/datasets/{dataset_id}/data/count"] = {"get": {}}
    if with_update:
        more = ["chunk_level_diff"] if behaviour.update == "keeps" else []
        paths["/api/v1/update"] = {"patch": {"parameters": parameters("data_id", "dataset_id", *more)}}
    if with_update and behaviour.update == "keeps":
        schemas["UpdateResult"] = {"type": "object"}
    info = {"title": "Cognee API", "version": "1.0.0"}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas}}
