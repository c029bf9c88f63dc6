"""Engram's memory comes in whole, in its own times, and only once."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyfold.contract.intents import Query, Ref
from keyfold.contract.keys import turn_key
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest, NotFound
from keyfold.model import Record
from keyfold.portability import detect, export, import_engram, import_keyfold, import_path


def observation(number: int, content: str = "Text.", **changes: Any) -> dict[str, Any]:
    at = f"2026-03-{number:02d} 10:00:00"
    fields = {
        "id": number,
        "sync_id": f"obs-{number}",
        "session_id": "ses_1",
        "type": "decision",
        "title": "Title",
    }
    fields |= {
        "content": content,
        "project": "shop",
        "scope": "project",
        "revision_count": 1,
        "duplicate_count": 1,
    }
    return {**fields, "last_seen_at": at, "created_at": at, "updated_at": at, **changes}


def prompt(number: int, content: str = "Please.", **changes: Any) -> dict[str, Any]:
    fields = {"id": number, "sync_id": f"prompt-{number}", "session_id": "ses_1", "content": content}
    return {**fields, "project": "shop", "created_at": f"2026-03-{number:02d} 09:00:00", **changes}


def session(name: str = "ses_1", **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "project": "shop",
        "directory": "/home/dev/shop",
        "started_at": "2026-03-01 08:00:00",
        **changes,
    }


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write an export of Engram's with the lists given."""

    def make(name: str = "engram.json", **lists: Any) -> Path:
        path = tmp_path / name
        data = json.dumps({"sessions": None, "observations": None, "prompts": None, **lists}).encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return make


def held(engine: InMemoryEngine, kind: str, namespace: str = "default") -> list[Record]:
    return list(engine.page(Query(namespace, kinds=(kind,), order="key", limit=1000)).items)


def test_an_observation_keeps_its_key_its_times_and_what_engram_knew(
    engine: InMemoryEngine, write: Any
) -> None:
    value = observation(2, topic_key="architecture/auth", tool_name="mem_save", revision_count=4)
    value["updated_at"] = "2026-03-05T10:00:00+01:00"
    import_engram(engine, write(observations=[value]))
    (record,) = held(engine, "observation")
    assert (record.key, record.minted, record.type, record.title) == (
        "architecture/auth",
        False,
        "decision",
        "Title",
    )
    assert record.created_at == datetime(2026, 3, 2, 10, tzinfo=UTC)
    assert record.updated_at == datetime(2026, 3, 5, 9, tzinfo=UTC)
    assert (record.revision_count, record.session_id, record.taint) == (1, "ses_1", "external")
    assert record.metadata == {
        "project": "shop",
        "engram": {
            "id": 2,
            "sync_id": "obs-2",
            "scope": "project",
            "revision_count": 4,
            "duplicate_count": 1,
            "last_seen_at": "2026-03-02 10:00:00",
            "tool_name": "mem_save",
        },
    }


def test_a_recurring_key_becomes_revisions_in_time_order(engine: InMemoryEngine, write: Any) -> None:
    same = "2026-03-09 10:00:00"
    values = [
        observation(7, "third", topic_key="k", created_at=same, updated_at=same),
        observation(3, "first", topic_key="k"),
        observation(5, "second", topic_key="k", created_at=same, updated_at=same),
    ]
    report = import_engram(engine, write(observations=values))
    past = engine.history(Ref("default", key="k"))
    assert [(state.revision, state.content) for state in past.revisions] == [
        (3, "third"),
        (2, "second"),
        (1, "first"),
    ]
    assert [state.written_at.day for state in past.revisions] == [9, 9, 3]
    assert past.revisions[0].written_at > past.revisions[1].written_at
    assert past.record is not None
    assert past.record.created_at == datetime(2026, 3, 3, 10, tzinfo=UTC)
    assert (report.created, report.revisions) == (2, 2)


def test_importing_twice_changes_nothing_and_says_so(engine: InMemoryEngine, write: Any) -> None:
    unnamed = observation(4)
    del unnamed["sync_id"]
    values = [observation(1, topic_key="k"), observation(2, "new", topic_key="k"), observation(3), unnamed]
    path = write(sessions=[session()], observations=values, prompts=[prompt(1), prompt(2)])
    first = import_engram(engine, path)
    before = list(export(engine))
    again = import_engram(engine, path)
    assert (first.created, first.changed) == (6, True)
    assert (again.created, again.updated, again.deduped, again.changed) == (0, 0, 6, False)
    assert list(export(engine)) == before


