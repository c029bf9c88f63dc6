"""When Supermemory fails: nothing is lost, nothing is written twice, and what is said is true."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import (
    InvalidRequest,
    OutcomeUnknown,
    StoreError,
    Unauthorized,
    Unavailable,
)
from tests.doubles.supermemory import Supermemory
from tests.remote.common import KEY, SUPERMEMORY
from tests.remote.supermemory_service import USER, alive, counting, reach, read, save

LONG = "a long text, word for word; " * 1000
UNANSWERED = ["apply_then_status", "apply_then_stall", "apply_then_drop", "truncate"]
Act = Callable[[Memory], Any]


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory]) -> Supermemory:
    return running(Supermemory(key=KEY))


@pytest.fixture
def memory(request: pytest.FixtureRequest, double: Supermemory) -> Iterator[Memory]:
    kind = request.node.callspec.params.get("kind", "") if hasattr(request.node, "callspec") else ""
    with reach(double, timeout=0.4 if kind.endswith("stall") else 20.0) as memory:
        yield memory


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the client would have waited."""
    pauses: list[float] = []
    monkeypatch.setattr("keyfold.engines.remote.transport.time", SimpleNamespace(sleep=pauses.append))
    return pauses


@pytest.mark.parametrize("kind", UNANSWERED)
@pytest.mark.parametrize("content", ["text", LONG], ids=["short", "long"])
def test_a_first_write_without_an_answer_is_replayed_by_the_same_call(
    double: Supermemory, memory: Memory, kind: str, content: str
) -> None:
    double.faults.add(kind, method="POST", path="/v4/memories", skip=1)  # the listing is answered
    with pytest.raises(OutcomeUnknown):
        save(memory, USER, "key", content)
    again = save(memory, USER, "key", content)
    assert (again.outcome, again.revision_count, again.replayed) == ("deduped", 1, True)
    assert read(memory, USER, "key") == content
    assert len(alive(double)) == (1 if content == "text" else 3)


@pytest.mark.parametrize("kind", UNANSWERED)
@pytest.mark.parametrize("content", ["text", LONG], ids=["short", "long"])
def test_a_rewrite_without_an_answer_is_replayed_by_the_same_call(
    double: Supermemory, memory: Memory, kind: str, content: str
) -> None:
    save(memory, USER, "key", "before")
    double.faults.add(kind, method="PATCH")
    with pytest.raises(OutcomeUnknown):
        save(memory, USER, "key", content)
    again = save(memory, USER, "key", content)
    assert (again.outcome, again.revision_count, again.replayed) == ("deduped", 2, True)
    assert [state.content for state in memory.mem_history(USER, topic_key="key")] == [content, "before"]
    assert memory.mem_list(USER).total == 1


def test_a_callers_key_answers_the_retry_of_an_unanswered_write_as_the_first(
    double: Supermemory, memory: Memory
) -> None:
    save(memory, USER, "key", "before")
    double.faults.add("apply_then_status", method="PATCH", code=503)
    with pytest.raises(OutcomeUnknown):
        save(memory, USER, "key", "text", idempotency_key="once")
    again = save(memory, USER, "key", "text", idempotency_key="once")
    assert (again.outcome, again.revision_count, again.replayed) == ("updated", 2, True)


@pytest.mark.parametrize("kind", UNANSWERED[:3])
def test_a_forget_without_an_answer_is_sent_again(
    double: Supermemory, memory: Memory, kind: str, waited: list[float]
) -> None:
    for key, content in (("short", "text"), ("long", LONG), ("kept", "kept")):
        save(memory, USER, key, content)
    double.faults.add(kind, method="DELETE")
    double.faults.add(kind, path="forget-matching")
    assert memory.mem_delete(USER, topic_key="short").deleted == 1
    assert memory.mem_delete(USER, topic_key="long").deleted == 1
    assert [row.memory for row in alive(double)] == ["kept"]
    assert waited == [0.25, 0.25]


def test_a_service_without_forgetting_by_ids_is_asked_one_by_one(double: Supermemory, memory: Memory) -> None:
    SUPERMEMORY.fill(double, USER, 12)
    double.faults.add("status", path="forget-matching", code=404, body="404 Not Found")
    assert memory.mem_delete(USER, all=True).deleted == 12
    assert alive(double) == []


def test_a_forget_that_says_it_forgot_only_some_is_finished(double: Supermemory, memory: Memory) -> None:
    SUPERMEMORY.fill(double, USER, 12)
    double.faults.add("status", path="forget-matching", code=200, body={"count": 0, "forgotten": []})
    assert memory.mem_delete(USER, all=True).deleted == 12
    assert alive(double) == []


