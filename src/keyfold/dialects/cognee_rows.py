"""How records lie on a Cognee server: names of datasets and files, the file's body, and a row of its listing.

A namespace is a dataset (its sessions another), a row is one file. The body is JSON and holds the header, so that no
two records have identical bytes: the server answers those with the old row and writes nothing. The header rides in
the row's metadata too, and a short content beside it, so that a listing can be read without asking for each file.
That what rides along is what the file says is checked: the listing gives the MD5 of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import md5, sha256
from typing import Any, Final

from keyfold.dialects.base import Row, Shelf
from keyfold.dialects.names import is_path_id
from keyfold.dialects.payload import FIELD, Payload, header, read
from keyfold.dialects.wire import Part

TEXT_FIELD: Final = "kf_text"
SHORT: Final = 2_000  # characters of a content that rides along in the metadata
LONGEST_HEADER: Final = 16_000  # characters; a longer one is read from the file
LONGEST_NAME: Final = 200  # characters of a dataset's name; a longer one becomes a digest
_PREFIXES: Final = {"kf-": False, "kfs-": True}  # whether it holds sessions
_DIGESTS: Final = {"kfd-": False, "kfsd-": True}  # names that were too long
_NAME: Final = re.compile(r"kf\.(?P<digest>[0-9a-f]{40})\.(?P<rev>\d{1,19})\.(?P<sum>[0-9a-f]{8,32})")
_LOCATION: Final = re.compile(r"text_([0-9a-f]{32})\.txt$")
_ESCAPE: Final = re.compile(r"_([0-9a-f]{2})|[^A-Za-z0-9-]")
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


def dataset_name(shelf: Shelf) -> str:
    """A shelf's dataset: a prefix, then the namespace with all but letters, digits and `-` as `_` and two hex digits.

    Cognee's add refuses names with spaces or dots. One that gets too long is a digest instead.
    """
    raw = shelf.namespace.encode()
    escaped = "".join(chr(byte) if byte in _PLAIN else f"_{byte:02x}" for byte in raw)
    name = _prefix(_PREFIXES, shelf.sessions) + escaped
    return (
        name
        if len(name) <= LONGEST_NAME
        else _prefix(_DIGESTS, shelf.sessions) + sha256(raw).hexdigest()[:40]
    )


def _prefix(prefixes: dict[str, bool], sessions: bool) -> str:  # a key of the two tables
    return next(prefix for prefix, value in prefixes.items() if value is sessions)


def shelf_of(name: str) -> Shelf | None:
    """The shelf behind a dataset's name; None when it is none of ours, or a digest."""
    for prefix, sessions in _PREFIXES.items():
        if name.startswith(prefix):
            shelf = Shelf(_unescaped(name[len(prefix) :]), sessions)
            return shelf if shelf.namespace and dataset_name(shelf) == name else None
    return None


def _unescaped(text: str) -> str:
    raw, at = bytearray(), 0
    for found in _ESCAPE.finditer(text):
        raw += text[at : found.start()].encode()
        if found[1] is None:
            return ""
        raw.append(int(found[1], 16))
        at = found.end()
    try:
        return (raw + text[at:].encode()).decode()
    except UnicodeDecodeError:
        return ""


def is_digest_name(name: str) -> bool:
    """Whether a dataset's name is of ours and only its rows say which namespace it holds."""
    return any(re.fullmatch(prefix + "[0-9a-f]{40}", name) for prefix in _DIGESTS)


@dataclass(frozen=True, slots=True)
class File:
    """A record as it is sent: the file, and what is listed with it."""

    part: Part
    label: str
    metadata: dict[str, str] | None


def file_of(payload: Payload, *, long: bool = False) -> File:
    """A record as a file. The sum in its name is that of its bytes, so that other bytes have another name.

    `long` takes more of the sum, for where the shorter name is taken.
    """
    said, content, digest = header(payload), payload.record.content, payload.digest
    body = body_of(said, content)
    revision = payload.record.revision_count
    total = md5(body, usedforsecurity=False).hexdigest()
    part = Part("data", f"kf.{digest}.{revision}.{total if long else total[:8]}.json", body)
    metadata = None
    if len(said) <= LONGEST_HEADER:
        metadata = {FIELD: said, **({TEXT_FIELD: content} if len(content) <= SHORT else {})}
    return File(part, f"kf {digest[:12]} r{revision}", metadata)


