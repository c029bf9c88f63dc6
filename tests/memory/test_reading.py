"""Reading back: history, revisions, restoring, timelines, lists, topics, search, forgetting."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from keyfold import Filter, InvalidRequest, Memory, NotFound, Unsupported
from tests.conftest import SteppedClock

AUTH: dict[str, Any] = {"type": "decision", "title": "Auth", "topic_key": "architecture/auth"}
NOTE: dict[str, Any] = {"type": "discovery", "title": "Note"}


def write_three(memory: Memory, clock: SteppedClock) -> str:
    for text in ("one", "two", "three"):
        receipt = memory.mem_save("alice", text, **{**AUTH, "title": f"Auth {text}"})
        clock.forward(minutes=10)
    return receipt.id


def test_history_holds_every_state_newest_first(memory: Memory, clock: SteppedClock) -> None:
    write_three(memory, clock)
    history = memory.mem_history("alice", topic_key="architecture/auth")
    assert [(state.revision, state.content, state.is_current) for state in history] == [
        (3, "three", True),
        (2, "two", False),
        (1, "one", False),
    ]
    assert history[1].written_at - history[2].written_at == timedelta(minutes=10)
    assert "-two" in history.diff()
    assert "+three" in history.diff(1, 3)


def test_a_revision_is_read_and_restored_as_a_new_one(memory: Memory, clock: SteppedClock) -> None:
    identity = write_three(memory, clock)
    memory.mem_update("alice", identity, metadata={"added": 1})
    assert memory.mem_revision("alice", identity, revision=1).content == "one"
    restored = memory.mem_restore("alice", identity, revision=1)
    held = memory.mem_get_observation("alice", identity)
    assert held is not None
    assert (restored.outcome, restored.revision_count, held.content, held.title) == (
        "updated",
        5,
        "one",
        "Auth one",
    )
    assert held.metadata == {}
    assert memory.mem_restore("alice", identity, revision=5).outcome == "deduped"
    with pytest.raises(NotFound, match="1 to 5"):
        memory.mem_restore("alice", identity, revision=9)


def test_retention_keeps_the_newest_and_marks_the_gap(open_memory: Any, clock: SteppedClock) -> None:
    memory = open_memory(keep_revisions=2)
    write_three(memory, clock)
    history = memory.mem_history("alice", topic_key="architecture/auth")
    assert [state.revision for state in history] == [3, 2]
    assert history.gaps == ((1, 1),)


def test_a_timeline_shows_neighbours_and_the_topics_own_past(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_save("alice", "before", **NOTE)
    clock.forward(minutes=1)
    identity = write_three(memory, clock)
    memory.mem_save("alice", "after", **NOTE)
    entries = memory.mem_timeline("alice", identity)
    assert [(entry.content, entry.revision_count, entry.is_past) for entry in entries] == [
        ("before", 1, False),
        ("one", 1, True),
        ("two", 2, True),
        ("three", 3, False),
        ("after", 1, False),
    ]
    assert [entry.updated_at for entry in entries] == sorted(entry.updated_at for entry in entries)
    assert [entry.is_anchor for entry in entries] == [False, False, False, True, False]
    assert [entry.content for entry in memory.mem_timeline("alice", identity, before=0, after=0)] == ["three"]


def test_a_timeline_of_the_absent_is_not_found(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.mem_timeline("alice", 12345)


def test_a_list_pages_through_everything_without_overlap(memory: Memory) -> None:
    for number in range(25):
        memory.mem_save("alice", f"fact {number}", **NOTE)
    seen: list[str] = []
    cursor = None
    while True:
        page = memory.mem_list("alice", limit=10, cursor=cursor)
        assert page.total == 25
        seen += [record.content for record in page]
        cursor = page.next_cursor
        assert page.truncated is (cursor is not None)
        if cursor is None:
            break
    assert seen == [f"fact {number}" for number in reversed(range(25))]


def test_filters_narrow_lists_and_searches_alike(memory: Memory) -> None:
    memory.mem_save("alice", "zebra one", **NOTE, tags=["a"], metadata={"score": 9})
    memory.mem_save("alice", "zebra two", **NOTE, tags=["b"], metadata={"score": 10})
    memory.mem_save("alice", "zebra three", **AUTH, tags=["a", "b"], metadata={"score": "high"})
    for kept, narrowed in (
        ({"three"}, {"tags": ["a", "b"]}),
        ({"one", "two", "three"}, {"tags": {"any": ["a", "b"]}}),
        ({"two"}, {"filter": {"score": {"gte": 10}}}),
        ({"one", "two"}, {"types": ["discovery"]}),
        ({"three"}, {"types_exclude": ["discovery"]}),
        ({"three"}, {"topic_prefix": "architecture/"}),
        ({"one"}, {"filter": Filter(tags=("a",), types=("discovery",))}),
    ):
        found = {hit.snippet.split()[-1] for hit in memory.mem_search("alice", "zebra", **narrowed)}
        listed = {record.content.split()[-1] for record in memory.mem_list("alice", **narrowed)}
        empty = {hit.snippet.split()[-1] for hit in memory.mem_search("alice", "", **narrowed)}
        assert found == listed == empty == kept, narrowed


def test_topics_are_sorted_and_take_a_prefix(memory: Memory) -> None:
    for key in ("b/x", "a/y", "a/x", "a%/z"):
        memory.mem_save("alice", "text", **{**AUTH, "topic_key": key})
    memory.mem_save("alice", "unkeyed", **NOTE)
    assert [topic.key for topic in memory.mem_topics("alice")] == ["a%/z", "a/x", "a/y", "b/x"]
    assert [topic.key for topic in memory.mem_topics("alice", "a/")] == ["a/x", "a/y"]
    assert [topic.key for topic in memory.mem_topics("alice", "a%")] == ["a%/z"]


def test_a_suggested_key_is_an_existing_near_one_first(memory: Memory) -> None:
    memory.mem_save("alice", "JWT", **{**AUTH, "title": "Auth model"})
    found = memory.mem_suggest_topic_key("alice", type="architecture", title="The auth model")
    assert (found[0].key, found[0].exists) == ("architecture/auth", True)
    assert (found[-1].key, found[-1].exists) == ("architecture/the-auth-model", False)


def test_search_puts_what_holds_every_word_first_and_scores_lie_in_one_scale(memory: Memory) -> None:
    memory.mem_save("alice", "budget review", **NOTE)
    memory.mem_save("alice", "budget meeting and its long review by everyone in the team", **NOTE)
    memory.mem_save("alice", "a meeting", **NOTE)
    results = memory.mem_search("alice", "meeting budget review")
    assert results[0].snippet.startswith("budget meeting and its")
    assert [hit.score for hit in results] == sorted((hit.score for hit in results), reverse=True)
    assert all(0 <= hit.score <= 1 for hit in results)
    assert (results.total, results.truncated) == (3, False)
    explained = memory.mem_search("alice", "budget", explain=True)[0].explain
    assert explained is not None
    assert {"relevance", "recency", "revisions"} <= set(explained)


@pytest.mark.parametrize(
    ("stored", "query"),
    [
        ("a café in Málaga", "cafe malaga"),
        ("cafe\u0301 noir", "café"),
        ("ＦＵＬＬ width ﬁne", "full fine"),
        ("\u1112\u1161\u11ab\u1100\u1173\u11af text", "한글"),
        ("東京都に住む", "京都"),
        ("tomamos varias decisiones ayer", "decisión"),
        ("we were running the migrations", "migration run"),
        ("StripLegacyATLBlock removes it", "StripLegacyATLBlock"),
        ("the file Downloads/transcripts", "Downloads/transcripts"),
        ("state-of-the-art code", "state-of-the-art"),
        ("call grammar::fa now", "grammar::fa"),
        ("album Vol. 2", "Vol. 2"),
        ('say foo"bar', 'foo"bar'),
        ("Go is fine", "Go"),
        ("to be or not to be", "to be"),
    ],
)
def test_words_are_found_whatever_their_form(memory: Memory, stored: str, query: str) -> None:
    memory.mem_save("alice", stored, **NOTE)
    memory.mem_save("alice", "something else entirely, zzz", **NOTE)
    assert [hit.snippet for hit in memory.mem_search("alice", query)] == [stored]


@pytest.mark.parametrize(
    "query", ['"', "AND", "NOT x OR", "col:val", "(((", "*", "^a", "-", "???", "\\", "NEAR(a b)"]
)
def test_no_punctuation_is_an_error(memory: Memory, query: str) -> None:
    memory.mem_save("alice", "ordinary", **NOTE)
    assert memory.mem_search("alice", query).total == 0


def test_reach_looks_above_or_below_and_never_beside(memory: Memory) -> None:
    for user in ("team", "team/a", "team/b", "team/a/x", "teamster"):
        memory.mem_save(user, f"zebra of {user}", **{**AUTH, "topic_key": user})
    assert [hit.user_id for hit in memory.mem_search("team/a", "zebra")] == ["team/a"]
    up = {hit.user_id for hit in memory.mem_search("team/a", "zebra", reach="inherit")}
    down = {hit.user_id for hit in memory.mem_search("team", "zebra", reach="subtree")}
    assert up == {"team", "team/a"}
    assert down == {"team", "team/a", "team/b", "team/a/x"}
    inherited = memory.mem_get_observation("team/a", topic_key="team", reach="inherit")
    assert inherited is not None
    assert memory.mem_get_observation("team/a", topic_key="team") is None
    assert memory.mem_list("team", reach="subtree").total == 4


def test_forgetting_by_id_key_filter_and_all(memory: Memory) -> None:
    kept = memory.mem_save("bob", "zebra", **NOTE)
    one = memory.mem_save("alice", "zebra one", **NOTE)
    memory.mem_save("alice", "zebra two", **AUTH)
    memory.mem_save("alice", "zebra three", **NOTE, tags=["old"])
    memory.mem_save("alice", "zebra four", **NOTE)
    dry = memory.mem_delete("alice", all=True, dry_run=True)
    assert (dry.dry_run, dry.erased, memory.mem_list("alice").total) == (True, False, 4)
    assert memory.mem_delete("alice", one.id).deleted == 1
    assert memory.mem_delete("alice", topic_key="architecture/auth").deleted == 1
    assert memory.mem_delete("alice", filter=Filter(tags=("old",))).deleted == 1
    assert memory.mem_delete("alice", filter=Filter(tags=("old",))).deleted == 0
    assert [hit.snippet for hit in memory.mem_search("alice", "zebra")] == ["zebra four"]
    assert len(memory.mem_history("alice", topic_key="architecture/auth")) == 0
    assert memory.mem_delete("alice", all=True).erased is True
    assert memory.mem_stats("alice")["total"] == memory.mem_session_list("alice").total == 0
    assert memory.mem_get_observation("bob", kept.id) is not None
    anew = memory.mem_save("alice", "zebra", **AUTH)
    assert (anew.outcome, anew.revision_count, int(anew.id) > int(one.id)) == ("created", 1, True)


def test_recall_says_what_to_use_instead(memory: Memory) -> None:
    with pytest.raises(Unsupported, match="mem_context"):
        memory.mem_recall("alice", "who?")


def test_the_id_of_a_session_names_no_memory(memory: Memory) -> None:
    saved = memory.mem_save("alice", "text", **NOTE)
    sessions = [str(number) for number in range(1, 9) if str(number) != saved.id]
    for identity in sessions:
        assert memory.mem_get_observation("alice", identity) is None
        assert len(memory.mem_history("alice", identity)) == 0
        assert memory.mem_delete("alice", identity).deleted == 0
        with pytest.raises(NotFound):
            memory.mem_update("alice", identity, type="decision", session_id="other")
        with pytest.raises(NotFound):
            memory.mem_revision("alice", identity, revision=1)
        with pytest.raises(NotFound):
            memory.mem_restore("alice", identity, revision=1)
    assert [session.status for session in memory.mem_session_list("alice")] == ["active"]


def test_forgetting_all_counts_memories_and_takes_sessions_along(memory: Memory) -> None:
    for number in range(3):
        memory.mem_save("alice", f"fact {number}", **NOTE)
    assert memory.mem_delete("alice", all=True, dry_run=True).deleted == 3
    assert memory.mem_delete("alice", all=True).deleted == 3
    assert memory.mem_session_list("alice").total == 0


def test_a_document_sent_again_without_what_it_has_keeps_it(memory: Memory) -> None:
    first = memory.mem_add_document(
        "alice", source="s", text="t", title="Ti", mime="text/plain", metadata={"a": 1}
    )
    assert memory.mem_add_document("alice", source="s", text="t").outcome == "deduped"
    memory.mem_add_document("alice", source="s", text="changed")
    held = memory.mem_get_observation("alice", first.id)
    assert held is not None
    assert (held.title, held.metadata) == ("Ti", {"a": 1, "mime": "text/plain", "source": "s"})
    memory.mem_add_document("alice", source="s", text="changed", metadata={"b": 2}, title="New")
    held = memory.mem_get_observation("alice", first.id)
    assert held is not None
    assert (held.title, held.metadata) == ("New", {"b": 2, "mime": "text/plain", "source": "s"})


def test_history_revisions_and_timelines_are_read_through_a_reach(
    memory: Memory, clock: SteppedClock
) -> None:
    identity = write_three(memory, clock)
    memory.mem_save("alice/helper", "own", **NOTE)
    key = "architecture/auth"
    assert len(memory.mem_history("alice/helper", topic_key=key, reach="inherit")) == 3
    assert memory.mem_revision("alice/helper", topic_key=key, revision=2, reach="inherit").content == "two"
    entries = memory.mem_timeline("alice/helper", topic_key=key, reach="inherit")
    assert [entry.content for entry in entries] == ["one", "two", "three", "own"]
    assert [entry.id for entry in entries if entry.is_anchor] == [identity]
    with pytest.raises(NotFound):
        memory.mem_timeline("alice/helper", topic_key=key)


def test_a_diff_of_too_few_revisions_is_refused_with_what_is_kept(memory: Memory) -> None:
    saved = memory.mem_save("alice", "one", **NOTE)
    with pytest.raises(InvalidRequest, match="kept: 1"):
        memory.mem_history("alice", saved.id).diff()
