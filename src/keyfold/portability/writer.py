"""Export: everything in a store as keyfold JSON Lines.

A header, a line a record in the order (namespace, kind, key), and a closing line that says how many there
were, so that a file that was cut is told from a whole one. No clock and no local id goes in, keys are
sorted and times have one form: equal stores give equal bytes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from keyfold.clock import to_text
from keyfold.contract.intents import Past, Query, Ref
from keyfold.contract.keys import portable
from keyfold.contract.protocols import Engine, Whole
from keyfold.errors import StoreError
from keyfold.model import KINDS, Record, Revision
from keyfold.portability.lines import MAX_LINE
from keyfold.portability.places import check_place

FORMAT: Final = "keyfold"
VERSION: Final = 1
PAGE: Final = 500
WHOLE: Final = 1 << 40


def export(
    engine: Engine,
    *,
    namespace: str | None = None,
    kinds: dict[str, int] | None = None,
    beyond: list[str] | None = None,
) -> Iterator[str]:
    """The lines of an export, each with its line end; of one namespace, or of all.

    `kinds` counts them by kind; `beyond` gets the records whose lines are longer than an import of a file takes.
    """
    yield _line({"format": FORMAT, "version": VERSION})
    total = 0
    for record, past in _everything(engine) if namespace is None else records_of(engine, namespace):
        total += 1
        if kinds is not None:
            kinds[record.kind] = kinds.get(record.kind, 0) + 1
        line = _line(record_form(record, past))
        if beyond is not None and len(line) > MAX_LINE // 4 and len(line.encode()) > MAX_LINE:
            beyond.append(f"{record.kind} {record.key!r:.200} of {record.namespace!r:.200}")
        yield line
    yield _line({"end": FORMAT, "records": total})


def export_file(
    engine: Engine,
    path: str | Path,
    *,
    namespace: str | None = None,
    kinds: dict[str, int] | None = None,
    beyond: list[str] | None = None,
) -> int:
    """Write an export to a file and return the number of records, sessions included (`kinds`, `beyond`: see `export`).

    It is written beside its destination and renamed when it is complete and on disk, so that an earlier
    export there stays whole until then. StoreError when it cannot be written, InvalidRequest where it would
    replace anything but an earlier export: the store, its log, a device, a file of another kind.
    """
    target = Path(path)
    check_place(target, _line({"format": FORMAT})[:-2])
    lines = -2  # the header and the closing line are no records
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise StoreError(f"cannot write an export to {target}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            for line in export(engine, namespace=namespace, kinds=kinds, beyond=beyond):
                out.write(line)
                lines += 1
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(target)
    except OSError as error:
        raise StoreError(f"cannot write an export to {target}: {error.strerror}") from None
    finally:
        Path(name).unlink(missing_ok=True)
    return lines


def _everything(engine: Engine) -> Iterator[tuple[Record, tuple[Revision, ...]]]:
    """All records, as `records_of` gives those of one namespace."""
    if isinstance(engine, Whole):
        for past in engine.everything():
            yield from _told(past)
        return
    for name in sorted(engine.namespaces()):
        yield from records_of(engine, name)


def _with_past(engine: Engine, record: Record) -> Iterator[tuple[Record, tuple[Revision, ...]]]:
    if record.revision_count == 1 or not engine.capabilities.history:
        yield record, ()
        return
    yield from _told(engine.history(Ref(record.namespace, id=record.id, kind=record.kind)))


def _told(past: Past) -> Iterator[tuple[Record, tuple[Revision, ...]]]:
    if past.record is not None:  # it may have been forgotten since it was read
        yield past.record, tuple(item for item in reversed(past.revisions) if not item.is_current)


def records_of(engine: Engine, namespace: str) -> Iterator[tuple[Record, tuple[Revision, ...]]]:
    """A namespace's records of every kind in order of kind and key, each with its earlier states, oldest first."""
    position: str | None = None
    # a service is read whole for each page, so there is but one
    size = WHOLE if isinstance(engine, Whole) else PAGE
    while True:
        query = Query(namespace, kinds=KINDS, order="key", position=position, limit=size, want_total=False)
        page = engine.page(query)
        for record in page.items:
            yield from _with_past(engine, record)
        if page.position is None:
            return
        position = page.position


def record_form(record: Record, past: tuple[Revision, ...]) -> dict[str, Any]:
    """A record as it stands in an export."""
    return {
        "namespace": record.namespace,
        "kind": record.kind,
        "key": record.key,
        "minted": record.minted,
        "type": record.type,
        "title": record.title,
        "content": record.content,
        "metadata": portable(record.kind, record.metadata),
        "tags": list(record.tags),
        "session_id": record.session_id,
        "revision": record.revision_count,
        "created_at": to_text(record.created_at),
        "updated_at": to_text(record.updated_at),
        "expires_at": None if record.expires_at is None else to_text(record.expires_at),
        "observed_at": None if record.observed_at is None else to_text(record.observed_at),
        "pinned": record.pinned,
        "taint": record.taint,
        "history": [_revision_form(revision, record.kind) for revision in past],
    }


def _revision_form(revision: Revision, kind: str) -> dict[str, Any]:
    return {
        "revision": revision.revision,
        "type": revision.type,
        "title": revision.title,
        "content": revision.content,
        "metadata": portable(kind, revision.metadata),
        "tags": list(revision.tags),
        "session_id": revision.session_id,
        "written_at": to_text(revision.written_at),
        "expires_at": None if revision.expires_at is None else to_text(revision.expires_at),
        "pinned": revision.pinned,
    }


def _line(value: dict[str, Any]) -> str:
    return (
        json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"
    )