def body_of(said: str, content: str) -> bytes:
    """A file's bytes: the content comes first, which is what a search cuts into chunks. JSON has no bare line ends."""
    return json.dumps({"content": content, FIELD: said}, separators=(",", ":"), ensure_ascii=False).encode()


def read_body(body: bytes) -> Payload | None:
    """The record in a file; None when it is none of ours."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    content = said.get("content") if isinstance(said, dict) else None
    return read(said.get(FIELD), content) if isinstance(content, str) else None


@dataclass(frozen=True, slots=True)
class Item:
    """A row of a listing whose file name is one of ours.

    `payload`: what is known of it without reading the file. `total`: the file's MD5, where the server tells it.
    """

    remote: str
    digest: str
    born: str
    home: str
    payload: Payload | None
    bare: bool
    total: str = ""

    @classmethod
    def of(cls, row: Row) -> Item:
        """The item that a row was made of."""
        digest = row.payload.digest
        return cls(row.remote, digest, row.born, row.home, row.payload, row.bare, row.proof)

    def row(self) -> Row:
        assert self.payload is not None
        return Row(self.remote, self.payload, self.born, self.home, bare=self.bare, proof=self.total)

    def is_file(self, body: bytes) -> bool:
        """Whether what the server served is proved to be the file: not half of it, nor a page of something between.

        The MD5 proves it. Where the server tells none, a whole record of that address does: half of one is no JSON.
        """
        if not self.total:
            return self.with_body(body) is not None
        # The MD5 is that of what was sent. It is served with other line ends, where somebody sent any.
        sent = (body.replace(b"\n", ends) for ends in (b"\n", b"\r\n", b"\r"))
        return any(md5(each, usedforsecurity=False).hexdigest() == self.total for each in sent)

    def with_body(self, body: bytes) -> Item | None:
        """The row once its file was read; None when the file is not what its name says."""
        payload = read_body(body)
        if payload is None or payload.digest != self.digest:
            return None
        return replace(self, payload=payload, bare=False)


def item_of(listed: dict[str, Any], home: str) -> Item | None:
    """A row of ours from a listing's entry; None when it is none of ours."""
    named = _NAME.fullmatch(str(listed.get("name")))
    remote = listed.get("id")
    if named is None or not is_path_id(remote):
        return None
    metadata = listed.get("externalMetadata")
    said = metadata if isinstance(metadata, dict) else {}
    total = _sum(listed)
    payload, bare = _told(said.get(FIELD), said.get(TEXT_FIELD), total, named["sum"])
    if payload is not None and payload.digest != named["digest"]:
        payload = None
    born = str(listed.get("createdAt") or "")
    return Item(remote, named["digest"], born, home, payload, bare, total)


def names(listed: dict[str, Any], digest: str) -> bool:
    """Whether a listing's entry is a row of that digest, by its name."""
    return str(listed.get("name")).startswith(f"kf.{digest}.")


def _sum(listed: dict[str, Any]) -> str:
    """The MD5 of a row's file, where the server's place for it is named by it."""
    found = _LOCATION.search(str(listed.get("rawDataLocation") or ""))
    return found[1] if found else ""


def _told(said: Any, content: Any, total: str, named: str) -> tuple[Payload | None, bool]:
    """What the metadata tells of a record, and whether its content has yet to be read.

    A row that somebody updated in place keeps its metadata and has other bytes: its sum tells.
    """
    if not isinstance(said, str) or (total and not total.startswith(named)):
        return None, True
    with suppress(UnicodeEncodeError):  # of half a character nothing that is written here was ever made
        if (
            isinstance(content, str)
            and md5(body_of(said, content), usedforsecurity=False).hexdigest() == total
        ):
            return read(said, content), False
    return read(said, ""), True


def excerpt(chunk: str) -> str:
    """The content in a chunk of a file, without the JSON around it."""
    whole = read_body(chunk.encode("utf-8", "replace"))
    if whole is not None:
        return whole.record.content
    text = chunk.removeprefix('{"content":"').split(f'","{FIELD}":"', 1)[0]
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:  # cut in the middle of an escape
        return text


def batches(files: Sequence[File], most: int, size: int) -> Iterable[list[File]]:
    """Files in batches of at most `most` and about `size` bytes."""
    batch: list[File] = []
    held = 0
    for file in files:
        if batch and (len(batch) == most or held + len(file.part.content) > size):
            yield batch
            batch, held = [], 0
        batch.append(file)
        held += len(file.part.content)
    if batch:
        yield batch