def test_foreign_types_stay_and_summaries_become_summaries(engine: InMemoryEngine, write: Any) -> None:
    values = [observation(1, type="security"), observation(2, "What was done.", type="session_summary")]
    import_engram(engine, write(observations=values))
    assert [record.type for record in held(engine, "observation")] == ["security"]
    (summary,) = held(engine, "summary")
    assert (summary.type, summary.key, summary.minted, summary.content) == (
        "summary",
        "obs-2",
        True,
        "What was done.",
    )
    assert summary.metadata["engram"]["type"] == "session_summary"


def test_sessions_keep_their_times_and_their_summary(engine: InMemoryEngine, write: Any) -> None:
    ended = session("ended", ended_at="2026-03-02 08:00:00", summary="It went well.")
    path = write(
        sessions=[ended, session("quiet"), session("busy")], observations=[observation(20, session_id="busy")]
    )
    import_engram(engine, path)
    found = {record.key: record for record in held(engine, "session")}
    assert {key: record.type for key, record in found.items()} == {
        "ended": "completed",
        "quiet": "completed",
        "busy": "active",
    }
    assert found["ended"].created_at == datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert found["ended"].updated_at == datetime(2026, 3, 2, 8, tzinfo=UTC)
    assert found["busy"].updated_at == datetime(2026, 3, 20, 10, tzinfo=UTC)
    assert found["ended"].metadata["engram"]["directory"] == "/home/dev/shop"
    assert found["ended"].metadata["project"] == "shop"
    (summary,) = held(engine, "summary")
    assert (summary.key, summary.session_id, summary.content) == ("ended", "ended", "It went well.")


def test_a_session_that_is_only_referred_to_gets_a_stub(engine: InMemoryEngine, write: Any) -> None:
    values = [observation(3, session_id="lost"), observation(5, session_id="lost")]
    report = import_engram(engine, write(observations=values, prompts=[prompt(1, session_id="gone")]))
    assert report.stubs == 2
    found = {record.key: record for record in held(engine, "session")}
    assert found["lost"].created_at == datetime(2026, 3, 3, 10, tzinfo=UTC)
    assert found["lost"].updated_at == datetime(2026, 3, 5, 10, tzinfo=UTC)
    assert found["gone"].metadata["stub"] is True


def test_prompts_become_turns_in_time_order(engine: InMemoryEngine, write: Any) -> None:
    import_engram(
        engine, write(prompts=[prompt(9, "later"), prompt(4, "earlier"), prompt(5, "apart", session_id="b")])
    )
    found = {record.key: record for record in held(engine, "turn")}
    assert {key: record.content for key, record in found.items()} == {
        turn_key("ses_1", 0): "earlier",
        turn_key("ses_1", 1): "later",
        turn_key("b", 0): "apart",
    }
    turn = found[turn_key("ses_1", 1)]
    assert (turn.type, turn.title, turn.session_id) == ("turn", "prompt", "ses_1")
    assert {key: turn.metadata[key] for key in ("thread_id", "index", "role")} == {
        "thread_id": "ses_1",
        "index": 1,
        "role": "user",
    }
    assert turn.observed_at == turn.created_at == datetime(2026, 3, 9, 9, tzinfo=UTC)


def test_chunks_may_be_imported_one_by_one_in_any_order(engine: InMemoryEngine, write: Any) -> None:
    later = write("chunks/b.jsonl.gz", prompts=[prompt(8, "later"), prompt(9, "latest")])
    earlier = write("chunks/a.jsonl.gz", prompts=[prompt(1, "earlier"), prompt(8, "later")])
    assert import_engram(engine, later).created == 3
    assert import_engram(engine, earlier).created == 1
    whole = import_engram(engine, later.parents[1])
    assert whole.changed is False
    assert [record.content for record in held(engine, "turn")] == ["later", "latest", "earlier"]


def test_a_namespace_a_project(engine: InMemoryEngine, write: Any) -> None:
    values = [
        observation(1, topic_key="k"),
        observation(2, topic_key="k", project="Other One"),
        observation(3, project=""),
    ]
    report = import_engram(
        engine, write(sessions=[session()], observations=values), namespace="dev", per_project=True
    )
    assert engine.namespaces() == ["Other One", "dev", "shop"]
    assert (report.revisions, report.stubs) == (0, 2)
    assert [record.key for record in held(engine, "session", "Other One")] == ["ses_1"]


