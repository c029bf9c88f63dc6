"""The project keeps its own rules: sizes, prose, and one source for each fact."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import keyfold

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))

MAX_FILE = 400
MAX_FUNCTION = 60
SECTIONS = ["Status", "Context", "Decision", "Runner-up", "Consequences"]

# Spelt in two halves, so that this file does not find itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.~-])/(?:" + "|".join(["ro" + "ot", "tm" + "p/v", "wo" + "rk"]) + r")(?![\w-])"
)


def long_functions(source: str) -> list[str]:
    """Functions and methods of more than MAX_FUNCTION lines, decorators and docstring included."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines = (node.end_lineno or first) - first + 1
            if lines > MAX_FUNCTION:
                found.append(f"{node.name}: {lines} lines")
    return found


def project_files() -> list[Path]:
    """What is, or would be, under version control; in a source archive without git, everything."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        paths = [ROOT / name for name in names if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not any(part.startswith(".venv") for part in path.parts)]
    return sorted(path for path in paths if path.is_file())


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


def test_the_rules_find_what_they_forbid() -> None:
    def body(lines: int) -> str:
        return "def f():\n" + "    pass\n" * (lines - 1)

    assert long_functions(body(MAX_FUNCTION)) == []
    assert long_functions(body(MAX_FUNCTION + 1)) == [f"f: {MAX_FUNCTION + 1} lines"]
    assert long_functions("@g\n" + body(MAX_FUNCTION)) == [f"f: {MAX_FUNCTION + 1} lines"]
    assert MACHINE_PATH.search("see /" + "root/notes") is not None
    assert MACHINE_PATH.search("in `/" + "tmp/v`") is not None
    assert MACHINE_PATH.search("a/root/b, /rooted, /tmp/very") is None


def test_there_is_something_to_check() -> None:
    assert SOURCES
    assert DECISIONS
    assert ROOT / "README.md" in project_files()


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_source_file_stays_short(path: Path) -> None:
    source = path.read_text("utf-8")
    assert len(source.splitlines()) <= MAX_FILE, "split the file by what it is about"
    assert long_functions(source) == []


def test_no_file_mentions_the_machine_it_was_written_on() -> None:
    found = []
    for path in project_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_says_why_and_what_came_second(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith(f"# {path.name[:4]}: "), "the title carries the file's number"
    assert headings(text) == SECTIONS
    sections = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(path.name[:4]) for path in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_make_command_that_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    line = r"^(?:.*&& |\s*|\s*step \w+ )make (?:--no-print-directory )?([a-z]+)\s*(?:#.*|\|\| .*)?$"
    named = set(re.findall(line, text, re.MULTILINE)) | set(re.findall(r"`make ([a-z]+)", text))
    assert named, f"{name} names no make command"
    assert named <= targets()


def test_every_relative_link_in_the_documents_leads_somewhere() -> None:
    broken = []
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
            target = link.partition("#")[0]
            if target and "://" not in target and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(ROOT)}: {link}")
    assert broken == []


def test_the_changelog_has_a_place_for_what_is_not_yet_released() -> None:
    assert headings((ROOT / "CHANGELOG.md").read_text("utf-8"))[0] == "[Unreleased]"


def test_the_version_is_the_same_wherever_it_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert metadata.version("keyfold") == project["version"], "run make test again: the install is old"
    if hasattr(keyfold, "__version__"):
        assert keyfold.__version__ == project["version"]
