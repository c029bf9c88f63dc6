"""A dataset's listing on Cognee is read whole or not at all, however it moves while it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import pytest

from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.dialects.cognee_listing import listing
from keyfold.dialects.cognee_rows import File, file_of
from keyfold.dialects.wire import Answer
from keyfold.errors import StoreError, Unsupported
from keyfold.faces.planned import PlannedEngine
from keyfold.flow import drive
from tests.doubles.cognee import CogneeDouble
from tests.remote.common import COGNEE, COGNEE_UNPAGED, KEY, intent, payload, put_cognee, ref

Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]


@pytest.fixture
def double(running: Running) -> CogneeDouble:
    found: CogneeDouble = running(COGNEE.double())
    return found


def keys(engine: PlannedEngine) -> set[str]:
    return {record.key for record in engine.page(Query("ana", texts=False, limit=10_000)).items}


def filled(number: int) -> set[str]:
    return {f"key/{one}" for one in range(number)}


@cache
def files(number: int) -> list[File]:
    return [file_of(payload("ana", f"key/{one}", f"content {one}")) for one in range(number)]


def fill(double: CogneeDouble, number: int) -> None:
    for file in files(number):
        double.put("kf-ana", file.part.name, file.part.content, label=file.label, metadata=file.metadata)


@pytest.mark.parametrize("service", [COGNEE, COGNEE_UNPAGED], ids=lambda service: service.name)
@pytest.mark.parametrize("number", [1, 999, 1000, 1001, 1999, 2000, 2500])
def test_every_row_is_read_once_whatever_the_pages(
    running: Running, opened: Opened, service: Any, number: int
) -> None:
    double = running(service.double())
    fill(double, number)
    engine = opened(service, double)
    assert keys(engine) == filled(number)
    assert engine.count("ana").total == number
    double.reset_counts()
    assert engine.get(ref("ana", "nothing")) is None
    paged = 1 if number < 1000 else 2 + (number - 1000) // 999 + (number > 1000)
    assert double.count == (paged if service is COGNEE else 2 if number == 1000 else 1)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_rows_that_come_while_a_listing_is_read_hide_none(
    double: CogneeDouble, opened: Opened, times: int
) -> None:
    fill(double, 2500)
    double.page_shift("add", times)
    assert keys(opened(COGNEE, double)) == filled(2500)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_rows_that_go_while_a_listing_is_read_let_none_slip_through(
    double: CogneeDouble, opened: Opened, times: int
) -> None:
    fill(double, 2500)
    double.page_shift("delete", times)
    assert keys(opened(COGNEE, double)) >= filled(2500 - times)


@pytest.mark.parametrize("gone", [0, 1, 700])
def test_a_record_rewritten_before_its_page_is_read_is_found_at_the_front(
    double: CogneeDouble, opened: Opened, gone: int
) -> None:
    fill(double, 2500)

    def rewrite(dataset: Any) -> None:
        """The oldest row, which no page has shown yet; others that were shown go, so that nothing seems to move."""
        listed = double.store.listing(dataset)
        for row in [*listed[:gone], listed[-1]]:
            del dataset.rows[row.id]
        put_cognee(double, payload("ana", "key/0", "rewritten", revision=2))

    double.after_page.append(rewrite)
    found = opened(COGNEE, double).page(Query("ana", limit=10_000)).items
    assert {record.key for record in found} >= filled(2500 - gone)
    assert next(record for record in found if record.key == "key/0").content == "rewritten"


def test_everything_gone_while_a_listing_is_read_is_no_error(double: CogneeDouble, opened: Opened) -> None:
    fill(double, 1500)
    double.after_page.append(lambda dataset: dataset.rows.clear())
    assert len(keys(opened(COGNEE, double))) == 1000  # what was there when it was read
    assert keys(opened(COGNEE, double)) == set()


def test_a_listing_that_never_stands_still_is_an_error_and_no_part_of_it(
    double: CogneeDouble, opened: Opened
) -> None:
    names = count()

    def perform(_: Any) -> Answer:  # a thousand rows that nobody has seen, whichever are asked for
        rows = [{"id": f"{next(names)}", "name": "n", "externalMetadata": None} for _ in range(1000)]
        return Answer(200, {}, json.dumps(rows).encode())

    with pytest.raises(StoreError, match="moved faster than it could be read"):
        drive(listing("home"), perform)
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    double.faults.add("status", path="/data", code=200, body={"rows": []})
    with pytest.raises(StoreError, match="namespace 'ana' cannot be read whole"):
        keys(engine)


def test_many_that_write_to_a_long_namespace_do_not_keep_it_from_being_read(
    double: CogneeDouble, opened: Opened
) -> None:
    fill(double, 2500)
    double.page_shift("add", 40)
    engine = opened(COGNEE, double)
    for _ in range(3):
        assert keys(engine) >= filled(2500)


@pytest.mark.parametrize("version", ["1.4.2", "1.3.0"])
def test_a_server_that_is_too_old_is_refused_and_left_as_it_was(
    running: Running, opened: Opened, version: str
) -> None:
    double = running(CogneeDouble(version, multi_tenant=True, key=KEY))
    engine = opened(COGNEE, double)
    with pytest.raises(Unsupported, match=r"older than 1\.5\.0"):
        engine.store(intent("ana", "k", "text"))
    assert not double.dataset("kf-ana").rows
    double.seed("kf-ana", 2)
    for call in (
        lambda: engine.get(ref("ana", "k")),
        lambda: engine.page(Query("ana")),
        lambda: engine.store(intent("ana", "k", "text")),
        lambda: engine.count("ana"),
        lambda: engine.search(SearchQuery("ana", "text")),
        lambda: engine.forget(Selector("ana", everything=True)),
    ):
        with pytest.raises(Unsupported, match=r"older than 1\.5\.0"):
            call()


@pytest.mark.parametrize("version", ["1.5.0", "1.5.2", "1.5.4", "1.6.0", "1.6.1", "1.6.5"])
@pytest.mark.parametrize("tenants", [True, False])
def test_rows_of_each_release_are_read_rewritten_and_forgotten(
    running: Running, opened: Opened, version: str, tenants: bool
) -> None:
    double = running(CogneeDouble(version, multi_tenant=tenants, key=KEY))
    engine = opened(COGNEE, double)
    engine.store_many([intent("ana", f"key/{number}", f"text {number}") for number in range(30)])
    assert engine.store(intent("ana", "key/3", "new")).revision_count == 2
    assert engine.store(intent("ana", "key/3", "new")).outcome == "deduped"
    assert keys(engine) == filled(30)
    assert engine.forget(Selector("ana", ref("ana", "key/3"))).deleted == 1
    assert (engine.count("ana").total, engine.namespaces()) == (29, ["ana"])
    assert engine.health().facts["version"] == version


def test_a_dataset_full_of_what_others_put_there_names_no_namespace(
    double: CogneeDouble, opened: Opened
) -> None:
    double.seed("kf-ana", 1200)
    double.seed("notes", 5)
    double.dataset("kf-empty")
    put_cognee(double, payload("bob", "k", "hidden below"))
    double.seed("kf-bob", 1200)
    engine = opened(COGNEE, double)
    assert engine.namespaces() == ["bob"]
    assert engine.get(ref("bob", "k")) is not None
    assert [past.record.key for past in engine.everything() if past.record] == ["k"]


def test_a_listing_in_another_form_is_refused_in_words(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    for body in ({"rows": []}, ["text"], [{"name": "no id"}]):
        double.faults.add("status", path="/data", code=200, body=body, times=1)
        with pytest.raises(StoreError, match="not Cognee's"):
            engine.get(ref("ana", "k"))
    double.faults.add("status", path="/api/v1/datasets", code=200, body={"results": []}, times=math.inf)
    with pytest.raises(StoreError, match="not Cognee's"):
        engine.namespaces()