READS: dict[str, Act] = {
    "get": lambda memory: read(memory, USER, "key/1"),
    "list": lambda memory: memory.mem_list(USER).total,
    "search": lambda memory: len(memory.mem_search(USER, "content")),
    "history": lambda memory: memory.mem_history(USER, topic_key="key/1").total,
}
WRITES: dict[str, Act] = {
    "new": lambda memory: save(memory, USER, "new").outcome,
    "rewrite": lambda memory: save(memory, USER, "key/1", "new").outcome,
    "forget": lambda memory: memory.mem_delete(USER, topic_key="key/1").deleted,
}


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_a_rate_limit_is_waited_for_as_long_as_it_says(
    double: Supermemory, memory: Memory, waited: list[float], name: str
) -> None:
    SUPERMEMORY.fill(double, USER, 3)
    expected = (READS | WRITES)[name](memory)
    SUPERMEMORY.fill(double, "fresh", 1)
    for row in alive(double):
        row.forgotten = True
    SUPERMEMORY.fill(double, USER, 3)
    with reach(double) as cold:
        double.faults.add("rate_limit", times=2, after=7)
        assert (READS | WRITES)[name](cold) == expected
    assert waited == [7, 7]


@pytest.mark.parametrize("name", [*READS, *WRITES])
@pytest.mark.parametrize(
    "kind", ["rate_limit", "status", "content_type", "huge", "drop", "stall", "truncate"]
)
def test_every_failure_is_told_and_loses_nothing(
    double: Supermemory, memory: Memory, waited: list[float], name: str, kind: str
) -> None:
    SUPERMEMORY.fill(double, USER, 3)
    how: dict[str, Any] = {"after": 60} if kind == "rate_limit" else {}
    double.faults.add(kind, times=math.inf, **how)
    with pytest.raises((Unavailable, StoreError)) as told:
        (READS | WRITES)[name](memory)
    assert KEY not in str(told.value)
    assert "127.0.0.1" in str(told.value)
    double.faults.clear()
    assert [row.memory for row in alive(double)] == ["content 0", "content 1", "content 2"]
    assert read(memory, USER, "key/1") == "content 1"
    assert sum(waited) <= 2


@pytest.mark.parametrize("style", ["plain", "validator"])
def test_a_refusal_is_quoted_in_either_of_its_forms(double: Supermemory, memory: Memory, style: str) -> None:
    double.error_style = style
    double.faults.add("status", path="/v4/search", code=400, body=_refused(style))
    with pytest.raises(InvalidRequest, match="q is too long"):
        read(memory, USER, "key")


def _refused(style: str) -> dict[str, Any]:
    if style == "plain":
        return {"error": "q is too long"}
    return {"success": False, "error": [{"message": "q is too long", "path": ["q"]}]}


def test_a_wrong_key_a_foreign_tag_and_a_used_up_quota_are_told_apart(double: Supermemory) -> None:
    with reach(double, credential=lambda: "sm_wrong") as wrong:
        with pytest.raises(Unauthorized, match="401") as told:
            read(wrong, USER, "key")
        assert "sm_wrong" not in str(told.value)
    with reach(double) as memory:
        double.scope = {"another"}
        with pytest.raises(Unauthorized, match="403"):
            read(memory, USER, "key")
        double.scope = None
        double.out_of_quota = True
        with pytest.raises(StoreError, match="402"):
            save(memory, USER, "key")
        assert read(memory, USER, "key") is None


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v4/search", {"found": []}),
        ("/v4/search", []),
        ("/v4/memories/list", {"memoryEntries": {}, "pagination": {}}),
        ("/v4/memories/list", {"memoryEntries": []}),
        ("/v4/memories/list", {"memoryEntries": [], "pagination": {"totalItems": 1, "totalPages": 10**9}}),
        ("/v3/container-tags/list", {"tags": []}),
    ],
)
def test_an_answer_in_another_form_is_no_empty_answer(
    double: Supermemory, memory: Memory, path: str, body: Any
) -> None:
    double.faults.add("status", path=path, code=200, body=body)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1"):
        memory.mem_get_observation(USER, topic_key="key", reach="subtree")


def test_a_write_that_kept_less_than_it_was_given_is_told(double: Supermemory, memory: Memory) -> None:
    double.faults.add(
        "status", path="/v4/memories", skip=1, code=200, body={"documentId": "1", "memories": []}
    )
    with pytest.raises(OutcomeUnknown, match="kept 0"):
        save(memory, USER, "key")


@pytest.mark.parametrize("pages", [[], ["again"]], ids=["empty", "the same again"])
def test_pages_that_are_told_and_never_come_are_an_error_and_not_asked_for_without_end(
    double: Supermemory, memory: Memory, pages: list[str]
) -> None:
    save(memory, USER, "key")
    [row] = alive(double)
    entries = [{"id": row.id, "memory": row.memory, "metadata": {}} for _ in pages]
    told = {"currentPage": 1, "totalItems": 9_999, "totalPages": 9_999, "limit": 200}
    body = {"memoryEntries": entries, "pagination": told}
    double.faults.add("status", times=math.inf, path="/v4/memories/list", code=200, body=body)
    for call in (lambda: memory.mem_list(USER), lambda: memory.mem_context(USER, reach="subtree")):
        with counting(double) as made, pytest.raises(StoreError, match="team"):
            call()
        assert made.requests <= 20


