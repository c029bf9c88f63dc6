"""What needs a service to ask: C077 and C079."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyfold import Config, Memory, Unauthorized, Unavailable
from tests.cases.common import USER
from tests.doubles.mem0_oss import Mem0Oss

PRIVATE = "hunter2-is-my-password"
KEY = "sk-never-shown"


def test_c077_a_request_that_failed_left_no_private_text_anywhere(
    running: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = running(Mem0Oss(key=KEY))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    double.faults.add("apply_then_status", method="POST", code=503)
    secret = f"login <private>{PRIVATE}</private>"
    url = double.url.replace("http://", "mem0+http://")
    with Memory.open(url, config=Config(credential=lambda: KEY)) as memory:
        with pytest.raises(Unavailable) as failed:
            memory.mem_save(USER, secret, type="decision", title=secret)
        assert memory.mem_save(USER, secret, type="decision", title=secret).outcome == "deduped"
    assert PRIVATE not in str(failed.value)
    assert not any(PRIVATE.encode() in seen.body or PRIVATE in seen.path + seen.query for seen in double.seen)
    assert list(tmp_path.iterdir()) == []  # nothing is spooled


def test_c079_a_key_is_in_no_log_error_or_repr(
    running: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    double = running(Mem0Oss(key="another"))
    double.faults.add("status", code=401, body={"detail": f"no such key: {KEY}"})
    caplog.set_level(logging.DEBUG)
    config = Config(credential=lambda: KEY)
    with Memory.open(double.url.replace("http://", "mem0+http://"), config=config) as memory:
        with pytest.raises(Unauthorized) as refused:
            memory.mem_list(USER)
        engine: Any = memory.engine
        shown = [
            repr(memory),
            repr(engine),
            repr(engine.transport),
            repr(vars(engine.transport)),
            repr(config),
        ]
    told = ["".join(traceback.format_exception(refused.value)), caplog.text, *shown]
    assert double.seen[0].headers["x-api-key"] == KEY
    assert [text for text in told if KEY in text] == []
