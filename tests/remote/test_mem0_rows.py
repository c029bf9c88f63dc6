"""Which row is the record: whatever Mem0 lists, drops or holds twice, no other record is touched and none is missed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import Query, Selector
from keyfold.dialects.payload import FIELD, header, wire_text
from keyfold.errors import StoreError
from keyfold.faces.planned import PlannedEngine
from keyfold.portability import export
from tests.remote.common import (
    MEM0_OSS,
    MEM0_PLATFORM,
    NAMES,
    Service,
    contents,
    intent,
    payload,
    put_mem0,
    ref,
)

Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]

BOTH = pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)


def texts(double: Any) -> list[str]:
    return sorted(item["memory"] for item in double.items())


def listed(engine: PlannedEngine, namespace: str) -> list[str]:
    return contents(engine.page(Query(namespace, limit=100_000)).items)


@BOTH
def test_a_service_that_ignores_every_filter_makes_no_call_touch_another_record(
    service: Service, running: Running, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    double = running(service.double())
    for namespace in ("other", "ours"):
        service.fill(double, namespace, 120)
    double.ignore_filters = True
    engine = opened(service, double)
    with caplog.at_level(logging.WARNING, "keyfold"):
        record = engine.get(ref("ours", "key/7"))
    assert record is not None
    assert (record.namespace, record.content) == ("ours", "content 7")
    assert "returned other records than it was asked for" in caplog.text
    behind = engine.get(ref("other", "key/0"))
    assert behind is not None, "the oldest row lies behind the first page of what came back"
    assert (behind.namespace, behind.content) == ("other", "content 0")
    assert engine.get(ref("ours", "absent")) is None
    assert engine.get(ref("nobody", "key/7")) is None
    assert engine.store(intent("ours", "key/7", "rewritten")).outcome == "updated"
    assert engine.store(intent("ours", "new", "new")).outcome == "created"
    assert engine.forget(Selector("ours", ref("ours", "key/8"))).deleted == 1
    assert engine.forget(Selector("ours", ref("ours", "nothing"))).deleted == 0
    with pytest.raises(StoreError, match=r"'nobody' and listed 2.* of other users"):
        engine.forget(Selector("nobody", everything=True))
    double.ignore_filters = False
    expected = [f"content {number}" for number in range(120)]
    assert listed(engine, "other") == sorted(expected)
    assert listed(engine, "ours") == sorted({*expected} - {"content 7", "content 8"} | {"rewritten", "new"})


@BOTH
def test_a_service_that_ignores_every_filter_still_counts_lists_and_searches_one_namespace(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    service.fill(double, "other", 30)
    service.fill(double, "ours", 20)
    double.ignore_filters = True
    engine = opened(service, double)
    assert listed(engine, "ours") == sorted(f"content {number}" for number in range(20))
    assert engine.count("ours").total == 20
    assert engine.namespaces() == ["other", "ours"]


@BOTH
def test_a_service_that_ignores_every_filter_hides_no_record_behind_more_than_it_lists(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    if service is MEM0_PLATFORM:  # it lists the newest first
        service.fill(double, "ours", 3)
    for _ in range(1100 if service is MEM0_OSS else 250):
        double.seed("another program's", user_id="bob")
    if service is MEM0_OSS:
        service.fill(double, "ours", 3)
    double.ignore_filters = True
    engine = opened(service, double)
    record = engine.get(ref("ours", "key/1"))
    assert record is not None
    assert record.content == "content 1"
    assert engine.get(ref("ours", "absent")) is None
    assert listed(engine, "ours") == ["content 0", "content 1", "content 2"]
    assert engine.count("ours").total == 3
    assert engine.store(intent("ours", "key/1", "content 1")).outcome == "deduped"
    assert engine.store(intent("ours", "key/1", "rewritten")).outcome == "updated"
    assert engine.forget(Selector("ours", ref("ours", "key/0"))).deleted == 1
    assert engine.forget(Selector("ours", everything=True)).deleted == 2
    assert set(texts(double)) == {"another program's"}


@BOTH
def test_a_record_deleted_behind_our_back_is_absent_and_can_be_saved_anew(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    engine = opened(service, double)
    engine.store(intent("ns", "k", "first"))
    engine.store(intent("ns", "k", "second"))
    [item] = double.items()
    remove(double, item["id"])
    assert engine.get(ref("ns", "k")) is None
    assert engine.forget(Selector("ns", ref("ns", "k"))).deleted == 0
    receipt = engine.store(intent("ns", "k", "third"))
    assert (receipt.outcome, receipt.revision_count) == ("created", 1)
    assert texts(double) == ["third"]


@BOTH
def test_a_record_deleted_between_the_look_and_the_write_is_written_all_the_same(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    engine = opened(service, double)
    engine.store(intent("ns", "k", "first"))
    [item] = double.items()
    double.faults.add("call_before", method="PUT", run=lambda: remove(double, item["id"]))
    assert engine.store(intent("ns", "k", "second")).outcome == "updated"
    assert texts(double) == ["second"]
    [item] = double.items()
    double.faults.add("call_before", method="DELETE", run=lambda: remove(double, item["id"]))
    assert engine.forget(Selector("ns", ref("ns", "k"))).deleted == 1
    assert texts(double) == []


def remove(double: Any, remote: str) -> None:
    if hasattr(double, "heap"):
        with double.lock:
            double.heap.remove(double.heap.rows[remote], double.clock())
    else:
        double.remove(remote)


@BOTH
def test_of_several_rows_the_newest_counts_and_the_next_write_leaves_one(
    service: Service, running: Running, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    double = running(service.double())
    for revision in (2, 3, 1):
        put_mem0(double, payload("ns", "k", f"state {revision}", revision=revision))
    engine = opened(service, double)
    with caplog.at_level(logging.WARNING, "keyfold"):
        record = engine.get(ref("ns", "k"))
    assert record is not None
    assert (record.content, record.revision_count) == ("state 3", 3)
    assert "3 rows hold record" in caplog.text
    assert listed(engine, "ns") == ["state 3"]
    assert engine.count("ns").total == 1
    assert next(line for line in export(engine) if "state" in line).count("state 3") == 1
    receipt = engine.store(intent("ns", "k", "state 4"))
    assert (receipt.outcome, receipt.revision_count) == ("updated", 4)
    assert texts(double) == ["state 4"]


@BOTH
def test_forgetting_removes_every_row_of_a_record(service: Service, running: Running, opened: Opened) -> None:
    double = running(service.double())
    for revision in (1, 2, 2):
        put_mem0(double, payload("ns", "k", f"state {revision}", revision=revision))
    put_mem0(double, payload("ns", "k2", "other"))
    assert opened(service, double).forget(Selector("ns", ref("ns", "k"))).deleted == 1
    assert texts(double) == ["other"]


@BOTH
def test_more_rows_at_one_address_than_a_look_returns_are_read_to_the_last(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    for revision in range(1, 251):
        put_mem0(double, payload("ns", "k", f"state {revision}", revision=1000 - revision))
    put_mem0(double, payload("ns", "k", "the newest", revision=2000))
    for revision in range(1, 251):
        put_mem0(double, payload("ns", "k", f"state {revision}", revision=1000 - revision))
    engine = opened(service, double)
    record = engine.get(ref("ns", "k"))
    assert record is not None
    assert record.content == "the newest"
    engine.store(intent("ns", "k", "after"))
    assert texts(double) == ["after"]


@BOTH
def test_two_engines_that_write_in_turn_end_with_one_row_and_the_last_content(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    engines = [opened(service, double), opened(service, double)]
    for turn in range(6):
        engines[turn % 2].store(intent("ns", "k", f"turn {turn}"))
        engines[(turn + 1) % 2].get(ref("ns", "k"))
    assert texts(double) == ["turn 5"]
    for engine in engines:
        record = engine.get(ref("ns", "k"))
        assert record is not None
        assert (record.content, record.revision_count) == ("turn 5", 6)


@BOTH
def test_two_first_writes_at_once_leave_two_rows_until_the_next_write(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    one, other = opened(service, double), opened(service, double)
    add = "/v3/memories/add/" if service is MEM0_PLATFORM else "/memories"

    def race() -> None:
        other.store(intent("ns", "k", "the other's"))

    double.faults.add("call_before", method="POST", path=add, run=race)
    one.store(intent("ns", "k", "one's"))
    assert texts(double) == ["one's", "the other's"]
    assert one.count("ns").total == 1
    seen = [engine.get(ref("ns", "k")) for engine in (one, other)]
    assert seen[0] is not None
    assert seen[0] == seen[1], "both see the same one"
    receipt = other.store(intent("ns", "k", "the last"))
    assert receipt.outcome == "updated"
    assert texts(double) == ["the last"]


@BOTH
def test_every_name_is_a_record_and_a_namespace_of_its_own(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    engine = opened(service, double)
    for name in NAMES:
        assert engine.store(intent("ns", name, f"key {name}")).outcome == "created"
        assert engine.store(intent(name, "k", f"namespace {name}")).outcome == "created"
    assert len({*NAMES}) == len(NAMES)
    for name in NAMES:
        by_key, by_namespace = engine.get(ref("ns", name)), engine.get(ref(name, "k"))
        assert by_key is not None
        assert by_namespace is not None
        assert (by_key.key, by_key.content) == (name, f"key {name}")
        assert (by_namespace.namespace, by_namespace.content) == (name, f"namespace {name}")
        assert listed(engine, name) == [f"namespace {name}"]
    assert engine.namespaces() == sorted([*NAMES, "ns"])
    for name in NAMES:
        assert engine.forget(Selector(name, everything=True)).deleted == 1
    assert len(listed(engine, "ns")) == len(NAMES)
    wire = {item["user_id"] for item in double.items()}
    assert wire == {"kf:ns"}


@BOTH
def test_no_id_on_the_wire_is_ever_a_wildcard(service: Service, running: Running, opened: Opened) -> None:
    double = running(service.double())
    service.fill(double, "bystander", 3)
    engine = opened(service, double)
    engine.store(intent("*", "*", "text"))
    engine.get(ref("*", "*"))
    engine.page(Query("*"))
    engine.forget(Selector("*", everything=True))
    assert len(double.items()) == 3
    assert all("user_id=%2A" not in seen.query and "user_id=*" not in seen.query for seen in double.seen)
    stars = [seen for seen in double.seen if b'{"user_id":"*"}' in seen.body.replace(b" ", b"")]
    assert stars == []


@BOTH
def test_what_a_person_changed_in_the_text_there_is_what_is_read_here(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    mine = payload("ns", "k", "as it was saved")
    ids = {"user_id": "kf:ns", "agent_id": "keyfold", "run_id": mine.digest}
    double.seed("as somebody corrected it", metadata={FIELD: header(mine)}, **ids)
    engine = opened(service, double)
    record = engine.get(ref("ns", "k"))
    assert record is not None
    assert record.content == "as somebody corrected it"
    assert wire_text(mine) == "as it was saved"
    receipt = engine.store(intent("ns", "k", "as it was saved"))
    assert (receipt.outcome, receipt.revision_count) == ("updated", 2)
