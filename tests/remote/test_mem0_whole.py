"""Reading all of a namespace on Mem0: past the caps of one, while the pages of the other shift. Never a short list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import Query, Selector
from keyfold.errors import StoreError
from keyfold.faces.planned import PlannedEngine
from keyfold.portability import export
from tests.remote.answers import changed
from tests.remote.common import MEM0_OSS, MEM0_PLATFORM, Service, contents, intent, payload, put_mem0, ref
from tests.remote.test_mem0_rows import remove, texts

Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]

BOTH = pytest.mark.parametrize("service", [MEM0_OSS, MEM0_PLATFORM], ids=lambda service: service.name)


def listed(engine: PlannedEngine, namespace: str) -> list[str]:
    return contents(engine.page(Query(namespace, limit=100_000)).items)


# ---- past what a listing of the open-source server returns ----


@pytest.mark.parametrize("number", [999, 1000, 1001, 5000])
def test_a_namespace_past_the_listing_of_the_open_source_server_is_read_whole(
    number: int, running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    MEM0_OSS.fill(double, "large", number)
    MEM0_OSS.fill(double, "small", 3)
    engine = opened(MEM0_OSS, double)
    expected = sorted(f"content {one}" for one in range(number))
    for _ in range(2):
        assert listed(engine, "large") == expected
        assert engine.count("large").total == number
    records = [json.loads(line) for line in export(engine)][1:-1]
    assert len(records) == number + 3
    double.reset_counts()
    record = engine.get(ref("large", f"key/{number - 1}"))
    assert record is not None
    assert double.count == 1


def drops(double: Any, number: int) -> None:
    """The search of this server leaves out `number` rows, as an approximate index does."""
    whole = double._where

    def fewer(filters: dict[str, Any]) -> list[Any]:
        rows = whole(filters)
        return rows[: len(rows) - number] if "run_id" not in filters and len(rows) > 1000 else rows

    search = double._search

    def searched(request: Any, body: bytes) -> Any:
        double._where = fewer
        try:
            return search(request, body)
        finally:
            double._where = whole

    double._search = searched


def dropping(number: int) -> Any:
    double: Any = MEM0_OSS.double()
    drops(double, number)
    double._inner = double.app()
    return double


@pytest.mark.parametrize("lost", [1, 500, 1400])
def test_a_search_that_drops_rows_is_an_error_for_that_namespace_alone(
    lost: int, running: Running, opened: Opened
) -> None:
    double = running(dropping(lost))
    MEM0_OSS.fill(double, "large", 1500)
    MEM0_OSS.fill(double, "small", 3)
    engine = opened(MEM0_OSS, double)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"'large' has 1,500 memories.* left out .*record by record"):
            engine.page(Query("large"))
        assert engine.count("large").total == 1500, "to count it needs no search"
    with pytest.raises(StoreError, match="'large'"):
        list(export(engine))
    assert listed(engine, "small") == ["content 0", "content 1", "content 2"]
    assert engine.count("small").total == 3
    record = engine.get(ref("large", "key/1499"))
    assert record is not None
    assert record.content == "content 1499"
    assert engine.store(intent("large", "key/1499", "rewritten")).outcome == "updated"
    assert engine.forget(Selector("large", ref("large", "key/3"))).deleted == 1


def test_a_namespace_that_shrinks_below_the_listing_is_listed_again(running: Running, opened: Opened) -> None:
    double = running(MEM0_OSS.double())
    MEM0_OSS.fill(double, "ns", 1001)
    engine = opened(MEM0_OSS, double)
    assert engine.count("ns").total == 1001
    for number in (0, 1, 2):
        engine.forget(Selector("ns", ref("ns", f"key/{number}")))
    assert engine.count("ns").total == 998


def test_a_long_namespace_that_the_server_may_not_have_counted_is_an_error_not_a_short_list(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    double.seed("another program's", agent_id="someone", times=9_500)
    MEM0_OSS.fill(double, "large", 1001)
    MEM0_OSS.fill(double, "small", 3)
    engine = opened(MEM0_OSS, double)
    with pytest.raises(StoreError, match=r"'large' has 1,000 memories or more.*first 10,000"):
        engine.page(Query("large"))
    with pytest.raises(StoreError, match="name the ones you read"):
        engine.namespaces()
    assert len(listed(engine, "small")) == 3
    assert engine.get(ref("large", "key/1000")) is not None


@pytest.mark.parametrize("entities", [[], [{"type": "user", "id": "kf:else", "total_memories": 3}]], ids=str)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_long_namespace_that_the_server_does_not_count_is_an_error_not_a_short_list(
    entities: list[Any], warm: bool, running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    MEM0_OSS.fill(double, "large", 1500)
    MEM0_OSS.fill(double, "small", 3)
    engine = opened(MEM0_OSS, double)
    if warm:
        assert engine.count("large").total == 1500
    with changed(double, "/entities", lambda _: entities):
        for call in (
            lambda: listed(engine, "large"),
            lambda: engine.count("large"),
            lambda: engine.forget(Selector("large", everything=True)),
        ):
            with pytest.raises(StoreError, match=r"'large'.* counts 0"):
                call()
        assert len(listed(engine, "small")) == 3
        read = engine.get(ref("large", "key/1234"))
        assert read is not None
    assert engine.count("large").total == 1500


def test_a_namespace_of_exactly_as_many_as_the_server_lists_may_shrink_while_it_is_counted(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    MEM0_OSS.fill(double, "large", 1001)
    gone = [item["id"] for item in double.items()[:2]]
    engine = opened(MEM0_OSS, double)

    def less() -> None:
        for one in gone:
            remove(double, one)

    double.faults.add("call_before", method="GET", path="/entities", run=less)
    assert len(listed(engine, "large")) == 999


def test_a_row_removed_while_a_long_namespace_is_read_is_no_error(running: Running, opened: Opened) -> None:
    double = running(MEM0_OSS.double())
    MEM0_OSS.fill(double, "ns", 1100)
    gone = double.items()[5]["id"]
    double.faults.add("call_before", method="POST", path="/search", run=lambda: remove(double, gone))
    assert len(listed(opened(MEM0_OSS, double), "ns")) == 1099


def test_namespaces_past_what_the_open_source_server_scans_are_an_error_not_a_short_list(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    MEM0_OSS.fill(double, "first", 10_000)
    MEM0_OSS.fill(double, "unseen", 1)
    engine = opened(MEM0_OSS, double)
    with pytest.raises(StoreError, match=r"first 10,000 memories.*name the ones you read"):
        engine.namespaces()
    with pytest.raises(StoreError):
        list(export(engine))
    assert listed(engine, "unseen") == ["content 0"]


def test_foreign_rows_do_not_hide_ours_behind_the_listing_of_the_open_source_server(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_OSS.double())
    double.seed("another program's", user_id="kf:ns", agent_id="someone", times=1200)
    MEM0_OSS.fill(double, "ns", 5)
    assert len(listed(opened(MEM0_OSS, double), "ns")) == 5


# ---- what the platform does while it is read ----


def test_rows_that_shift_while_the_platform_is_read_are_neither_lost_nor_doubled(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    MEM0_PLATFORM.fill(double, "ns", 450)
    oldest = double.items()[0]["id"]
    newest = double.items()[-1]["id"]
    shifts: list[Callable[[], object]] = [
        lambda: put_mem0(double, payload("ns", "added", "added meanwhile")),
        lambda: double.remove(newest),
        lambda: double.remove(oldest),
    ]
    double.page_shift.extend(shifts[:1])
    engine = opened(MEM0_PLATFORM, double)
    assert len(listed(engine, "ns")) == 451
    double.page_shift.extend(shifts[1:])
    assert len(listed(engine, "ns")) == 449
    assert double.page_shift == []


def test_a_platform_that_never_stands_still_is_an_error_for_that_namespace(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    MEM0_PLATFORM.fill(double, "ns", 450)
    MEM0_PLATFORM.fill(double, "calm", 3)
    double.page_shift.extend(
        (lambda number=number: put_mem0(double, payload("ns", f"added/{number}", "x")))
        for number in range(50)
    )
    engine = opened(MEM0_PLATFORM, double)
    with pytest.raises(StoreError, match=r"namespace 'ns' changed each of the 3 times"):
        engine.page(Query("ns"))
    assert len(listed(engine, "calm")) == 3


@pytest.mark.parametrize("off", [-1, 1, 200])
def test_a_count_of_the_platform_that_its_pages_do_not_bear_out_is_an_error(
    off: int, running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    MEM0_PLATFORM.fill(double, "ns", 250)
    double.count_off = off
    engine = opened(MEM0_PLATFORM, double)
    with pytest.raises(StoreError, match="changed each of the 3 times"):
        engine.page(Query("ns"))
    record = engine.get(ref("ns", "key/249"))
    assert record is not None
    assert record.content == "content 249"


def test_a_page_of_the_platform_that_names_no_next_one_is_not_taken_for_all_that_it_counts(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    MEM0_PLATFORM.fill(double, "ns", 250)
    engine = opened(MEM0_PLATFORM, double)
    with changed(double, "/v3/memories", lambda answer: {**answer, "next": None}):
        for call in (lambda: engine.page(Query("ns")), lambda: engine.count("ns")):
            with pytest.raises(StoreError, match="'ns' changed each of the 3 times"):
                call()
    assert engine.count("ns").total == 250


@BOTH
def test_a_platform_that_takes_unnamed_ids_for_null_answers_the_same(
    service: Service, running: Running, opened: Opened
) -> None:
    double = running(service.double())
    double.null_scoping = True
    engine = opened(service, double)
    for number in range(3):
        engine.store(intent("ns", f"k{number}", f"content {number}"))
    assert listed(engine, "ns") == ["content 0", "content 1", "content 2"]
    assert engine.count("ns").total == 3
    assert engine.namespaces() == ["ns"]
    assert engine.get(ref("ns", "k1")) is not None
    assert engine.store(intent("ns", "k1", "content 1")).outcome == "deduped"


def test_the_same_text_under_two_keys_is_two_records_though_the_platform_drops_repeats(
    running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    double.drop_repeats = True
    engine = opened(MEM0_PLATFORM, double)
    for key in ("a", "b"):
        for namespace in ("one", "two"):
            assert engine.store(intent(namespace, key, "the very same")).outcome == "created"
    assert len(double.items()) == 4
    assert engine.get(ref("two", "b")) is not None


def test_an_add_that_the_platform_drops_is_told_and_not_taken_for_stored(
    running: Running, opened: Opened
) -> None:
    """Another program's row in our scope has the text: an add is dropped, and nothing of ours is there."""
    double = running(MEM0_PLATFORM.double())
    double.drop_repeats = True
    mine = payload("ns", "k", "text")
    double.seed("text", user_id="kf:ns", agent_id="keyfold", run_id=mine.digest)
    with pytest.raises(StoreError, match="stored nothing"):
        opened(MEM0_PLATFORM, double).store(intent("ns", "k", "text"))


