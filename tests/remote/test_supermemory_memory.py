"""The agent-facing calls on Supermemory: sessions, turns, documents, context, statistics, whole histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from keyfold import Memory
from keyfold.errors import Conflict
from tests.conftest import SteppedClock
from tests.doubles.supermemory import Supermemory
from tests.remote.common import KEY
from tests.remote.supermemory_service import USER, counting, listed, reach, read, save


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory]) -> Supermemory:
    return running(Supermemory(key=KEY))


@pytest.fixture
def memory(double: Supermemory, clock: SteppedClock) -> Iterator[Memory]:
    with reach(double, clock=clock) as memory:
        yield memory


def test_a_days_work(memory: Memory, clock: SteppedClock) -> None:
    started = memory.mem_session_start(USER)
    assert started.is_new
    first = save(memory, USER, "architecture/auth", "JWT, one hour.", tags=["auth"])
    assert (first.outcome, first.session_id) == ("created", started.session_id)
    clock.forward(minutes=1)
    second = save(memory, USER, "architecture/auth", "JWT, one hour, refresh tokens.")
    assert (second.outcome, second.revision_count, second.id) == ("updated", 2, first.id)
    again = save(memory, USER, "architecture/auth", "JWT, one hour, refresh tokens.")
    assert (again.outcome, again.replayed) == ("deduped", True)
    unkeyed = save(memory, USER, None, "Prefers tea.", type="preference")
    assert save(memory, USER, None, "Prefers tea.", type="preference").id == unkeyed.id
    assert save(memory, USER, None, "<private>secret</private> tea").outcome == "created"
    assert memory.mem_search(USER, "refresh tokens")[0].topic_key == "architecture/auth"
    assert [topic.key for topic in memory.mem_topics(USER)] == ["architecture/auth"]
    assert memory.mem_list(USER, tags=["auth"]).total == 1
    assert "refresh tokens" in memory.mem_context(USER)
    stats = memory.mem_stats(USER)
    assert (stats["total"], stats["topics"], stats["revisions"]) == (3, 1, 4)
    memory.mem_session_summary(USER, "Decided on tokens.")
    memory.mem_session_end(USER)
    clock.forward(minutes=1)
    assert [session.summary for session in memory.mem_session_start(USER).summaries] == ["Decided on tokens."]
    assert memory.mem_delete(USER, topic_key="architecture/auth").deleted == 1
    assert read(memory, USER, "architecture/auth") is None


def test_nothing_private_leaves_the_process(double: Supermemory, memory: Memory) -> None:
    save(memory, USER, "key", "a <private>hidden</private> b", title="c <private>hidden</private>")
    assert double.seen
    assert not any(b"hidden" in seen.body for seen in double.seen)


def test_a_deleted_text_is_said_to_stay_with_the_service(double: Supermemory, memory: Memory) -> None:
    save(memory, USER, "key", "text")
    told = memory.mem_delete(USER, topic_key="key")
    assert "container tag" in str(told.erased)
    assert [row.memory for row in listed(double)] == ["text"]  # and so it does


def test_turns_never_change_and_documents_are_revised(memory: Memory) -> None:
    turn = {"thread_id": "t", "index": 0, "role": "user"}
    assert memory.mem_log_turn(USER, text="hello", **turn).outcome == "created"
    assert memory.mem_log_turn(USER, text="hello", **turn).replayed
    with pytest.raises(Conflict):
        memory.mem_log_turn(USER, text="something else", **turn)
    page = "All of it. " * 3000
    assert memory.mem_add_document(USER, source="a.md", text=page).outcome == "created"
    assert memory.mem_add_document(USER, source="a.md", text=page).outcome == "deduped"
    assert memory.mem_add_document(USER, source="a.md", text=page + "More.").revision_count == 2
    assert {item.kind for item in memory.mem_list(USER).items} == {"turn", "document"}


def test_the_history_is_the_services_own_and_its_gaps_are_marked(
    double: Supermemory, memory: Memory, clock: SteppedClock
) -> None:
    for number in range(1, 6):
        clock.forward(seconds=1)
        save(memory, USER, "key", f"text {number}", title=f"Title {number}")
    history = memory.mem_history(USER, topic_key="key")
    assert [(state.revision, state.title, state.is_current) for state in history] == [
        (number, f"Title {number}", number == 5) for number in (5, 4, 3, 2, 1)
    ]
    assert memory.mem_restore(USER, topic_key="key", revision=2).revision_count == 6
    assert read(memory, USER, "key") == "text 2"
    rows = listed(double)
    rows[1].forgotten = True  # somebody took a version away
    history = memory.mem_history(USER, topic_key="key")
    assert ([state.revision for state in history], history.gaps) == ([6, 5, 4, 3, 1], ((2, 2),))
    rows[3].metadata = None  # what a version says without its header, and what came before it, is not known
    history = memory.mem_history(USER, topic_key="key")
    assert ([state.revision for state in history], history.gaps) == ([6, 5], ((1, 4),))


def test_a_service_that_lists_only_the_latest_versions_has_a_history_of_gaps(
    double: Supermemory, memory: Memory
) -> None:
    for number in range(3):
        save(memory, USER, "key", f"text {number}")
    rows = listed(double)
    del rows[:2]
    history = memory.mem_history(USER, topic_key="key")
    assert [state.content for state in history] == ["text 2"]
    assert history.gaps == ((1, 2),)


def test_only_as_many_states_are_shown_as_the_configuration_keeps(
    double: Supermemory, memory: Memory
) -> None:
    for number in range(4):
        save(memory, USER, "key", f"text {number}")
    with reach(double, keep_revisions=2) as keeping:
        assert [state.revision for state in keeping.mem_history(USER, topic_key="key")] == [4, 3]


def test_a_record_that_expired_has_no_part_in_the_history_of_its_successor(
    memory: Memory, clock: SteppedClock
) -> None:
    for number in range(3):
        save(memory, USER, "key", f"old {number}", expires_at="2026-01-02T00:00:00Z")
    clock.forward(days=2)
    assert read(memory, USER, "key") is None
    assert save(memory, USER, "key", "new", expires_at=None).outcome == "created"
    assert save(memory, USER, "key", "newer").revision_count == 2
    assert [state.content for state in memory.mem_history(USER, topic_key="key")] == ["newer", "new"]


def test_a_read_of_a_subtree_looks_only_at_the_tags_in_it(double: Supermemory, memory: Memory) -> None:
    long_name = "team:acme/" + "x" * 120
    for user in ("team:acme", "team:acme/agent:writer", long_name, "team:acme-2", "other", "x" * 120):
        save(memory, user, "key", user)
    with counting(double) as made:
        found = memory.mem_list("team:acme", reach="subtree")
    assert {item.content for item in found.items} == {"team:acme", "team:acme/agent:writer", long_name}
    # the tags; a look into the two that lie there and into the two whose names are digests; and a listing each
    assert made.requests == 1 + 4 + 3
    assert {item.content for item in memory.mem_list(long_name, reach="inherit").items} == {
        "team:acme",
        long_name,
    }
