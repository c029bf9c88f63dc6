"""A copy into a service that keeps no history says, once a run, what stays behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyfold import Memory
from keyfold.cli import main
from keyfold.portability import Report, copy, export, import_keyfold
from keyfold.portability.report import LISTED
from tests.doubles.serving import Double
from tests.remote.common import COGNEE, CORTEXDB, KEY, MEM0_OSS, MEM0_PLATFORM, SUPERMEMORY, Service

WITHOUT = (MEM0_PLATFORM, MEM0_OSS, COGNEE, CORTEXDB.with_options("history=none"))
WITH = (SUPERMEMORY, CORTEXDB)
TOLD = "this store keeps none: 5 earlier revisions of 2 records stay behind"

Running = Callable[[Any], Any]


def told_by(services: tuple[Service, ...]) -> Any:
    return pytest.mark.parametrize("service", services, ids=lambda service: service.name + service.options)


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A store with two records that have a past, of 4 and of 1 revision, and one that has none."""
    url = str(tmp_path / "memory.db")
    with Memory.open(url) as memory:
        for key, times in (("a", 5), ("b", 2), ("c", 1)):
            for number in range(times):
                memory.mem_save("ana", f"{key} {number}", type="decision", title="T", topic_key=key)
    return url


@told_by(WITHOUT)
def test_a_copy_counts_and_names_the_history_that_the_service_does_not_keep(
    service: Service, source: str, running: Running, opened: Any
) -> None:
    engine = opened(service, running(service.double()))
    with Memory.open(source) as memory:
        for again in (False, True):  # an interrupted copy that is made again tells of all of it too
            report = copy(memory.engine, engine)
            assert report.changed is not again
            assert report.dropped == report.to_dict()["dropped"] == 5
            assert [(note.where, note.reason) for note in report.notes] == [("history", TOLD)]
            assert report.notes_count == 1
        lines = list(export(memory.engine))
    report = import_keyfold(opened(service, running(service.double())), lines, dry_run=True)
    assert (report.dropped, [note.reason for note in report.notes]) == (5, [TOLD])


@told_by(WITH)
def test_a_copy_into_a_service_that_keeps_the_history_has_nothing_to_tell(
    service: Service, source: str, running: Running, opened: Any
) -> None:
    engine = opened(service, running(service.double()))
    with Memory.open(source) as memory:
        report = copy(memory.engine, engine)
    assert (report.dropped, report.notes) == (0, [])
    assert len(Memory(engine).mem_history("ana", topic_key="a")) == 5


@pytest.fixture
def recurring(tmp_path: Path) -> list[str]:
    """An export that says a key three times, each time another text and the last one twice, and another key once."""
    lines: list[str] = []
    for number, text in enumerate(("one", "two", "three")):
        with Memory.open(str(tmp_path / f"{number}.db")) as memory:
            memory.mem_save("ana", text, type="decision", title="T", topic_key="a")
            memory.mem_save("ana", "same", type="decision", title="T", topic_key="b")
            exported = list(export(memory.engine))
        said = [line for line in exported if '"topic_key"' in line or '"content"' in line]
        lines += said if lines else [exported[0], *said]
    return [*lines, lines[-1], lines[-2]]


@told_by(WITHOUT)
@pytest.mark.parametrize("dry_run", [True, False])
def test_earlier_states_that_an_import_says_in_lines_of_their_own_are_counted_and_named(
    service: Service, dry_run: bool, recurring: list[str], running: Running, opened: Any
) -> None:
    engine = opened(service, running(service.double()))
    for _ in range(2):
        report = import_keyfold(engine, recurring, dry_run=dry_run)
        assert report.dropped == 2
        told = "this store keeps none: 2 earlier revisions of 1 record stay behind"
        assert [note.reason for note in report.notes] == [told]
    if not dry_run:
        assert sorted(record.content for record in Memory(engine).mem_list("ana")) == ["same", "three"]


@told_by(WITH)
def test_earlier_states_in_lines_of_their_own_are_kept_where_a_history_is(
    service: Service, recurring: list[str], running: Running, opened: Any
) -> None:
    engine = opened(service, running(service.double()))
    report = import_keyfold(engine, recurring)
    assert (report.dropped, report.notes) == (0, [])
    history = Memory(engine).mem_history("ana", topic_key="a")
    assert [state.content for state in history] == ["three", "two", "one"]


def test_a_state_that_a_later_line_brings_along_as_its_past_is_counted_once(
    tmp_path: Path, running: Running, opened: Any
) -> None:
    exports = []
    with Memory.open(str(tmp_path / "memory.db")) as memory:
        for text in ("one", "two"):
            memory.mem_save("ana", text, type="decision", title="T", topic_key="a")
            exports.append(list(export(memory.engine)))
    lines = [*exports[0][:-1], *exports[1][1:]]
    report = import_keyfold(opened(MEM0_OSS, running(MEM0_OSS.double())), lines)
    assert report.dropped == 1


@told_by(WITHOUT)
def test_the_command_line_tells_it_on_stderr_in_one_line(
    service: Service,
    source: str,
    running: Running,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    double: Double = running(service.double())
    monkeypatch.setenv("KEYFOLD_API_KEY", KEY)
    file = str(tmp_path / "memory.jsonl")
    assert main(["export", "--store", source, "--output", file]) == 0
    capsys.readouterr()
    for command in (["copy", source, service.url(double)], ["import", file, "--store", service.url(double)]):
        assert main(command) == 0
        assert capsys.readouterr().err == f"keyfold: note: history: {TOLD}\n"
    assert main(["copy", "--json", source, service.url(double)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dropped"] == 5
    assert document["notes"] == [{"line": None, "where": "history", "reason": TOLD}]


def test_it_is_told_before_a_thousand_other_notes() -> None:
    report = Report()
    for number in range(LISTED + 5):
        report.note(f"line {number}", "a relation to nothing")
    report.dropped = 1
    report.tell_of_the_past(1)
    assert report.notes[0].reason == "this store keeps none: 1 earlier revision of 1 record stays behind"
    assert (len(report.notes), report.notes_count) == (LISTED, LISTED + 6)
