"""The tour: the main job on the embedded default with real text, in a temporary folder that it removes."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final

from keyfold.cli.output import Output
from keyfold.cli.tour_texts import BUILT_IN, CLOSING, LATER
from keyfold.errors import InvalidRequest, StoreError
from keyfold.text.counted import counted

DECISIONS: Final = Path(__file__).resolve().parents[3] / "docs" / "decisions"
USER: Final = "you"
WIDTH: Final = 116
SHOWN: Final = 14  # lines of one answer; the whole is a command away


@dataclass(frozen=True, slots=True)
class Text:
    """Something to remember: its topic key, title, text and where it was read."""

    topic: str
    title: str
    content: str
    source: str


@dataclass(slots=True)
class Tour:
    """Runs commands as one would type them, and keeps what they said."""

    output: Output
    steps: list[dict[str, Any]] = field(default_factory=list)

    def step(self, words: str) -> None:
        """Begin a numbered step."""
        self.steps.append({"step": len(self.steps) + 1, "about": words, "commands": []})
        if not self.output.json:
            self.output.line()
            self.output.line(f"{len(self.steps)}. {words}")
            self.output.line()

    def run(self, *arguments: str, typed: str | None = None, quiet: bool = False) -> str:
        """Run a command and show it with its answer; `typed` is how it would be typed where that is shorter."""
        from keyfold.cli.program import main

        out, notes = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(notes):
            code = main(arguments)
        said = out.getvalue() + notes.getvalue()
        if code:
            raise StoreError(f"a step of the tour ended with exit code {code}: {said.strip()}")
        if not quiet:
            command = typed if typed is not None else "keyfold " + shlex.join(arguments)
            self.steps[-1]["commands"].append({"command": command, "output": said.rstrip("\n")})
            if not self.output.json:
                self._show(command, said)
        return out.getvalue()

    def say(self, text: str) -> None:
        """A remark under a step."""
        self.steps[-1].setdefault("remarks", []).append(text)
        if not self.output.json:
            self.output.line(f"   {text}")

    def _show(self, command: str, said: str) -> None:
        self.output.line(f"   $ {command}")
        lines = said.rstrip("\n").split("\n")
        for line in lines[:SHOWN]:
            shown = line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."
            self.output.body(f"   {shown}".rstrip())
        if len(lines) > SHOWN:
            self.output.line(f"   ... and {counted(len(lines) - SHOWN, 'more line')}")
        self.output.line()


def tour(args: Namespace, output: Output) -> int:
    """keyfold tour"""
    for option, given in (("--store", args.store), ("--user", args.user)):
        if given is not None:
            raise InvalidRequest(option, "is not for the tour: it has a store and a user of its own")
    texts = project_texts() or BUILT_IN_TEXTS
    guide = Tour(output)
    with (
        tempfile.TemporaryDirectory(prefix="keyfold-tour-", ignore_cleanup_errors=True) as folder,
        _at_home(Path(folder) / "memory.db"),
    ):
        if not output.json:
            output.line("Keyfold in a minute. Everything happens in a temporary folder, removed at the end.")
        _write(guide, texts)
        _trace(guide, texts[0])
        _find(guide, texts[0])
        _forget(guide, texts[-1])
    if output.json:
        output.document({"items": guide.steps, "total": len(guide.steps), "truncated": False})
        return 0
    for line in CLOSING.strip("\n").split("\n"):
        output.line(line)
    return 0


@contextmanager
def _at_home(store: Path) -> Iterator[None]:
    """The environment as if the tour's store and user were one's own, so that the commands are short and true."""
    ours = {"KEYFOLD_STORE": str(store), "KEYFOLD_USER": USER}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _save(guide: Tour, text: Text, content: str, *, typed: str | None = None, quiet: bool = False) -> None:
    words = ("save", "--type", "decision", "--topic", text.topic, "--title", text.title)
    short = f"keyfold save --type decision --topic {text.topic} --title {shlex.quote(text.title)} "
    guide.run(*words, "--", content, typed=short + (typed or text.source), quiet=quiet)


def _write(guide: Tour, texts: Sequence[Text]) -> None:
    first = texts[0]
    guide.step("Remember, each thing under a name: why this project is built the way it is")
    _save(guide, first, first.content)
    for text in texts[1:]:
        _save(guide, text, text.content, quiet=True)
    guide.say(f"... and the same for {counted(len(texts) - 1, 'more text')}. What there is now, by name:")
    guide.run("topics")
    guide.step("Say the same again: nothing is stored twice, so a retry is harmless")
    _save(guide, first, first.content)
    guide.step("Think again: the name stays, the text is rewritten in place")
    _save(guide, first, f"{first.content.rstrip()}\n\n{LATER}", typed="- < rewritten.md")


def _trace(guide: Tour, text: Text) -> None:
    guide.step("Nothing was lost: both texts are there, and what lies between them")
    guide.run("history", "--topic", text.topic, "--diff")


def _find(guide: Tour, text: Text) -> None:
    guide.step("Find it by plain words, or see what was written around it")
    guide.run("search", "which SQLite, and why that one?", "--limit", "2")
    record = json.loads(guide.run("get", "--topic", text.topic, "--json", quiet=True))
    guide.run("timeline", str(record["id"]), "--before", "2", "--after", "2")
    guide.say("> is the memory asked about, ~ an earlier state of it")


def _forget(guide: Tour, text: Text) -> None:
    guide.step("Keep a secret: what stands between private tags is never stored")
    words = "The key is <private>tour-token-1234</private>, ask Kim."
    guide.run("save", "--type", "config", "--topic", "config/deploy", "--title", "Deploy key", words)
    guide.run("get", "--topic", "config/deploy")
    guide.step("Forget: the text, its history and its bytes in the file")
    guide.run("forget", "--topic", text.topic, "--yes")
    guide.run("doctor", "--erase")


def project_texts() -> list[Text]:
    """The project's own decisions, when this is a checkout of it."""
    texts = []
    for path in sorted(DECISIONS.glob("[0-9]*.md")):
        content = path.read_text("utf-8")
        title = content.partition("\n")[0].lstrip("# ").partition(": ")[2] or path.stem
        texts.append(Text(f"decisions/{path.stem[5:]}", title, content, f"- < docs/decisions/{path.name}"))
    return texts if len(texts) > 1 else []


BUILT_IN_TEXTS: Final = [Text(topic, title, content, "...") for topic, title, content in BUILT_IN]
