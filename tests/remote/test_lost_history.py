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
