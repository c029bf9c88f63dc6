"""Commands on a store that cannot be written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Keyfold
from tests.modes import sealed

READS = (
    ("search", "JWT"),
    ("get", "--topic", "auth"),
    ("topics",),
    ("history", "--topic", "auth", "--diff"),
    ("list",),
    ("timeline", "1"),
    ("forget", "--topic", "auth", "--dry-run"),
    ("context",),
    ("session", "list"),
    ("stats",),
    ("export",),
    ("doctor",),
    ("doctor", "--quick"),
)
WRITES = (
    ("save", "--type", "decision", "--title", "New", "A text."),
    ("forget", "--topic", "auth", "--yes"),
    ("restore", "--topic", "auth", "--revision", "1"),
    ("session", "summary", "said"),
    ("session", "end", "said"),
    ("doctor", "--repair"),
    ("doctor", "--purge"),
    ("doctor", "--erase"),
)


@pytest.fixture
def store(tmp_path: Path, keyfold: Keyfold, saved: Callable[..., Any]) -> Iterator[str]:
    """The path of a store with one memory and its past, in a folder that cannot be written."""
    saved("JWT, one hour.", topic="auth")
    saved("JWT, 15 days.", topic="auth")
    folder = tmp_path / "sealed"
    folder.mkdir()
    assert keyfold("backup", str(folder / "memory.db")).code == 0
    with sealed(folder):
        yield str(folder / "memory.db")


@pytest.mark.parametrize("command", READS, ids=" ".join)
def test_a_command_that_reads_does_so(store: str, keyfold: Keyfold, command: tuple[str, ...]) -> None:
    answer = keyfold(*command, "--store", store)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == keyfold(*command).out or command[0] == "doctor"
    assert answer.out


def test_doctor_notes_that_it_is_read_only(store: str, keyfold: Keyfold) -> None:
    assert "note   file: it is read-only: this process may not write the file\n" in (
        keyfold("doctor", "--store", store).out
    )


@pytest.mark.parametrize("command", WRITES, ids=" ".join)
def test_a_command_that_writes_ends_with_3_and_says_what_to_do(
    store: str, keyfold: Keyfold, command: tuple[str, ...]
) -> None:
    answer = keyfold(*command, "--store", store)
    assert answer.code == 3
    assert "is read-only (this process may not write the file): make the file and its folder" in answer.err


def test_a_backup_is_the_copy_that_can_be_written(store: str, keyfold: Keyfold, tmp_path: Path) -> None:
    assert keyfold("backup", str(tmp_path / "mine.db"), "--store", store).code == 0
    assert keyfold("save", "--type", "decision", "--title", "New", "Text.", "--store", str(tmp_path / "mine.db")).code == 0  # fmt: skip


def test_memories_are_copied_out_of_it_and_not_into_it(store: str, keyfold: Keyfold, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    assert keyfold("copy", store, other).code == 0
    assert keyfold("get", "--topic", "auth", "--store", other).code == 0
    assert keyfold("save", "--type", "decision", "--title", "New", "Text.", "--store", other).code == 0
    answer = keyfold("copy", other, store)
    assert answer.code == 3
    assert "read-only" in answer.err
