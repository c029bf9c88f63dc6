"""Import of Claude Code's transcripts: a session a file, its talk as turns dated as they were.

What becomes what is told in docs/import-export.md. A turn's place is its place among the turns of its session,
so a longer copy of a transcript adds what is new and leaves the rest alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from keyfold.contract.protocols import Engine
from keyfold.errors import InvalidRequest
from keyfold.model import Config
from keyfold.portability.chats import Thread
from keyfold.portability.claude_messages import BOOKKEEPING, turns_of
from keyfold.portability.foreign import (
    ODD_NUMBERS,
    check_there,
    clean,
    json_lines,
    modified,
    open_regular,
    open_source,
    time_from,
)
from keyfold.portability.loader import Loader
from keyfold.portability.report import Progress, Report
from keyfold.portability.strict_json import BadInput

ENDING: Final = ".jsonl"
# Where ~/.claude/projects keeps its files: <project>/<session>.jsonl; what lies deeper are sub-agents.
DEPTH: Final = 3
_FACTS: Final = (("cwd", "cwd"), ("gitBranch", "git_branch"), ("version", "version"), ("slug", "slug"))
_TITLES: Final = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}


def import_claude_code(
    engine: Engine,
    path: str | Path,
    *,
    namespace: str = "default",
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Load a transcript of Claude Code, or a folder of them, into `namespace`.

    NotFound when there is nothing at the path, InvalidRequest for a folder without transcripts.
    """
    report = Report(format="claude-code", dry_run=dry_run)
    loader = Loader(engine, report, config or Config(), dry_run=dry_run, progress=progress)
    place = Path(path)
    check_there(place)
    if place.is_dir():
        files = list(transcripts_in(place))
        if not files:
            raise InvalidRequest("path", f"the folder holds no transcripts (*{ENDING})")
        for name in files:
            try:
                file = open_regular(place / name, follow=False)
            except BadInput as error:
                report.skip(name, str(error))
                continue
            with file:
                _Transcript(loader, report, namespace, name, Path(name).stem).read(file)
    else:
        with open_source(place) as file:
            _Transcript(loader, report, namespace, "", place.stem).read(file)
    loader.finish()
    return report


def transcripts_in(root: Path) -> Iterator[str]:
    """The transcripts below a folder, as paths within it with "/", sorted. Links are not followed."""
    for folder, folders, files in os.walk(root):
        within = Path(folder).relative_to(root)
        folders[:] = (
            sorted(name for name in folders if not name.startswith(".")) if len(within.parts) < DEPTH else []
        )
        for name in sorted(files):
            if name.endswith(ENDING) and not (Path(folder) / name).is_symlink():
                yield (within / name).as_posix()


def is_transcript(value: Any) -> bool:
    """Whether an object can be a line of a transcript."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "summary":
        return "leafUuid" in value
    return isinstance(value.get("sessionId"), str) and isinstance(kind, str)


class _Transcript:
    """Reads one file. Its threads are those of the sessions that its lines name: as a rule one."""

    def __init__(self, loader: Loader, report: Report, namespace: str, name: str, session: str) -> None:
        self._loader = loader
        self._report = report
        self._namespace = namespace
        self._name = name
        self._session = session
        self._threads: dict[str, Thread] = {}
        self._seen: set[str] = set()
        self._titles: list[tuple[dict[str, Any], str]] = []

    def read(self, file: BinaryIO) -> None:
        """Take the file's lines in order, then the sessions."""
        at = modified(file)
        for line in json_lines(file):
            where = f"{self._name}: line {line.number}" if self._name else f"line {line.number}"
            if line.problem is not None or not isinstance(line.value, dict):
                self._report.skip(where, line.problem or "not an object", line.number)
                continue
            taken = sum(thread.count for thread in self._threads.values()) if line.odd else 0
            at = self._take(line.value, at, where, line.number)
            if line.odd and sum(thread.count for thread in self._threads.values()) > taken:
                self._report.note(where, ODD_NUMBERS, line.number)
        self._name_sessions()
        for thread in self._threads.values():
            thread.close(f"session of {self._name}" if self._name else "session")

    def _take(self, value: dict[str, Any], before: datetime, where: str, line: int) -> datetime:
        """Take one line; the time that lines without one get after it."""
        kind = str(value.get("type"))
        if kind in _TITLES and isinstance(value.get(_TITLES[kind]), str):
            self._titles.append((value, str(value[_TITLES[kind]])))
            return before
        at = time_from(value.get("timestamp")) or before
        if kind not in ("user", "assistant"):
            self._report.leave_out(
                "lines of bookkeeping" if kind in BOOKKEEPING else "lines of an unknown kind"
            )
        elif value.get("isSidechain") is True:
            self._report.leave_out("messages of sub-agents")
        elif value.get("isMeta") is True or value.get("isVisibleInTranscriptOnly") is True:
            self._report.leave_out("messages that the program wrote for the model")
        elif value.get("isCompactSummary") is True:
            self._report.leave_out("summaries of what was said before")
        elif value.get("isApiErrorMessage") is True:
            self._report.leave_out("notices of errors")
        elif self._is_repeated(value):
            self._report.leave_out("messages that stand in the file twice")
        else:
            turns = turns_of(value, at, where, line, self._report)
            if turns:
                thread = self._thread(value)
                for turn in turns:
                    thread.add(turn)
        return at

    def _is_repeated(self, value: dict[str, Any]) -> bool:
        name = value.get("uuid")
        if not isinstance(name, str):
            return False
        repeated = name in self._seen
        self._seen.add(name)
        return repeated

    def _thread(self, value: dict[str, Any]) -> Thread:
        given = value.get("sessionId")
        session = given if isinstance(given, str) and given.strip() else self._session
        thread = self._threads.get(clean(session))  # names that are one in the store are one thread
        if thread is None:
            thread = Thread(self._loader, self._report, self._namespace, session, rewritten=False)
            thread.facts["source"] = "claude-code"
            self._threads[thread.id] = thread
        for theirs, ours in _FACTS:
            if isinstance(value.get(theirs), str) and value[theirs]:
                thread.facts[ours] = value[theirs]
        return thread

    def _name_sessions(self) -> None:
        """Give titles to the sessions they are of. A summary may be of another session: its leaf is then not here."""
        for value, title in self._titles:
            leaf, session = value.get("leafUuid"), value.get("sessionId")
            thread = self._threads.get(clean(session)) if isinstance(session, str) else None
            if thread is None and isinstance(leaf, str) and leaf in self._seen:
                thread = next(reversed(self._threads.values()), None)
            if thread is None:
                self._report.leave_out("titles of other sessions")
            else:
                thread.facts["title"] = title
