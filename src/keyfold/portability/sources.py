"""Importing a path, whatever is there: which format it is, and what to do with it."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Literal, cast

from keyfold.contract.protocols import Engine
from keyfold.errors import InvalidRequest, NotFound, StoreError
from keyfold.model import Config
from keyfold.portability.engram import import_engram
from keyfold.portability.engram_files import folder_of, is_engram, unpacked
from keyfold.portability.reader import import_keyfold
from keyfold.portability.report import Progress, Report
from keyfold.portability.strict_json import BadInput, loads
from keyfold.portability.writer import FORMAT, export

Source = Literal["auto", "keyfold", "engram"]
SOURCES: Final = ("auto", "keyfold", "engram")
# A first line longer than this is no keyfold header; Engram's export may be one line of any length.
_HEAD: Final = 64 * 1024


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
    """Import a file or folder: a keyfold export, Engram's export, a chunk of it, or its `.engram` folder.

    `source` names the format, or `auto` finds it out. For a keyfold export `namespace` takes that namespace's
    records alone (default: all); for Engram it is where everything goes (default: `default`), unless
    `per_project` gives each project a namespace of its own. What is wrong in the input is in the report.
    Raises NotFound when nothing is there, InvalidRequest for another format, StoreError when the store or the
    file fails.
    """
    if source not in SOURCES:
        raise InvalidRequest("source", f"must be one of {', '.join(SOURCES)}")
    place = Path(path)
    if (detect(place) if source == "auto" else source) == "engram":
        home = "default" if namespace is None else namespace
        return import_engram(
            engine,
            place,
            namespace=home,
            per_project=per_project,
            config=config,
            dry_run=dry_run,
            progress=progress,
        )
    if per_project:
        raise InvalidRequest(
            "namespace-per", "a keyfold export names its users itself; this is for Engram's data"
        )
    with _open(place) as lines:
        return import_keyfold(
            engine, _readable(lines), config=config, namespace=namespace, dry_run=dry_run, progress=progress
        )


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


def detect(path: Path) -> Source:
    """The format of what is at a path. NotFound, or InvalidRequest when it is none that is known."""
    if path.is_dir():
        if folder_of(path) is not None:
            return "engram"
        raise InvalidRequest("path", "the folder is not Engram's: it holds no manifest.json and no chunks")
    with _open(path) as lines:
        head = b"".join(itertools.islice(_readable(lines), 1))[:_HEAD]
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    try:
        first = loads(text)
    except BadInput:
        first = None  # an export of Engram's over several lines, or a long one
    if isinstance(first, dict) and (first.get("format") == FORMAT or {"namespace", "kind"} <= first.keys()):
        return "keyfold"
    if is_engram(first) or (first is None and _is_engram_file(path)):
        return "engram"
    raise InvalidRequest(
        "path", "it is neither a keyfold export nor Engram's; say which with --from if it should be"
    )


def _is_engram_file(path: Path) -> bool:
    try:
        data = unpacked(path).removeprefix(b"\xef\xbb\xbf")
        if not data.lstrip().startswith(b"{"):
            return False
        return is_engram(loads(data))
    except BadInput:
        return False


def _open(path: Path) -> BinaryIO:
    """A file for reading bytes, unpacked when it is gzipped."""
    try:
        raw = path.open("rb")
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        if not packed:
            return raw
        raw.close()
        return cast("BinaryIO", gzip.open(path, "rb"))
    except FileNotFoundError:
        raise NotFound(f"there is nothing to import at {str(path)!r}") from None
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None


def _readable(lines: BinaryIO) -> Iterator[bytes]:
    """The lines of a file; what goes wrong while reading is an error of Keyfold's."""
    try:
        yield from lines
    except EOFError:
        yield b'{"cut'  # a gzipped file that was cut: reported as the bad line it is
    except OSError as error:
        raise StoreError(f"cannot read the file to import: {error.strerror or 'it is broken'}") from None