def test_what_was_deleted_in_engram_stays_deleted(engine: InMemoryEngine, write: Any) -> None:
    values = [observation(1, deleted_at="2026-03-02 10:00:00"), observation(2), observation(3)]
    mutations = [
        {"entity": "observation", "entity_key": "obs-2", "op": "delete", "payload": "{}"},
        {"entity": "relation", "entity_key": "r1", "op": "upsert", "payload": "{}"},
    ]
    report = import_engram(engine, write(observations=values, mutations=mutations))
    assert [record.key for record in held(engine, "observation")] == ["obs-3"]
    assert report.left_out == {"deleted in Engram": 2, "mutations of newer versions of Engram": 1}


def test_a_bad_entry_is_reported_and_the_rest_goes_in(engine: InMemoryEngine, write: Any) -> None:
    path = write(
        sessions=[session(), {"id": "s"}, session(started_at="SECRET"), 5],
        observations=[
            observation(1, "SECRET " * 200_000, topic_key="k"),
            observation(2, "good", topic_key="k"),
            observation(3, " "),
            observation(4, title=None),
            observation(5, created_at="SECRET"),
            observation(6, topic_key=7),
            observation(7, topic_key="<private>SECRET</private>"),
            "SECRET",
        ],
        prompts=[prompt(1, ""), prompt(2), {"content": "SECRET"}],
    )
    report = import_engram(engine, path)
    assert {item.where: item.reason for item in report.skipped} == {
        "sessions 2": "started_at: it is missing, or no text",
        "sessions 3": "started_at: it is not a time such as 2026-01-31 12:00:00",
        "sessions 4": "it must be an object",
        "observations 1": "content: takes 1,400,000 bytes as UTF-8; at most 1,048,576 are allowed. "
        "Split it, or raise max_text_bytes (keyfold import and copy: --max-text-bytes N)",
        "observations 3": "content: is blank; it must hold at least one character that is not white space",
        "observations 4": "title: must be a string, not NoneType",
        "observations 5": "created_at: it is not a time such as 2026-01-31 12:00:00",
        "observations 6": "topic_key: it must be text",
        "observations 7": "key: holds a private tag; a name is stored as it is, so it may not hold private text",
        "observations 8": "it must be an object",
        "prompts 1": "content: is blank; it must hold at least one character that is not white space",
        "prompts 3": "created_at: it is missing, or no text",
    }
    assert [record.content for record in held(engine, "observation")] == ["good"]
    assert len(held(engine, "turn")) == 1


def test_private_text_is_redacted_before_anything_is_hashed(engine: InMemoryEngine, write: Any) -> None:
    one, two = (observation(1, f"a <private>SECRET {word}</private>") for word in ("x", "y"))
    for value in (one, two):
        del value["sync_id"]
    report = import_engram(engine, write(observations=[one, two], prompts=[prompt(1, "<private>SECRET")]))
    assert report.redacted == 2  # the two observations say the same once redacted, and so are one
    assert len(held(engine, "observation")) == 1
    assert "SECRET" not in "".join(export(engine))


def test_a_folder_reports_what_its_manifest_names_and_is_not_there(
    engine: InMemoryEngine, write: Any, tmp_path: Path
) -> None:
    write(".engram/chunks/aa.jsonl.gz", observations=[observation(1)])
    write(".engram/chunks/cc.jsonl.gz", observations=[observation(2)])
    broken = write(".engram/chunks/dd.jsonl.gz", observations=[observation(3)])
    broken.write_bytes(broken.read_bytes()[:-20])
    chunks = [{"id": "aa"}, {"id": "bb"}, {"id": "../../etc"}, {"id": 5}]
    (tmp_path / ".engram/manifest.json").write_text(json.dumps({"version": 1, "chunks": chunks}))
    report = import_path(engine, tmp_path)
    assert report.created == 3
    assert {item.where: item.reason for item in report.skipped} == {
        "chunk bb": "the manifest names it, but its file is not there",
        "chunks/dd.jsonl.gz": "it is gzipped and broken or cut",
    }


def test_formats_are_recognised(engine: InMemoryEngine, write: Any, tmp_path: Path) -> None:
    assert detect(write("a.json", observations=[observation(1)])) == "engram"
    assert detect(write("a.jsonl.gz", observations=[observation(1)])) == "engram"
    (tmp_path / "spread.json").write_text(json.dumps({"version": "1", "observations": []}, indent=2))
    assert detect(tmp_path / "spread.json") == "engram"
    (tmp_path / "other.json").write_text('{"entities": []}')
    with pytest.raises(InvalidRequest, match="neither"):
        detect(tmp_path / "other.json")
    with pytest.raises(InvalidRequest, match="not Engram's"):
        import_engram(engine, tmp_path / "other.json")
    with pytest.raises(NotFound):
        import_engram(engine, tmp_path / "absent")


