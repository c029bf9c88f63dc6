"""What `keyfold doctor` finds on a memory service."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.cli import main
from tests.remote.common import CORTEXDB, KEY, MEM0_OSS, payload, put_cortexdb, put_mem0

TURN = {"thread_id": "t1", "index": 0, "role": "user", "text": "Where were we?"}
LONG = "word " * 120_000


@pytest.fixture
def doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    monkeypatch.setenv("KEYFOLD_API_KEY", KEY)

    def run(url: str, *options: str) -> tuple[int, str]:
        code = main(["--store", url, "doctor", *options])
        return code, capsys.readouterr().out

    return run


def test_turns_with_another_text_and_lost_pieces_are_faults(
    running: Callable[[Any], Any], remembering: Callable[..., Memory], doctor: Callable[..., tuple[int, str]]
) -> None:
    double = running(CORTEXDB.double())
    memory = remembering(CORTEXDB, double)
    told = memory.mem_log_turn("ana", **TURN)
    memory.mem_save("ana", "one", type="decision", title="Title", topic_key="k")
    memory.mem_save("ana", "two", type="decision", title="Title", topic_key="k")
    url = CORTEXDB.url(double)
    assert doctor(url) == (0, "cortexdb: healthy, by its own word\n  service  CortexDB\n  wire     direct\n")
    memory.mem_log_turn("ana", **{**TURN, "text": "Elsewhere."})
    document = memory.mem_add_document("ana", source="a.md", text=LONG)
    double.lose(double.events[-1].id)
    code, out = doctor(url)
    assert code == 1
    assert "fault  turns: 1 is logged with another text for the same thread and index" in out
    assert told.id in out
    assert document.id in out
    assert "incomplete" in out
    assert "Elsewhere" not in out
    code, out = doctor(url, "--json")
    said = json.loads(out)
    assert (code, said["ok"], [finding["area"] for finding in said["findings"]]) == (
        1,
        False,
        ["turns", "records"],
    )
    assert doctor(url, "--quick")[0] == 0


@pytest.mark.parametrize(
    ("service", "put"), [(CORTEXDB, put_cortexdb), (MEM0_OSS, put_mem0)], ids=["CortexDB", "Mem0"]
)
def test_a_record_that_is_held_twice_is_worth_a_note(
    running: Callable[[Any], Any], doctor: Callable[..., tuple[int, str]], service: Any, put: Any
) -> None:
    double = running(service.double())
    for content in ("one", "two"):
        put(double, payload("ana", "k", content))
    code, out = doctor(service.url(double))
    assert code == 0
    assert "note   records: 1 is held twice" in out
