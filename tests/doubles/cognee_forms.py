"""What goes into Cognee's routes and comes out of its pipelines: forms, pages, run infos."""

from __future__ import annotations

import json
import uuid
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse

from tests.doubles.cognee_state import Dataset, Upload
from tests.doubles.cognee_wire import (
    Behaviour,
    Invalid,
    labels_of,
    metadata_of,
    paired,
    stamp,
    uuid_of,
    whole_number,
)

LIMITS = {"limit": (1, 1_000), "offset": (0, 1_000_000)}
COUNTERS = "regions deleted_chunks added_chunks reused_chunks redated_chunks kept_chunks reindexed_chunks total_chunks"


async def body_of(request: Request) -> Any:
    body = await request.body()
    try:
        return json.loads(body)
    except ValueError as fault:
        found = {
            "type": "json_invalid",
            "loc": ["body", getattr(fault, "pos", 0)],
            "msg": "JSON decode error",
        }
        raise Invalid(
            found | {"input": {}, "ctx": {"error": fault.msg}}, body=body.decode(errors="replace")
        ) from None


def path_id(request: Request, which: str) -> str:
    return uuid_of(request.path_params[which], "path", f"{which}_id")


def page_of(request: Request) -> tuple[int, int]:
    """Limit and offset. Any other parameter is ignored without a word."""
    numbers, found = {"limit": 100, "offset": 0}, []
    for name, (low, high) in LIMITS.items():
        if name in request.query_params:
            numbers[name], wrong = whole_number(request.query_params[name], name, low, high)
            found += wrong
    if found:
        raise Invalid(*found)
    return numbers["limit"], numbers["offset"]


async def files_of(form: FormData) -> list[Upload]:
    """The files. A part without a file name is a string, and an empty one is no file at all."""
    files = [item for item in form.getlist("data") if isinstance(item, UploadFile)]
    return [Upload(file.filename or "", await file.read()) for file in files]


async def uploads_of(form: FormData, behaviour: Behaviour) -> list[Upload]:
    """The files, each with its label and metadata; an older release knows neither field and ignores them."""
    files = await files_of(form)
    if not behaviour.labels:
        return files
    labels = labels_of(_text(form, "labels"))
    metadata = metadata_of(_text(form, "external_metadata"))
    count, items = len(files), behaviour.refuses_no_file
    labels = paired(labels, count, "label", "LabelCountMismatchError", items=items)
    error = "ExternalMetadataCountMismatchError"
    metadata = paired(metadata, count, "external_metadata entry", error, items=items)
    return [
        Upload(file.filename, file.content, label, entry)
        for file, label, entry in zip(files, labels, metadata, strict=True)
    ]


def _text(form: FormData, name: str) -> str | None:
    value = form.get(name)
    return value if isinstance(value, str) else None


def dataset_shown(dataset: Dataset, *, new: bool = False) -> dict[str, Any]:
    """Only the answer that makes a dataset says that its time is in UTC."""
    created = f"{stamp(dataset.created)}{'Z' if new else ''}"
    shown = {"id": dataset.id, "name": dataset.name, "createdAt": created}
    return shown | {"updatedAt": None, "ownerId": dataset.owner}


def run_info(dataset: Dataset, rows: list[tuple[bool, str]] | None) -> dict[str, Any]:
    """A pipeline run over `rows`: whether something was done to it, and its id; None runs on in the background."""
    info: dict[str, Any] = {
        "status": "PipelineRunCompleted",
        "pipeline_run_id": str(uuid.uuid4()),
        "dataset_id": dataset.id,
        "dataset_name": dataset.name,
        "payload": None,
        "data_ingestion_info": None,
    }
    if rows is None:
        return info | {"status": "PipelineRunStarted", "payload": []}
    words = {True: "PipelineRunCompleted", False: "PipelineRunAlreadyCompleted"}
    done = [{"run_info": info | {"status": words[due]}, "data_id": data_id} for due, data_id in rows]
    return info | {"data_ingestion_info": done}


def update_result(
    outcome: str, data_id: str, dataset: Dataset, behaviour: Behaviour, seconds: float
) -> dict[str, Any]:
    """The body of a PATCH from 1.6.0 on. A rebuild has no counters, and says why there was one."""
    rebuilt = outcome == "full_rebuild"
    counters: dict[str, Any] = dict.fromkeys(COUNTERS.split(), None if rebuilt else 0)
    if not behaviour.redated:
        del counters["redated_chunks"]
    if outcome == "unchanged":
        counters |= {"kept_chunks": 1, "total_chunks": 1}
    if outcome == "incremental":
        counters |= {"regions": 1, "deleted_chunks": 1, "added_chunks": 1, "total_chunks": 1}
    detail = "the selected graph does not store ownership provenance in-graph"
    return {
        "status": outcome,
        **counters,
        "data_id": data_id,
        "dataset_id": dataset.id,
        "duration_seconds": round(seconds, 3),
        "pipeline_run_id": None if outcome == "unchanged" else str(uuid.uuid4()),
        "fallback": {"reason": "unsupported_backend", "detail": detail} if rebuilt else None,
        "error": None,
    }


def update_failed(result: dict[str, Any], behaviour: Behaviour) -> JSONResponse:
    """The 500 of a PATCH whose cognify failed, after the new bytes were stored."""
    message = "Connection error."
    if behaviour.update != "keeps":
        return JSONResponse({"error": "Pipeline run errored", "detail": message}, 500)
    error = {"error_class": "InternalServerError", "message": message}
    return JSONResponse(result | {"status": "failed", "error": error}, 500)