@pytest.mark.parametrize(
    "odd",
    [
        {"id": ["x"]},
        {"id": "\ud800"},
        {"metadata": {"kf_whole": "\ud800", "kf_of": 1}},
        {"memory": "\ud800"},
        {"similarity": "high"},
        {"similarity": {}},
        {"similarity": 10**400},
    ],
    ids=[
        "a list as id",
        "half a character as id",
        "and as digest",
        "and as text",
        "a word",
        "an object",
        "too much",
    ],
)
def test_rows_with_values_of_odd_types_are_none_of_ours_or_do_not_matter(
    double: Supermemory, memory: Memory, odd: dict[str, Any]
) -> None:
    save(memory, USER, "key", "text")
    [row] = alive(double)
    one = {"id": row.id, "memory": row.memory, "metadata": row.metadata, "similarity": 0.5, **odd}
    items = [one, {"id": "other", "memory": "theirs", "metadata": None}]
    pagination = {"currentPage": 1, "totalItems": 2, "totalPages": 1, "limit": 200}
    bodies = {
        "/v4/search": {"results": items, "total": 2},
        "/v4/memories/list": {"memoryEntries": items, "pagination": pagination},
    }
    for path, body in bodies.items():
        double.faults.add("status", times=math.inf, path=path, code=200, body=json.dumps(body))
    said = {item.content for item in memory.mem_list(USER).items}
    assert said == ({"text"} if "similarity" in odd else set())
    assert len(memory.mem_search(USER, "title")) == len(said)
    assert read(memory, USER, "key") == ("text" if said else None)


@pytest.mark.parametrize("again", [{"tags": ["mine"]}, {"tags": ["other"]}], ids=["unchanged", "changed"])
def test_two_states_of_one_long_text_share_its_parts_and_removing_one_leaves_the_other_whole(
    double: Supermemory, memory: Memory, again: dict[str, Any]
) -> None:
    save(memory, USER, "key", "before")
    with reach(double) as other:
        double.faults.add(
            "call_before", method="PATCH", run=lambda: save(other, USER, "key", LONG, tags=["theirs"])
        )
        save(memory, USER, "key", LONG, tags=["mine"])
    assert read(memory, USER, "key") == LONG
    save(memory, USER, "key", LONG, **again)
    assert read(memory, USER, "key") == LONG
    assert memory.mem_list(USER).total == 1
    save(memory, USER, "key", LONG, **again)
    with reach(double) as cold:
        assert read(cold, USER, "key") == LONG
    assert memory.mem_delete(USER, topic_key="key").deleted == 1
    assert alive(double) == []


@pytest.mark.parametrize("superseded", ["fork", "refuse"])
@pytest.mark.parametrize("contents", [("mine", "theirs"), (LONG, LONG + LONG)])
def test_a_slow_writer_that_others_passed_twice_was_acknowledged_last_and_is_what_is_read(
    double: Supermemory, superseded: str, contents: tuple[str, str]
) -> None:
    double.superseded_patch = superseded
    ticks = itertools.count()
    double.clock = lambda: datetime.now(UTC) + timedelta(seconds=next(ticks))
    mine, theirs = contents
    with reach(double) as slow, reach(double) as quick:
        save(slow, USER, "key", "first")

        def pass_it() -> None:
            save(quick, USER, "key", theirs)
            save(quick, USER, "key", theirs + "!")

        double.faults.add("call_before", method="PATCH", run=pass_it)
        assert save(slow, USER, "key", mine).outcome == "updated"
        with reach(double) as cold:
            for memory in (slow, quick, cold):
                found = memory.mem_get_observation(USER, topic_key="key")
                assert found is not None
                assert (found.content, found.revision_count) == (mine, 4)
                assert [item.content for item in memory.mem_list(USER).items] == [mine]
        assert len(slow.mem_search(USER, theirs[:20])) <= 1
        again = save(quick, USER, "key", mine)
        assert (again.outcome, again.revision_count) == ("deduped", 4)
        assert [row.metadata["kf_rev"] for row in alive(double) if "kf_key" in row.metadata] == [4]
        for memory in (slow, quick):
            found = memory.mem_get_observation(USER, topic_key="key")
            assert found is not None
            assert (found.content, found.revision_count) == (mine, 4)
        assert save(quick, USER, "key", "healed").revision_count == 5
        assert [row.memory for row in alive(double)] == ["healed"]
