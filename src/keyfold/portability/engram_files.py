"""Engram's files: its export (one JSON object) and its `.engram` folder of gzipped chunks.

An export has `version`, `exported_at` and the lists `sessions`, `observations` and `prompts`; a chunk has the
lists alone, and in newer versions `mutations`. Any list may be null. A folder holds manifest.json, which names the
chunks by id, and chunks/<id>.jsonl.gz, each one JSON object in spite of its name.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from keyfold.errors import InvalidRequest
from keyfold.portability.foreign import ODD_NUMBERS, REPAIRED, Lenient, check_there, cleaned, lenient
from keyfold.portability.report import Report
from keyfold.portability.strict_json import BadInput

LISTS: Final = ("sessions", "observations", "prompts", "mutations")
# What a chunk may take unpacked: far above Engram's own, far below what a hostile one could unpack to.
MAX_BYTES: Final = 1 << 30
_GZIP: Final = b"\x1f\x8b"
_NAME: Final = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of one list, and where it stands."""

    where: str
    value: dict[str, Any]


@dataclass(slots=True)
class Contents:
    """Everything found, by list."""

    sessions: list[Item]
    observations: list[Item]
    prompts: list[Item]
    mutations: list[Item]

    def extend(self, name: str, value: dict[str, Any], report: Report) -> None:
        """Add the lists of one JSON object; entries that are no objects are reported."""
        for kind in LISTS:
            entries = value.get(kind)
            if entries is None:
                continue
            if not isinstance(entries, list):
                report.skip(f"{name}: {kind}", "it must be a list")
                continue
            into: list[Item] = getattr(self, kind)
            for number, entry in enumerate(entries, 1):
                where = f"{name}: {kind} {number}" if name else f"{kind} {number}"
                if isinstance(entry, dict):
                    safe = cleaned(entry)
                    if safe != entry:
                        report.note(where, REPAIRED)
                    into.append(Item(where, safe))
                else:
                    report.skip(where, "it must be an object")


def is_engram(value: Any) -> bool:
    """Whether a JSON value has the shape of Engram's export or of a chunk of it."""
    return isinstance(value, dict) and any(name in value for name in LISTS[:3]) and "format" not in value


def folder_of(path: Path) -> Path | None:
    """The Engram folder at a path: the path itself, or the `.engram` in it."""
    for folder in (path, path / ".engram"):
        if (folder / "manifest.json").is_file() or (folder / "chunks").is_dir():
            return folder
    return None


def read(path: Path, report: Report) -> Contents:
    """All that a file or folder holds. What cannot be read is reported, the rest is taken.

    InvalidRequest when a single file is no Engram data at all, NotFound when there is nothing at the path.
    """
    check_there(path)
    contents = Contents([], [], [], [])
    if path.is_dir():
        folder = folder_of(path)
        if folder is None:
            raise InvalidRequest(
                "path", "the folder holds no manifest.json and no chunks: it is not Engram's"
            )
        for file in _chunks(folder, report):
            _take(file, f"{file.parent.name}/{file.name}", contents, report)
    elif path.is_file():
        before = report.skipped_count
        if not _take(path, "", contents, report):
            problem = report.skipped[-1].reason if report.skipped_count > before else "it is empty"
            raise InvalidRequest("path", f"the file is not Engram's: {problem}")
    else:
        raise InvalidRequest("path", "it is no regular file and no folder")
    return contents


def _take(file: Path, name: str, contents: Contents, report: Report) -> bool:
    """Add what a file holds; False when that is nothing of Engram's."""
    taken = False
    try:
        for value in _objects(unpacked(file), name or file.name, report):
            if not is_engram(value):
                raise BadInput("it holds no sessions, observations or prompts")
            contents.extend(name, value, report)
            taken = True
    except BadInput as error:
        report.skip(name or file.name, str(error))
    return taken


def unpacked(file: Path, limit: int = MAX_BYTES) -> bytes:
    """A file's bytes, unpacked when they are gzipped. BadInput when they are broken or too many."""
    try:
        with file.open("rb") as raw:
            if raw.read(2) != _GZIP:
                raw.seek(0)
                data = raw.read(limit + 1)
            else:
                raw.seek(0)
                with gzip.open(raw) as stream:
                    data = stream.read(limit + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadInput("it is gzipped and broken or cut") from None
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise BadInput(f"it unpacks to more than {limit:,} bytes")
    return data


def _objects(data: bytes, name: str, report: Report) -> Iterator[Any]:
    """The JSON object of a file, or one a line when there are several; then a bad line costs only itself."""
    decoder = Lenient()
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = [line for line in data.split(b"\n") if line.strip()]
    try:
        values: list[Any] = [lenient(data, decoder)]
    except BadInput:
        if len(lines) < 2 or not lines[0].rstrip().endswith(b"}"):
            raise
        decoder.odd = 0
        values = []
        for number, line in enumerate(lines, 1):
            try:
                values.append(lenient(line, decoder))
            except BadInput as error:
                report.skip(f"{name}: line {number}", str(error))
    if decoder.odd:
        report.note(name, ODD_NUMBERS)
    yield from values


def _chunks(folder: Path, report: Report) -> list[Path]:
    """The chunk files there are, in the manifest's order, then the rest; what it names and is absent is reported."""
    files = {file.name.partition(".")[0]: file for file in sorted((folder / "chunks").glob("*.jsonl*"))}
    found: list[Path] = []
    for name in _manifest(folder, report):
        if name in files:
            found.append(files.pop(name))
        else:
            report.skip(f"chunk {name}", "the manifest names it, but its file is not there")
    return [*found, *files.values()]


def _manifest(folder: Path, report: Report) -> list[str]:
    file = folder / "manifest.json"
    if not file.is_file():
        return []
    try:
        value = lenient(unpacked(file).removeprefix(b"\xef\xbb\xbf"))
    except BadInput as error:
        report.skip("manifest.json", str(error))
        return []
    chunks = value.get("chunks") if isinstance(value, dict) else None
    names = (
        [entry.get("id") for entry in chunks or () if isinstance(entry, dict)]
        if isinstance(chunks, list)
        else []
    )
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and _NAME.fullmatch(name)))
