"""Importing a path, whatever is there: which format it is, and what to do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from keyfold.contract.protocols import Engine
from keyfold.errors import InvalidRequest
from keyfold.model import Config
from keyfold.portability.chatgpt import import_chatgpt
from keyfold.portability.claude_code import import_claude_code
from keyfold.portability.detect import SOURCES, Source, detect
from keyfold.portability.engram import import_engram
from keyfold.portability.foreign import check_there
from keyfold.portability.lines import lines_of, opened
from keyfold.portability.markdown import import_markdown
from keyfold.portability.mcp_memory import import_mcp_memory
from keyfold.portability.reader import import_keyfold
from keyfold.portability.report import Progress, Report
from keyfold.portability.writer import export


class _Importer(Protocol):
    def __call__(
        self,
        engine: Engine,
        path: str | Path,
        *,
        namespace: str = ...,
        config: Config | None = ...,
        dry_run: bool = ...,
        progress: Progress | None = ...,
    ) -> Report: ...


_FOREIGN: Final[dict[str, _Importer]] = {
    "engram": import_engram,
    "markdown": import_markdown,
    "mcp-memory": import_mcp_memory,
    "claude-code": import_claude_code,
    "chatgpt": import_chatgpt,
}


def import_path(
    engine: Engine,
    path: str | Path,
    *,
    source: Source = "auto",
    namespace: str | None = None,
    per_project: bool = False,
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Import a file or folder: a keyfold export, or what another tool keeps.

    `source` names the format, or `auto` finds it out. For a keyfold export `namespace` takes that namespace's
    records alone (default: all); for other formats it is where everything goes (default: `default`), unless
    for Engram's data `per_project` gives each project a namespace of its own. What is wrong in the input is
    in the report. Raises NotFound when nothing is there, InvalidRequest for another format, StoreError when
    the store or the file fails.
    """
    if source not in SOURCES:
        raise InvalidRequest("source", f"must be one of {', '.join(SOURCES)}")
    place = Path(path)
    check_there(place)
    form = detect(place) if source == "auto" else source
    options: dict[str, Any] = {"config": config, "dry_run": dry_run, "progress": progress}
    if per_project:
        if form != "engram":
            raise InvalidRequest("namespace-per", "this is for Engram's data, which names a project an entry")
        options["per_project"] = True
    if form == "keyfold":
        with opened(place) as file:
            lines = lines_of(file, (config or Config()).max_text_bytes)
            return import_keyfold(engine, lines, namespace=namespace, **options)
    return _FOREIGN[form](engine, place, namespace="default" if namespace is None else namespace, **options)


def copy(
    source: Engine,
    target: Engine,
    *,
    namespace: str | None = None,
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Copy everything (or one namespace) from one store to another: an export and an import without a file.

    Copying again brings over what is new and leaves the rest alone.
    """
    lines = export(source, namespace=namespace)
    report = import_keyfold(target, lines, config=config, dry_run=dry_run, progress=progress)
    report.format = "copy"
    return report
