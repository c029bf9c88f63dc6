"""The claims about Supermemory's cloud that docs/unverified.md lists, settled in a container of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest


class Container:
    """A container tag that nobody else has."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self.tag = f"kf:keyfold-live-{uuid4().hex}"
        self.documents: list[str] = []

    def told(self, method: str, path: str, body: Any) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def add(self, text: str, **metadata: Any) -> str:
        body = {"containerTag": self.tag, "memories": [{"content": text, "metadata": metadata}]}
        return str(self.told("POST", "/v4/memories", body)["memories"][0]["id"])

    def listed(self) -> list[dict[str, Any]]:
        body = {"containerTags": [self.tag], "limit": 200, "page": 1}
        return list(self.told("POST", "/v4/memories/list", body)["memoryEntries"])


@pytest.fixture
def container(supermemory_cloud: httpx2.Client) -> Iterator[Container]:
    one = Container(supermemory_cloud)
    yield one
    for entry in one.listed():
        body = {"id": entry["id"], "containerTag": one.tag}
        supermemory_cloud.request("DELETE", "/v4/memories", json=body)
    for document in one.documents:
        supermemory_cloud.delete(f"/v3/documents/{document}")


def test_a_memory_is_listed_at_once_and_word_for_word(container: Container) -> None:
    text = "  Two  spaces, a tab\tand an é 🗝: kept as they are.  "
    made = container.add(text, kf_key="a")
    [entry] = container.listed()
    assert (entry["id"], entry["memory"]) == (made, text)
    assert entry["metadata"]["kf_key"] == "a"


def test_a_rewrite_is_a_new_version_and_the_old_one_is_not_the_latest(container: Container) -> None:
    made = container.add("one", kf_key="a")
    body = {"id": made, "containerTag": container.tag, "newContent": "two"}
    again = container.told("PATCH", "/v4/memories", body)
    assert again["id"] != made
    latest = [entry["memory"] for entry in container.listed() if entry.get("isLatest", True)]
    assert latest == ["two"]
    print(f"the list shows {len(container.listed())} entries of one memory with two versions")


def test_a_search_narrowed_by_metadata_finds_the_memory_at_once(container: Container) -> None:
    container.add("apples", kf_key="a")
    container.add("pears", kf_key="b")
    body = {
        "q": "fruit",
        "containerTag": container.tag,
        "threshold": 0,
        "filters": {"AND": [{"key": "kf_key", "value": "b", "filterType": "metadata"}]},
    }
    results = container.told("POST", "/v4/search", body)["results"]
    assert [item["memory"] for item in results] == ["pears"]


def test_a_document_answers_with_its_content_before_it_is_done(container: Container) -> None:
    """Keyfold stores memories, not documents, for this very doubt; which it is, is reported."""
    body = {"content": "a text", "containerTag": container.tag, "customId": f"kf-{uuid4().hex}"}
    made = str(container.told("POST", "/v3/documents", body)["id"])
    container.documents.append(made)
    said = container.told("GET", f"/v3/documents/{made}", None)
    print(f"status {said['status']}, content {'there' if said.get('content') == 'a text' else 'not there'}")
    assert said["id"] == made
