"""The tests of `make live-cloud` for Mem0, tried on the double: they can pass, and each fails where its claim is false."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from tests.live_cloud import test_mem0_platform as claims
from tests.remote.common import KEY, MEM0_PLATFORM

TESTS = [test for name, test in vars(claims).items() if name.startswith("test_")]


@pytest.fixture
def double(running: Callable[[Any], Any]) -> Any:
    return running(MEM0_PLATFORM.double())


@pytest.fixture
def client(double: Any) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=double.url, headers={"authorization": f"Token {KEY}"}) as one:
        yield one


def tried(test: Callable[..., None], client: httpx2.Client) -> dict[str, Any]:
    """Run a test; what it reported."""
    reported: dict[str, Any] = {}
    given: dict[str, Any] = {"scope": claims.Scope(client), "record_property": reported.__setitem__}
    test(**{name: given[name] for name in inspect.signature(test).parameters})
    return reported


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_a_claim_holds_of_the_double(test: Callable[..., None], client: httpx2.Client) -> None:
    tried(test, client)


def test_what_keyfold_only_avoids_is_reported_either_way(double: Any, client: httpx2.Client) -> None:
    told = {}
    for knobs in (False, True):
        double.null_scoping = double.drop_repeats = double.merge_metadata = knobs
        for test in TESTS:
            for name, value in tried(test, client).items():
                told.setdefault(name, []).append(value)
    assert told["an id that is not named"] == ["is any", "is null"]
    assert told["an exact repeat in one scope"] == ["is kept", "is dropped"]
    assert told["metadata on an update"] == ["is replaced", "is merged"]


@pytest.mark.parametrize(
    ("knob", "value", "test"),
    [
        ("count_off", 1, claims.test_the_count_of_a_list_is_that_of_its_scope_and_pages_lead_on),
        ("ignore_filters", True, claims.test_one_run_is_found_among_many_and_only_that),
        ("ignore_filters", True, claims.test_the_same_text_in_two_runs_is_two_memories),
    ],
)
def test_a_claim_that_is_false_fails(
    knob: str, value: Any, test: Callable[..., None], double: Any, client: httpx2.Client
) -> None:
    setattr(double, knob, value)
    with pytest.raises(AssertionError):
        tried(test, client)
