"""Running the command line in this process, on a store of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from keyfold.cli import main


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


class Terminal(TextIOWrapper):
    """A standard input with a person at it."""

    def isatty(self) -> bool:
        return True


Keyfold = Callable[..., Answer]


@pytest.fixture
def keyfold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Keyfold:
    """Run a command on the test's store; `stdin` is what it reads there (bytes or text), a person with `terminal`."""
    monkeypatch.setenv("KEYFOLD_STORE", str(tmp_path / "memory.db"))
    monkeypatch.delenv("KEYFOLD_USER", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run(*arguments: str, stdin: bytes | str = b"", terminal: bool = False) -> Answer:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        kind = Terminal if terminal else TextIOWrapper
        monkeypatch.setattr("sys.stdin", kind(BytesIO(data), encoding="utf-8"))
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


@pytest.fixture
def saved(keyfold: Keyfold) -> Callable[..., Any]:
    """Save a memory and give its receipt."""

    def save(content: str, *arguments: str, topic: str | None = None, title: str = "Auth model") -> Any:
        named = ("--topic", topic) if topic is not None else ()
        answer = keyfold(
            "save", "--type", "decision", "--title", title, *named, *arguments, "--json", "--", content
        )
        assert answer.code == 0, answer.err
        return answer.document

    return save
