"""A client of the double of Supermemory, with the calls that its tests make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.doubles.supermemory import Supermemory

TAG = "user:alex"


class Service:
    """A double and a client of it, with the calls that the tests make."""

    def __init__(self, double: Supermemory, client: httpx2.Client) -> None:
        self.double, self.client = double, client

    def call(self, method: str, path: str, **body: Any) -> httpx2.Response:
        return self.client.request(method, path, json=body)

    def ok(self, method: str, path: str, **body: Any) -> Any:
        answer = self.call(method, path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def add(self, *contents: str, tag: str = TAG, **fields: Any) -> list[str]:
        memories = [{"content": content} | fields for content in contents]
        answer = self.ok("POST", "/v4/memories", memories=memories, containerTag=tag)
        return [memory["id"] for memory in answer["memories"]]

    def patch(self, id: str, text: str, **fields: Any) -> Any:
        return self.ok("PATCH", "/v4/memories", id=id, newContent=text, containerTag=TAG, **fields)

    def forget(self, id: str) -> httpx2.Response:
        return self.call("DELETE", "/v4/memories", id=id, containerTag=TAG)

    def rows(self, *, tag: str = TAG, **how: Any) -> list[dict[str, Any]]:
        how = {"limit": 200, "order": "asc"} | how
        rows: list[dict[str, Any]] = self.ok("POST", "/v4/memories/list", containerTags=[tag], **how)[
            "memoryEntries"
        ]
        return rows

    def find(self, query: str, **how: Any) -> list[str]:
        answer = self.ok("POST", "/v4/search", q=query, containerTag=TAG, **how)
        return [result["memory"] for result in answer["results"]]


@contextmanager
def reached(double: Supermemory) -> Iterator[Service]:
    headers = {"Authorization": f"Bearer {double.key}"}
    # verify: to load the authorities takes longer than most tests, and nothing here is encrypted.
    with httpx2.Client(base_url=double.url, headers=headers, timeout=10, verify=False) as client:
        yield Service(double, client)
