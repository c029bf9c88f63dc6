"""What is particular to the reference engine; all that engines share is in the conformance suite."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold.contract.intents import Intent, Load, Query, Ref
from keyfold.contract.protocols import Engine
from keyfold.contract.reach import above, within
from keyfold.contract.ulid import ulid
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.model import Config

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def intent(key: str | None, content: str = "text", **fields: Any) -> Intent:
    given = {"type": "decision", "title": "Title", "normalized_hash": content, **fields}
    return Intent("alice", key=key, content=content, **given)


def test_it_is_an_engine() -> None:
    assert isinstance(InMemoryEngine(), Engine)


def test_ids_are_decimals_from_one_and_order_as_numbers() -> None:
    engine = InMemoryEngine(clock=lambda: NOON)
    ids = [engine.store(intent(f"k{number}")).id for number in range(12)]
    assert ids == [str(number) for number in range(1, 13)]
    listed = engine.page(Query("alice", order="oldest", limit=100)).items
    assert [record.id for record in listed] == ids


def test_the_clock_is_the_one_given_or_that_of_the_configuration() -> None:
    for engine in (InMemoryEngine(clock=lambda: NOON), InMemoryEngine(Config(clock=lambda: NOON))):
        engine.store(intent("k"))
        record = engine.get(Ref("alice", key="k"))
        assert record is not None
        assert record.created_at == NOON


def test_an_unkeyed_record_gets_a_ulid_of_its_time() -> None:
    engine = InMemoryEngine(clock=lambda: NOON)
    engine.store(intent(None))
    (record,) = engine.page(Query("alice")).items
    assert record.minted
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{26}", record.key)
    assert record.key[:10] == ulid(1_767_268_800_000_000, bytes(10))[:10]


def test_a_ulid_is_that_of_the_specification() -> None:
    assert ulid(1_469_918_176_385_000, bytes(10)) == "01ARYZ6S410000000000000000"
    assert ulid(((1 << 48) - 1) * 1000, b"\xff" * 10) == "7" + "Z" * 25


def test_metadata_comes_back_as_json_would_give_it() -> None:
    engine = InMemoryEngine()
    engine.store(intent("k", metadata={"pair": (1, 2)}))
    record = engine.get(Ref("alice", key="k"))
    assert record is not None
    assert record.metadata == {"pair": [1, 2]}


def test_a_store_that_keeps_one_state_keeps_no_past() -> None:
    engine = InMemoryEngine(Config(keep_revisions=1))
    for content in ("one", "two", "three"):
        engine.store(intent("k", content))
    assert [state.content for state in engine.history(Ref("alice", key="k")).revisions] == ["three"]


def test_an_import_of_more_states_than_are_kept_keeps_the_newest() -> None:
    full = InMemoryEngine()
    for content in ("one", "two", "three"):
        full.store(intent("k", content))
    record = full.get(Ref("alice", key="k"))
    assert record is not None
    past = full.history(Ref("alice", key="k")).revisions[:0:-1]
    engine = InMemoryEngine(Config(keep_revisions=2))
    load = Load(record.created_at, record.updated_at, past, record.revision_count)
    engine.store(intent("k", "three", mode="load", load=load))
    assert [state.content for state in engine.history(Ref("alice", key="k")).revisions] == ["three", "two"]


def test_many_threads_lose_nothing() -> None:
    engine = InMemoryEngine()

    def work(name: int) -> None:
        for number in range(50):
            engine.store(intent(f"{name} {number}"))
            engine.store(intent("shared", f"{name} {number}"))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.count("alice").total == 201
    shared = engine.history(Ref("alice", key="shared"))
    assert [state.revision for state in shared.revisions] == list(range(200, 0, -1))


@pytest.mark.parametrize(
    ("candidate", "namespace", "reach", "expected"),
    [
        ("a", "a", "exact", True),
        ("a/b", "a", "exact", False),
        ("a", "a/b/c", "inherit", True),
        ("a/b/c", "a", "inherit", False),
        ("a/bc", "a/b", "subtree", False),
        ("a/b/c", "a/b", "subtree", True),
        ("ab", "a", "subtree", False),
        ("", "/a", "inherit", False),
        ("a/", "a//b", "inherit", True),
    ],
)
def test_reach_goes_by_segments(candidate: str, namespace: str, reach: Any, expected: bool) -> None:
    assert within(candidate, namespace, reach) is expected


def test_the_namespaces_above_come_outermost_first() -> None:
    assert above("a/b/c") == ("a", "a/b")
    assert above("/a") == ()
    assert above("a") == ()
