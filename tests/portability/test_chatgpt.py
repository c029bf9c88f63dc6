"""ChatGPT's export comes in as sessions and turns: the branch that is shown, in its own times, and only once."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.contract.intents import Query, Ref
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest, NotFound
from keyfold.model import Record
from keyfold.portability import detect, import_chatgpt, import_path
from keyfold.portability.chatgpt_files import _Stream

START = 1_750_000_000.5


def message(
    role: str, *parts: Any, at: float | None = START, kind: str = "text", **more: Any
) -> dict[str, Any]:
    content = {"content_type": kind, "parts": list(parts)}
    return {
        "id": "m",
        "author": {"role": role},
        "create_time": at,
        "content": content,
        "metadata": {},
        **more,
    }


def conversation(*branch: Any, identity: str = "c1", **more: Any) -> dict[str, Any]:
    """A conversation whose messages follow one another."""
    mapping: dict[str, Any] = {"n0": {"id": "n0", "message": None, "parent": None, "children": ["n1"]}}
    for number, one in enumerate(branch, 1):
        children = [f"n{number + 1}"] if number < len(branch) else []
        mapping[f"n{number}"] = {
            "id": f"n{number}",
            "message": one,
            "parent": f"n{number - 1}",
            "children": children,
        }
    fields = {"title": "Trip", "create_time": START, "update_time": START + 9, "mapping": mapping}
    return {**fields, "current_node": f"n{len(branch)}", "conversation_id": identity, "id": identity, **more}


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Write a conversations.json."""

    def make(*conversations: Any, name: str = "conversations.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(list(conversations)))
        return path

    return make


def turns(engine: InMemoryEngine) -> list[Record]:
    return list(engine.page(Query("default", kinds=("turn",), order="key", limit=1000)).items)


def test_a_conversation_is_a_session_and_its_messages_are_turns(engine: InMemoryEngine, written: Any) -> None:
    path = written(
        conversation(
            message("system", ""),
            message("user", "Where to?", at=START + 1),
            message("assistant", "Lisbon.", "By train.", at=START + 2),
            message("tool", "42 results", at=None),
            default_model_slug="gpt-9",
        )
    )
    report = import_path(engine, path)
    assert (report.format, report.kinds, report.skipped) == ("chatgpt", {"turn": 3, "session": 1}, [])
    assert [(turn.title, turn.content, turn.taint) for turn in turns(engine)] == [
        ("user", "Where to?", "internal"),
        ("assistant", "Lisbon.\n\nBy train.", "internal"),
        ("tool", "42 results", "external"),
    ]
    assert [turn.key for turn in turns(engine)] == ["c1#0000000000", "c1#0000000001", "c1#0000000002"]
    assert turns(engine)[0].observed_at == datetime.fromtimestamp(START + 1, UTC)
    session = engine.get(Ref("default", key="c1", kind="session"))
    assert session is not None
    assert (session.metadata["title"], session.metadata["model"]) == ("Trip", "gpt-9")
    assert session.created_at == datetime.fromtimestamp(START + 1, UTC)


def test_again_writes_nothing(engine: InMemoryEngine, written: Any) -> None:
    path = written(
        conversation(message("user", "a"), message("assistant", "b")),
        conversation(message("user", "c"), identity="c2"),
    )
    import_chatgpt(engine, path)
    report = import_chatgpt(engine, path)
    assert (report.deduped, report.changed, report.notes) == (5, False, [])


def test_the_branch_that_is_shown_is_taken_and_others_are_counted(
    engine: InMemoryEngine, written: Any
) -> None:
    value = conversation(message("user", "a"), message("assistant", "first"), message("user", "more"))
    value["mapping"]["x"] = {
        "id": "x",
        "message": message("assistant", "second", at=START + 5),
        "parent": "n1",
        "children": [],
    }
    import_chatgpt(engine, written(value))
    assert [turn.content for turn in turns(engine)] == ["a", "first", "more"]
    value["current_node"] = "x"
    report = import_chatgpt(engine, written(value))
    assert report.left_out == {"messages on branches that are not shown": 2}
    assert [turn.content for turn in turns(engine)] == ["a", "second", "more"]
    assert ["later turns" in item.reason for item in report.notes] == [True]
    assert [
        state.content for state in engine.history(Ref("default", key="c1#0000000001", kind="turn")).revisions
    ] == ["second", "first"]
    value["current_node"] = "n3"  # back to the older one, whose dates are earlier
    assert import_chatgpt(engine, written(value)).updated == 2
    assert [turn.content for turn in turns(engine)] == ["a", "first", "more"]


@pytest.mark.parametrize("dated", [True, False])
def test_an_older_export_does_not_go_back_on_a_newer_branch(
    engine: InMemoryEngine, written: Any, dated: bool
) -> None:
    times = [{"update_time": START + at} if dated else {"update_time": None} for at in (5, 9)]
    older = written(
        conversation(message("user", "a"), message("assistant", "b", at=START + 5), **times[0]), name="1.json"
    )
    newer = written(
        conversation(message("user", "A"), message("assistant", "B", at=START + 9), **times[1]), name="2.json"
    )
    import_chatgpt(engine, older)
    assert import_chatgpt(engine, newer).updated == 3  # two turns and the session
    report = import_chatgpt(engine, older)
    assert (report.changed, [item.where for item in report.notes]) == (False, ["conversation 1"])
    assert report.left_out == {"conversations that the store holds in a later state": 1}
    assert [turn.content for turn in turns(engine)] == ["A", "B"]
    assert import_chatgpt(engine, newer).to_dict() | {"deduped": 0} == import_chatgpt(
        engine, newer, dry_run=True
    ).to_dict() | {"deduped": 0, "dry_run": False}


def test_a_conversation_that_is_too_long_is_told_before_it_fills_the_memory(
    engine: InMemoryEngine, written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyfold.portability.chatgpt_files.CHUNK", 64)
    monkeypatch.setattr("keyfold.portability.chatgpt_files.LONGEST", 5000)
    path = written(
        conversation(message("user", "a")), conversation(message("user", "x" * 50_000), identity="c2")
    )
    read: list[int] = []
    more = _Stream._more

    def watched(stream: _Stream) -> None:
        more(stream)
        read.append(len(stream._text))

    monkeypatch.setattr(_Stream, "_more", watched)
    report = import_chatgpt(engine, path)
    assert [item.reason for item in report.skipped] == [
        "it is longer than 5,000 characters: from here on nothing can be read"
    ]
    assert [turn.content for turn in turns(engine)] == ["a"]
    assert max(read) <= 5000 + 64


def test_numbers_that_json_does_not_know_are_noted(engine: InMemoryEngine, written: Any) -> None:
    path = written(
        conversation(message("user", "a")), conversation(message("user", "b"), identity="c2", score=1e500)
    )
    report = import_chatgpt(engine, path)
    assert [(item.where, "kept as text" in item.reason) for item in report.notes] == [
        ("conversation 2", True)
    ]


def test_without_a_current_node_the_latest_leaf_is_shown_and_a_ring_ends(
    engine: InMemoryEngine, written: Any
) -> None:
    value = conversation(message("user", "a"), message("assistant", "b"), current_node=None)
    ring = conversation(message("user", "r"), identity="ring")
    ring["mapping"]["n0"]["parent"] = "n1"
    report = import_chatgpt(engine, written(value, ring))
    assert [turn.content for turn in turns(engine)] == ["a", "b", "r"]
    assert report.skipped == []


def test_hidden_messages_and_thinking_are_left_out_and_media_have_placeholders(
    engine: InMemoryEngine, written: Any
) -> None:
    hidden = message("user", "h")
    hidden["metadata"]["is_visually_hidden_from_conversation"] = True
    code = message("assistant", recipient="python")
    code["content"] = {"content_type": "code", "text": "1 + 1"}
    report = import_chatgpt(
        engine,
        written(
            conversation(
                hidden,
                message("user", "about me", kind="user_editable_context"),
                message("assistant", "hm", kind="thoughts"),
                message("assistant", ""),
                message(
                    "user",
                    {"content_type": "image_asset_pointer", "asset_pointer": "file://x"},
                    "what?",
                    kind="multimodal_text",
                ),
                message(
                    "user", {"content_type": "audio_transcription", "text": "spoken"}, kind="multimodal_text"
                ),
                code,
                message("assistant", recipient="browser"),
            )
        ),
    )
    assert [turn.content for turn in turns(engine)] == ["[image]\n\nwhat?", "spoken", "1 + 1", ""]
    assert turns(engine)[2].metadata["tool_calls"] == [{"name": "python"}]
    assert report.left_out == {
        "hidden messages": 1,
        "instructions and messages of the system": 1,
        "thinking": 1,
        "empty messages": 1,
        "images and other media (a placeholder stands for each)": 1,
    }


def test_the_zip_and_the_folder_hold_the_same(engine: InMemoryEngine, written: Any, tmp_path: Path) -> None:
    path = written(conversation(message("user", "a")))
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(path, "data/conversations.json")
        packed.writestr("../../outside.json", "[]")
        packed.writestr(
            "../../conversations-001.json", json.dumps([conversation(message("user", "b"), identity="c2")])
        )
    assert (detect(archive), detect(tmp_path)) == ("chatgpt", "chatgpt")
    assert import_path(engine, archive).created == 4
    assert import_path(engine, tmp_path).deduped == 2
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(InvalidRequest):
        import_path(engine, archive)
    report = import_chatgpt(engine, archive)
    assert ["broken" in item.reason for item in report.skipped] == [True]


def test_what_is_no_conversation_is_reported_and_the_rest_goes_in(
    engine: InMemoryEngine, written: Any
) -> None:
    path = written(
        5,
        {"mapping": []},
        conversation(message("user", "a")),
        conversation(message("user", "b"), identity="", id=None),
    )
    report = import_chatgpt(engine, path)
    assert [item.where for item in report.skipped] == ["conversation 1", "conversation 2", "conversation 4"]
    assert [turn.content for turn in turns(engine)] == ["a"]


def test_a_file_that_was_cut_gives_what_it_holds(engine: InMemoryEngine, written: Any) -> None:
    path = written(conversation(message("user", "a")), conversation(message("user", "b"), identity="c2"))
    path.write_bytes(path.read_bytes()[:-30])
    report = import_path(engine, path)
    assert [turn.content for turn in turns(engine)] == ["a"]
    assert [(item.where, "cut off" in item.reason) for item in report.skipped] == [("conversation 2", True)]


def test_private_text_goes(engine: InMemoryEngine, written: Any) -> None:
    path = written(
        conversation(
            message("user", "a <private>SECRET", "SECRET</private> b"), title="<private>SECRET</private>"
        )
    )
    report = import_chatgpt(engine, path)
    assert report.redacted == 2
    assert "SECRET" not in repr(engine.page(Query("default", kinds=("turn", "session"))).items)
    assert import_chatgpt(engine, path).changed is False


def test_a_dry_run_writes_nothing_and_nothing_is_refused(
    engine: InMemoryEngine, written: Any, tmp_path: Path
) -> None:
    report = import_chatgpt(engine, written(conversation(message("user", "a"))), dry_run=True)
    assert (report.created, engine.namespaces()) == (2, [])
    with pytest.raises(NotFound):
        import_chatgpt(engine, tmp_path / "absent.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidRequest, match=r"conversations\.json"):
        import_chatgpt(engine, tmp_path / "empty")


@given(
    st.lists(
        st.dictionaries(st.text(max_size=5), st.text(max_size=30) | st.integers(-9, 9) | st.none()),
        max_size=8,
    ),
    st.integers(1, 40),
    st.sampled_from([None, 0, 1]),
)
def test_a_stream_gives_what_a_whole_parse_gives_however_it_is_cut(
    values: list[Any], size: int, indent: int | None
) -> None:
    class Slow(io.BytesIO):
        def read(self, _number: int | None = -1) -> bytes:
            return super().read(size)

    stream = _Stream(Slow(json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "replace")))
    assert stream.opens_list()
    found = []
    while (item := stream.following())[1]:
        found.append(item[0])
    assert found == json.loads(json.dumps(values, ensure_ascii=False).encode("utf-8", "replace"))


@settings(max_examples=100)
@given(data=st.data())
def test_a_damaged_export_is_no_crash_and_still_comes_to_rest(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    raw = bytearray(
        json.dumps(
            [
                conversation(message("user", "a"), message("assistant", "b")),
                conversation(message("user", "c"), identity="c2"),
            ]
        ).encode()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] = data.draw(st.integers(0, 255))
        else:
            del raw[at : at + data.draw(st.integers(1, 100))]
    path = tmp_path_factory.mktemp("export") / "conversations.json"
    path.write_bytes(bytes(raw))
    engine = InMemoryEngine()
    import_chatgpt(engine, path)
    assert import_chatgpt(engine, path).changed is False
