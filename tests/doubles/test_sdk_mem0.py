"""The official client, `mem0ai` 2.2.1, works against the double of the platform."""

from __future__ import annotations

import asyncio
import importlib.util
import uuid
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import pytest

from tests.doubles.mem0_platform import Mem0Platform

# Not importorskip: the import looks for a home of its own and reports to its makers, which is turned off first.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("mem0") is None, reason="mem0ai is absent")

ALEX = {"user_id": "alex"}


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("MEM0_TELEMETRY", "False")
        patch.setenv("MEM0_DIR", str(tmp_path_factory.mktemp("mem0")))
        yield importlib.import_module("mem0")


@pytest.fixture
def double(running: Callable[[Mem0Platform], Mem0Platform]) -> Mem0Platform:
    return running(Mem0Platform(key="m0-k"))


@pytest.fixture
def client(sdk: Any, double: Mem0Platform) -> Iterator[Any]:
    client = sdk.MemoryClient(api_key="m0-k", host=double.url)
    yield client
    client.client.close()


def add(client: Any, text: str = "likes green tea", **fields: Any) -> str:
    answer = client.add(text, infer=False, **({"user_id": "alex"} | fields))
    return str(answer["results"][0]["id"])


def test_it_is_the_version_that_speaks_these_routes(sdk: Any) -> None:
    assert metadata.version("mem0ai") == "2.2.1"


def test_it_signs_in_with_a_token_and_says_who_it_is(client: Any, double: Mem0Platform) -> None:
    (seen,) = double.seen
    assert (seen.method, seen.path) == ("GET", "/v1/ping/")
    assert seen.headers["authorization"] == "Token m0-k"
    assert len(seen.headers["mem0-user-id"]) == 32
    assert (client.org_id, client.project_id) == ("org-1", "proj-1")


def test_a_wrong_key_is_told_in_the_platform_s_words(sdk: Any, double: Mem0Platform) -> None:
    import httpx  # its own; passed in, because a client that could not sign in leaves its connection open

    with httpx.Client() as own, pytest.raises(ValueError, match="Invalid API key"):
        sdk.MemoryClient(api_key="m0-other", host=double.url, client=own)


def test_it_adds_verbatim_reads_changes_and_deletes(client: Any) -> None:
    one = add(client, run_id="r", metadata={"k": "v"})
    held = client.get(one)
    assert (held["memory"], held["session_id"], held["metadata"]) == ("likes green tea", "r", {"k": "v"})
    assert client.update(one, text="likes coffee", metadata={"k": "w"})["memory"] == "likes coffee"
    assert [entry["event"] for entry in client.history(one)] == ["ADD", "UPDATE"]
    assert client.delete(one) == {"message": "Memory deleted successfully!"}


def test_it_queues_what_a_model_is_to_read(client: Any, double: Mem0Platform) -> None:
    answer = client.add([{"role": "user", "content": "I like tea"}], user_id="alex")
    assert answer["status"] == "PENDING"
    assert len(double.inferred) == 1


def test_it_reads_a_list_page_by_page(client: Any) -> None:
    ids = {add(client, f"fact {n}", run_id=str(n)) for n in range(5)}
    first = client.get_all(filters=ALEX, page=1, page_size=3)
    second = client.get_all(filters=ALEX, page=2, page_size=3)
    assert (first["count"], second["next"]) == (5, None)
    assert {item["id"] for item in first["results"] + second["results"]} == ids
    (one,) = client.get_all(filters={"AND": [ALEX, {"run_id": "3"}]})["results"]
    assert one["memory"] == "fact 3"


def test_it_searches_with_filters(client: Any) -> None:
    add(client, metadata={"k": "a"})
    add(client, "likes black tea", metadata={"k": "b"})
    filters = {"AND": [ALEX, {"metadata": {"k": "b"}}]}
    (item,) = client.search("tea", filters=filters, top_k=5, threshold=0.1)["results"]
    assert item["memory"] == "likes black tea"
    assert 0 < item["score"] <= 1


def test_it_changes_and_deletes_in_batches_and_by_scope(client: Any, double: Mem0Platform) -> None:
    one, two, _ = add(client, "a"), add(client, "b"), add(client, "c", user_id="sam")
    client.batch_update([{"memory_id": one, "text": "A"}, {"memory_id": two, "metadata": {"k": 1}}])
    assert [item["memory"] for item in double.items()] == ["A", "b", "c"]
    assert client.batch_delete([{"memory_id": one}])["message"] == "Successfully deleted 1 memories"
    assert "event_id" in client.delete_all(user_id="alex")
    assert [item["memory"] for item in double.items()] == ["c"]


def test_it_lists_and_deletes_entities(client: Any, double: Mem0Platform) -> None:
    add(client, user_id="team:acme/alex")
    assert [entity["name"] for entity in client.users()["results"]] == ["team:acme/alex"]
    client.delete_users(user_id="no one")
    assert len(double.items()) == 1


@pytest.mark.parametrize("name", ["alex", "a b", "a%2Fb", "*"])
def test_it_deletes_an_entity_by_any_name_without_a_slash(
    client: Any, double: Mem0Platform, name: str
) -> None:
    double.seed("t", user_id=name)
    client.delete_users(user_id=name)
    assert double.items() == []


def test_it_sorts_errors_by_their_codes(sdk: Any, client: Any, double: Mem0Platform) -> None:
    from mem0 import exceptions

    with pytest.raises(exceptions.ValidationError):
        client.get_all(filters={"k": "v"})
    with pytest.raises(exceptions.MemoryNotFoundError):
        client.get(str(uuid.uuid4()))
    double.faults.add("rate_limit", after=7)
    with pytest.raises(exceptions.RateLimitError) as limited:
        client.search("tea", filters=ALEX)
    assert limited.value.debug_info["retry_after"] == 7
    double.faults.add("apply_then_status")
    with pytest.raises(exceptions.NetworkError):
        add(client)
    assert len(double.items()) == 1


def test_its_asynchronous_twin_works_too(sdk: Any, double: Mem0Platform) -> None:
    async def run() -> Any:
        async with sdk.AsyncMemoryClient(api_key="m0-k", host=double.url) as client:
            await client.add("likes tea", user_id="alex", infer=False)
            return await client.search("tea", filters=ALEX)

    assert [item["memory"] for item in asyncio.run(run())["results"]] == ["likes tea"]
