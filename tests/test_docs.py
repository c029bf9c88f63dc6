"""Every Python example in the documents runs, as it stands on the page.

The blocks of a page run in order in one namespace, in a folder of their own. A block that
cannot run says why after the language: ```python no-run: needs a server
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from keyfold.clock import system_clock

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# How many examples are not executed. Raising it is a decision to make in the open.
NOT_RUN = 0

HOURS = timedelta(hours=3)

OPENING = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<info>.*)$")
NO_RUN = re.compile(r"\bno-run\b(?::[ \t]*(?P<reason>.*))?")


@dataclass(frozen=True, slots=True)
class Block:
    line: int  # of the first line of code
    info: str
    code: str

    @property
    def is_python(self) -> bool:
        return self.info.split(" ")[0].lower() in {"python", "py", "python3"}

    @property
    def runs(self) -> bool:
        return self.is_python and NO_RUN.search(self.info) is None

    @property
    def reason(self) -> str:
        found = NO_RUN.search(self.info)
        return (found["reason"] or "").strip() if found else ""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page; a fence inside a longer one is text."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    start, code = 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if opening is None:
            opening = OPENING.match(line)
            start, code = number + 1, []
        elif re.fullmatch(rf" *{re.escape(opening['fence'][0])}{{{len(opening['fence'])},}} *", line):
            found.append(Block(start, opening["info"].strip(), "\n".join(code) + "\n"))
            opening = None
        else:
            indent = len(opening["indent"])
            code.append(line[indent:] if line[:indent].isspace() else line)
    assert opening is None, f"the block that opens above line {start} is never closed"
    return found


def run(page: str, text: str) -> int:
    """Execute the page's examples; how many there were."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    executed = 0
    for block in blocks(text):
        if block.runs:
            padded = "\n" * (block.line - 1) + block.code  # so that a traceback names the page's line
            exec(compile(padded, page, "exec", dont_inherit=True), namespace)
            executed += 1
    return executed


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the page's own to run in, and nothing of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("KEYFOLD_STORE", "KEYFOLD_USER", "KEYFOLD_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_the_examples_of_a_page_run_and_later_run_again_in_the_same_folder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(str(path), path.read_text("utf-8"))
    # an unkeyed repeat is a dedup for a minute
    monkeypatch.setattr("keyfold.clock.system_clock", lambda: system_clock() + HOURS)
    run(str(path), path.read_text("utf-8"))


@pytest.mark.usefixtures("folder")
def test_the_examples_of_all_pages_run_in_one_folder() -> None:
    for path in PAGES:
        run(str(path), path.read_text("utf-8"))


def test_an_example_that_does_not_run_says_why_and_is_counted() -> None:
    skipped = [
        (f"{relative(path)}:{block.line}", block.reason)
        for path in PAGES
        for block in blocks(path.read_text("utf-8"))
        if block.is_python and not block.runs
    ]
    assert [where for where, reason in skipped if not reason] == []
    assert len(skipped) == NOT_RUN


def test_the_readme_has_an_example() -> None:
    assert any(block.runs for block in blocks((ROOT / "README.md").read_text("utf-8")))


def test_blocks_share_a_page_and_an_error_names_its_line() -> None:
    page = "# A page\n\n```python\na = 1\n```\n\ntext\n\n- in a list\n\n  ```py\n  if a:\n      b = a + 1\n  ```\n"
    assert run("page.md", page + "\n```python\nassert b == 2\n```\n") == 3
    with pytest.raises(AssertionError) as caught:
        run("page.md", page + "\n```python\n\nassert b == 3\n```\n")
    assert caught.traceback[-1].lineno == 17  # counted from 0: line 18 of the page


def test_what_is_not_python_or_says_no_run_is_left_alone() -> None:
    page = (
        "```\n1/0\n```\n```sh\n1/0\n```\n```python no-run: needs a server\n1/0\n```\n"
        "~~~python no-run\n1/0\n~~~\n````markdown\n```python\n1/0\n```\n````\n"
    )
    assert run("page.md", page) == 0
    assert [block.reason for block in blocks(page) if block.is_python] == ["needs a server", ""]


def test_a_block_that_is_never_closed_is_an_error() -> None:
    with pytest.raises(AssertionError, match="never closed"):
        blocks("```python\na = 1\n")
