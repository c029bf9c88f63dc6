"""Claude Code's transcripts come in as sessions and turns, in their own times and only once."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold import Memory
from keyfold.contract.intents import Query, Ref
from keyfold.contract.keys import turn_key
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest, NotFound
from keyfold.model import Record
from keyfold.portability import detect, import_claude_code, import_path

SESSION = "11111111-2222-4333-8444-555555555555"


def line(kind: str, content: Any, second: int = 0, **more: Any) -> dict[str, Any]:
    fields = {"parentUuid": None, "isSidechain": False, "userType": "external", "cwd": "/home/dev/shop"}
    fields |= {"sessionId": SESSION, "version": "2.0.1", "gitBranch": "main", "type": kind}
    fields |= {"message": {"role": kind, "content": content}, "uuid": f"u-{kind}-{second}"}
    return {**fields, "timestamp": f"2026-03-01T10:00:{second:02d}.000Z", **more}


TALK: list[Any] = [
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    line("user", "Fix the login."),
    line("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}], 1),
    line("assistant", [{"type": "text", "text": "I look."}], 2),
    line("assistant", [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}}], 3),
    line(
        "user",
        [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "def a(): ..."}]}],
        4,
    ),
    line("assistant", [{"type": "text", "text": "Done."}], 5),
    {"type": "summary", "summary": "Login fixed", "leafUuid": "u-assistant-5"},
    {"type": "summary", "summary": "Of another session", "leafUuid": "elsewhere"},
]


@pytest.fixture
def transcript(tmp_path: Path) -> Any:
    """Write a transcript of the lines given."""

    def make(*lines: Any, name: str = f"projects/-home-dev-shop/{SESSION}.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines))
        return path

    return make


def turns(engine: InMemoryEngine) -> list[Record]:
    return list(engine.page(Query("default", kinds=("turn",), order="key", limit=1000)).items)


def session(engine: InMemoryEngine) -> Record:
    record = engine.get(Ref("default", key=SESSION, kind="session"))
    assert record is not None
    return record


def test_talk_becomes_turns_in_order_and_dated_as_it_was(engine: InMemoryEngine, transcript: Any) -> None:
    report = import_path(engine, transcript(*TALK))
    assert (report.format, report.kinds, report.skipped) == ("claude-code", {"turn": 5, "session": 1}, [])
    assert report.left_out == {"thinking": 1, "lines of bookkeeping": 1, "titles of other sessions": 1}
    found = turns(engine)
    assert [(turn.title, turn.content, turn.taint) for turn in found] == [
        ("user", "Fix the login.", "internal"),
        ("assistant", "I look.", "internal"),
        ("assistant", "", "internal"),
        ("tool", "def a(): ...", "external"),
        ("assistant", "Done.", "internal"),
    ]
    assert [turn.key for turn in found] == [turn_key(SESSION, index) for index in range(5)]
    times = [datetime(2026, 3, 1, 10, 0, second, tzinfo=UTC) for second in (0, 2, 3, 4, 5)]
    assert [turn.observed_at for turn in found] == [turn.created_at for turn in found] == times
    assert found[0].metadata == {"thread_id": SESSION, "index": 0, "role": "user"}
    assert found[2].metadata["tool_calls"] == [{"id": "t1", "name": "Read", "input": {"file_path": "a.py"}}]
    assert {turn.session_id for turn in found} == {SESSION}


def test_the_session_says_where_it_was_held(engine: InMemoryEngine, transcript: Any) -> None:
    import_claude_code(engine, transcript(*TALK))
    record = session(engine)
    assert record.type == "completed"
    assert record.metadata == {
        "source": "claude-code",
        "cwd": "/home/dev/shop",
        "git_branch": "main",
        "version": "2.0.1",
        "title": "Login fixed",
        "ended_at": "2026-03-01T10:00:05.000000Z",
        "last_activity_at": "2026-03-01T10:00:05.000000Z",
    }


def test_again_writes_nothing_and_a_longer_copy_adds_what_is_new(
    engine: InMemoryEngine, transcript: Any
) -> None:
    import_claude_code(engine, transcript(*TALK))
    report = import_claude_code(engine, transcript(*TALK))
    assert (report.deduped, report.changed) == (6, False)
    report = import_claude_code(engine, transcript(*TALK, line("user", "Thanks.", 9)))
    assert (report.created, report.updated, report.deduped) == (1, 1, 5)
    assert session(engine).metadata["ended_at"] == "2026-03-01T10:00:09.000000Z"
    report = import_claude_code(engine, transcript(*TALK))  # the shorter copy again
    assert (report.changed, report.notes) == (False, [])


def test_what_a_program_logged_meanwhile_is_the_same_turn(transcript: Any) -> None:
    with Memory.open("inmemory:") as memory:
        import_claude_code(memory.engine, transcript(*TALK), namespace="u")
        again = memory.mem_log_turn("u", thread_id=SESSION, index=0, role="user", text="Fix the login.")
        assert again.replayed is True


def test_another_text_at_a_turns_place_is_noted_and_never_replaces_it_in_silence(
    engine: InMemoryEngine, transcript: Any
) -> None:
    import_claude_code(engine, transcript(*TALK))
    report = import_claude_code(engine, transcript(line("user", "Something else.")))
    assert turns(engine)[0].content == "Fix the login."
    assert ["another text" in item.reason for item in report.notes] == [True]


def test_noise_is_left_out_and_counted(engine: InMemoryEngine, transcript: Any) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    report = import_claude_code(
        engine,
        transcript(
            line(
                "user",
                "Caveat: The messages below were generated by the user while running local commands.",
                isMeta=True,
            ),
            line("user", "<command-name>/clear</command-name><command-args></command-args>", 1),
            line(
                "user",
                "<command-message>plan</command-message><command-name>/plan</command-name><command-args>the move</command-args>",
                2,
            ),
            line("user", "<local-command-stdout>x</local-command-stdout>", 3),
            line("user", "This session continues.", 4, isCompactSummary=True),
            line("assistant", [{"type": "text", "text": "inner"}], 5, isSidechain=True),
            line("user", [{"type": "text", "text": "<system-reminder>r</system-reminder>\nsee"}, image], 6),
            line("user", [{"type": "text", "text": "<system-reminder>r</system-reminder>\nsee"}, image], 6),
            line("assistant", "(no content)", 7),
            line("user", [{"type": "tool_result", "tool_use_id": "t", "content": ""}], 8),
            line(
                "user", [{"type": "tool_result", "tool_use_id": "t", "content": "bad", "is_error": True}], 9
            ),
            {"type": "queue-operation", "sessionId": SESSION},
            {"type": "never-seen", "sessionId": SESSION},
            {"type": "custom-title", "customTitle": "Mine", "sessionId": SESSION},
        ),
    )
    assert [(turn.title, turn.content) for turn in turns(engine)] == [
        ("user", "/plan the move"),
        ("user", "see\n\n[image]"),
        ("tool", "bad"),
    ]
    assert turns(engine)[2].metadata["is_error"] is True
    assert session(engine).metadata["title"] == "Mine"
    assert report.skipped == []
    assert sum(report.left_out.values()) == 11


def test_what_is_too_long_for_metadata_is_counted_and_costs_no_turn(
    engine: InMemoryEngine, transcript: Any
) -> None:
    deep: Any = "x"
    for _ in range(40):
        deep = {"": deep}
    calls = [{"type": "tool_use", "id": "t1", "name": "Write", "input": {"content": "x" * 200_000}},
             {"type": "tool_use", "id": "t2", "name": "Odd", "input": deep}]  # fmt: skip
    report = import_claude_code(engine, transcript(line("assistant", calls)))
    (turn,) = turns(engine)
    assert turn.metadata["tool_calls"][0]["input"].keys() == {"left_out_bytes"}
    assert turn.metadata["tool_calls"][1]["name"] == "Odd"
    assert (report.skipped_count, report.left_out) == (0, {"inputs of tools that are too long": 1})


def test_a_turn_that_cannot_be_stored_keeps_its_place(engine: InMemoryEngine, transcript: Any) -> None:
    report = import_claude_code(engine, transcript(line("user", "x" * 1_100_000), line("user", "after", 1)))
    assert [turn.key for turn in turns(engine)] == [turn_key(SESSION, 1)]
    assert [item.line for item in report.skipped] == [1]


def test_private_text_goes_from_turns_and_from_the_inputs_of_tools(
    engine: InMemoryEngine, transcript: Any
) -> None:
    use = {
        "type": "tool_use",
        "id": "t",
        "name": "Bash",
        "input": {"command": "echo <private>SECRET</private>"},
    }
    path = transcript(line("user", "a <private>SECRET</private>"), line("assistant", [use], 1))
    report = import_claude_code(engine, path)
    assert report.redacted == 2
    assert "SECRET" not in repr(turns(engine))
    assert import_claude_code(engine, path).changed is False


def test_a_folder_of_projects_is_read_and_links_are_not(
    engine: InMemoryEngine, transcript: Any, tmp_path: Path
) -> None:
    transcript(*TALK)
    other = json.loads(json.dumps(TALK[1])) | {"sessionId": "other"}
    transcript(other, name="projects/-home-dev-else/other.jsonl")
    transcript(
        line("user", "sub", isSidechain=True),
        name=f"projects/-home-dev-shop/{SESSION}/subagents/agent-1.jsonl",
    )
    outside = transcript(line("user", "SECRET"), name="outside.jsonl")
    (tmp_path / "projects" / "link.jsonl").symlink_to(outside)
    (tmp_path / "projects" / "linked").symlink_to(tmp_path)
    assert detect(tmp_path / "projects") == "claude-code"
    report = import_path(engine, tmp_path / "projects")
    assert report.kinds == {"turn": 6, "session": 2}
    assert report.left_out["messages of sub-agents"] == 1
    assert "SECRET" not in repr(turns(engine))


def test_broken_lines_are_reported_and_the_rest_goes_in(engine: InMemoryEngine, transcript: Any) -> None:
    cut = json.dumps(line("user", "cut"))[:-20]
    path = transcript(
        line("user", "one"),
        cut,
        "[]",
        json.dumps(line("user", "two", 2)) * 2,
        {"type": "user", "sessionId": "s"},
    )
    report = import_claude_code(engine, path)
    assert [turn.content for turn in turns(engine)] == ["one", "two"]
    assert [item.line for item in report.skipped] == [2, 3, 5]


def test_lines_without_a_time_get_that_of_the_line_before_or_of_the_file(
    engine: InMemoryEngine, transcript: Any
) -> None:
    path = transcript(
        line("user", "a", timestamp=None), line("user", "b", 7), line("user", "c", 8, timestamp="soon")
    )
    os.utime(path, (1_700_000_000, 1_700_000_000))
    import_claude_code(engine, path)
    assert [turn.created_at.second for turn in turns(engine)][1:] == [7, 7]
    assert turns(engine)[0].created_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_nothing_and_other_things_are_refused(engine: InMemoryEngine, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        import_claude_code(engine, tmp_path / "absent.jsonl")
    with pytest.raises(InvalidRequest, match="transcripts"):
        import_claude_code(engine, tmp_path)


@settings(max_examples=100)
@given(data=st.data())
def test_a_damaged_transcript_is_no_crash_and_still_comes_to_rest(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray("\n".join(map(json.dumps, TALK)).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] = data.draw(st.integers(0, 255))
        else:
            del raw[at : at + data.draw(st.integers(1, 200))]
    path = tmp_path_factory.mktemp("transcript") / f"{SESSION}.jsonl"
    path.write_bytes(bytes(raw))
    engine = InMemoryEngine()
    import_claude_code(engine, path)
    assert import_claude_code(engine, path).changed is False


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["type", "text", "content", "name", "input"]), inner)
        ),
        max_leaves=12,
    )
)
def test_any_content_of_a_message_is_no_crash(content: Any) -> None:
    from keyfold.portability.claude_messages import turns_of
    from keyfold.portability.report import Report

    for kind in ("user", "assistant"):
        line = {"type": kind, "message": {"content": content}}
        assert isinstance(turns_of(line, datetime.now(UTC), "line 1", 1, Report()), list)
