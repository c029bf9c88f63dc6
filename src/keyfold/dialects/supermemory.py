"""Supermemory's v4 memories: synchronous and word for word. The facts this rests on are in docs/services/supermemory.md.

A rewrite is a new version under a new id, and the old ones stay listed: they are the history. A search with a
metadata filter finds a record in one request at any size, but it may lag, or drop what is there, so only the
listing proves that there is nothing. What is forgotten is only marked.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from keyfold.contract.reach import within
from keyfold.dialects import supermemory_wire as wire
from keyfold.dialects.base import BaseDialect, Hit, Looked, Row, Searched, Shelf, Wanted, newest_first
from keyfold.dialects.payload import FIELD, Payload, is_cut, ranks, read
from keyfold.dialects.removing import until_gone
from keyfold.dialects.supermemory_rows import (
    KEY,
    WHOLE,
    Entry,
    Kept,
    Layout,
    Pieces,
    assembled,
    content_digest,
    counting,
    entry_of,
    is_hashed,
    laid_out,
    row_of,
    shelf_of,
    tag_of,
)
from keyfold.dialects.wire import Together
from keyfold.errors import StoreError
from keyfold.flow import Plan
from keyfold.model import SESSION

log = logging.getLogger("keyfold")

REMEMBERED: Final = 20_000  # records, and ids that are gone


class Supermemory(BaseDialect):
    """The dialect. What it remembers only says when a search is not to be believed: it is never an answer."""

    capabilities = replace(BaseDialect.capabilities, engine="supermemory", history=True, keyed_reads=True)
    erases = (
        "Supermemory only marks memories as forgotten and keeps their texts and earlier versions; "
        "delete the container tag on the service to remove them"
    )

    most_hits = wire.MOST_HITS

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}  # digest -> the revision that was read or written last
        self._gone: set[str] = set()  # ids that were superseded or forgotten from here

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        rows = yield from self._searched(shelf, digest)
        if rows is None:
            self._newest.pop(digest, None)
            tag = tag_of(shelf)
            rows = _whole((yield from self._listed(tag, digest)), tag)
        self._seen(rows)
        return Looked(tuple(rows))

    def _searched(self, shelf: Shelf, digest: str) -> Plan[list[Kept] | None]:
        """The rows of an address by a filtered search; None when they are not to be relied on."""
        filters = wire.any_of([(KEY, digest), (WHOLE, digest)])
        items = yield from wire.search(tag_of(shelf), digest, wire.MOST_HITS, filters)
        entries = [one for one in map(entry_of, items) if one is not None]
        fit = [one for one in entries if digest in (one.digest, one.whole)]
        if len(fit) < len(items):
            log.warning("the supermemory service ignored a filter; the listing is read instead")
            return None
        rows, damaged = assembled(fit)
        if damaged or not rows or len(items) >= wire.MOST_HITS:
            return None
        if any(row.remote in self._gone for row in rows):
            return None
        newest = max(row.record.revision_count for row in rows)
        return list(rows) if newest >= self._newest.get(digest, 0) else None

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:  # noqa: ARG002  # texts always come along
        tag = tag_of(shelf)
        return list(_whole((yield from self._listed(tag)), tag))

    def _listed(self, tag: str, about: str | None = None) -> Plan[list[Entry]]:
        """Every memory of ours in a tag, or those `about` one record. What moved while it was read is read again."""
        found: list[Entry] | None = None
        for _ in range(2):
            items = yield from wire.listing(tag)
            if items is None:
                continue
            entries = [one for one in map(entry_of, items) if one is not None]
            found = entries if about is None else [one for one in entries if about in (one.digest, one.whole)]
            if not assembled(found)[1]:
                break
        if found is None:
            raise StoreError(
                f"the pages of {_named(tag)} do not add up to what Supermemory says it holds: call again"
            )
        return found

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:  # noqa: ARG002  # nothing is looked up
        tag = tag_of(shelf)
        items = yield from wire.search(tag, text, limit)
        scores = [item.get("similarity") for item in items]
        found = [
            (entry, score)
            for item, score in zip(items, ranks(scores), strict=True)
            if (entry := entry_of(item)) is not None
        ]
        heads = counting(one for one, _ in found)
        missing = {one.whole for one, _ in found if one.whole is not None} - set(heads)
        if missing:  # which state a part belongs to, its head says
            asked = wire.any_of([(KEY, digest) for digest in sorted(filter(None, missing))])
            more = yield from wire.search(tag, text, wire.MOST_HITS, asked)
            heads |= counting(one for one in map(entry_of, more) if one is not None)
        if any(self._newest.get(digest, 0) > row.record.revision_count for digest, (_, row) in heads.items()):
            # The search is behind what was read or written from here: the listing says which state counts.
            heads = counting((yield from self._listed(tag)))
        hits: list[Hit] = []
        for entry, score in found:
            head, row = heads.get(entry.digest or entry.whole or "", (None, None))
            if head is None or row is None or head.of != entry.of or head.id in self._gone:
                continue
            if entry.digest is None or entry.id == head.id:  # else it is a state that does not count
                record = replace(row.record, content=entry.text if row.record.content else "")
                payload = replace(row.payload, record=record)
                hits.append(Hit(replace(row, payload=payload), score, excerpt=head.parts > 1))
        return Searched(hits, is_cut(scores, limit), len(items))

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[None]:
        # Parts before heads: a record is there once its head is.
        layouts = [laid_out(payload) for payload in payloads]
        parts = [part for layout in layouts for part in layout.parts]
        yield from wire.add(tag_of(shelf), [*parts, *[layout.item for layout in layouts]])
        self._wrote(payloads)

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[None]:
        tag, layout = tag_of(shelf), laid_out(payload)
        made = yield from self._put(tag, rows[0], layout)
        if made is None:  # somebody forgot it meanwhile
            yield from self.insert(shelf, [payload])
        parts = [identity for row in rows[1:] for identity in _parts(row)]
        if made is None or not _same_content(rows[0], layout):
            parts += _parts(rows[0])
        yield from self._forget(shelf, [row.remote for row in rows[1:]], parts)
        self._wrote([payload])

    def _put(self, tag: str, row: Row, layout: Layout) -> Plan[str | None]:
        """Make a state the newest version of a row; its id, or None when the row is gone."""
        if layout.parts and not _same_content(row, layout):
            yield from wire.add(tag, layout.parts)
        made = yield from wire.put(tag, row.remote, layout.head, layout.metadata)
        self._remember_gone([row.remote])
        return made

    def grow(self, shelf: Shelf, rows: Sequence[Row], payloads: Sequence[Payload]) -> Plan[None]:
        # Each state is made the newest version in turn, so the service's own history is the record's.
        tag = tag_of(shelf)
        rest = list(payloads)
        if rows:
            row = rows[0]
        else:
            first = rest.pop(0)
            layout = laid_out(first)
            ids = yield from wire.add(tag, [*layout.parts, layout.item])
            row = Kept(ids[-1], first, parts=tuple(ids[:-1]))
        for payload in rest[:-1]:
            layout = laid_out(payload)
            made = yield from self._put(tag, row, layout)
            if made is None:
                break
            row = Kept(made, payload)
        yield from self.rewrite(shelf, [row, *rows[1:]], payloads[-1])

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        heads = [row.remote for row in rows]
        parts = [identity for row in rows for identity in (*_parts(row), *_loose(row))]
        yield from self._forget(shelf, heads, parts)
        for row in rows:
            self._newest.pop(row.payload.digest, None)

    def _forget(self, shelf: Shelf, heads: Sequence[str], parts: Sequence[str]) -> Plan[None]:
        tag = tag_of(shelf)

        def send(ids: Sequence[str]) -> Plan[Collection[str]]:
            told: list[bool] = yield Together([wire.forget(tag, identity) for identity in ids])
            return {identity for identity, done in zip(ids, told, strict=True) if done}

        def held(ids: Sequence[str]) -> Plan[Collection[str]]:  # noqa: ARG001  # the listing names them all
            return {entry.id for entry in (yield from self._listed(tag)) if entry.live}

        every = list(dict.fromkeys([*heads, *parts]))
        told = (yield from wire.forget_many(tag, every)) if len(every) > 1 else set[str]()
        for ids in (heads, parts):  # one after the other: a head that stays without its parts is damage
            # What the service does not say that it forgot, it is asked to forget by itself.
            left = [identity for identity in ids if identity not in told]
            if left:
                yield from until_gone(shelf, left, send, held)
            self._remember_gone(ids)

    def versions(self, shelf: Shelf, digest: str) -> Plan[list[Row]]:
        entries = yield from self._listed(tag_of(shelf), digest)
        rows = assembled(entries)[0]
        return list(_earlier(newest_first(rows)[0], entries)) if rows else []

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        found: list[tuple[Shelf, Row]] = []
        for tag in (yield from self._tags()):
            entries = yield from self._listed(tag)
            about = _by_record(entries)
            for row in _whole(entries, tag):
                own = Shelf(row.record.namespace, row.record.kind == SESSION)
                shelf = shelf_of(tag) or own  # what does not belong there is looked at by whoever reads this
                if tag_of(shelf) == tag:
                    found.append((shelf, replace(row, earlier=_earlier(row, about[row.payload.digest]))))
        return found

    def _tags(self) -> Plan[list[str]]:
        """The tags that are ours."""
        every = yield from wire.tags()
        return [tag for tag in every if shelf_of(tag) is not None or is_hashed(tag)]

    def shelves(self) -> Plan[list[Shelf]]:
        return (yield from self._living((yield from self._tags())))

    def shelves_within(self, namespace: str) -> Plan[list[Shelf]]:
        wanted: list[str] = []
        for tag in (yield from self._tags()):
            shelf = shelf_of(tag)
            if shelf is None or within(shelf.namespace, namespace, "subtree"):
                wanted.append(tag)
        return (yield from self._living(wanted))

    def _living(self, tags: Sequence[str]) -> Plan[list[Shelf]]:
        """The shelves of tags that something lives in: a tag stays when all in it is forgotten."""
        found: list[Shelf | None] = yield Together([self._alive(tag) for tag in tags])
        return sorted({shelf for shelf in found if shelf is not None})

    def _alive(self, tag: str) -> Plan[Shelf | None]:
        """The shelf behind a tag, if anything lives there: the newest page mostly tells."""

        def shelf_in(item: Any) -> Shelf | None:
            entry = entry_of(item)
            if entry is None or not entry.live:
                return None
            payload = read(entry.metadata.get(FIELD), entry.text)
            if payload is None:
                return None
            shelf = Shelf(payload.record.namespace, payload.record.kind == SESSION)
            return shelf if tag_of(shelf) == tag else None

        return (yield from wire.newest(tag, shelf_in))

    def probe(self) -> Plan[dict[str, Any]]:
        yield from wire.tags()
        return {"service": "Supermemory, v4 memories"}

    def _seen(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._note(row.payload)

    def _wrote(self, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            self._note(payload)

    def _note(self, payload: Payload) -> None:
        if len(self._newest) >= REMEMBERED:
            self._newest.clear()  # to forget costs a listing at most
        self._newest[payload.digest] = payload.record.revision_count

    def _remember_gone(self, ids: Sequence[str]) -> None:
        if len(self._gone) >= REMEMBERED:
            self._gone.clear()
        self._gone.update(ids)


def _named(tag: str) -> str:
    """What an error calls a tag: the namespace, where the tag tells it."""
    shelf = shelf_of(tag)
    return f"container tag {tag}" if shelf is None else f"namespace {shelf.namespace!r:.200}"


def _whole(entries: Sequence[Entry], tag: str) -> list[Kept]:
    """The rows of a listing. StoreError when a record's content is not all there: it is never shown in part."""
    rows, damaged = assembled(entries)
    if damaged:
        raise StoreError(
            f"{len(damaged)} of the records of {_named(tag)} {'has' if len(damaged) == 1 else 'have'} lost a part of their text on Supermemory, the "
            f"first of them {damaged[0].digest} (memory {damaged[0].id} in the container tag {tag}): forget that "
            "memory on the service, and save the record again"
        )
    return rows


def _by_record(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.digest or entry.whole or "", []).append(entry)
    return found


def _earlier(row: Row, entries: Sequence[Entry]) -> tuple[Row, ...]:
    """The states that a row superseded, newest first: the versions behind it, as far as they are listed whole."""
    by_id = {entry.id: entry for entry in entries}
    pieces = Pieces.among(entries)  # parts of earlier contents are forgotten, and listed all the same
    found: list[Row] = []
    at = by_id.pop(row.remote, None)
    while at is not None and (at := by_id.pop(at.parent or "", None)) is not None:
        version = row_of(at, pieces.content(at)) if not at.forgotten else None
        if version is not None:
            found.append(version)
    return tuple(found)


def _parts(row: Row) -> tuple[str, ...]:
    return row.parts if isinstance(row, Kept) else ()


def _loose(row: Row) -> tuple[str, ...]:
    return row.loose if isinstance(row, Kept) else ()


def _same_content(row: Row, layout: Layout) -> bool:
    """Whether a row's parts are those of a layout: then they stay."""
    return bool(_parts(row)) and content_digest(row.record.content) == layout.content
