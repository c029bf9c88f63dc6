"""Each account answers as the hosted service does, before any claim about it is looked at."""

from __future__ import annotations

from uuid import uuid4

import httpx2


def test_mem0_knows_the_key(mem0_cloud: httpx2.Client) -> None:
    answer = mem0_cloud.get("/v1/ping/")
    assert (answer.status_code, answer.json()["status"]) == (200, "ok"), answer.text


def test_supermemory_lists_nothing_under_a_tag_that_nobody_used(supermemory_cloud: httpx2.Client) -> None:
    body = {"containerTags": [f"keyfold-{uuid4().hex}"], "limit": 1, "page": 1}
    answer = supermemory_cloud.post("/v4/memories/list", json=body)
    assert (answer.status_code, answer.json()["memoryEntries"]) == (200, []), answer.text


def test_cognee_lists_its_datasets(cognee_cloud: httpx2.Client) -> None:
    answer = cognee_cloud.get("/api/v1/datasets")
    assert (answer.status_code, type(answer.json())) == (200, list), answer.text