def test_a_dry_run_of_engrams_data_writes_nothing(engine: InMemoryEngine, write: Any) -> None:
    report = import_engram(engine, write(observations=[observation(1)], prompts=[prompt(1)]), dry_run=True)
    assert report.created == 3
    assert engine.namespaces() == []


def test_a_real_memory_comes_in_whole(
    engine: InMemoryEngine, other: InMemoryEngine, engram_data: Path
) -> None:
    report = import_path(engine, engram_data)
    assert report.kinds == {"observation": 557, "summary": 215, "turn": 581, "session": 249}
    assert (report.revisions, report.stubs, report.skipped_count, report.left_out) == (10, 2, 0, {})
    assert import_path(engine, engram_data).changed is False
    key = "sdd/gentleman-ai-installer/testing-capabilities"
    assert [state.written_at.isoformat() for state in engine.history(Ref("default", key=key)).revisions] == [
        "2026-04-03T21:03:19+00:00",
        "2026-04-03T20:19:20+00:00",
        "2026-03-28T21:35:20+00:00",
    ]
    told = list(export(engine))
    import_keyfold(other, told)
    assert list(export(other)) == told


def test_a_real_memory_by_project(engine: InMemoryEngine, engram_data: Path) -> None:
    report = import_path(engine, engram_data, per_project=True)
    assert engine.namespaces() == ["engram", "gentle-ai", "gentleman-ai-installer"]
    assert report.revisions == 6


ODD = [
    ("content", "a\0b \ud800 c", "a\ufffdb \ufffd c"),
    ("title", "T\0", "T\ufffd"),
    ("topic_key", "k\0", "k\ufffd"),
    ("session_id", "s\udfff", "s\ufffd"),
    ("tool_name", {"": 1, "a": {"": "\0"}}, {"(empty)": 1, "a": {"(empty)": "\ufffd"}}),
    ("tool_name", float("nan"), "NaN"),
    ("tool_name", [float("inf"), -float("inf")], ["Infinity", "-Infinity"]),
    ("revision_count", 2**64, str(2**64)),
    ("revision_count", -(10**30), str(-(10**30))),
]


@pytest.mark.parametrize(("name", "given", "kept"), ODD)
@pytest.mark.parametrize("into", ["engram.json", ".engram/chunks/a.jsonl.gz"])
def test_what_no_store_holds_is_made_what_one_does_and_costs_nothing_else(
    engine: InMemoryEngine, write: Any, name: str, given: Any, kept: Any, into: str
) -> None:
    odd, plain = observation(1, **{name: given}), observation(2)
    path = write(into, observations=[odd, plain], prompts=[prompt(3)], sessions=[session()])
    where = path if into == "engram.json" else path.parent.parent
    assert detect(where) == "engram"
    report = import_engram(engine, where)
    assert (report.skipped, report.notes_count) == ([], 1)
    first, second = sorted(held(engine, "observation"), key=lambda record: record.created_at)
    assert second.content == "Text."
    told = {
        **first.metadata["engram"], "content": first.content, "title": first.title,
        "topic_key": first.key, "session_id": first.session_id,
    }  # fmt: skip
    assert told[name] == kept
    again = import_engram(engine, where)
    assert (again.changed, again.skipped) == (False, [])


def test_a_prompt_and_a_session_are_cleaned_as_well(engine: InMemoryEngine, write: Any) -> None:
    asked = prompt(3, "a\0b", extra={"": float("nan")})
    report = import_engram(engine, write(prompts=[asked], sessions=[session(summary="\ud800x", more=2**70)]))
    assert report.skipped == []
    (turn,) = held(engine, "turn")
    (summary,) = held(engine, "summary")
    assert (turn.content, summary.content) == ("a\ufffdb", "\ufffdx")
    assert turn.metadata["engram"]["extra"] == {"(empty)": "NaN"}


def test_a_line_that_cannot_be_read_costs_only_itself(engine: InMemoryEngine, tmp_path: Path) -> None:
    lines = [json.dumps({"observations": [observation(number)]}) for number in (1, 2)]
    path = tmp_path / "chunk.jsonl"
    path.write_text("\n".join([lines[0], '{"observations": [', lines[1]]))
    report = import_engram(engine, path)
    assert [item.where for item in report.skipped] == ["chunk.jsonl: line 2"]
    assert len(held(engine, "observation")) == 2
