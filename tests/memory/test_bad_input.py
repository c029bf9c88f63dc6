"""What is refused, and how: the field, the limit and what is allowed; never the text."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest

from keyfold import Config, Filter, InvalidRequest, Memory
from keyfold.contract.filters import Condition
from keyfold.contract.intents import read_position

GOOD: dict[str, Any] = {"user_id": "alice", "content": "text", "type": "decision", "title": "Title"}


@pytest.mark.parametrize(
    ("change", "field", "word"),
    [
        ({"user_id": ""}, "user_id", "blank"),
        ({"user_id": "  "}, "user_id", "blank"),
        ({"user_id": 7}, "user_id", "string"),
        ({"user_id": "a" * 513}, "user_id", "512"),
        ({"user_id": "a<private>b"}, "user_id", "private"),
        ({"content": "\n\t "}, "content", "blank"),
        ({"content": None}, "content", "string"),
        ({"content": "a\0b"}, "content", "NUL at position 1"),
        ({"content": "ab\udcafc"}, "content", "lone surrogate at position 2"),
        ({"content": "x" * (1 << 20) + "y"}, "content", "1,048,576"),
        ({"title": ""}, "title", "blank"),
        ({"title": "é" * 3000}, "title", "4,096"),
        ({"type": "mood"}, "type", "decision"),
        ({"type": "summary"}, "type", "reserved"),
        ({"type": ""}, "type", "blank"),
        ({"type": ["decision"]}, "type", "string"),
        ({"topic_key": ""}, "topic_key", "blank"),
        ({"topic_key": "k" * 513}, "topic_key", "512"),
        ({"topic_key": "<private>x</private>"}, "topic_key", "private"),
        ({"tags": "abc"}, "tags", "list"),
        ({"tags": ["a", ""]}, "tags", "blank"),
        ({"tags": [str(number) for number in range(101)]}, "tags", "100"),
        ({"metadata": [1]}, "metadata", "object"),
        ({"metadata": {"a": float("nan")}}, "metadata", "finite"),
        ({"metadata": {"a": object()}}, "metadata", "JSON"),
        ({"metadata": {1: "a"}}, "metadata", "string"),
        ({"metadata": {"a": 2**70}}, "metadata", "64 bits"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata", "65,536"),
        ({"metadata": {"a": "\ud800"}}, "metadata", "surrogate"),
        ({"pinned": "yes"}, "pinned", "true or false"),
        ({"expires_at": datetime(2030, 1, 1)}, "expires_at", "offset"),  # noqa: DTZ001  # naive on purpose
        ({"expires_at": "tomorrow"}, "expires_at", "time"),
        ({"observed_at": 5}, "observed_at", "datetime"),
        ({"session_id": ""}, "session_id", "blank"),
        ({"idempotency_key": "k" * 65}, "idempotency_key", "64"),
        ({"idempotency_key": ""}, "idempotency_key", "1 to 64"),
        ({"expect_revision": 1}, "expect_revision", "topic_key"),
        ({"expires_at": "0001-01-01T00:00:00+14:00"}, "expires_at", "time"),
        ({"expect_revision": True, "topic_key": "k"}, "expect_revision", "whole number"),
    ],
)
def test_a_bad_save_is_refused_by_field_and_changes_nothing(
    memory: Memory, change: dict[str, Any], field: str, word: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        memory.mem_save(**{**GOOD, **change})
    assert caught.value.field == field
    assert word in str(caught.value)
    assert len(str(caught.value)) < 400
    assert isinstance(caught.value, ValueError)
    assert memory.mem_stats("alice")["total"] == 0
    assert memory.mem_session_list("alice").total == 0


def coded(text: str) -> str:
    """A text as a cursor is written."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_deep_metadata_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidRequest, match="nested"):
        memory.mem_save(**GOOD, metadata={"a": deep(40)})
    assert memory.mem_stats("alice")["total"] == 0