@pytest.mark.parametrize("status", ["PENDING", "FAILED", "RUNNING"])
def test_results_are_read_and_the_status_of_an_add_is_not(
    status: str, running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    double.misleading_status = status
    engine = opened(MEM0_PLATFORM, double)
    assert engine.store(intent("ns", "k", "text")).outcome == "created"
    assert texts(double) == ["text"]


def test_a_link_of_the_platform_to_another_host_is_not_followed(running: Running, opened: Opened) -> None:
    double, elsewhere = running(MEM0_PLATFORM.double()), running(MEM0_PLATFORM.double())
    MEM0_PLATFORM.fill(double, "ns", 450)
    double.next_base = elsewhere.url
    assert len(listed(opened(MEM0_PLATFORM, double), "ns")) == 450
    assert elsewhere.seen == [], "the key would have gone along"


@pytest.mark.parametrize("merges", [False, True])
def test_a_rewrite_is_whole_whether_the_platform_merges_metadata_or_replaces_it(
    merges: bool, running: Running, opened: Opened
) -> None:
    double = running(MEM0_PLATFORM.double())
    double.merge_metadata = merges
    engine = opened(MEM0_PLATFORM, double)
    engine.store(intent("ns", "k", "first", metadata={"a": 1, "b": 2}, tags=("x",)))
    engine.store(intent("ns", "k", "second", metadata={"b": 3}, tags=None))
    record = engine.get(ref("ns", "k"))
    assert record is not None
    assert (record.content, record.metadata, record.tags) == ("second", {"b": 3}, ())


def test_a_notice_to_unclaimed_accounts_changes_no_answer(running: Running, opened: Opened) -> None:
    double = running(MEM0_PLATFORM.double())
    double.notice = "claim your account"
    engine = opened(MEM0_PLATFORM, double)
    engine.store(intent("ns", "k", "text"))
    assert listed(engine, "ns") == ["text"]
