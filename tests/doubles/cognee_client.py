"""The few requests that the tests of the Cognee double send over and over."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.doubles.cognee import CogneeDouble

NOBODY = str(uuid.UUID(int=7))
Make = Callable[..., tuple[CogneeDouble, "Caller"]]


class Caller:
    """Speaks to one dataset of a double, and hands out answers as they came."""

    def __init__(self, url: str, name: str = "notes", **headers: str) -> None:
        self.http = httpx2.Client(base_url=f"{url}/api/v1", timeout=20, headers=headers)
        answer = self.http.post("/datasets", json={"name": name})
        self.dataset: str = answer.json().get("id", NOBODY) if answer.status_code == 200 else NOBODY
        self.data = f"/datasets/{self.dataset}/data"
        self.others: list[Caller] = []

    def beside(self, name: str = "notes", **headers: str) -> Caller:
        """Another caller of the same server, closed with this one."""
        url = str(self.http.base_url).removesuffix("/").removesuffix("/api/v1")
        self.others.append(Caller(url, name, **headers))
        return self.others[-1]

    def close(self) -> None:
        for caller in [self, *self.others]:
            caller.http.close()

    def add(self, *files: tuple[str, bytes], **form: Any) -> httpx2.Response:
        """Adds the files; a list in the form goes as the JSON of one field."""
        fields = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in form.items()
        }
        parts = [("data", (name, content, "application/json")) for name, content in files]
        return self.http.post("/add", data={"datasetId": self.dataset} | fields, files=parts)

    def added(self, *files: tuple[str, bytes], **form: Any) -> list[str]:
        """The ids that an add answered with."""
        answer = self.add(*files, **form)
        assert answer.status_code == 200, answer.text
        return [entry["data_id"] for entry in answer.json()["data_ingestion_info"]]

    def rows(self, **query: Any) -> list[dict[str, Any]]:
        answer = self.http.get(self.data, params=query)
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()
        return rows

    def raw(self, data_id: str) -> bytes:
        answer = self.http.get(f"{self.data}/{data_id}/raw")
        assert answer.status_code == 200, answer.text
        return answer.content

    def patch(self, data_id: str, *files: tuple[str, bytes], dataset: str = "") -> httpx2.Response:
        query = {"data_id": data_id, "dataset_id": dataset or self.dataset}
        return self.http.patch("/update", params=query, files=[("data", file) for file in files])

    def cognify(self) -> None:
        assert self.http.post("/cognify", json={"datasetIds": [self.dataset]}).status_code == 200

    def ask(self, where: str, query: str = "feline", **more: Any) -> httpx2.Response:
        body = {"searchType": "CHUNKS", "query": query, "datasetIds": [self.dataset]} | more
        return self.http.post(f"/{where}", json=body)


@contextmanager
def makers(running: Callable[[CogneeDouble], CogneeDouble]) -> Iterator[Make]:
    """Makes running doubles, each with a caller who has its key."""
    callers: list[Caller] = []

    def make(version: str = "1.6.5", **how: bool) -> tuple[CogneeDouble, Caller]:
        double = running(CogneeDouble(version, **how))
        callers.append(Caller(double.url, **{"X-Api-Key": double.key}))
        return double, callers[-1]

    yield make
    for caller in callers:
        caller.close()