def test_a_message_never_quotes_the_text(memory: Memory) -> None:
    with pytest.raises(InvalidRequest) as caught:
        memory.mem_save(**{**GOOD, "content": "hunter2\0", "title": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_text_of_exactly_the_limit_is_stored_whole(memory: Memory) -> None:
    text = "x" * (1 << 20)
    saved = memory.mem_save(**{**GOOD, "content": text})
    held = memory.mem_get_observation("alice", saved.id)
    assert held is not None
    assert held.content == text


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda m: m.mem_search("alice", ""), "query"),
        (lambda m: m.mem_search("alice", "   "), "query"),
        (lambda m: m.mem_search("alice", "x", limit=0), "limit"),
        (lambda m: m.mem_search("alice", "x", limit=1001), "limit"),
        (lambda m: m.mem_search("alice", "x", reach="all"), "reach"),
        (lambda m: m.mem_search("alice", "x", filter={"a": {"b": 1}}), "filter"),
        (lambda m: m.mem_search("alice", "x", filter={"a": {"in": "abc"}}), "filter"),
        (lambda m: m.mem_search("alice", "x", filter={"a": {"gt": None}}), "filter"),
        (lambda m: m.mem_search("alice", "x", filter=5), "filter"),
        (lambda m: m.mem_search("alice", "x", tags={"none": []}), "tags"),
        (lambda m: m.mem_search("alice", "x", since="2026-01-01"), "since"),
        (lambda m: m.mem_search("alice", "x", since="9999-12-31T23:59:59-14:00"), "since"),
        (lambda m: m.mem_search("alice", "x", limit=10**5000), "limit"),
        (lambda m: m.mem_search("alice", "x", filter={"a": {"eq": float("nan")}}), "filter"),
        (lambda m: m.mem_search("alice", "x", filter={"a": b"x"}), "filter"),
        (lambda m: m.mem_search("alice", "x", filter={"a": {"eq": deep(5_000)}}), "filter"),
        (lambda m: m.mem_list("alice", types=[]), "types"),
        (lambda m: m.mem_list("alice", tags={"any": []}), "tags"),
        (lambda m: m.mem_delete("alice", filter=Filter(types=[])), "types"),
        (lambda m: m.mem_delete("alice", filter=Filter(tags=[])), "filter"),
        (lambda m: m.mem_delete("alice", filter=Filter(topic_prefix="")), "filter"),
        (lambda m: m.mem_delete("alice", 1, dry_run="no"), "dry_run"),
        (lambda m: m.mem_get_observation("alice", 10**5000), "observation_id"),
        (lambda m: m.mem_revision("alice", "<private>S</private>", revision=1), "observation_id"),
        (
            lambda m: m.mem_log_turn("alice", thread_id="t", index=0, role="u", text="x", tool_calls=5),
            "tool_calls",
        ),
        (lambda m: m.mem_list("alice", cursor="nonsense"), "cursor"),
        (lambda m: m.mem_list("alice", cursor=7), "cursor"),
        (lambda m: m.mem_list("alice", cursor=coded("[" * 100_000)), "cursor"),
        (lambda m: m.mem_list("alice", cursor=coded("9" * 10_000)), "cursor"),
        (lambda m: m.mem_get_observation("alice"), "observation_id"),
        (lambda m: m.mem_get_observation("alice", 1, topic_key="k"), "observation_id"),
        (lambda m: m.mem_get_observation("alice", True), "observation_id"),
        (lambda m: m.mem_timeline("alice", 1, before=-1), "before"),
        (lambda m: m.mem_timeline("alice", 1, after=501), "after"),
        (lambda m: m.mem_delete("alice"), "mem_delete"),
        (lambda m: m.mem_delete("alice", 1, all=True), "mem_delete"),
        (lambda m: m.mem_delete("alice", filter={}), "filter"),
        (lambda m: m.mem_context("alice", budget=0), "budget"),
        (lambda m: m.mem_save_many("alice", "abc"), "items"),
        (lambda m: m.mem_save_many("alice", [7]), "items[0]"),
        (lambda m: m.mem_save_many("alice", [{"content": "x"}]), "items[0]"),
        (lambda m: m.mem_log_turn("alice", thread_id="t", index=-1, role="user", text="x"), "index"),
        (lambda m: m.mem_log_turn("alice", thread_id="t", index=0, role="", text="x"), "role"),
        (lambda m: m.mem_log_turn("alice", thread_id="<private>", index=0, role="u", text="x"), "thread_id"),
        (lambda m: m.mem_add_document("alice", source="", text="x"), "source"),
        (lambda m: m.mem_add_document("alice", source="s", text="x", metadata={"source": "o"}), "metadata"),
        (lambda m: m.mem_add_document("alice", source="s", text="x", metadata={"source": None}), "metadata"),
        (
            lambda m: m.mem_add_document("alice", source="s", text="x", mime="a/b", metadata={"mime": "c/d"}),
            "metadata",
        ),
        (lambda m: m.mem_restore("alice", 1, revision=0), "revision"),
        (lambda m: m.mem_suggest_topic_key("alice", type="mood", title="x"), "type"),
    ],
)
def test_other_calls_refuse_by_field_too(memory: Memory, call: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        call(memory)
    assert caught.value.field == field


def test_a_cursor_of_another_listing_is_refused(memory: Memory) -> None:
    for number in range(3):
        memory.mem_save(**{**GOOD, "content": f"text {number}"})
    cursor = memory.mem_list("alice", limit=2).next_cursor
    assert cursor is not None
    assert len(memory.mem_list("alice", limit=2, cursor=cursor)) == 1
    with pytest.raises(InvalidRequest, match="another listing"):
        memory.mem_list("alice", limit=2, cursor=cursor, types=["decision"])
    with pytest.raises(InvalidRequest, match="another listing"):
        memory.mem_list("bob", limit=2, cursor=cursor)


@pytest.mark.parametrize(
    "settings",
    [
        {"dedup_on": "conten"},
        {"durability": "x"},
        {"dedup_window": -1},
        {"dedup_window": "a"},
        {"session_timeout": True},
        {"keep_revisions": 0},
        {"max_text_bytes": 0.5},
        {"observation_types": "abc"},
        {"observation_types": ("summary",)},
        {"observation_types": ()},
        {"clock": 3},
        {"dedup_window": float("inf")},
        {"session_timeout": 1e12},
    ],
)
def test_a_bad_setting_is_refused_when_it_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Config(**settings)
    assert caught.value.field == next(iter(settings))


@pytest.mark.parametrize(
    "parts",
    [
        {"types": "decision"},
        {"tags": "abc"},
        {"tags_any": [1]},
        {"metadata": [1]},
        {"pinned": "no"},
        {"session_id": 7},
        {"topic_prefix": 7},
        {"updated_since": "yesterday"},
        {"created_until": datetime(2026, 1, 1)},  # noqa: DTZ001  # naive on purpose
    ],
)
def test_a_bad_filter_is_refused_when_it_is_made(parts: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Filter(**parts)
    assert caught.value.field == next(iter(parts))


def test_a_filter_takes_lists_a_mapping_and_texts_of_times(memory: Memory) -> None:
    memory.mem_save(**GOOD, tags=["x"], metadata={"score": 3})
    where = Filter(tags=["x"], metadata={"score": {"gte": 3}}, updated_since="2020-01-01T00:00:00Z")
    assert memory.mem_list("alice", filter=where).total == 1
    assert memory.mem_list("alice", filter=Filter(types=["pattern"])).total == 0


@pytest.mark.parametrize("url", [5, True, b"x"])
def test_a_store_that_is_not_a_path_is_refused(url: Any) -> None:
    with pytest.raises(InvalidRequest):
        Memory.open(url)


def test_a_clock_without_an_offset_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="aware"):
        Memory.open("inmemory:", config=Config(clock=datetime.now))


def test_an_enumeration_of_texts_counts_as_its_text(memory: Memory) -> None:
    class Who(str, Enum):  # noqa: UP042  # what older code uses
        ALICE = "alice"
        DECISION = "decision"

    memory.mem_save(
        Who.ALICE, Who.ALICE, type=Who.DECISION, title=Who.ALICE, tags=[Who.ALICE], topic_key=Who.ALICE
    )
    held = memory.mem_get_observation("alice", topic_key="alice")
    assert held is not None
    assert [held.content, held.type, held.title, *held.tags] == ["alice", "decision", "alice", "alice"]
    assert type(held.type) is str


@pytest.mark.parametrize("order", ["newest", "oldest", "key"])
def test_a_position_that_is_nested_without_end_is_refused(order: Any) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        read_position("[" * 100_000, order)


@pytest.mark.parametrize(
    "metadata",
    [
        None, 5, "abc", b"abc", [7], [Condition("ab", "eq", 1)], [Condition((7,), "eq", 1)],
        [Condition(("a",), "like", 1)], [Condition(("a",), "gt", None)], [Condition(("a",), "in", 5)],
        [Condition(("a",), "eq", float("nan"))],
    ],
)  # fmt: skip
def test_conditions_that_are_none_are_refused_when_the_filter_is_made(metadata: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"metadata|filter"):
        Filter(metadata=metadata)


@pytest.mark.parametrize("numbers", [("1", "2"), (True, 2), (1, True), (1.0, 2), (1, [])])
def test_a_diff_of_what_are_no_numbers_is_refused(memory: Memory, numbers: tuple[Any, Any]) -> None:
    for content in ("one", "two"):
        memory.mem_save(**{**GOOD, "content": content}, topic_key="k")
    with pytest.raises(InvalidRequest, match="revision: must be a whole number"):
        memory.mem_history("alice", topic_key="k").diff(*numbers)


@pytest.mark.parametrize("url", ["inmemory:", ":memory:"])
@pytest.mark.parametrize("year", [1, 99, 9801, 9999])
def test_a_clock_far_from_any_calendar_is_told(url: str, year: int) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC)]
    memory = Memory.open(url, config=Config(clock=lambda: moments[-1]))
    moments.append(datetime(year, 12, 31, tzinfo=UTC))
    calls: list[Callable[[], object]] = [
        lambda: memory.mem_save(**GOOD),
        lambda: memory.mem_session_start("alice"),
        lambda: memory.mem_list("alice"),
        lambda: memory.mem_delete("alice", all=True, idempotency_key="k"),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest, match=f"clock: gives a time in the year {year}; from 100 to 9800"):
            call()
    with pytest.raises(InvalidRequest, match="clock"):
        Memory.open(url, config=Config(clock=lambda: moments[-1]))


@pytest.mark.parametrize("url", ["inmemory:", ":memory:"])
@pytest.mark.parametrize("year", [100, 9800])
def test_the_longest_time_outs_fit_into_every_year_of_a_clock(url: str, year: int) -> None:
    at = datetime(year, 1 if year == 100 else 12, 1 if year == 100 else 31, tzinfo=UTC)
    most = Config(clock=lambda: at, session_timeout=2**31 - 1, dedup_window=2**31 - 1)
    memory = Memory.open(url, config=most)
    memory.mem_session_start("alice")
    assert memory.mem_save(**GOOD, idempotency_key="k").outcome == "created"
    assert memory.mem_save(**GOOD).outcome == "deduped"
    assert memory.mem_search("alice", GOOD["content"]).total == 1
    assert GOOD["content"] in memory.mem_context("alice")
    memory.mem_session_end("alice")
