"""The official client works against the double, and finds in each answer what its models require.

This is the last version that speaks v3 and v4 (`supermemory` 5 speaks another API).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.doubles.supermemory import Supermemory

sdk: Any = pytest.importorskip("supermemory", reason="supermemory is absent")

TAG = "user:alex"


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory]) -> Supermemory:
    return running(Supermemory(key="sm_k"))


@pytest.fixture
def client(double: Supermemory) -> Iterator[Any]:
    # Strict: an answer that its models do not allow is an error, where it would be passed on as it is otherwise.
    strict = {"_strict_response_validation": True, "max_retries": 0}
    with sdk.Supermemory(api_key="sm_k", base_url=double.url, **strict) as client:
        yield client


def create(client: Any, *contents: str, **fields: Any) -> list[str]:
    """The client has no method for this route."""
    memories = [{"content": content} | fields for content in contents]
    answer = client.post("/v4/memories", body={"memories": memories, "containerTag": TAG}, cast_to=object)
    return [memory["id"] for memory in answer["memories"]]


def test_it_is_the_version_that_speaks_these_routes() -> None:
    assert sdk.__version__ == "3.62.0"


def test_it_rewrites_and_forgets_a_memory(client: Any) -> None:
    (first,) = create(client, "old", metadata={"k": "v"})
    updated = client.memories.update_memory(container_tag=TAG, id=first, new_content="new")
    assert updated.id != first
    assert (updated.memory, updated.version, updated.root_memory_id) == ("new", 2, first)
    assert (updated.metadata, updated.forget_after) == ({"k": "v"}, None)
    forgotten = client.memories.forget(container_tag=TAG, id=updated.id, reason="done")
    assert (forgotten.id, forgotten.forgotten) == (updated.id, True)
    with pytest.raises(sdk.NotFoundError):
        client.memories.forget(container_tag=TAG, content="new")


def test_it_searches_memories_with_filters(client: Any, double: Supermemory) -> None:
    create(client, "green tea", metadata={"team": "red", "size": 5})
    create(client, "black tea", metadata={"team": "blue"})
    filters = {"or_": [{"key": "team", "value": "red", "filter_type": "metadata", "negate": False}]}
    answer = client.search.memories(q="tea", container_tag=TAG, filters=filters, threshold=0.1, limit=5)
    assert (answer.total, answer.results[0].memory, answer.results[0].similarity) == (1, "green tea", 1)
    assert double.seen[-1].json()["filters"]["OR"][0]["filterType"] == "metadata"
    assert client.search.memories(q="tea", container_tag=TAG).total == 2


def test_it_reads_a_profile(client: Any) -> None:
    create(client, "born in Oslo", isStatic=True)
    create(client, "likes tea")
    answer = client.profile(container_tag=TAG, q="tea")
    assert (answer.profile.static, answer.profile.dynamic) == (["born in Oslo"], ["likes tea"])
    assert [result.memory for result in answer.search_results.results] == ["likes tea"]


def test_it_adds_reads_changes_and_deletes_a_document(client: Any) -> None:
    added = client.documents.add(content="old", container_tag=TAG, custom_id="c", metadata={"k": ["v"]})
    assert added.status == "queued"
    assert client.add(content="more", container_tag=TAG, custom_id="c").id == added.id
    held = client.documents.get("c")
    assert (held.id, held.content, held.metadata, held.status) == (
        added.id,
        "old\nmore",
        {"k": ["v"]},
        "done",
    )
    assert client.documents.update("c", content="new").id == added.id
    assert client.documents.get(added.id).content == "new"
    assert client.documents.delete("c") is None
    with pytest.raises(sdk.NotFoundError):
        client.documents.get("c")


def test_it_lists_batches_and_deletes_many_documents(client: Any) -> None:
    batch = client.documents.batch_add(documents=[{"content": "one"}, {"content": "two"}], container_tag=TAG)
    assert (batch.success, batch.failed) == (2, 0)
    assert client.documents.list_processing().total_count == 0  # this look finished them
    listed = client.documents.list(container_tags=[TAG], limit=1, page=2, include_content=True)
    assert (listed.pagination.total_items, listed.memories[0].content) == (2, "one")
    found = client.search.documents(q="two", container_tags=[TAG])
    assert [result.chunks[0].content for result in found.results] == ["two"]
    deleted = client.documents.delete_bulk(ids=[batch.results[0].id, "nobody"])
    assert (deleted.deleted_count, deleted.errors[0].id) == (1, "nobody")
    assert client.documents.delete_bulk(container_tags=[TAG]).deleted_count == 1


def test_it_shows_a_document_that_is_being_processed(client: Any, double: Supermemory) -> None:
    double.queued_polls = 2
    added = client.documents.add(content="text")
    (busy,) = client.documents.list_processing().documents
    assert (busy.id, busy.status) == (added.id, "queued")


@pytest.mark.parametrize("style", ["plain", "validator"])
def test_it_understands_both_kinds_of_error_body(client: Any, double: Supermemory, style: str) -> None:
    double.error_style = style
    with pytest.raises(sdk.BadRequestError):
        client.documents.add(content="x", container_tag="not/safe")


def test_it_knows_a_wrong_key_a_rate_limit_and_a_fault(client: Any, double: Supermemory) -> None:
    with pytest.raises(sdk.AuthenticationError):
        client.with_options(api_key="sm_other").documents.get("c")
    double.faults.add("rate_limit")
    with pytest.raises(sdk.RateLimitError):
        client.documents.get("c")
    double.faults.add("status")
    with pytest.raises(sdk.InternalServerError):
        client.documents.get("c")
    double.scope = {"other"}
    with pytest.raises(sdk.PermissionDeniedError):
        client.profile(container_tag=TAG)


@asynccontextmanager
async def asynchronous(double: Supermemory) -> AsyncIterator[Any]:
    strict = {"_strict_response_validation": True, "max_retries": 0}
    async with sdk.AsyncSupermemory(api_key="sm_k", base_url=double.url, **strict) as client:
        yield client


def test_its_asynchronous_twin_works_too(double: Supermemory) -> None:
    async def run() -> tuple[str, float]:
        async with asynchronous(double) as client:
            await client.documents.add(content="text", container_tag=TAG, custom_id="c")
            held = await client.documents.get("c")
            found = await client.search.memories(q="text", container_tag=TAG, search_mode="hybrid")
            return held.content, found.total

    assert asyncio.run(run()) == ("text", 1)
