"""`python -m tests.doubles SERVICE` serves a double that Keyfold can be tried on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keyfold import Memory
from tests.doubles.__main__ import DOUBLES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", DOUBLES)
def test_a_double_can_be_tried_from_a_clone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.doubles", name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for _ in range(2):
                variable, value = process.stdout.readline().removeprefix("export ").strip().split("=", 1)
                monkeypatch.setenv(variable, value)
            with Memory.open(os.environ["KEYFOLD_STORE"]) as memory:
                memory.mem_save("ana", "JWT.", type="decision", title="Auth", topic_key="auth")
                found = memory.mem_get_observation("ana", topic_key="auth")
        finally:
            process.send_signal(signal.SIGINT)
            _, told = process.communicate()
    assert found is not None
    assert (found.content, process.returncode) == ("JWT.", 0)
    assert "until Ctrl-C" in told
