"""Cognee's /search and /recall, which agree on little but the words they look for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.doubles.cognee_state import Chunk, Dataset, Row, Store, User
from tests.doubles.cognee_wire import (
    SEARCH_TYPES,
    SEARCHES_IN_WORDS,
    ApiError,
    Invalid,
    PlainError,
    denied,
    missing,
    no_dataset_named,
    no_memory_in,
    uuid_of,
)

NEEDS_A_MODEL = ApiError(422, "LLMAPIKeyNotSetError", "LLM API key is not set.")
WARMING_UP = {
    "source": "system",
    "status": "memory_warming_up",
    "text": "Memory is still warming up: no knowledge graph data exists yet for the requested datasets.",
    "datapoint_count": 0,
    "threshold": 1,
    "error_class": None,
    "error_message": None,
}


def either(body: dict[str, Any], camel: str, snake: str, default: Any = None) -> Any:
    """Requests may spell a field both ways."""
    return body.get(camel, body.get(snake, default))


class Question:
    """A search request, checked in the order in which the service checks."""

    def __init__(self, store: Store, user: User, body: Any) -> None:
        if not isinstance(body, dict) or "query" not in body:
            raise Invalid(missing("body", "query", given=body), body=body)
        self.kind = either(body, "searchType", "search_type", "HYBRID_COMPLETION")
        if self.kind not in SEARCH_TYPES:
            found = {
                "type": "enum",
                "loc": ["body", "searchType"],
                "msg": f"Input should be {SEARCHES_IN_WORDS}",
            }
            raise Invalid(found | {"input": self.kind, "ctx": {"expected": SEARCHES_IN_WORDS}}, body=body)
        self.query: str = body["query"]
        self.top: int = either(body, "topK", "top_k", 15)
        ids = [
            uuid_of(item, "body", "datasetIds", body=body)
            for item in either(body, "datasetIds", "dataset_ids") or []
        ]
        self.datasets = _asked_for(store, user, ids, body.get("datasets") or [])

    def check(self) -> None:
        """What comes to light only when the search is under way."""
        if self.top <= 0:
            raise ApiError(422, "QueryValidationError", "top_k must be a positive integer.")
        if self.kind not in {"CHUNKS", "CHUNKS_LEXICAL"}:
            raise NEEDS_A_MODEL


def _asked_for(store: Store, user: User, ids: Sequence[str], names: Sequence[str]) -> list[Dataset]:
    mine = [
        dataset
        for dataset in store.datasets.values()
        if dataset.owner == user.id or user.id in dataset.shared_with
    ]
    if ids:
        found = [dataset for dataset in mine if dataset.id in ids]
        if len(found) != len(ids):
            raise denied("read")
        return found
    if names:
        found = [dataset for dataset in mine if dataset.name in names and dataset.owner == user.id]
        if not found:
            raise no_dataset_named(list(names), told=store.behaviour.typed_errors)
        return found
    return mine


def search(store: Store, user: User, body: Any) -> list[dict[str, Any]]:
    """A flat list in single-user mode; with tenants, an entry a dataset."""
    question = Question(store, user, body)
    question.check()
    if not question.query:
        raise PlainError(500, "Internal server error", "query_vector can not be None")
    if not store.multi_tenant:
        return [_chunk(store, question, *hit) for hit in _shared_store(store, question)]
    return [
        {
            "dataset_id": dataset.id,
            "dataset_name": dataset.name,
            "dataset_tenant_id": None,
            "search_result": [_chunk(store, question, *hit) for hit in hits],
        }
        | ({"error": error} if error else {})
        for dataset, hits, error in _own_stores(store, question)
    ]


def recall(store: Store, user: User, body: Any) -> list[dict[str, Any]]:
    """One shape in both modes."""
    question = Question(store, user, body)
    question.check()
    if not question.query:
        scopes = "['all', 'auto', 'code', 'graph', 'graph_context', 'session', 'session_context', 'session_first', "
        scopes += "'tools', 'trace']."
        raise PlainError(
            422, f"Invalid recall request. If a scope was given, valid values are: {scopes}", bare=True
        )
    if store.behaviour.typed_errors and not any(dataset.ran for dataset in question.datasets):
        return [WARMING_UP]
    if not store.multi_tenant:
        # One store for all: whatever it finds is labelled with the one dataset that was asked for.
        (only,) = question.datasets if len(question.datasets) == 1 else (None,)
        return [_entry(store, question, only, *hit) for hit in _shared_store(store, question)]
    return [
        _entry(store, question, dataset, *hit)
        for dataset, hits, _ in _own_stores(store, question)
        for hit in hits
    ]


def _shared_store(store: Store, question: Question) -> list[tuple[Row, Chunk, float]]:
    """All that anyone has, whichever datasets were asked for; `top` cuts before a caller can choose."""
    if not store.cognified:
        if not question.datasets:
            return []
        asked = question.datasets[0]
        why, named = "No data found in the system, please add data first.", store.behaviour.typed_errors
        raise no_memory_in(asked.name, asked.id, why, named=named)
    return store.nearest(list(store.datasets.values()), question.query, question.top)


def _own_stores(
    store: Store, question: Question
) -> list[tuple[Dataset, list[tuple[Row, Chunk, float]], str | None]]:
    found: list[tuple[Dataset, list[tuple[Row, Chunk, float]], str | None]] = []
    for dataset in question.datasets:
        if dataset.cognified:
            found.append((dataset, store.nearest([dataset], question.query, question.top), None))
            continue
        why = "no data has been added; add data and run cognify before searching."
        if dataset.rows:
            why = (
                f"holds {len(dataset.rows)} data item(s) but its knowledge graph is empty; "
                "run cognify on this dataset before searching."
            )
        found.append((dataset, [], why))
    if found and all(error for _, _, error in found):
        dataset, _, error = found[0]
        if len(found) == 1:
            raise no_memory_in(dataset.name, dataset.id, str(error), named=True)
        lines = "\n".join(f"- '{dataset.name}' (id: {dataset.id}): {error}" for dataset, _, error in found)
        message = f"No searchable memory in any of the {len(found)} searched datasets:\n{lines}"
        raise ApiError(404, "NoDataError", message)
    return found


def _chunk(store: Store, question: Question, row: Row, chunk: Chunk, score: float) -> dict[str, Any]:
    at = int(row.updated.timestamp() * 1000)
    shown: dict[str, Any] = {
        "id": chunk.id,
        "created_at": at,
        "updated_at": at,
        "ontology_valid": False,
        "ontology_uri": None,
        "version": 1,
        "topological_rank": 0,
        "type": "IndexSchema",
        "belongs_to_set": [],
        "source_pipeline": None,
        "source_task": None,
        "source_node_set": None,
        "source_user": None,
        "source_content_hash": None,
        "feedback_weight": 0.5,
        "importance_weight": 0.5,
        "text": chunk.text,
        "document_id": row.id,
        "document_name": row.name,
        "chunk_index": chunk.index,
        "source_chunk_id": None,
        "external_metadata": json.dumps(row.metadata),
    }
    if question.kind == "CHUNKS_LEXICAL":
        shown["type"] = "DocumentChunk"
    elif store.behaviour.scores:
        shown["score"] = score
    return shown


def _entry(
    store: Store, question: Question, dataset: Dataset | None, row: Row, chunk: Chunk, score: float
) -> dict[str, Any]:
    raw = _chunk(store, question, row, chunk, score)
    return {
        "kind": "chunk",
        "search_type": question.kind,
        "text": chunk.text,
        "system_prompt": None,
        "score": raw.get("score"),
        "dataset_id": dataset.id if dataset else None,
        "dataset_name": dataset.name if dataset else None,
        "metadata": {
            "data_id": row.id,
            "chunk_id": chunk.id,
            "chunk_index": chunk.index,
            "document_name": row.name,
        },
        "raw": raw,
        "structured": None,
        "source": "graph",
    }
