"""Sessions and context: start, reuse, several at a time, summaries, ends, budgets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyfold import AsyncMemory, Config, Memory, NotFound
from keyfold.contract.calls import Call
from keyfold.contract.intents import Intent, Load, Ref
from keyfold.contract.prepare import prepare
from keyfold.memory.context import render
from keyfold.model import SESSION, Record
from keyfold.portability import export, import_keyfold
from tests.conftest import SteppedClock

NOTE: dict[str, Any] = {"type": "discovery", "title": "Note"}


def test_a_save_without_a_session_opens_one_and_the_next_stays_in_it(memory: Memory) -> None:
    first = memory.mem_save("alice", "one", **NOTE)
    second = memory.mem_save("alice", "two", **NOTE)
    assert first.session_id is not None
    assert first.session_id == second.session_id
    assert memory.mem_session_list("alice").total == 1


def test_start_reuses_a_live_session_and_opens_one_when_it_went_stale(
    memory: Memory, clock: SteppedClock
) -> None:
    first = memory.mem_session_start("alice")
    assert (first.is_new, memory.mem_session_start("alice").session_id) == (True, first.session_id)
    clock.forward(hours=25)
    later = memory.mem_session_start("alice")
    assert (later.is_new, later.session_id != first.session_id) == (True, True)


def test_a_stale_session_is_closed_with_a_summary_rendered_on_reading(
    memory: Memory, clock: SteppedClock
) -> None:
    started = memory.mem_session_start("alice")
    memory.mem_save("alice", "one", type="decision", title="Chose JWT", topic_key="auth")
    secret = memory.mem_save("alice", "two", type="discovery", title="Forgotten title")
    clock.forward(hours=30)
    closed = memory.mem_session_start("alice").summaries[0]
    assert (closed.id, closed.status, closed.is_auto_generated) == (started.session_id, "completed", True)
    assert closed.summary is not None
    assert "Chose JWT" in closed.summary
    assert "Forgotten title" in closed.summary
    memory.mem_delete("alice", secret.id)
    again = memory.mem_session_start("alice").summaries[0]
    assert again.summary is not None
    assert "Forgotten title" not in again.summary


def test_an_automatic_end_is_told_from_a_human_one(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_session_start("alice", session_id="by-hand")
    ended = memory.mem_session_end("alice", summary="Done.")
    memory.mem_session_start("alice", session_id="left-open")
    clock.forward(hours=25)
    memory.mem_session_start("alice")
    listed = {session.id: session for session in memory.mem_session_list("alice")}
    assert (ended.status, ended.summary, ended.ended_at) == (
        "completed",
        "Done.",
        clock.moment - timedelta(hours=25),
    )
    assert listed["by-hand"].is_auto_generated is False
    assert listed["left-open"].is_auto_generated is True


def test_several_agents_each_hold_a_session_of_one_user(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory()
    memory.mem_session_start("alice", session_id="one")
    memory.mem_session_start("alice", session_id="two")
    assert memory.mem_save("alice", "a", **NOTE, session_id="one").session_id == "one"
    assert memory.mem_save("alice", "b", **NOTE).session_id == "two"
    memory.mem_session_end("alice", session_id="one")
    assert [session.status for session in memory.mem_session_list("alice") if session.id == "two"] == [
        "active"
    ]


def test_ending_twice_or_with_none_open_is_a_lookup_error_and_no_lock_out(memory: Memory) -> None:
    with pytest.raises(NotFound):
        memory.mem_session_end("alice", summary="x")
    memory.mem_session_start("alice", session_id="s")
    memory.mem_session_start("alice", session_id="others")
    memory.mem_session_end("alice", session_id="others")
    with pytest.raises(LookupError):
        memory.mem_session_end("alice")
    with pytest.raises(LookupError):
        memory.mem_session_end("alice", session_id="others")
    assert [session.status for session in memory.mem_session_list("alice") if session.id == "s"] == ["active"]
    assert memory.mem_save("alice", "goes on", **NOTE).outcome == "created"


def test_an_end_with_an_idempotency_key_may_be_repeated(memory: Memory) -> None:
    memory.mem_session_start("alice")
    first = memory.mem_session_end("alice", summary="Done.", idempotency_key="e1")
    again = memory.mem_session_end("alice", summary="Done.", idempotency_key="e1")
    assert (again.id, again.summary, again.status) == (first.id, "Done.", "completed")


def test_a_start_with_an_idempotency_key_opens_one_session(memory: Memory) -> None:
    first = memory.mem_session_start("alice", idempotency_key="s1")
    again = memory.mem_session_start("alice", idempotency_key="s1")
    assert (first.is_new, again.is_new, again.session_id) == (True, True, first.session_id)
    assert memory.mem_session_list("alice").total == 1


def test_a_summary_is_rewritten_in_place_and_found(memory: Memory) -> None:
    memory.mem_session_start("alice")
    memory.mem_session_summary("alice", "Chose the <private>pw</private> database.")
    second = memory.mem_session_summary("alice", "Chose the walrus database.")
    assert (second.outcome, second.revision_count) == ("updated", 2)
    hit = memory.mem_search("alice", "walrus")[0]
    assert (hit.type, hit.kind) == ("summary", "summary")


def test_a_dedup_touches_no_session(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_save("alice", "one", **NOTE, topic_key="k", session_id="s1")
    before = memory.mem_session_list("alice")[0].last_activity_at
    clock.forward(hours=1)
    again = memory.mem_save("alice", "one", **NOTE, topic_key="k", session_id="s2")
    assert (again.session_id, memory.mem_session_list("alice").total) == ("s1", 1)
    assert memory.mem_session_list("alice")[0].last_activity_at == before
    moved = memory.mem_save("alice", "two", **NOTE, topic_key="k", session_id="s2")
    assert (moved.session_id, memory.mem_session_list("alice").total) == ("s2", 2)


def test_a_session_that_went_stale_under_a_handle_is_replaced(memory: Memory, clock: SteppedClock) -> None:
    first = memory.mem_save("alice", "one", **NOTE)
    clock.forward(hours=25)
    second = memory.mem_save("alice", "two", **NOTE)
    assert second.session_id not in (None, first.session_id)


def test_start_returns_at_most_five_past_summaries_newest_first(memory: Memory, clock: SteppedClock) -> None:
    for number in range(7):
        memory.mem_session_start("alice", session_id=f"s{number}")
        clock.forward(minutes=1)
        memory.mem_session_end("alice", summary=f"summary {number}")
    told = memory.mem_session_start("alice").summaries
    assert [session.summary for session in told] == [f"summary {number}" for number in (6, 5, 4, 3, 2)]


def test_start_tells_a_past_summary_once(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_save("alice", "JWT, one hour.", **NOTE)
    memory.mem_session_end("alice", summary="Settled the tokens.")
    clock.forward(minutes=1)
    begun = memory.mem_session_start("alice")
    assert [session.summary for session in begun.summaries] == ["Settled the tokens."]
    assert "JWT, one hour." in begun.context
    assert "Settled the tokens." not in begun.context
    assert begun.context.truncated is False
    assert "Settled the tokens." in memory.mem_context("alice")


def test_a_past_summary_that_lists_may_cut_stays_in_the_context_of_a_start(memory: Memory) -> None:
    memory.mem_session_start("alice")
    memory.mem_session_end("alice", summary="word " * 100 + "end")
    assert "word end" in memory.mem_session_start("alice").context


@pytest.mark.parametrize("budget", [1, 10, 25, 60, 200, 1000, 5000])
def test_the_context_keeps_to_its_budget_and_says_when_it_is_cut(memory: Memory, budget: int) -> None:
    for number in range(24):
        memory.mem_save("alice", f"fact {number} " + "long " * 60, **NOTE)
    text = memory.mem_context("alice", budget=budget)
    assert len(text) <= budget
    assert text.truncated is True
    assert "[cut" in text or budget < 30


def test_a_context_that_fits_is_whole_and_unmarked(memory: Memory) -> None:
    memory.mem_save("alice", "only this", **NOTE)
    text = memory.mem_context("alice", budget=2000)
    assert (text.truncated, "only this" in text, "[cut" in text) == (False, True, False)


def test_pinned_memories_lead_the_context_however_old(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_save("alice", "the pinned one", **NOTE, pinned=True)
    clock.forward(days=300)
    for number in range(3):
        memory.mem_save("alice", f"newer {number}", **NOTE)
    assert memory.mem_context("alice").index("the pinned one") < memory.mem_context("alice").index("newer")


@pytest.mark.parametrize("budget", [250, 300, 1_000, 8_000, 50_000])
@pytest.mark.parametrize(
    ("title", "key", "content"),
    [
        ("T " * 2_000, None, "an important word"),
        ("T " * 2_000, "k/" * 250, "an important word " + "and more " * 1_000),
        ("short", "k" * 512, "an important word"),
        ("x" * 4_096, "key", "an important word"),
    ],
)
def test_a_memory_with_a_long_title_or_key_is_in_the_context(
    memory: Memory, budget: int, title: str, key: str | None, content: str
) -> None:
    saved = memory.mem_save("alice", content, type="decision", title=title, topic_key=key, pinned=True)
    memory.mem_save("alice", "a small one", type="decision", title="small")
    text = memory.mem_context("alice", budget=budget)
    assert len(text) <= budget
    assert "an important word" in text
    assert f"#{saved.id}\n" in text
    assert text.truncated == ("…" in text)
    shown = text.count("## ")
    assert shown == 2 or text.endswith(f"[cut to the budget: {2 - shown} more]")


def test_a_memory_that_cannot_fit_into_the_context_is_counted_as_left_out() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def record(identity: str) -> Record:
        facts = (
            "alice",
            "observation",
            identity,
            True,
            "decision",
            "title",
            "text",
            {},
            (),
            None,
            1,
            "",
            at,
            at,
        )
        return Record(identity, *facts, None, False, "internal", None)

    text = render([record("x" * 300), record("1"), record("2")], 4, 400)
    assert "#1\n" in text
    assert "#2\n" in text
    assert text.endswith("[cut to the budget: 2 more]")
    assert text.truncated


def test_a_context_for_a_query_answers_it(memory: Memory) -> None:
    memory.mem_save("alice", "The walrus likes fish.", **NOTE)
    memory.mem_save("alice", "Nothing to see.", **NOTE)
    text = memory.mem_context("alice", query="walrus fish")
    assert ("walrus" in text, "Nothing" in text) == (True, False)


def test_saves_under_way_at_once_share_one_new_session() -> None:
    async def burst() -> set[str | None]:
        async with AsyncMemory.open("inmemory:") as memory:
            saves = [memory.mem_save("alice", f"fact {number}", **NOTE) for number in range(20)]
            return {receipt.session_id for receipt in await asyncio.gather(*saves)}

    assert len(asyncio.run(burst())) == 1


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_first_saves_that_race_join_in_one_session(memory: Memory, many: bool, ahead: bool) -> None:
    """Two programs each see that the user has no session; the second to write finds that of the first."""
    first, second = (Memory(memory.engine, config=memory.core.config) for _ in range(2))
    if ahead:  # a session that nobody joins does not come in between either
        moment = memory.core.now() + timedelta(days=4_000)
        load = Load(moment, moment)
        memory.engine.store(
            Intent("alice", SESSION, "load", "ahead", type="active", title="Session", content="", load=load)
        )
    perform, raced = second.perform, []

    def later(call: Call) -> Any:
        if call.method.startswith("store") and not raced:
            raced.append(first.mem_save("alice", "one", **NOTE))
        return perform(call)

    second.perform = later
    if many:
        saved = second.mem_save_many("alice", [{**NOTE, "content": f"fact {n}"} for n in range(300)])[0]
    else:
        saved = second.mem_save("alice", "two", **NOTE)
    assert saved.outcome == "created"
    assert saved.session_id == raced[0].session_id
    assert memory.mem_session_list("alice").total == 1 + ahead
    assert memory.mem_list("alice").total == (301 if many else 2)


def test_a_session_dated_far_ahead_captures_no_save(memory: Memory, clock: SteppedClock) -> None:
    ahead = clock.moment + timedelta(days=4_000)
    intent = Intent(
        "alice", SESSION, "load", "ahead", type="active", title="Session", content="", load=Load(ahead, ahead)
    )
    memory.engine.store(intent)
    saved = memory.mem_save("alice", "text", **NOTE)
    assert saved.session_id != "ahead"
    assert memory.mem_session_start("alice").session_id == saved.session_id
    assert memory.mem_session_end("alice", session_id="ahead").status == "completed"


def test_a_session_does_not_end_before_it_began_when_the_clock_went_back(
    memory: Memory, clock: SteppedClock
) -> None:
    started = memory.mem_session_start("alice").session
    clock.forward(hours=-1)
    ended = memory.mem_session_end("alice")
    assert ended.ended_at == started.last_activity_at
    assert ended.last_activity_at >= ended.started_at


def close_with(memory: Memory, clock: SteppedClock) -> str:
    """A session closed automatically that holds a keyed memory, a document and an unkeyed memory; its id."""
    session = memory.mem_session_start("alice", session_id="work").session_id
    memory.mem_save("alice", "one", type="decision", title="Chose JWT", topic_key="clients/acme-layoffs")
    clock.forward(seconds=1)
    memory.mem_add_document("alice", source="salaries-2026.pdf", text="two", title="A list")
    clock.forward(seconds=1)
    memory.mem_save("alice", "three", type="discovery", title="Stays")
    clock.forward(hours=30)
    memory.mem_session_start("alice")
    return session


def told_by(memory: Memory, session: str) -> str | None:
    return next(item.summary for item in memory.mem_session_list("alice") if item.id == session)


def test_no_key_and_no_source_lives_on_in_a_session(memory: Memory, clock: SteppedClock) -> None:
    session = close_with(memory, clock)
    assert told_by(memory, session) == "- [discovery] Stays\n- [document] A list\n- [decision] Chose JWT"
    said = "".join(line for line in export(memory.engine) if '"kind":"session"' in line)
    assert "acme" not in said
    assert "salaries" not in said
    held = memory.engine.get(Ref("alice", key=session, kind="session"))
    assert held is not None
    assert "acme" not in str(held.metadata)
    assert "salaries" not in str(held.metadata)


def test_a_key_used_again_does_not_show_up_in_the_session_of_what_was_forgotten(
    memory: Memory, clock: SteppedClock
) -> None:
    session = close_with(memory, clock)
    memory.mem_delete("alice", topic_key="clients/acme-layoffs")
    memory.mem_save("alice", "new", type="pattern", title="Another", topic_key="clients/acme-layoffs")
    assert told_by(memory, session) == "- [discovery] Stays\n- [document] A list"


def test_an_imported_session_tells_what_it_holds_there_and_exports_the_same(
    open_memory: Callable[..., Memory], clock: SteppedClock
) -> None:
    memory, other = open_memory(), open_memory("other")
    session = close_with(memory, clock)
    lines = list(export(memory.engine))
    other.mem_save("somebody", "so that ids differ", type="decision", title="t")
    other.mem_delete("somebody", all=True)
    assert import_keyfold(other.engine, lines, config=Config(clock=clock)).skipped == []
    assert told_by(other, session) == told_by(memory, session)
    assert list(export(other.engine)) == lines
    assert not import_keyfold(memory.engine, lines, config=Config(clock=clock)).changed
    assert list(export(memory.engine)) == lines


@pytest.mark.parametrize(
    "facts",
    [
        {"summary_of": [["note", "k", False]]},
        {"summary_of": [[None, 7, {}], "x", 3]},
        {"summary_of": ["", "x" * 10_000, "0x10", "-1", "9" * 30]},
        {"summary_of": {"a": 1}},
        {"ended_at": "9999-12-31T23:59:59-14:00"},
        {"ended_at": "0001-01-01T00:00:00+14:00", "last_activity_at": "soon"},
        {"ended_at": 5, "last_activity_at": [], "is_auto_generated": "yes", "memories": "many"},
    ],
)
@pytest.mark.parametrize("status", ["completed", "active", "strange"])
def test_whatever_a_session_says_of_itself_its_user_can_work(
    memory: Memory, facts: dict[str, Any], status: str
) -> None:
    content, digest = prepare("")
    fields: dict[str, Any] = {
        "type": status,
        "title": "Session",
        "content": content,
        "normalized_hash": digest,
    }
    memory.engine.store(Intent("alice", "session", "upsert", "odd", metadata=facts, **fields))
    memory.mem_session_start("alice")
    memory.mem_session_start("alice", session_id="odd")
    assert "odd" in {session.id for session in memory.mem_session_list("alice")}
    assert memory.mem_session_end("alice", session_id="odd").status == "completed"


@pytest.mark.parametrize(
    ("facts", "skipped"),
    [
        ({"summary_of": [["note", "k", False]], "cwd": "here"}, 0),
        ({"ended_at": "9999-12-31T23:59:59-14:00"}, 1),
        ({"last_activity_at": 5}, 1),
    ],
)
def test_an_import_takes_no_ids_of_a_session_and_no_time_that_is_none(
    memory: Memory, facts: dict[str, Any], skipped: int
) -> None:
    at = "2026-01-01T00:00:00Z"
    fields = {"type": "completed", "title": "Session", "content": "", "created_at": at, "updated_at": at}
    line = {"namespace": "alice", "kind": "session", "key": "odd", "metadata": facts, **fields}
    text = ['{"format":"keyfold","version":1}', json.dumps(line), '{"end":"keyfold","records":1}']
    report = import_keyfold(memory.engine, text)
    assert report.skipped_count == skipped
    held = memory.engine.get(Ref("alice", key="odd", kind="session"))
    assert (held is None) == bool(skipped)
    assert held is None or held.metadata == {"cwd": "here"}
