"""What is bad in a keyfold export is reported by line, never quoted, and costs only itself."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from keyfold.contract.intents import Query, Ref
from keyfold.contract.prepare import prepare
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import Conflict, InvalidRequest, KeyfoldError, NotFound, StoreError
from keyfold.model import Config
from keyfold.portability import export, export_file, import_keyfold, import_path
from keyfold.portability.loader import CHUNK
from keyfold.registry import open_engine

# name: (what to change of a good line, or the line as text; what the reason says). ADD is put into a good line.
ADD = "ADD "
BAD_LINES: dict[str, tuple[Any, str]] = {
    "no JSON": ("{oops", "not JSON"),
    "cut in the middle": ('{"namespace": "alice", "kind": "obser', "ends in the middle"),
    "no object": ("[1, 2]", "not a JSON object"),
    "fields missing": ('{"namespace": "alice", "kind": "observation"}', "lacks key, type"),
    "NUL": ({"content": "SECRET\0"}, "content: holds a NUL at position 6"),
    "NUL in a tag": ({"tags": ["SECRET\0"]}, "tags: holds a NUL"),
    "NUL in metadata": ({"metadata": {"SECRET\0": 1}}, "metadata: holds a NUL"),
    "lone surrogate": (ADD + '"content": "SECRET\\udcaf"', "lone surrogate at position 6"),
    "over the limit": ({"content": "SECRET" * 200_000}, "at most 1,048,576 are allowed"),
    "long title": ({"title": "SECRET" * 1000}, "title: takes 6,000 bytes"),
    "unknown kind": ({"kind": "SECRET"}, "kind: is not known; allowed: observation, document"),
    "kind of another type": ({"kind": ["SECRET"]}, "kind: is not known"),
    "blank content": ({"content": " "}, "content: is blank"),
    "blank namespace": ({"namespace": ""}, "user_id: is blank"),
    "blank key": ({"key": ""}, "key: is blank"),
    "private key": ({"key": "<private>SECRET</private>"}, "key: holds a private tag"),
    "number as content": ({"content": 7}, "content: must be a string, not int"),
    "time without offset": ({"created_at": "2026-01-01T10:00:00"}, "created_at is not a time with an offset"),
    "no time": ({"updated_at": "SECRET"}, "updated_at is not a time"),
    "time as a number": ({"expires_at": 5}, "expires_at is not a time"),
    "NaN": ({"metadata": {"a": float("nan")}}, "NaN and Infinity are not JSON"),
    "infinite": (ADD + '"metadata": {"a": 1e999}', "a number too large"),
    "huge integer": ({"metadata": {"a": 2**63}}, "an integer beyond 64 bits"),
    "thousands of digits": (ADD + '"metadata": {"a": ' + "9" * 5000 + "}", "an integer beyond 64 bits"),
    "nested too deeply": ("[" * 100_000, "nested too deeply"),
    "deep metadata": (ADD + '"metadata": {"a": ' + "[" * 20 + "]" * 20 + "}", "nested more than 16 deep"),
    "metadata no object": ({"metadata": ["SECRET"]}, "metadata: must be an object"),
    "tags as text": ({"tags": "SECRET"}, "tags: must be a list of strings"),
    "pinned as text": ({"pinned": "SECRET"}, "pinned: must be true or false"),
    "minted as text": ({"minted": "SECRET"}, "minted must be true or false"),
    "unknown taint": ({"taint": "SECRET"}, "taint must be internal or external"),
    "unknown field": ({"SECRET": 1}, "1 field that this version does not know"),
    "revision as text": ({"revision": "SECRET"}, "revision must be a whole number"),
    "revision zero": ({"revision": 0}, "revision: is 0"),
    "history no list": ({"history": "SECRET"}, "history must be a list"),
    "history lacks": ({"history": [{"revision": 1}]}, "a revision lacks type"),
    "history unknown": ({"history": [{"SECRET": 1}]}, "a revision holds 1 field(s)"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_reported_by_number_and_the_rest_goes_in(
    name: str, engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    given, reason = BAD_LINES[name]
    if isinstance(given, dict):
        line = json.dumps(record(**given))
    else:
        line = (
            given
            if not given.startswith(ADD)
            else json.dumps(record())[:-1] + f", {given.removeprefix(ADD)}}}"
        )
    report = import_keyfold(engine, file_of(record(key="before"), line, record(key="after")))
    assert [(item.line, item.where) for item in report.skipped] == [(3, "line 3")]
    assert reason in report.skipped[0].reason
    assert "SECRET" not in json.dumps(report.to_dict())
    assert report.created == 2
    assert [item.key for item in engine.page(Query("alice", order="key")).items] == ["after", "before"]


def test_revisions_that_do_not_rise_are_refused(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    past = {
        "revision": 2,
        "type": "decision",
        "title": "t",
        "content": "c",
        "written_at": "2026-01-01T00:00:00Z",
    }
    report = import_keyfold(engine, file_of(record(revision=2, history=[past])))
    assert "must rise" in report.skipped[0].reason


def test_bytes_that_are_not_utf8_cost_one_line(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    lines = [line.encode() for line in file_of(record(key="a"), record(key="b"))]
    lines[1] = lines[1].replace(b"JWT", b"\xff\xfe")
    report = import_keyfold(engine, lines)
    assert [(item.line, item.reason[:9]) for item in report.skipped] == [(2, "not UTF-8")]
    assert report.created == 1


def test_a_file_cut_in_a_line_says_which(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    text = "".join(file_of(record(key="a"), record(key="b")))
    report = import_keyfold(engine, text[: text.index('"b"') + 40].splitlines(keepends=True))
    assert [(item.line, item.reason) for item in report.skipped] == [(3, "not JSON: it ends in the middle")]
    assert report.created == 1


def test_a_file_cut_between_lines_is_noticed(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    lines = file_of(record(key="a"), record(key="b"))
    report = import_keyfold(engine, lines[:-1])
    assert ["no closing line" in item.reason for item in report.skipped] == [True]
    assert report.created == 2
    missing = import_keyfold(engine, [lines[0], *lines[2:]])
    assert [item.reason for item in missing.skipped] == ["it closes 2 records, but 1 stands before it"]


def test_two_exports_in_one_file_are_read(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    report = import_keyfold(engine, [*file_of(record(key="a")), *file_of(record(key="b"))])
    assert (report.created, report.skipped) == (2, [])


def test_a_byte_order_mark_carriage_returns_and_empty_lines_are_tolerated(
    engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    lines = file_of(record(content="a\r\nb\u2028c"))
    text = "\ufeff" + "\r\n\r\n".join(line.rstrip("\n") for line in lines)
    report = import_keyfold(engine, text.encode().split(b"\n"))
    assert (report.created, report.skipped) == (1, [])
    assert engine.page(Query("alice")).items[0].content == "a\r\nb\u2028c"


def test_private_text_is_redacted_everywhere_and_counted(
    engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    secret = "<private>SECRET</private>"
    past = {"revision": 1, "type": "decision", "title": secret, "content": secret, "tags": [secret]}
    past |= {"metadata": {secret: [secret]}, "written_at": "2026-01-01T00:00:00Z"}
    line = record(revision=2, title=f"a {secret}", content=f"b {secret} {secret}", history=[past])
    report = import_keyfold(engine, file_of(line))
    assert (report.created, report.redacted) == (1, 8)
    assert "SECRET" not in "".join(export(engine))
    held = engine.page(Query("alice")).items[0]
    assert held.normalized_hash == prepare("b [REDACTED] [REDACTED]")[1]


def test_a_line_without_a_taint_is_external(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    silent = record(key="silent")
    del silent["taint"]
    import_keyfold(engine, file_of(silent, record(key="told")))
    assert {item.key: item.taint for item in engine.page(Query("alice")).items} == {
        "silent": "external",
        "told": "internal",
    }


def test_what_has_expired_is_left_out_and_counted(
    engine: InMemoryEngine, file_of: Any, record: Any, config: Config
) -> None:
    report = import_keyfold(engine, file_of(record(expires_at="2026-05-01T12:00:00Z")), config=config)
    assert (report.created, report.left_out, report.skipped) == (0, {"expired": 1}, [])


def test_importing_touches_and_opens_no_session(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    import_keyfold(engine, file_of(record(session_id="s1")))
    assert engine.page(Query("alice", kinds=("session",))).items == ()
    assert engine.page(Query("alice")).items[0].session_id == "s1"


def test_a_later_state_of_a_record_is_added_to_what_is_held(
    engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    import_keyfold(engine, file_of(record()))
    report = import_keyfold(engine, file_of(record(content="Two hours.", updated_at="2026-02-01T10:00:00Z")))
    assert (report.created, report.updated, report.deduped) == (0, 1, 0)
    held = engine.history(Ref("alice", key="architecture/auth")).revisions
    assert [state.content for state in held] == ["Two hours.", "JWT, one hour."]
    assert import_keyfold(engine, file_of(record())).changed is False


def test_a_newer_version_is_refused_before_anything_is_written(engine: InMemoryEngine, record: Any) -> None:
    with pytest.raises(InvalidRequest, match="version 2; this program reads up to version 1"):
        import_keyfold(engine, ['{"format":"keyfold","version":2}', json.dumps(record())])
    assert engine.namespaces() == []


@pytest.mark.parametrize("header", ['{"format":"keyfold","version":2}', '{"format":"other","version":1}'])
def test_a_header_further_down_that_cannot_be_read_costs_only_what_it_heads(
    header: str, engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    first, third = (file_of(record(key=key)) for key in ("one", "three"))
    foreign = [header, "{SECRET", *file_of(record(key="two"))[1:]]
    report = import_keyfold(engine, [*first, *foreign, *third])
    assert [item.line for item in report.skipped] == [4]
    assert report.skipped[0].reason.endswith("what it heads is not read")
    assert {item.key for item in engine.page(Query("alice")).items} == {"one", "three"}
    cut = import_keyfold(engine, [*first[:2], *foreign])
    assert [item.line for item in cut.skipped] == [3, 3]
    assert "the export before it has no closing line" in cut.skipped[1].reason
    with pytest.raises(InvalidRequest):
        import_keyfold(engine, [*foreign, *first])


def test_a_second_export_that_was_cut_is_noticed(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    lines = file_of(record())
    report = import_keyfold(engine, [*lines, lines[0]])
    assert [item.where for item in report.skipped] == ["end of input"]


def test_a_dry_run_says_what_would_happen_and_writes_nothing(
    engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    import_keyfold(engine, file_of(record()))
    before = list(export(engine))
    lines = file_of(record(), record(key="new"), record(content="later", updated_at="2026-03-01T00:00:00Z"))
    report = import_keyfold(engine, lines, dry_run=True)
    assert (report.created, report.updated, report.deduped, report.dry_run) == (1, 1, 1, True)
    assert list(export(engine)) == before


@pytest.mark.parametrize("apart", [0, CHUNK])
def test_a_dry_run_counts_a_line_that_recurs_as_an_import_does(
    engine: InMemoryEngine, file_of: Any, record: Any, apart: int
) -> None:
    between = [record(key=f"k{number}") for number in range(apart)]
    later = record(content="later", updated_at="2026-03-01T00:00:00Z")
    lines = file_of(record(), *between, record(), later, later, record(key="other"))
    dry = import_keyfold(engine, lines, dry_run=True)
    real = import_keyfold(engine, lines)
    assert (real.created, real.updated, real.deduped) == (2 + apart, 1, 2)
    assert dry.to_dict() | {"dry_run": False} == real.to_dict()


def test_a_chunk_that_fails_costs_only_the_record_at_fault(file_of: Any, record: Any) -> None:
    class Picky(InMemoryEngine):
        def store_many(self, intents: Any) -> Any:
            if any(intent.key == "bad" for intent in intents):
                raise Conflict("the record cannot be stored")
            return super().store_many(intents)

    engine = Picky()
    report = import_keyfold(engine, file_of(*(record(key=key) for key in ("a", "bad", "c"))))
    assert report.created == 2
    assert [(item.line, item.reason) for item in report.skipped] == [(3, "the record cannot be stored")]


def test_a_store_that_fails_ends_the_import(file_of: Any, record: Any) -> None:
    class Full(InMemoryEngine):
        def store_many(self, intents: Any) -> Any:
            raise StoreError("the disk is full")

    with pytest.raises(StoreError, match="disk is full"):
        import_keyfold(Full(), file_of(record()))


def test_progress_is_told_by_the_chunk(engine: InMemoryEngine, file_of: Any, record: Any) -> None:
    seen: list[int] = []
    lines = file_of(*(record(key=f"k{number}") for number in range(2 * CHUNK + 201)))
    import_keyfold(engine, lines, progress=lambda report: seen.append(report.records))
    assert seen == [CHUNK, 2 * CHUNK, 2 * CHUNK + 201]


def test_a_report_lists_a_thousand_and_counts_all(engine: InMemoryEngine, file_of: Any) -> None:
    report = import_keyfold(engine, file_of(*("{" for _ in range(1100))))
    assert (report.skipped_count, len(report.skipped)) == (1100, 1000)


def test_a_path_is_recognised_plain_or_gzipped(
    engine: InMemoryEngine, other: InMemoryEngine, file_of: Any, record: Any, tmp_path: Path
) -> None:
    import_keyfold(engine, file_of(*(record(key=f"k{number}") for number in range(50))))
    plain, packed = tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"
    export_file(engine, plain)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert [import_path(other, path).created for path in (plain, packed)] == [50, 0]
    packed.write_bytes(packed.read_bytes()[:-12])
    assert ["ends in the middle" in item.reason for item in import_path(other, packed).skipped] == [True]


def test_what_is_no_export_is_refused_without_quoting_it(engine: InMemoryEngine, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("SECRET, not JSON\n")
    for path in (tmp_path / "notes.txt", tmp_path):
        with pytest.raises(InvalidRequest) as caught:
            import_path(engine, path)
        assert "SECRET" not in str(caught.value)
    with pytest.raises(NotFound):
        import_path(engine, tmp_path / "absent.jsonl")
    export_file(engine, tmp_path / "a.jsonl")
    with pytest.raises(InvalidRequest, match="for Engram's data"):
        import_path(engine, tmp_path / "a.jsonl", per_project=True)


def test_a_damaged_gzipped_export_is_reported_and_raises_nothing_raw(tmp_path: Path) -> None:
    good = gzip.compress(b'{"format":"keyfold","version":1}\n' + os.urandom(60_000).hex().encode())
    for place in range(40_000, 60_000, 1_700):
        path = tmp_path / "damaged.jsonl.gz"
        path.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        with contextlib.suppress(KeyfoldError):
            assert import_path(open_engine("inmemory:"), path).skipped_count > 0


def test_a_zip_with_a_damaged_member_is_skipped_as_broken(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("conversations.json", json.dumps([{"title": os.urandom(9_000).hex()}]))
        data = bytearray(path.read_bytes())
        data[900:960] = bytes(60)
        path.write_bytes(data)
        report = import_path(open_engine("inmemory:"), path)
        assert (report.skipped_count > 0, report.created) == (True, 0)


def test_a_private_file_name_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "<private>hunter2<.md").write_text("text")
    report = import_path(open_engine("inmemory:"), tmp_path / "notes")
    assert "hunter2" not in str(report.to_dict())
