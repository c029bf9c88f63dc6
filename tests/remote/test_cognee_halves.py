"""Half an answer of Cognee is an error: no record vanishes by it, and none is taken for somebody else's file."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from typing import Any

import pytest

from keyfold import Memory, StoreError
from tests.doubles.cognee import CogneeDouble
from tests.doubles.cognee_state import Dataset, Row
from tests.remote.common import COGNEE, COGNEE_UNPAGED, Service, put_cognee
from tests.remote.common import payload as record_of

LONG = "long text " * 400
HALF = "cannot be read whole|served something else|changed each of"

CALLS: dict[str, Callable[[Memory], Any]] = {
    "list": lambda memory: memory.mem_list("ana"),
    "search": lambda memory: memory.mem_search("ana", "text"),
    "history": lambda memory: memory.mem_history("ana", topic_key="k"),
    "delete": lambda memory: memory.mem_delete("ana", topic_key="k"),
    "save": lambda memory: memory.mem_save("ana", "new", type="decision", title="T", topic_key="k"),
    "update": lambda memory: memory.mem_update("ana", topic_key="k", title="Other"),
    "context": lambda memory: memory.mem_context("ana"),
    "export": lambda memory: memory.engine.everything(),  # type: ignore[attr-defined]
}


EDITED, UNTOLD = "corrected in place", "listed without its MD5"
READING = (
    "list",
    "history",
    "update",
    "context",
    "export",
)  # the others are served from the listing's metadata


@pytest.fixture(params=[COGNEE, COGNEE_UNPAGED], ids=lambda service: service.name)
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.param
    return found


@pytest.fixture
def double(service: Service, running: Callable[[Any], Any]) -> CogneeDouble:
    found: CogneeDouble = running(service.double())
    return found


@pytest.fixture
def memory(service: Service, double: CogneeDouble, remembering: Any, without_pauses: None) -> Memory:
    found: Memory = remembering(service, double)
    return found


def held(double: CogneeDouble) -> list[Row]:
    return list(double.dataset("kf-ana").rows.values())


def edited(row: Row, sent: bytes) -> None:
    """Put other bytes into a file in its place, as somebody's PATCH does."""
    row.text, row.md5, row.size = sent.replace(b"\r\n", b"\n").decode(), md5(sent).hexdigest(), len(sent)


def untold(double: CogneeDouble) -> None:
    """Let the listing not tell the MD5 of its files."""
    store: Any = double.store
    told = store.described

    def described(dataset: Dataset, row: Row) -> dict[str, Any]:
        return {**told(dataset, row), "rawDataLocation": f"s3://bucket/data/{row.id}"}

    store.described = described


def contents(memory: Memory) -> list[str]:
    return [found.content for found in memory.mem_list("ana").items]


@pytest.mark.parametrize("fault", ["truncate", "content_type", "empty", "404"])
@pytest.mark.parametrize(
    ("kind", "call"), [(EDITED, call) for call in CALLS] + [(UNTOLD, call) for call in READING]
)
def test_a_file_that_is_served_in_half_is_an_error_and_there_again_afterwards(
    kind: str, call: str, fault: str, double: CogneeDouble, memory: Memory
) -> None:
    text = LONG if kind == UNTOLD else "JWT, one houur."
    memory.mem_save("ana", text, type="decision", title="T", topic_key="k")
    [row] = held(double)
    if kind == EDITED:
        text = "JWT, one hour."
        edited(row, row.text.replace("houur", "hour").encode())
    else:
        untold(double)
    how: dict[str, Any] = {
        "empty": {"code": 200, "body": b"", "headers": {"content-type": "text/plain; charset=utf-8"}},
        "404": {"code": 404, "body": {"error": "Data not found [DataNotFoundError]"}},
    }.get(fault, {})
    double.faults.add("status" if how else fault, path="/raw", times=9, **how)
    with pytest.raises(StoreError, match=HALF):
        CALLS[call](memory)
    double.faults.clear()
    assert [found.id for found in held(double)] == [row.id]
    assert contents(memory) == [text]
    saved = memory.mem_save("ana", "rewritten", type="decision", title="T", topic_key="k")
    assert (saved.outcome, saved.revision_count) == ("updated", 2)
    assert memory.mem_delete("ana", topic_key="k").deleted == 1
    assert held(double) == []


def test_a_file_that_somebody_replaced_is_left_out_and_is_there_again_when_it_is_put_right(
    double: CogneeDouble, memory: Memory
) -> None:
    memory.mem_save("ana", LONG, type="decision", title="T", topic_key="k")
    [row] = held(double)
    whole = row.text.encode()
    assert memory.mem_list("ana").total == 1
    edited(row, b"somebody's own notes")
    assert contents(memory) == []
    edited(row, whole)
    assert contents(memory) == [LONG]


def test_a_file_that_was_put_right_with_other_line_ends_is_read(double: CogneeDouble, memory: Memory) -> None:
    memory.mem_save("ana", "JWT, one houur.", type="decision", title="T", topic_key="k")
    [row] = held(double)
    edited(row, row.text.replace("houur", "hour").encode() + b"\r\n")
    assert contents(memory) == ["JWT, one hour."]


def test_a_file_that_is_gone_when_it_is_read_is_no_error(
    service: Service, double: CogneeDouble, memory: Memory
) -> None:
    for key in ("a", "b"):
        put_cognee(double, record_of("ana", key, f"{key} {LONG}"))

    def forget() -> None:
        other = service.memory(double)
        other.mem_delete("ana", topic_key="a")
        other.close()

    double.faults.add("call_before", path="/raw", run=forget)
    assert [found.topic_key for found in memory.mem_list("ana").items] == ["b"]
