"""Every ```console example in the documents is run, and says what the page says.

A line `$ keyfold ...` is run in a folder of the page's own, `$ echo TEXT | keyfold ...` with TEXT on standard input,
and `$ echo $?` gives the last exit code. `mkdir -p`, `rm`, and `printf` or `echo` into a file make the files. What follows is compared with stdout and stderr: `...` within a line stands
for anything on it, alone on a line for any lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from keyfold.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True, slots=True)
class Example:
    line: int
    command: str
    expected: str


def examples(text: str) -> list[Example]:
    """The commands of a page's console blocks, each with what should follow it."""
    found: list[Example] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line.strip() == "```console"
        elif inside and line.startswith("$ "):
            found.append(Example(number, line[2:], ""))
        elif inside and found:
            last = found[-1]
            found[-1] = Example(last.line, last.command, last.expected + line + "\n")
    return found


def agrees(said: str, expected: str) -> bool:
    """Whether what was said is what the page says, `...` standing for anything."""
    pattern = ""
    for line in expected.splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, said) is not None


class Shell:
    """As much of a shell as the pages need."""

    def __init__(self, read: Callable[[], str], feed: Callable[[str], None]) -> None:
        self.read = read
        self.feed = feed
        self.code = 0

    def run(self, command: str) -> str:
        if command == "echo $?":
            return f"{self.code}\n"
        words = shlex.split(command)
        if self.with_files(words):
            return ""
        if words[0] == "echo":
            assert words[2] == "|", f"not understood: {command}"
            self.feed(words[1] + "\n")
            words = words[3:]
        assert words[0] == "keyfold", f"not understood: {command}"
        self.code = main(words[1:])
        return self.read()

    def with_files(self, words: list[str]) -> bool:
        """Make and remove files of the page's folder; False for another command."""
        match words:
            case ["mkdir", "-p", name]:
                Path(name).mkdir(parents=True)
            case ["rm", name]:
                Path(name).unlink()
            case ["printf", text, (">" | ">>") as way, name] | [
                "printf",
                "--",
                text,
                (">" | ">>") as way,
                name,
            ]:
                with Path(name).open("w" if way == ">" else "a") as file:
                    file.write(text.replace("\\n", "\n"))
            case ["echo", text, (">" | ">>") as way, name]:
                with Path(name).open("w" if way == ">" else "a") as file:
                    file.write(text + "\n")
            case _:
                return False
        return True


def check(text: str, shell: Shell) -> int:
    """Run a page's examples; how many there were."""
    found = examples(text)
    for example in found:
        said = shell.run(example.command)
        assert agrees(said, example.expected), (
            f"line {example.line}: $ {example.command}\n--- the page\n{example.expected}--- the command\n{said}"
        )
    return len(found)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    from io import BytesIO, TextIOWrapper

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("KEYFOLD_STORE", "KEYFOLD_USER"):
        monkeypatch.delenv(name, raising=False)

    def read() -> str:
        said = capsys.readouterr()
        return said.out + said.err

    def feed(text: str) -> None:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode()), encoding="utf-8"))

    feed("")
    return Shell(read, feed)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_console_examples_of_a_page_say_what_it_says(path: Path, shell: Shell) -> None:
    check(path.read_text("utf-8"), shell)


def test_the_page_on_the_command_line_has_examples_of_every_command() -> None:
    from keyfold.cli.parser import build

    text = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    shown = " ".join(example.command for example in examples(text))
    (commands,) = (action.choices for action in build()._actions if action.choices)
    assert [name for name in commands if f"keyfold {name}" not in shown and name != "tour"] == []


def test_a_page_that_says_something_else_fails(shell: Shell) -> None:
    page = "```console\n$ keyfold --version\nkeyfold ...\n$ keyfold get 7\n...\n$ echo $?\n{}\n```\n"
    assert check(page.format(1), shell) == 3
    with pytest.raises(AssertionError, match=r"line 6: \$ echo"):
        check(page.format(0), shell)
