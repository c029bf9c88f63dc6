"""The collector of cycles rests while a batch is written, and no longer."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import keyfold.engines.sqlite.write as write
from keyfold import Memory
from keyfold.engines.sqlite.unswept import unswept

ITEMS = [{"content": f"text {n}", "type": "decision", "title": "t", "topic_key": f"k{n}"} for n in range(40)]


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_a_batch_is_written_without_it_and_it_is_on_again_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    row = write.record_row

    def noted(*arguments: object) -> object:
        seen.append(gc.isenabled())
        return row(*arguments)  # type: ignore[arg-type]  # as they came

    with Memory.open(str(tmp_path / "memory.db")) as memory:
        memory.mem_save("u", "opens a session", type="decision", title="t")
        monkeypatch.setattr(write, "record_row", noted)
        memory.mem_save_many("u", ITEMS)
    assert seen == [False] * len(ITEMS)
    assert gc.isenabled()


def test_it_is_on_again_after_a_failure() -> None:
    with pytest.raises(KeyError), unswept():
        raise KeyError
    assert gc.isenabled()


def test_a_program_that_turned_it_off_keeps_it_off() -> None:
    gc.disable()
    with unswept():
        assert not gc.isenabled()
    assert not gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="forks here are not safe")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_in_the_middle_has_it_on() -> None:
    with unswept():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not gc.isenabled()
