"""Pages, ids, empty input, ranking, values, keys, resources, cost, visibility: C098 to C121."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import AsyncMemory, InvalidRequest, Memory, open_engine
from tests.cases.common import NOTE, USER, found, save
from tests.conftest import SteppedClock
from tests.torture.common import word


def pages(memory: Memory, limit: int) -> list[list[str]]:
    """The ids of a listing, page by page; at most ten pages."""
    told: list[list[str]] = []
    cursor: str | None = None
    for _ in range(10):
        page = memory.mem_list(USER, limit=limit, cursor=cursor)
        told.append([record.id for record in page])
        cursor = page.next_cursor
        if cursor is None:
            break
    return told


def test_c098_rows_of_one_instant_are_paged_without_loss(memory: Memory) -> None:
    ids = [save(memory, f"text {number}").id for number in range(5)]
    assert pages(memory, 2) == [ids[:2:-1], ids[2:0:-1], ids[:1]]


def test_c099_pages_do_not_overlap_even_when_more_is_written(memory: Memory, clock: SteppedClock) -> None:
    ids = []
    for number in range(6):
        ids.append(save(memory, f"text {number}").id)
        clock.forward(seconds=1)
    first = memory.mem_list(USER, limit=3)
    save(memory, "written between two pages")
    second = memory.mem_list(USER, limit=3, cursor=first.next_cursor)
    assert [record.id for record in (*first, *second)] == ids[::-1]
    before = memory.mem_timeline(USER, ids[3], before=2, after=0)
    assert [entry.id for entry in before] == ids[1:4]


def test_c100_an_id_stays_what_it_was(open_memory: Callable[..., Memory], clock: SteppedClock) -> None:
    memory = open_memory()
    saved = save(memory, "one", topic_key="k")
    clock.forward(days=40)
    told = [save(memory, "two", topic_key="k").id, memory.mem_update(USER, topic_key="k", title="T").id]
    hit = memory.mem_search(USER, "two")[0]
    assert [*told, hit.id, memory.mem_list(USER)[0].id] == [saved.id] * 4
    assert memory.mem_get_observation(USER, saved.id) is not None


def test_c101_a_colon_in_a_name_or_an_id_is_no_trouble(memory: Memory, keyfold: Any) -> None:
    saved = save(memory, "text", "org:ana", topic_key="a:b:c")
    assert memory.mem_get_observation("org:ana", topic_key="a:b:c") is not None
    assert memory.mem_get_observation("org:ana", saved.id) is not None
    for strange in ("x:1", "1:2", "::", "%3A"):
        assert memory.mem_get_observation("org:ana", strange) is None
        assert memory.mem_delete("org:ana", strange).deleted == 0
    keyfold("save", "--type", "decision", "--title", "t", "--topic", "a:b", "text")
    assert keyfold("get", "--topic", "a:b").code == 0
    assert keyfold("get", "x:1").code == 1


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_c102_a_blank_query_is_an_error_and_never_everything(memory: Memory, query: str) -> None:
    save(memory, "text")
    with pytest.raises(InvalidRequest, match="blank"):
        memory.mem_search(USER, query)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u3000"])
def test_c103_a_blank_text_is_an_error(memory: Memory, text: str, keyfold: Any) -> None:
    with pytest.raises(InvalidRequest, match="blank"):
        save(memory, text)
    assert memory.mem_list(USER).total == 0
    assert keyfold("save", "--type", "decision", "--title", "t", "--", text).code == 2


def test_c104_tags_alone_list_what_has_them(memory: Memory) -> None:
    save(memory, "plain")
    tagged = save(memory, "tagged", tags=["x"])
    assert found(memory, "", tags=["x"]) == [tagged.id]
    assert [record.id for record in memory.mem_list(USER, tags=["x"])] == [tagged.id]


def test_c105_the_one_with_every_word_comes_first(memory: Memory, settle: Callable[[Memory], None]) -> None:
    save(memory, "apple apple apple")
    best = save(memory, "one apple, one pear and one plum among many other words that are there too")
    save(memory, "pear pear pear")
    settle(memory)
    assert found(memory, "apple pear plum")[0] == best.id


def test_c106_a_better_match_has_a_higher_score(memory: Memory) -> None:
    good = save(memory, "apple apple pie")
    weak = save(memory, "an apple is mentioned in a text that is mostly about something else entirely")
    hits = memory.mem_search(USER, "apple")
    assert [hit.id for hit in hits] == [good.id, weak.id]
    assert 1 >= hits[0].score > hits[1].score > 0


@pytest.mark.parametrize("query", ["apple", "apple zebra", "the of", "apple the", "zebra apple lion"])
def test_c107_scores_are_on_one_scale_however_the_query_is_answered(memory: Memory, query: str) -> None:
    save(memory, "the apple of the eye")
    save(memory, "apple")
    hits = memory.mem_search(USER, query, explain=True)
    assert hits
    for hit in hits:
        assert 0 < hit.score <= 1
        assert hit.explain is not None
        assert (hit.score >= 0.5) == (hit.explain["every_word"] == 1.0)


def test_c108_numbers_compare_as_numbers_beside_a_string(memory: Memory) -> None:
    for score in (9, 10, 100, "10", None, True):
        save(memory, f"score {score!r}", metadata={"score": score})
    kept = memory.mem_list(USER, filter={"score": {"gte": 10}})
    assert sorted(record.metadata["score"] for record in kept) == [10, 100]


def test_c109_an_object_in_a_filter_means_the_same_everywhere(memory: Memory) -> None:
    save(memory, "text", metadata={"a": {"b": 1}})
    with pytest.raises(InvalidRequest, match="wrap it in eq"):
        memory.mem_list(USER, filter={"a": {"b": 1}})
    assert memory.mem_list(USER, filter={"a": {"eq": {"b": 1}}}).total == 1
    assert memory.mem_list(USER, filter={"a.b": 1}).total == 1


def test_c110_metadata_outlives_a_new_text(memory: Memory) -> None:
    saved = save(memory, "one", topic_key="k", metadata={"a": 1}, tags=["x"])
    memory.mem_update(USER, saved.id, content="two")
    save(memory, "three", topic_key="k")
    held = memory.mem_get_observation(USER, saved.id)
    assert held is not None
    assert (held.content, held.metadata, held.tags) == ("three", {"a": 1}, ("x",))


@pytest.mark.parametrize("key", [".", "..", "/", "//", "a/../b", "%2e", "a b", "#"])
def test_c111_any_key_is_reachable(memory: Memory, key: str, keyfold: Any) -> None:
    assert save(memory, "text", topic_key=key).topic_key == key
    held = memory.mem_get_observation(USER, topic_key=key)
    assert held is not None
    assert held.topic_key == key
    assert keyfold("save", "--type", "decision", "--title", "t", "--topic", key, "text").code == 0
    assert keyfold("get", "--topic", key, "--json").document["topic_key"] == key


def test_c112_a_key_with_a_slash_is_forgotten_by_its_name(memory: Memory, keyfold: Any) -> None:
    save(memory, "text", topic_key="a/b")
    kept = save(memory, "text", topic_key="a-b")
    assert memory.mem_delete(USER, topic_key="a/b").deleted == 1
    assert [topic.id for topic in memory.mem_topics(USER)] == [kept.id]
    keyfold("save", "--type", "decision", "--title", "t", "--topic", "a/b", "text")
    assert keyfold("forget", "--topic", "a/b", "--yes").code == 0
    assert keyfold("get", "--topic", "a/b").code == 1


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112


def test_c113_short_threads_leave_no_files_open(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        save(memory, "apple")
        assert found(memory, "apple")
        before = open_files()
        for _ in range(500):
            thread = threading.Thread(target=lambda: memory.mem_list(USER))
            thread.start()
            thread.join()
        assert open_files() <= before + 2


def test_c114_opening_a_hundred_times_leaves_nothing_open(tmp_path: Path) -> None:
    Memory.open(tmp_path / "memory.db").close()
    before = open_files()
    for number in range(100):
        with Memory.open(tmp_path / "memory.db") as memory:
            memory.mem_session_start(f"user {number}")
            memory.mem_list(USER)
    assert open_files() <= before + 1


def test_c115_a_topic_that_is_rewritten_for_ever_takes_bounded_room(
    open_memory: Callable[..., Memory],
) -> None:
    memory = open_memory(keep_revisions=3)
    for number in range(200):
        save(memory, f"text {number}", topic_key="k")
    history = memory.mem_history(USER, topic_key="k")
    assert [state.revision for state in history] == [200, 199, 198]
    assert memory.mem_stats(USER)["revisions"] == 3
    assert history.gaps == ((1, 197),)


def traced(path: Path, work: Callable[[Any], object]) -> list[str]:
    """The statements that an engine runs for a call."""
    seen: list[str] = []

    def listen(conn: apsw.Connection) -> None:
        conn.exec_trace = lambda _, sql, __: seen.append(sql) or True

    apsw.connection_hooks.append(listen)
    try:
        engine = open_engine(path)
        try:
            work(engine)  # the first opens a connection to read with
            seen.clear()
            work(engine)
            return list(seen)
        finally:
            engine.close()
    finally:
        apsw.connection_hooks.remove(listen)


def test_c116_a_status_is_a_few_statements_however_much_there_is(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory:
        memory.mem_save_many(USER, [{"content": f"text {n}", **NOTE} for n in range(500)])
    assert len(traced(path, lambda engine: engine.count(USER))) <= 6


def test_c117_listing_the_users_reads_no_record(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory:
        for number in range(20):
            save(memory, "text", f"user {number:02}")
    statements = [sql for sql in traced(path, lambda engine: engine.namespaces()) if "namespaces" in sql]
    assert len(statements) == 1
    conn = apsw.Connection(str(path))
    plan = [row[3] for row in conn.execute("EXPLAIN QUERY PLAN " + statements[0], (0,))]
    conn.close()
    assert not [step for step in plan if step.startswith("SCAN r")], plan


def test_c118_a_hundred_and_fifty_topics_come_by_name_and_say_what_is_left_out(memory: Memory) -> None:
    items = [{"content": f"text {n}", **NOTE, "topic_key": f"k{n:03}"} for n in range(150)]
    memory.mem_save_many(USER, items)
    topics = memory.mem_topics(USER, limit=50)
    assert [topic.key for topic in topics] == [f"k{number:03}" for number in range(50)]
    assert (topics.total, topics.truncated, len(memory.mem_topics(USER))) == (150, True, 150)


def test_c119_what_was_written_is_recalled_at_once(memory: Memory) -> None:
    for number in range(40):
        saved = save(memory, f"text {word(number)}")
        assert found(memory, word(number)) == [saved.id]


def test_c120_what_was_acknowledged_is_visible_to_everybody(tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncMemory.open(tmp_path / "a.db") as one, AsyncMemory.open(tmp_path / "a.db") as other:
            saved = await one.mem_save(USER, "apple", **NOTE, topic_key="k")
            held = await other.mem_get_observation(USER, saved.id)
            assert held is not None
            assert held.content == "apple"
            assert (await other.mem_search(USER, "apple")).total == 1

    asyncio.run(work())


def test_c121_a_name_is_kept_as_it_is_on_every_call(memory: Memory, keyfold: Any) -> None:
    name = "Team.Alpha"
    saved = save(memory, "apple", name, topic_key="Some.Key")
    assert save(memory, "apple", name.lower()).outcome == "created"
    held = memory.mem_get_observation(name, saved.id)
    assert held is not None
    assert (held.user_id, held.topic_key) == (name, "Some.Key")
    assert found(memory, "apple", name) == [saved.id]
    assert save(memory, "pear", name, topic_key="some.key").similar_keys == ("Some.Key",)
    assert memory.mem_delete(name, all=True).deleted == 2
    assert memory.mem_list(name.lower()).total == 1
    assert keyfold("save", "--user", name, "--type", "decision", "--title", "t", "text").code == 0
    assert keyfold("list", "--user", name.upper()).code == 1
