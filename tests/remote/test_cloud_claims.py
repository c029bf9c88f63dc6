"""The tests that an account settles claims with run on the doubles, so that they are right when an account comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.doubles.cognee import CogneeDouble
from tests.doubles.supermemory import Supermemory
from tests.live_cloud import test_cognee_cloud as cognee
from tests.live_cloud import test_supermemory_cloud as supermemory

Running = Callable[[Any], Any]


def claims(module: Any) -> list[Any]:
    return [getattr(module, name) for name in vars(module) if name.startswith("test_")]


@pytest.fixture
def dataset(running: Running) -> Iterator[cognee.Dataset]:
    double = running(CogneeDouble(key="k", multi_tenant=True))
    with httpx2.Client(base_url=double.url, headers={"X-Api-Key": "k"}, verify=False) as client:
        yield cognee.Dataset(client)


@pytest.fixture
def container(running: Running) -> Iterator[supermemory.Container]:
    double = running(Supermemory(key="k"))
    with httpx2.Client(base_url=double.url, headers={"Authorization": "Bearer k"}, verify=False) as client:
        yield supermemory.Container(client)


@pytest.mark.parametrize("claim", claims(cognee), ids=lambda claim: claim.__name__)
def test_a_claim_about_cognee_is_settled_as_on_the_double(claim: Any, dataset: cognee.Dataset) -> None:
    claim(dataset)


@pytest.mark.parametrize("claim", claims(supermemory), ids=lambda claim: claim.__name__)
def test_a_claim_about_supermemory_is_settled_as_on_the_double(
    claim: Any, container: supermemory.Container
) -> None:
    claim(container)


def test_a_cloud_that_drops_labels_fails_its_claim(
    dataset: cognee.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dataset.rows
    monkeypatch.setattr(dataset, "rows", lambda: [{**row, "label": None} for row in rows()])
    with pytest.raises(AssertionError):
        cognee.test_labels_and_metadata_of_an_add_are_listed(dataset)
