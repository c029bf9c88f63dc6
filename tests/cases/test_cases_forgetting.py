"""Truncation, deletion and the index after changes: C029 to C044."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import Config, InvalidRequest, Memory
from keyfold.engines.sqlite.doctor import examine
from tests.cases.common import NOTE, USER, found, save
from tests.conftest import SteppedClock

Settle = Callable[[Memory], None]


def fill(memory: Memory, number: int) -> None:
    memory.mem_save_many(USER, [{"content": f"apple {n}", **NOTE} for n in range(number)])


def test_c029_twenty_one_are_listed_as_twenty_one(memory: Memory, keyfold: Any, saved: Any) -> None:
    fill(memory, 21)
    page = memory.mem_list(USER)
    assert (len(page), page.total, page.truncated) == (21, 21, False)
    for number in range(21):
        saved(f"text {number}")
    assert len(keyfold("list", "--json").document["items"]) == 21


def test_c030_a_limit_is_honoured_or_the_answer_says_truncated(memory: Memory) -> None:
    fill(memory, 101)
    assert len(memory.mem_list(USER, limit=200)) == 101
    page = memory.mem_list(USER, limit=100)
    assert (len(page), page.total, page.truncated) == (100, 101, True)
    assert len(memory.mem_list(USER, limit=100, cursor=page.next_cursor)) == 1


def test_c031_the_total_counts_all_matches(memory: Memory) -> None:
    fill(memory, 11)
    results = memory.mem_search(USER, "apple")
    assert (len(results), results.total, results.truncated) == (10, 11, True)


def test_c032_deleting_one_user_leaves_the_other(memory: Memory) -> None:
    save(memory, "of ana", "ana")
    kept = save(memory, "of ben", "ben")
    assert memory.mem_delete("ana", all=True).deleted == 1
    assert memory.mem_get_observation("ben", kept.id) is not None
    assert found(memory, "ben", "ben") == [kept.id]


def test_c033_the_survivor_of_two_similar_ones_is_found(memory: Memory, settle: Settle) -> None:
    best = save(memory, "apple apple pie")
    other = save(memory, "an apple, with much else said around it")
    settle(memory)
    assert found(memory, "apple pie", limit=1) == [best.id]
    memory.mem_delete(USER, best.id)
    assert found(memory, "apple pie", limit=1) == [other.id]


def test_c034_the_same_item_of_another_user_is_left_alone(memory: Memory) -> None:
    save(memory, "shared", "ana", topic_key="k")
    save(memory, "shared", "ben", topic_key="k")
    assert memory.mem_delete("ana", topic_key="k").deleted == 1
    assert memory.mem_get_observation("ben", topic_key="k") is not None
    assert found(memory, "shared", "ben")


def test_c035_forgetting_all_counts_honestly(memory: Memory, keyfold: Any, saved: Any) -> None:
    assert memory.mem_delete(USER, all=True).deleted == 0
    fill(memory, 3)
    assert memory.mem_delete(USER, all=True).deleted == 3
    saved("text")
    assert keyfold("forget", "--all", "--yes").code == 0
    assert keyfold("forget", "--all", "--yes").code == 1


def test_c036_what_a_search_names_can_be_forgotten_by_that_name(memory: Memory) -> None:
    save(memory, "apple", topic_key="k")
    hit = memory.mem_search(USER, "apple")[0]
    assert memory.mem_delete(USER, hit.id).ids == (hit.id,)
    assert memory.mem_list(USER).total == 0


def test_c037_what_is_forgotten_is_gone_by_every_way_of_reading(memory: Memory, settle: Settle) -> None:
    other = save(memory, "other words")
    gone = save(memory, "zebra", title="Zebra", topic_key="zebra", tags=["zebra"])
    settle(memory)
    save(memory, "zebra again", title="Zebra", topic_key="zebra")
    memory.mem_delete(USER, topic_key="zebra")
    assert memory.mem_search(USER, "zebra").total == 0
    assert memory.mem_search(USER, "", tags=["zebra"]).total == 0
    assert [record.id for record in memory.mem_list(USER)] == [other.id]
    assert memory.mem_get_observation(USER, gone.id) is None
    assert memory.mem_get_observation(USER, topic_key="zebra") is None
    assert len(memory.mem_history(USER, gone.id)) == 0
    assert len(memory.mem_topics(USER)) == 0
    assert [entry.id for entry in memory.mem_timeline(USER, other.id)] == [other.id]
    assert "zebra" not in memory.mem_context(USER).lower()
    assert not any(s.exists for s in memory.mem_suggest_topic_key(USER, type="decision", title="Zebra"))
    assert memory.mem_stats(USER)["total"] == 1


def test_c038_a_key_that_was_forgotten_begins_anew(memory: Memory) -> None:
    first = save(memory, "one", topic_key="k")
    save(memory, "two", topic_key="k")
    memory.mem_delete(USER, topic_key="k")
    again = save(memory, "one", topic_key="k")
    assert (again.outcome, again.revision_count, again.id != first.id) == ("created", 1, True)
    assert [state.content for state in memory.mem_history(USER, topic_key="k")] == ["one"]


def test_c039_an_empty_selector_forgets_nothing(memory: Memory, keyfold: Any, saved: Any) -> None:
    fill(memory, 2)
    calls: list[dict[str, Any]] = [{}, {"filter": {}}, {"filter": {}, "dry_run": True}]
    for empty in calls:
        with pytest.raises(InvalidRequest):
            memory.mem_delete(USER, **empty)
    with pytest.raises(InvalidRequest):
        memory.mem_delete(USER, "1", all=True)
    assert memory.mem_list(USER).total == 2
    saved("text")
    assert keyfold("forget", "--yes").code == 2
    assert len(keyfold("list", "--json").document["items"]) == 1


def test_c040_nothing_points_at_what_was_forgotten(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_session_start(USER)
    save(memory, "stays", title="Stays")
    gone = save(memory, "goes", title="Goes")
    clock.forward(hours=30)
    memory.mem_session_start(USER)  # closes the first, whose summary names what it held
    memory.mem_delete(USER, gone.id)
    summary = memory.mem_session_list(USER)[-1].summary
    assert summary is not None
    assert ("Stays" in summary, "Goes" in summary) == (True, False)
    assert found(memory, "goes") == []


def test_c041_what_was_appended_is_found_and_what_was_replaced_is_not(memory: Memory, settle: Settle) -> None:
    saved = save(memory, "walrus", topic_key="k")
    settle(memory)
    memory.mem_update(USER, saved.id, content="walrus zebra")
    assert found(memory, "zebra") == [saved.id]
    memory.mem_update(USER, saved.id, content="lion")
    assert (found(memory, "lion"), found(memory, "zebra")) == ([saved.id], [])


def test_c042_a_row_that_was_dead_on_arrival_is_removed_cleanly(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    clock = SteppedClock()
    with Memory.open(path, config=Config(clock=clock)) as memory:
        dead = save(memory, "dead on arrival", expires_at=timedelta(seconds=1))
        clock.forward(seconds=2)  # before the index has seen it
        save(memory, "alive")
        memory.engine.reindex()  # type: ignore[attr-defined]  # the embedded engine's own step
        assert found(memory, "arrival") == []
        memory.mem_delete(USER, dead.id)
        assert [hit.snippet for hit in memory.mem_search(USER, "alive")] == ["alive"]
    diagnosis = examine(path)
    assert diagnosis.ok, diagnosis.findings


def test_c043_an_index_out_of_step_blocks_no_forget_and_is_made_again(tmp_path: Path, keyfold: Any) -> None:
    path = str(tmp_path / "memory.db")
    with Memory.open(path) as memory:
        gone, kept = save(memory, "apple", "default"), save(memory, "pear", "default")
        memory.engine.reindex()  # type: ignore[attr-defined]  # the embedded engine's own step
    conn = apsw.Connection(path)
    conn.execute("INSERT INTO words (words) VALUES ('delete-all')")
    conn.close()
    assert keyfold("doctor").code != 0
    with Memory.open(path) as memory:
        assert memory.mem_delete("default", gone.id).deleted == 1
    assert keyfold("doctor", "--repair").code == 0
    assert keyfold("search", "pear", "--json").document["items"][0]["id"] == kept.id
    assert examine(path).ok


def test_c044_a_copied_store_is_searched_old_and_new(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "old.db") as memory:
        old = save(memory, "apple of old")
    shutil.copy(tmp_path / "old.db", tmp_path / "new.db")
    (tmp_path / "new.db").rename(tmp_path / "renamed.db")
    with Memory.open(tmp_path / "renamed.db") as memory:
        new = save(memory, "apple of new")
        assert set(found(memory, "apple")) == {old.id, new.id}
