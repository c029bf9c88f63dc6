"""Accounts of the hosted services, for claims that only they can settle; `make live-cloud` with a key each.

A test whose key is missing is skipped and names the variable. Nothing is written outside a scope of the test's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx2
import pytest


def account(service: str, variable: str, url: str, scheme: str) -> httpx2.Client:
    """A client with the account's key; skips when there is none."""
    key = os.environ.get(variable)
    if not key:
        pytest.skip(f"no account of {service}: set {variable}")
    name, _, prefix = scheme.partition(":")
    return httpx2.Client(base_url=url, headers={name: f"{prefix}{key}"}, timeout=60)


@pytest.fixture
def mem0_cloud() -> Iterator[httpx2.Client]:
    with account("Mem0", "KEYFOLD_CLOUD_MEM0_KEY", "https://api.mem0.ai", "Authorization:Token ") as client:
        yield client


@pytest.fixture
def supermemory_cloud() -> Iterator[httpx2.Client]:
    url = "https://api.supermemory.ai"
    with account("Supermemory", "KEYFOLD_CLOUD_SUPERMEMORY_KEY", url, "Authorization:Bearer ") as client:
        yield client


@pytest.fixture
def cognee_cloud() -> Iterator[httpx2.Client]:
    """Each tenant of Cognee's cloud has a host of its own: it goes into KEYFOLD_CLOUD_COGNEE_URL."""
    url = os.environ.get("KEYFOLD_CLOUD_COGNEE_URL", "")
    if not url:
        pytest.skip("no account of Cognee: set KEYFOLD_CLOUD_COGNEE_URL and KEYFOLD_CLOUD_COGNEE_KEY")
    with account("Cognee", "KEYFOLD_CLOUD_COGNEE_KEY", url, "X-Api-Key:") as client:
        yield client
