"""Which format a file or folder is in, from what stands at its beginning."""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from keyfold.errors import InvalidRequest, NotFound, StoreError
from keyfold.portability.chatgpt_files import NAME as CONVERSATIONS
from keyfold.portability.chatgpt_files import zip_names
from keyfold.portability.claude_code import is_transcript, transcripts_in
from keyfold.portability.engram_files import LISTS, folder_of, is_engram, unpacked
from keyfold.portability.foreign import BOM, Lenient, check_there, lenient
from keyfold.portability.markdown_files import is_note
from keyfold.portability.mcp_graph import is_graph
from keyfold.portability.strict_json import BadInput
from keyfold.portability.writer import FORMAT

Source = Literal["auto", "keyfold", "engram", "markdown", "mcp-memory", "claude-code", "chatgpt"]
SOURCES: Final = ("auto", "keyfold", "engram", "markdown", "mcp-memory", "claude-code", "chatgpt")
# A first line longer than this is no keyfold header; other formats may be one line of any length.
_HEAD: Final = 64 * 1024
# So many files of a folder, and lines of a file, are looked at.
_TRIED: Final = 20
_OTHER: Final = (
    "it is neither a keyfold export nor Engram's, no notes in Markdown, no memory.jsonl and no history of Claude "
    "Code's or ChatGPT's; say which with --from if it should be"
)

_NO_FILE: Final = (
    "it is no regular file, so what is in it cannot be found out; a keyfold export may come through a pipe, "
    "with --from keyfold"
)


def detect(path: Path) -> Source:
    """The format of what is at a path. NotFound, or InvalidRequest when it is none that is known."""
    check_there(path)
    try:
        found = _folder(path) if path.is_dir() else _file(path)
    except FileNotFoundError:
        raise NotFound(f"there is nothing to import at {str(path)!r}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InvalidRequest("path", "it is gzipped and broken or cut") from None
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if found is None:
        raise InvalidRequest("path", _OTHER)
    return found


def _folder(path: Path) -> Source | None:
    if folder_of(path) is not None:
        return "engram"
    if any(CONVERSATIONS.fullmatch(entry.name) for entry in path.iterdir()):
        return "chatgpt"
    for name in islice(transcripts_in(path), _TRIED):
        if not (path / name).is_file():  # a pipe would never end
            continue
        head = _head(path / name)
        if (_of_lines(head) or _of_whole(path / name, head)) == "claude-code":
            return "claude-code"
    return "markdown" if any(_notes(path)) else None


def _notes(path: Path) -> Iterator[Path]:
    return (file for file in path.rglob("*") if is_note(file.name))


def _head(path: Path, *, strict: bool = False) -> bytes:
    """The beginning of a file, unpacked. What a broken one holds before it breaks may do, unless it is `strict`."""
    with path.open("rb") as raw:
        if raw.read(2) != b"\x1f\x8b":
            raw.seek(0)
            return raw.read(_HEAD)
    data = b""
    try:
        with gzip.open(path) as stream:
            while len(data) < _HEAD and (more := stream.read1(_HEAD)):
                data += more
    except (EOFError, zlib.error, gzip.BadGzipFile):
        if strict or not data:
            raise
    return data


def _file(path: Path) -> Source | None:
    if is_note(path.name):
        return "markdown" if path.is_file() else _missing(path)
    if path.exists() and not path.is_file():
        raise InvalidRequest("path", _NO_FILE)
    with path.open("rb") as raw:
        packed = raw.read(4) == b"PK\x03\x04"
    if packed:
        return "chatgpt" if _is_archive(path) else None
    head = _head(path).removeprefix(BOM).lstrip()
    found = _of_lines(head) or _of_whole(path, head)
    if found is None:
        _head(path, strict=True)  # that it is broken says more than that it is nothing known
    return found


def _missing(path: Path) -> Source:
    raise FileNotFoundError(path)


def _is_archive(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(zip_names(archive))
    except zipfile.BadZipFile:
        return False


def _of_lines(head: bytes) -> Source | None:
    """The format that the first lines tell, by the first of them that can be read."""
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    decoder = Lenient()
    for line in text.split("\n")[:_TRIED]:
        try:
            value, _ = decoder.raw_decode(line.strip())
        except (json.JSONDecodeError, RecursionError):
            continue
        found = _of_value(value)
        if found is not None:
            return found
    return None


def _of_value(value: Any) -> Source | None:
    if isinstance(value, list) and value:
        value = value[0]
        return "chatgpt" if isinstance(value, dict) and "mapping" in value else None
    if not isinstance(value, dict):
        return None
    if value.get("format") == FORMAT or {"namespace", "kind"} <= value.keys():
        return "keyfold"
    if is_transcript(value):
        return "claude-code"
    if is_graph(value):
        return "mcp-memory"
    if is_engram(value):
        return "engram"
    return "chatgpt" if "mapping" in value and "current_node" in value else None


def _of_whole(path: Path, head: bytes) -> Source | None:
    """The format of a file that is one long JSON text."""
    if head.startswith(b"["):
        return "chatgpt" if b'"mapping"' in head or b'"current_node"' in head else None
    if not head.startswith(b"{"):
        return None
    if any(f'"{name}"'.encode() in head for name in LISTS) and _is_engram_file(path):
        return "engram"
    if b'"mapping"' in head:
        return "chatgpt"
    if b'"type":"entity"' in head.replace(b" ", b""):
        return "mcp-memory"
    if b'"sessionId"' in head and (b'"uuid"' in head or b'"message"' in head):
        return "claude-code"
    return "engram" if _is_engram_file(path) else None


def _is_engram_file(path: Path) -> bool:
    try:
        data = unpacked(path).removeprefix(BOM)
        return data.lstrip().startswith(b"{") and is_engram(lenient(data))
    except BadInput:
        return False
