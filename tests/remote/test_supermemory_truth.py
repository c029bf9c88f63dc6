"""What Supermemory does behind our back, or in its own way, never shows a wrong record nor hides a right one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from keyfold import Memory
from keyfold.dialects.base import Shelf
from keyfold.dialects.supermemory import Supermemory as SupermemoryDialect
from keyfold.dialects.supermemory_rows import laid_out, tag_of
from keyfold.dialects.wire import Answer
from keyfold.errors import OutcomeUnknown, StoreError
from keyfold.flow import drive
from tests.doubles.supermemory import Supermemory
from tests.remote.common import KEY, NAMES, SUPERMEMORY, payload, put_supermemory
from tests.remote.supermemory_service import USER, alive, counting, listed, reach, read, save

LONG = "a long text, word for word; " * 1000
OTHER = "quite another text 😀 " * 1200


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory]) -> Supermemory:
    return running(Supermemory(key=KEY))


@pytest.fixture
def memory(double: Supermemory) -> Iterator[Memory]:
    with reach(double) as memory:
        yield memory


def test_a_service_that_ignores_filters_never_touches_another_record(
    double: Supermemory, memory: Memory
) -> None:
    SUPERMEMORY.fill(double, USER, 30)
    SUPERMEMORY.fill(double, "another", 30)
    double.ignore_filters = True
    with counting(double) as made:
        assert read(memory, USER, "key/7") == "content 7"
    assert made.requests == 2  # such a search is not relied on, even where the right record is in it
    assert read(memory, USER, "none") is None
    assert save(memory, USER, "key/7", "content 7").outcome == "deduped"
    assert save(memory, USER, "key/7", "new").revision_count == 2
    assert save(memory, USER, "none").outcome == "created"
    assert memory.mem_delete(USER, topic_key="key/8").deleted == 1
    assert memory.mem_delete(USER, topic_key="absent").deleted == 0
    left = {"new", "text", *(f"content {i}" for i in range(30) if i not in (7, 8))}
    assert {row.memory for row in alive(double)} == left
    assert {row.memory for row in alive(double, "another")} == {f"content {i}" for i in range(30)}


def test_a_row_of_another_namespace_in_our_tag_is_never_read(double: Supermemory, memory: Memory) -> None:
    stray = payload("another", "key", "theirs")
    put_supermemory(double, stray)
    double.state.memories[tag_of(Shelf(USER))] = double.state.memories.pop(tag_of(Shelf("another")))
    assert read(memory, USER, "key") is None
    with pytest.raises(StoreError, match="of other users"):
        memory.mem_list(USER)
    with pytest.raises(StoreError, match="of other users"):
        memory.mem_search(USER, "theirs")
    assert save(memory, USER, "key", "mine").outcome == "created"
    assert memory.mem_list(USER).total == 1
    assert memory.mem_delete(USER, topic_key="key").deleted == 1
    assert [row.memory for row in alive(double)] == ["theirs"]


def test_what_is_forgotten_behind_our_back_is_gone_without_a_ghost(
    double: Supermemory, memory: Memory
) -> None:
    save(memory, USER, "key", "one")
    save(memory, USER, "key", "two")
    alive(double)[0].forgotten = True
    assert read(memory, USER, "key") is None
    assert memory.mem_list(USER).total == 0
    again = save(memory, USER, "key", "three")
    assert (again.outcome, again.revision_count) == ("created", 1)
    assert [state.content for state in memory.mem_history(USER, topic_key="key")] == ["three"]


def test_a_memory_that_goes_between_look_up_and_rewrite_is_written_anew(
    double: Supermemory, memory: Memory
) -> None:
    save(memory, USER, "key", "one")

    def forget() -> None:
        alive(double)[0].forgotten = True

    double.faults.add("call_before", method="PATCH", run=forget)
    assert save(memory, USER, "key", "two").outcome == "updated"
    assert read(memory, USER, "key") == "two"
    assert len(alive(double)) == 1


def test_two_warm_processes_that_write_in_turn_keep_one_record_and_the_newest_text(
    double: Supermemory,
) -> None:
    with reach(double) as one, reach(double) as two:
        for number, memory in zip(range(10), itertools.cycle([one, two])):
            assert save(memory, USER, "key", f"text {number}").revision_count == number + 1
            assert {read(one, USER, "key"), read(two, USER, "key")} == {f"text {number}"}
        assert len(alive(double)) == 1
        assert len(one.mem_history(USER, topic_key="key")) == 10


@pytest.mark.parametrize("superseded", ["fork", "refuse"])
@pytest.mark.parametrize("contents", [("mine", "theirs"), (LONG, OTHER), ("mine", OTHER), (LONG, "theirs")])
def test_two_rewrites_at_once_leave_two_rows_which_the_next_write_heals(
    double: Supermemory, superseded: str, contents: tuple[str, str]
) -> None:
    double.superseded_patch = superseded
    mine, theirs = contents
    with reach(double) as one, reach(double) as two:
        save(one, USER, "key", LONG)
        double.faults.add("call_before", method="PATCH", run=lambda: save(two, USER, "key", theirs + "."))
        assert save(one, USER, "key", mine + ".").revision_count == 2
        with reach(double) as cold:
            found = {read(memory, USER, "key") for memory in (one, two, cold)}
        assert len(found) == 1
        assert found <= {mine + ".", theirs + "."}
        assert one.mem_list(USER).total == 1
        assert save(two, USER, "key", "healed").revision_count == 3
        assert read(one, USER, "key") == "healed"
        assert one.mem_list(USER).items[0].content == "healed"
        one.mem_delete(USER, topic_key="key")
        assert read(two, USER, "key") is None


def test_two_first_writes_at_once_heal(double: Supermemory) -> None:
    with reach(double) as one, reach(double) as two:
        double.faults.add(
            "call_before",
            method="POST",
            path="/v4/memories",
            skip=1,
            run=lambda: save(two, USER, "key", "theirs"),
        )
        save(one, USER, "key", "mine")
        assert len(alive(double)) == 2
        assert read(one, USER, "key") == read(two, USER, "key")
        assert memory_count(one) == 1
        assert save(one, USER, "key", "healed").outcome == "updated"
        assert [row.memory for row in alive(double)] == ["healed"]


def memory_count(memory: Memory) -> int:
    return int(memory.mem_list(USER).total)


def test_a_search_that_lags_costs_the_listing_and_hides_nothing(double: Supermemory, memory: Memory) -> None:
    SUPERMEMORY.fill(double, USER, 500)
    double.search_lag(1000)
    save(memory, USER, "key/7", "new")
    with counting(double) as made:
        assert read(memory, USER, "key/7") == "new"
    assert made.requests == 1 + 3
    assert save(memory, USER, "key/7", "new").outcome == "deduped"
    save(memory, USER, "fresh")
    assert save(memory, USER, "fresh").outcome == "deduped"
    assert len(alive(double)) == 501


def test_a_search_that_is_behind_what_was_read_from_here_is_not_believed(
    double: Supermemory, memory: Memory
) -> None:
    with reach(double) as other:
        save(other, USER, "key", "one")
        save(other, USER, "key", "two")
    assert read(memory, USER, "key") == "two"
    old, new = listed(double)
    old.is_latest, new.found_from = (
        True,
        10**9,
    )  # the index has the old version still, and the new one no more
    assert read(memory, USER, "key") == "two"


def test_a_search_that_still_finds_what_was_forgotten_from_here_is_not_believed(
    double: Supermemory, memory: Memory
) -> None:
    save(memory, USER, "key", "one")
    [row] = alive(double)
    found = {"id": row.id, "memory": row.memory, "metadata": row.metadata, "similarity": 1.0}
    memory.mem_delete(USER, topic_key="key")
    double.faults.add("status", path="/v4/search", times=2, code=200, body={"results": [found], "total": 1})
    assert read(memory, USER, "key") is None
    assert len(memory.mem_search(USER, "one")) == 0


def test_a_record_that_was_rewritten_between_two_pages_is_read_again() -> None:
    layout = laid_out(payload(USER, "long", LONG))
    whole = [
        {"id": str(number), "memory": item["content"], "metadata": item["metadata"]}
        for number, item in enumerate((*layout.parts, layout.item))
    ]
    listings = [whole[1:], whole]

    def answer(request: Any) -> Answer:
        rows = listings.pop(0)
        told = {"memoryEntries": rows, "pagination": {"totalItems": len(rows), "totalPages": 1}}
        return Answer(200, {}, json.dumps(told).encode())

    [row] = drive(SupermemoryDialect().rows(Shelf(USER)), answer)
    assert row.record.content == LONG


@pytest.mark.parametrize("rows", [1, 3])
def test_a_listing_that_grows_while_it_is_read_is_whole(
    double: Supermemory, memory: Memory, rows: int
) -> None:
    SUPERMEMORY.fill(double, USER, 400)
    double.page_shift(rows=rows, times=2)
    with counting(double) as made:
        assert memory.mem_list(USER, limit=1000).total == 400
    assert made.requests == 2  # it is read oldest first, so what is added shifts nothing


def test_pages_that_do_not_add_up_are_an_error_that_names_the_namespace(
    double: Supermemory, memory: Memory
) -> None:
    SUPERMEMORY.fill(double, USER, 300)
    short = {"memoryEntries": [], "pagination": {"totalItems": 300, "totalPages": 1}}
    double.faults.add("status", path="/v4/memories/list", times=2, code=200, body=short)
    with pytest.raises(StoreError, match="team:acme/agent:writer"):
        memory.mem_list(USER)
    assert memory.mem_list(USER).total == 300


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_keys_and_namespaces_are_kept_to_the_letter(double: Supermemory, memory: Memory, name: str) -> None:
    others = [other for other in NAMES if other != name]
    for other in others[:4]:
        save(memory, other, name, "another namespace")
        save(memory, name, other, "another key")
    assert save(memory, name, name, "text").outcome == "created"
    assert read(memory, name, name) == "text"
    assert save(memory, name, name, "new").outcome == "updated"
    with closing(SUPERMEMORY.engine(double)) as cold:
        assert sorted(cold.namespaces()) == sorted([name, *others[:4]])
    assert {topic.key for topic in memory.mem_topics(name)} == {name, *others[:4]}
    assert memory.mem_delete(name, all=True).deleted == 5
    assert read(memory, others[0], name) == "another namespace"
    with closing(SUPERMEMORY.engine(double)) as cold:
        assert sorted(cold.namespaces()) == sorted(others[:4])


class TestLongTexts:
    def test_a_text_in_parts_is_read_in_one_request_and_rewritten_in_three(
        self, double: Supermemory, memory: Memory
    ) -> None:
        SUPERMEMORY.fill(double, USER, 1000)
        save(memory, USER, "long", LONG)
        with reach(double) as cold:
            for process in (memory, cold):
                with counting(double) as made:
                    assert read(process, USER, "long") == LONG
                assert made.requests == 1
        with counting(double) as made:
            assert save(memory, USER, "long", OTHER).revision_count == 2
        assert made.requests == 1 + 3  # the new parts, the head, and the old parts are forgotten
        assert read(memory, USER, "long") == OTHER
        with counting(double) as made:
            assert save(memory, USER, "long", OTHER, title="Another").revision_count == 3
        assert made.requests == 1 + 1
        with counting(double) as made:
            assert memory.mem_delete(USER, topic_key="long").deleted == 1
        assert made.requests == 1 + 1
        assert len(alive(double)) == 1000

    def test_every_earlier_text_stays_readable(self, memory: Memory) -> None:
        texts = [LONG, OTHER, "short", LONG, OTHER + "."]
        for text in texts:
            save(memory, USER, "long", text)
        states = memory.mem_history(USER, topic_key="long")
        assert [state.content for state in states] == texts[::-1]
        assert states.gaps == ()

    def test_a_text_of_more_parts_than_a_search_returns_is_whole(
        self, double: Supermemory, memory: Memory
    ) -> None:
        huge = "".join(f"{number} " for number in range(150_000))
        save(memory, USER, "huge", huge)
        assert read(memory, USER, "huge") == huge
        assert save(memory, USER, "huge", huge).outcome == "deduped"
        save(memory, USER, "huge", "small")
        assert [row.memory for row in alive(double)] == ["small"]

    def test_a_word_in_any_part_finds_the_record_once(self, memory: Memory) -> None:
        save(memory, USER, "long", "word " * 5000 + "zebra " + "word " * 3000)
        save(memory, USER, "short", "nothing of the kind")
        found = memory.mem_search(USER, "zebra")
        assert found[0].topic_key == "long"
        assert "zebra" in found[0].snippet
        assert len(found) == 1
        assert "[...]" in memory.mem_context(USER, query="zebra")  # a piece does not pass for the whole

    def test_a_part_of_an_earlier_text_finds_nothing(
        self, double: Supermemory, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        save(memory, USER, "long", "word " * 5000 + "zebra")
        monkeypatch.setattr("keyfold.engines.remote.transport.time", SimpleNamespace(sleep=lambda _: None))
        double.faults.add("status", path="forget-matching", code=503, times=3)
        with pytest.raises(OutcomeUnknown, match="503"):
            save(memory, USER, "long", "word " * 4000)
        assert any("zebra" in row.memory for row in alive(double))
        assert all("zebra" not in hit.snippet for hit in memory.mem_search(USER, "zebra"))
        assert read(memory, USER, "long") == "word " * 4000
        memory.mem_delete(USER, topic_key="long")
        assert alive(double) == []

    def test_a_record_that_lost_a_part_is_reported_with_what_to_do(
        self, double: Supermemory, memory: Memory
    ) -> None:
        save(memory, USER, "long", LONG)
        save(memory, USER, "short", "short")
        head = alive(double)[-2]
        alive(double)[0].forgotten = True
        with pytest.raises(StoreError, match=r"team:acme/agent:writer.*lost a part"):
            memory.mem_list(USER)
        with pytest.raises(StoreError, match=head.id):
            read(memory, USER, "long")
        assert read(memory, USER, "short") == "short"
        assert save(memory, USER, "new").outcome == "created"  # the others are not held up
        head.forgotten = True
        assert save(memory, USER, "long", OTHER).outcome == "created"
        assert memory.mem_list(USER).total == 3

    def test_a_text_whose_head_was_not_written_is_not_there_yet(
        self, double: Supermemory, memory: Memory
    ) -> None:
        save(memory, USER, "long", LONG)
        double.faults.add("status", method="PATCH", code=500)
        with pytest.raises(OutcomeUnknown, match="500"):
            save(memory, USER, "long", OTHER)
        assert read(memory, USER, "long") == LONG
        assert save(memory, USER, "long", OTHER).revision_count == 2
        assert read(memory, USER, "long") == OTHER
        memory.mem_delete(USER, topic_key="long")
        assert alive(double) == []


def test_a_search_shows_of_two_states_the_one_that_counts(double: Supermemory, memory: Memory) -> None:
    put_supermemory(double, payload(USER, "key", "wolf den"))
    put_supermemory(double, payload(USER, "key", "lynx den", revision=2))
    put_supermemory(double, payload(USER, "other", "a den of rabbits"))
    counts = read(memory, USER, "key")
    assert counts == "lynx den"
    for words in ("wolf den", "lynx den", "den"):
        shown = {hit.snippet for hit in memory.mem_search(USER, words)}
        assert shown == {"lynx den", "a den of rabbits"}


def test_a_search_that_is_behind_what_was_written_from_here_shows_no_earlier_state(
    double: Supermemory, memory: Memory
) -> None:
    save(memory, USER, "key", "wolf den")
    found = [
        {"id": row.id, "memory": row.memory, "metadata": row.metadata, "similarity": 1.0}
        for row in alive(double)
    ]
    with reach(double) as other:
        save(other, USER, "key", "lynx den")
    assert read(memory, USER, "key") == "lynx den"
    double.faults.add("status", path="/v4/search", code=200, body={"results": found, "total": 1})
    assert len(memory.mem_search(USER, "wolf den")) == 0
