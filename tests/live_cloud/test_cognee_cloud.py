"""The claims about Cognee's cloud that docs/unverified.md lists, settled in a dataset of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest


class Dataset:
    """A dataset that nobody else has."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self.name = f"kf-keyfold-live-{uuid4().hex}"
        self.id = ""

    def add(self, name: str, text: str, label: str) -> str:
        form = {
            "datasetName": self.name,
            "labels": json.dumps([label]),
            "external_metadata": json.dumps([{"kf": label}]),
        }
        files = {"data": (name, text.encode(), "application/json")}
        answer = self.client.post("/api/v1/add", data=form, files=files)
        assert answer.status_code == 200, answer.text
        said = answer.json()
        self.id = said["dataset_id"]
        return str(said["data_ingestion_info"][0]["data_id"])

    def rows(self) -> list[dict[str, Any]]:
        answer = self.client.get(f"/api/v1/datasets/{self.id}/data", params={"limit": 1000})
        assert answer.status_code == 200, answer.text
        return list(answer.json())

    def updated(self, row: str, name: str, text: str) -> httpx2.Response:
        asked = {"data_id": row, "dataset_id": self.id}
        files = {"data": (name, text.encode(), "application/json")}
        return self.client.patch("/api/v1/update", params=asked, files=files)


@pytest.fixture
def dataset(cognee_cloud: httpx2.Client) -> Iterator[Dataset]:
    one = Dataset(cognee_cloud)
    yield one
    if one.id:
        cognee_cloud.delete(f"/api/v1/datasets/{one.id}")


def test_labels_and_metadata_of_an_add_are_listed(dataset: Dataset) -> None:
    row = dataset.add("kf.a.json", '{"a":1}', "one")
    [listed] = [item for item in dataset.rows() if item["id"] == row]
    assert listed["label"] == "one"
    assert listed["externalMetadata"]["kf"] == "one"


def test_the_same_bytes_under_another_name_are_the_old_row(dataset: Dataset) -> None:
    first = dataset.add("kf.a.json", '{"a":1}', "one")
    assert dataset.add("kf.b.json", '{"a":1}', "two") == first
    assert len(dataset.rows()) == 1


def test_changed_bytes_under_one_name_are_a_second_row(dataset: Dataset) -> None:
    first = dataset.add("kf.a.json", '{"a":1}', "one")
    assert dataset.add("kf.a.json", '{"a":2}', "two") != first


def test_an_update_in_place_is_told_by_its_status_and_what_it_leaves(dataset: Dataset) -> None:
    """Keyfold never asks for one; what becomes of label and metadata is reported."""
    row = dataset.add("kf.a.json", '{"a":1}', "one")
    answer = dataset.updated(row, "kf.a.json", '{"a":2}')
    left = [(item["id"] == row, item.get("label"), item.get("externalMetadata")) for item in dataset.rows()]
    print(f"PATCH answered {answer.status_code} and left {left}")
    assert answer.status_code < 600
    assert left
