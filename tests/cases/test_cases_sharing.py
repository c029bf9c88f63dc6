"""MCP, secrets, export and import, tenants, filters: C065 to C097."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

import keyfold
from keyfold import InvalidRequest, Memory, NotFound
from keyfold.portability import copy, export, import_keyfold
from tests.cases.common import NOTE, USER, found, save
from tests.conftest import SteppedClock
from tests.mcp.common import Starter, said, talk
from tests.mcp.conftest import server as server
from tests.mcp.conftest import start as start
from tests.modes import sealed

BUILD = str(Path(keyfold.__file__).parents[1])  # the build under test, for processes of its own


def test_c065_every_line_on_stdout_is_json(start: Starter) -> None:
    begun = start(PYTHONPATH=BUILD)
    begun.greet()
    begun.call("mem_save", {"content": "x", **NOTE})
    begun.close_stdin()
    assert begun.end() == 0
    assert (begun.garbage, begun.errors) == ([], b"")


def test_c066_the_end_of_stdin_ends_the_server_with_a_call_under_way(start: Starter, tmp_path: Path) -> None:
    begun = start(PYTHONPATH=BUILD)
    begun.greet()
    begun.call("mem_save", {"content": "x", **NOTE})
    holder = apsw.Connection(str(tmp_path / "memory.db"))
    holder.execute("BEGIN IMMEDIATE")
    begun.send("tools/call", {"name": "mem_save", "arguments": {"content": "waits", **NOTE}}, 8)
    begun.ask("ping", id="p")
    begun.close_stdin()
    assert begun.end(8) == 0
    holder.execute("ROLLBACK")
    holder.close()


def test_c067_every_listed_tool_works_and_an_error_says_that_it_is_one() -> None:
    async def work(client: Any, _: Any) -> None:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert "mem_save" in listed
        for name in listed:
            result = await client.call_tool(name, {"nonsense": 1})
            assert result.is_error, name
            assert "there is no argument" in said(result)

    talk(work)


def test_c068_tags_are_an_array_in_schema_and_handler() -> None:
    async def work(client: Any, memory: Any) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["mem_save"].input_schema["properties"]["tags"]["type"] == "array"
        await client.call_tool("mem_save", {"content": "x", **NOTE, "tags": ["a", "b"], "topic_key": "k"})
        held = await memory.mem_get_observation(USER, topic_key="k")
        assert held.tags == ("a", "b")

    talk(work)


def test_c069_tags_as_a_text_fail_loudly() -> None:
    async def work(client: Any, _: Any) -> Any:
        return await client.call_tool("mem_save", {"content": "x", **NOTE, "tags": '["a"]'})

    result = talk(work)
    assert result.is_error
    assert "not a string" in said(result)
    assert "Received the arguments" in said(result)


def test_c070_a_list_of_many_sessions_has_a_limit_and_says_so(memory: Memory) -> None:
    for number in range(30):
        save(memory, f"text {number}", session_id=f"s{number}")
    listed = memory.mem_session_list(USER)
    assert (len(listed), listed.total, listed.truncated) == (20, 30, True)
    with pytest.raises(InvalidRequest, match="1,000"):
        memory.mem_session_list(USER, limit=3_600)


def test_c075_private_text_is_in_no_file(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        save(memory, "help with <private>pw-xyzzy</private>", title="<PRIVATE a='1'>pw-xyzzy</PRIVATE>")
        save(memory, "more", metadata={"k": "<private>pw-xyzzy"}, tags=["<private>pw-xyzzy"])
        for path in tmp_path.iterdir():
            assert b"pw-xyzzy" not in path.read_bytes(), path.name
    assert b"pw-xyzzy" not in (tmp_path / "memory.db").read_bytes()
    assert b"[REDACTED]" in (tmp_path / "memory.db").read_bytes()


def test_c080_a_second_copy_takes_what_is_older_than_the_first(
    open_memory: Callable[..., Memory], clock: SteppedClock
) -> None:
    source, target = open_memory("source"), open_memory("target")
    save(source, "first", topic_key="a")
    copy(source.engine, target.engine)
    clock.forward(days=-10)
    save(source, "dated earlier", topic_key="b")
    save(source, "and unkeyed")
    copy(source.engine, target.engine)
    assert target.mem_list(USER).total == source.mem_list(USER).total == 3


def test_c081_every_column_survives_export_and_import(open_memory: Callable[..., Memory]) -> None:
    source, target = open_memory("source"), open_memory("target")
    save(
        source, "one", topic_key="k", pinned=True, tags=["b", "a"], metadata={"n": 1.5, "o": {"p": None}},
        expires_at="2027-01-01T00:00:00Z", observed_at="2025-01-01T00:00:00+01:00", session_id="s",
    )  # fmt: skip
    save(source, "two", topic_key="k")
    source.mem_add_document(USER, source="a.md", text="document", mime="text/plain")
    import_keyfold(target.engine, export(source.engine))
    assert list(export(target.engine)) == list(export(source.engine))
    for before, after in zip(source.mem_list(USER), target.mem_list(USER), strict=True):
        assert replace(after, id=before.id) == before
    assert target.mem_history(USER, topic_key="k").items == source.mem_history(USER, topic_key="k").items


def test_c082_the_export_of_one_user_holds_what_its_records_refer_to(
    open_memory: Callable[..., Memory],
) -> None:
    source, target = open_memory("source"), open_memory("target")
    saved = save(source, "text", session_id="s1")
    source.mem_session_summary(USER, "what it was about", session_id="s1")
    save(source, "of ben", "ben")
    import_keyfold(target.engine, export(source.engine, namespace=USER))
    assert (saved.session_id, target.mem_list("ben").total) == ("s1", 0)
    (session,) = target.mem_session_list(USER)
    assert (session.id, session.summary) == ("s1", "what it was about")


def test_c083_a_store_that_cannot_be_written_is_exported_whole(
    keyfold: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir()
    source = Memory.open(folder / "memory.db")
    save(source, "one", topic_key="k", tags=["a"], session_id="s")
    save(source, "two", topic_key="k", session_id="s")
    save(source, "of ben", "ben")
    whole = "".join(export(source.engine))
    for closed in (False, True):  # with a log beside it that holds all of this, and without one
        if closed:
            source.close()
        with sealed(folder):
            done = keyfold("export", "--store", str(folder / "memory.db"))
        assert (done.code, done.out, done.err) == (0, whole, "")
    assert keyfold("import", "-", stdin=done.out).code == 0
    assert keyfold("export").out == done.out


def test_c084_a_row_of_last_year_keeps_its_times_and_where_it_came_from(
    open_memory: Callable[..., Memory], clock: SteppedClock
) -> None:
    source, target = open_memory("source"), open_memory("target")
    save(source, "one", topic_key="k")
    save(source, "two", topic_key="k")
    lines = [line.replace('"taint":"internal",', "") for line in export(source.engine)]
    clock.forward(days=365)
    import_keyfold(target.engine, lines)
    before = source.mem_get_observation(USER, topic_key="k")
    after = target.mem_get_observation(USER, topic_key="k")
    assert before is not None
    assert after is not None
    assert (after.created_at, after.updated_at) == (before.created_at, before.updated_at)
    assert (after.revision_count, after.taint) == (2, "external")


def test_c086_the_same_file_twice_is_there_once(open_memory: Callable[..., Memory]) -> None:
    source, target = open_memory("source"), open_memory("target")
    save(source, "keyed apple", topic_key="k")
    save(source, "unkeyed apple")
    lines = list(export(source.engine))
    first, second = import_keyfold(target.engine, lines), import_keyfold(target.engine, lines)
    assert (first.changed, second.changed, second.skipped_count) == (True, False, 0)
    assert (target.mem_list(USER).total, len(found(target, "apple"))) == (2, 2)


def test_c087_a_name_is_no_prefix_of_another(memory: Memory) -> None:
    mine, below = save(memory, "apple", "foo"), save(memory, "apple", "foo/x")
    for other in ("foobar", "foo-bar", "fo", "foo0"):
        save(memory, "apple", other)
    assert found(memory, "apple", "foo") == [mine.id]
    assert set(found(memory, "apple", "foo", reach="subtree")) == {mine.id, below.id}
    assert set(found(memory, "apple", "foo/x", reach="inherit")) == {mine.id, below.id}


@pytest.mark.parametrize("name", ["%", "_", "*", "[a]", "?"])
def test_c088_a_pattern_is_a_name_like_any_other(memory: Memory, name: str) -> None:
    save(memory, "apple", "a")
    assert found(memory, "apple", name) == []
    mine = save(memory, "apple", name)
    assert found(memory, "apple", name, reach="subtree") == [mine.id]
    assert memory.mem_topics("a", name).total == 0


def test_c089_a_filter_is_data(memory: Memory) -> None:
    save(memory, "apple", metadata={"project": "x"})
    nasty = "x') OR 1=1 --"
    assert memory.mem_list(USER, filter={nasty: "1"}).total == 0
    assert memory.mem_list(USER, filter={"project": nasty}).total == 0
    assert memory.mem_list(USER, topic_prefix=nasty).total == 0
    assert memory.mem_list(USER, tags=[nasty]).total == 0
    assert memory.mem_list(USER, filter={"project": "x"}).total == 1


def test_c090_a_search_stays_with_its_user(memory: Memory, settle: Callable[[Memory], None]) -> None:
    mine = save(memory, "apple", "ana")
    save(memory, "apple", "ben")
    settle(memory)
    assert found(memory, "apple", "ana") == [mine.id]
    assert memory.mem_get_observation("ben", mine.id) is None


def test_c091_what_is_said_wins_and_the_reply_shows_it(memory: Memory) -> None:
    memory.mem_session_start(USER, session_id="beta")
    saved = save(memory, "text", session_id="alpha", metadata={"project": "alpha"})
    assert saved.session_id == "alpha"
    held = memory.mem_get_observation(USER, saved.id)
    assert held is not None
    assert (held.session_id, held.metadata) == ("alpha", {"project": "alpha"})


def test_c092_a_failed_write_leaves_nothing_to_find(memory: Memory) -> None:
    save(memory, "held", topic_key="k")
    items = [
        {"content": "apple", **NOTE},
        {"content": "pear", **NOTE, "topic_key": "k", "expect_revision": 9},
    ]
    with pytest.raises(Exception, match="revision"):
        memory.mem_save_many(USER, items)
    with pytest.raises(NotFound):
        memory.mem_update(USER, topic_key="none", content="apple")
    assert found(memory, "apple") == []
    assert memory.mem_list(USER).total == 1


def test_c094_all_of_the_tags_means_all(memory: Memory) -> None:
    for tags in (["a"], ["b"], ["a", "b"]):
        save(memory, f"text {tags}", tags=tags)
    assert [record.tags for record in memory.mem_list(USER, tags=["a", "b"])] == [("a", "b")]
    assert memory.mem_list(USER, tags={"any": ["a", "b"]}).total == 3


def test_c095_what_is_marked_is_filtered_out(memory: Memory) -> None:
    old, new = save(memory, "apple old", topic_key="old"), save(memory, "apple new", topic_key="new")
    memory.mem_update(USER, old.id, metadata={"superseded": True})
    current = {"superseded": {"ne": True}}
    assert found(memory, "apple", filter=current) == [new.id]
    assert [record.id for record in memory.mem_list(USER, filter=current)] == [new.id]


def test_c096_a_search_through_mcp_heeds_the_same_filters() -> None:
    async def work(client: Any, memory: Any) -> None:
        await memory.mem_save(USER, "apple red", **NOTE, tags=["red"])
        both = await memory.mem_save(USER, "apple red blue", **NOTE, tags=["red", "blue"])
        asked = {"query": "apple", "tags": ["red", "blue"]}
        result = await client.call_tool("mem_search", asked)
        assert [item["id"] for item in result.structured_content["items"]] == [both.id]

    talk(work)


def test_c097_two_senders_have_rows_of_their_own(memory: Memory) -> None:
    for thread, role in (("one", "user"), ("two", "user"), ("one#", "user")):
        told = memory.mem_log_turn(USER, thread_id=thread, index=0, role=role, text="hello")
        assert told.outcome == "created"
    assert memory.mem_list(USER, types=["turn"]).total == 3
