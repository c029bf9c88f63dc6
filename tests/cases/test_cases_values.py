"""Clocks, payloads, characters, paths and earlier schemas: C045 to C063."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

import keyfold
from keyfold import InvalidRequest, Memory, StoreError
from keyfold.engines.sqlite import schema
from keyfold.portability import export, import_keyfold
from tests.cases.common import NOTE, USER, found, save
from tests.cli.test_processes import run
from tests.conftest import SteppedClock
from tests.engines.samples.dump import load, sample
from tests.mcp.common import said, talk

BUILD = str(Path(keyfold.__file__).parents[1])  # the build under test, for processes of its own


def test_c045_a_day_is_an_instant_to_an_instant(memory: Memory, clock: SteppedClock) -> None:
    clock.moment = datetime(2026, 1, 5, 2, tzinfo=UTC)
    saved = save(memory, "at two in the morning")
    day = {"since": "2026-01-05T00:00:00Z", "until": "2026-01-06T00:00:00Z"}
    assert [record.id for record in memory.mem_list(USER, **day)] == [saved.id]
    assert memory.mem_list(USER, since="2026-01-05T04:00:00+02:00").total == 1
    assert memory.mem_list(USER, since="2026-01-05T01:00:00-02:00").total == 0


def test_c046_the_last_day_holds_what_was_just_saved(
    memory: Memory, clock: SteppedClock, keyfold: Any, saved: Any
) -> None:
    save(memory, "text")
    assert memory.mem_list(USER, since=clock.moment - timedelta(hours=24)).total == 1
    saved("text")
    assert len(keyfold("list", "--since", "24h", "--json").document["items"]) == 1
    assert keyfold("search", "text", "--since", "24h").code == 0


def test_c047_one_day_is_in_order_and_a_time_without_an_offset_is_refused(
    memory: Memory, clock: SteppedClock
) -> None:
    ids = []
    for number in range(3):
        ids.append(save(memory, f"text {number}").id)
        clock.forward(minutes=1)
    assert [entry.id for entry in memory.mem_timeline(USER, ids[1])] == ids
    with pytest.raises(InvalidRequest, match="offset"):
        memory.mem_list(USER, since=datetime(2026, 1, 1))  # noqa: DTZ001  # the point of the case
    with pytest.raises(InvalidRequest, match="offset"):
        save(memory, "text", expires_at="2026-01-01T00:00:00")


def test_c048_a_text_at_the_limit_comes_back_and_one_over_it_is_refused(
    open_memory: Callable[..., Memory],
) -> None:
    memory = open_memory(max_text_bytes=2_000)
    whole = "é" * 1_000
    saved = save(memory, whole, topic_key="k")
    with pytest.raises(InvalidRequest):
        save(memory, whole + "x", topic_key="k")
    held = memory.mem_get_observation(USER, saved.id)
    assert held is not None
    assert held.content == whole


def test_c049_a_refusal_tells_the_size_and_the_limit(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(max_text_bytes=2_000)
    with pytest.raises(InvalidRequest, match=r"content.*2,001 bytes.*2,000"):
        save(memory, "x" * 2_001)

    async def schema_of(client: Any, _: Any) -> Any:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        return listed["mem_save"].input_schema["properties"]["content"]["maxLength"]

    assert talk(schema_of, max_text_bytes=2_000) == 2_000


def test_c050_a_long_query_works_and_one_too_long_is_refused_shortly(memory: Memory) -> None:
    saved = save(memory, "needle")
    assert found(memory, "hay " * 7_500 + "needle") == [saved.id]
    with pytest.raises(InvalidRequest) as caught:
        memory.mem_search(USER, "x" * 70_000)
    assert len(str(caught.value)) < 200


def test_c051_a_reply_keeps_below_its_ceiling_and_says_what_it_left_out() -> None:
    async def long_list(client: Any, memory: Any) -> None:
        for number in range(40):
            await memory.mem_save(USER, f"apple {number}", type="decision", title=f"{number} " + "x" * 4_000)
        result = await client.call_tool("mem_search", {"query": "apple", "limit": 40})
        assert not result.is_error
        assert len(said(result).encode()) <= 64 * 1024
        told = result.structured_content
        assert 0 < len(told["items"]) < 40
        assert (told["total"], told["truncated"]) == (40, True)

    talk(long_list)


@pytest.mark.parametrize("field", ["content", "title", "topic_key", "user_id", "tags", "metadata"])
def test_c052_nul_is_refused_in_every_field(memory: Memory, field: str) -> None:
    given: dict[str, Any] = {"user_id": USER, "content": "text", **NOTE}
    given[field] = {"tags": ["a\0"], "metadata": {"k": "a\0"}}.get(field, "a\0")
    with pytest.raises(InvalidRequest, match="NUL at position 1"):
        memory.mem_save(**given)
    assert memory.mem_list(USER).total == 0


def lines_of(memory: Memory, number: int) -> list[str]:
    for count in range(number):
        save(memory, f"text {count}", topic_key=f"k{count:02}")
    return list(export(memory.engine))


def test_c053_a_row_with_nul_is_reported_and_the_others_are_kept(open_memory: Callable[..., Memory]) -> None:
    lines = lines_of(open_memory("source"), 20)
    assert '"text 7"' in lines[8]
    lines[8] = lines[8].replace("text 7", "text\\u00007")
    target = open_memory("target")
    report = import_keyfold(target.engine, lines)
    assert [(item.where, "NUL" in item.reason) for item in report.skipped] == [("line 9", True)]
    assert (target.mem_list(USER).total, target.mem_topics(USER).total) == (19, 19)


def test_c054_a_lone_surrogate_is_refused_and_harms_nothing(memory: Memory, keyfold: Any) -> None:
    with pytest.raises(InvalidRequest, match="lone surrogate at position 2"):
        save(memory, "ab\udcaf")
    with pytest.raises(InvalidRequest):
        memory.mem_search(USER, "\udcaf")
    assert save(memory, "goes on").outcome == "created"
    answer = keyfold("save", "--type", "decision", "--title", "t", "ab\udcaf")
    assert (answer.code, "surrogate" in answer.err) == (2, True)


def test_c055_a_lone_surrogate_as_a_name_is_told_in_words_that_can_be_sent(memory: Memory) -> None:
    with pytest.raises(InvalidRequest) as caught:
        save(memory, "text", metadata={"\ud800": 1})
    assert str(caught.value).encode()

    async def call(client: Any, _: Any) -> Any:
        return await client.call_tool("mem_save", {"content": "x", **NOTE, "\ud800": 1})

    result = talk(call)
    assert (result.is_error, "there is no argument" in said(result)) == (True, True)


def test_c056_a_line_with_a_lone_surrogate_is_reported_and_costs_only_itself(
    open_memory: Callable[..., Memory],
) -> None:
    lines = lines_of(open_memory("source"), 3)
    lines[2] = lines[2].replace("text 1", "text \\ud8001")
    target = open_memory("target")
    report = import_keyfold(target.engine, lines)
    assert [(item.where, "surrogate" in item.reason) for item in report.skipped] == [("line 3", True)]
    assert [topic.key for topic in target.mem_topics(USER)] == ["k00", "k02"]


def test_c057_an_emoji_goes_through_pipes_of_any_encoding(tmp_path: Path) -> None:
    words = ("save", "--type", "decision", "--title", "t", "--topic", "k", "-")
    done = run(tmp_path, *words, stdin="🙂".encode(), PYTHONIOENCODING="cp1252", PYTHONPATH=BUILD)
    assert (done.returncode, done.stderr) == (0, b"")
    told = run(tmp_path, "get", "--topic", "k", "--json", PYTHONIOENCODING="cp1252", PYTHONPATH=BUILD)
    assert json.loads(told.stdout)["content"] == "🙂"


def test_c058_what_an_encoding_lacks_is_spelt_out(tmp_path: Path) -> None:
    words = ("save", "--type", "decision", "--title", "🙂", "--topic", "k", "日本")
    assert run(tmp_path, *words, PYTHONPATH=BUILD).returncode == 0
    told = run(tmp_path, "get", "--topic", "k", PYTHONIOENCODING="cp1252", PYTHONPATH=BUILD)
    assert (told.returncode, told.stderr) == (0, b"")
    assert b"\\U0001f642" in told.stdout


def test_c059_a_reset_under_another_handle_leaves_it_working(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as one, Memory.open(path) as other:
        save(one, "text")
        assert other.mem_list(USER).total == 1
        before = path.stat().st_ino
        assert one.mem_delete(USER, all=True).deleted == 1
        assert other.mem_list(USER).total == 0
        assert save(other, "new").outcome == "created"
        assert found(one, "new")
        assert path.stat().st_ino == before


def test_c061_one_place_says_where_the_data_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyfold: Any
) -> None:
    monkeypatch.delenv("KEYFOLD_STORE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "chosen"))
    assert keyfold("save", "--type", "decision", "--title", "t", "text").code == 0
    with Memory.open() as memory:
        assert memory.mem_list("default").total == 1
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"chosen/keyfold/memory.db"}


def test_c062_a_store_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(path) as memory:
        save(memory, "text")
    conn = apsw.Connection(str(path))
    conn.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    conn.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer Keyfold"):
        Memory.open(path)
    assert path.read_bytes() == before


def test_c063_a_store_of_every_earlier_version_is_read_whole(tmp_path: Path) -> None:
    for version in range(1, schema.VERSION + 1):
        path = tmp_path / f"{version}.db"
        load(sample(version), str(path))
        conn = apsw.Connection(str(path))
        count = conn.execute("SELECT count(*) FROM records").fetchall()
        conn.close()
        with Memory.open(path) as memory:
            assert memory.mem_history("ana", topic_key="architecture/auth").total == 2
            assert found(memory, "JWT", "ana")
        conn = apsw.Connection(str(path))
        assert conn.execute("SELECT count(*) FROM records").fetchall() == count
        conn.close()
