"""Cognee's server, 1.5.0 or newer. The facts this rests on were measured against real ones (docs/services/cognee.md).

A namespace is a dataset, a row is a file, and there is no look-up by name: the listing finds it. An update in place
cognifies the whole dataset and may have happened although it answers with an error, so it is never asked for: a
rewrite adds the new file and then deletes the old one. The same bytes added again are the same row, which makes
every add safe to repeat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from keyfold.contract.reach import within
from keyfold.dialects.base import (
    BaseDialect,
    Hit,
    Looked,
    Row,
    Searched,
    Shelf,
    Wanted,
    in_order,
    newest_first,
)
from keyfold.dialects.by_words import found_by_words
from keyfold.dialects.cognee_datasets import Datasets
from keyfold.dialects.cognee_listing import PAGE, Entry, NotReadable, listing, page, too_old
from keyfold.dialects.cognee_rows import (
    File,
    Item,
    batches,
    dataset_name,
    file_of,
    item_of,
    names,
    shelf_of,
)
from keyfold.dialects.cognee_search import nearest
from keyfold.dialects.held import LOOKS, log, moving
from keyfold.dialects.names import is_path_id
from keyfold.dialects.payload import Payload
from keyfold.dialects.removing import said, until_gone
from keyfold.dialects.wire import Answer, Http, Statuses, Together, Wait, ask
from keyfold.errors import Conflict, StoreError, Unauthorized
from keyfold.flow import Plan
from keyfold.text.counted import counted

FILES: Final = 100  # of one request
BATCH: Final = 16 * 1024 * 1024  # bytes of one request, about
GLANCE: Final = 10  # rows that tell whether a dataset holds anything of ours
GONE: Final = Statuses(absent=(401, 403, 404))
UNCOUNTED: Final = Statuses(absent=(401, 403, 404, 405))
TAKEN: Final = Statuses(absent=(409,))
REFUSED: Final = Statuses(absent=(403, 409))
MAKING: Final = (0.25, 0.5)  # seconds that a dataset may be in the making


class Cognee(BaseDialect):
    """The dialect. It remembers the ids of datasets, which never change."""

    capabilities = replace(BaseDialect.capabilities, engine="cognee")
    bares = True
    erases = (
        "Cognee removes the file, and leaves bytes of it in freed pages of its databases and in old versions of its "
        "vector store"
    )

    def __init__(self) -> None:
        self._datasets = Datasets()
        # Rows, and the MD5 of the file that somebody put in the place of theirs. Never remembered without a proof.
        self._foreign: set[tuple[str, str]] = set()

    # Reading.

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        # Newest first: the first page that has it has the row that counts.
        return (yield from self._looked(shelf, digest, lambda entry: names(entry, digest)))

    def lookup_every(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        return (yield from self._looked(shelf, digest, None))

    def _looked(self, shelf: Shelf, digest: str, enough: Callable[[Entry], bool] | None) -> Plan[Looked]:
        for _ in range(LOOKS):
            items = [item for item in (yield from self._items(shelf, enough)) if item.digest == digest]
            rows = yield from self._decoded(items)
            if rows is not None:
                return Looked(tuple(rows))
        raise moving(shelf)

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:
        bodies: dict[str, bytes | None] = {}
        for _ in range(LOOKS):
            rows = yield from self._decoded((yield from self._items(shelf)), bodies, texts=texts)
            if rows is not None:
                return rows
        raise moving(shelf)

    def texts(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[list[Row]]:
        items = [Item.of(row) for row in rows]
        bodies: list[bytes | None] = yield Together([_raw(item) for item in items])
        found: list[Row] = []
        for row, item, body in zip(rows, items, bodies, strict=True):
            read = item.with_body(body) if body is not None else None
            if body is not None and read is None:
                log.warning("Cognee's file %s is not what is listed of it; it is left out", row.remote)
                self._foreign.add((item.remote, item.total))
            if read is not None and read.payload is not None:
                record = replace(read.payload.record, revision_count=row.record.revision_count)
                found.append(replace(row, payload=replace(read.payload, record=record), bare=False))
        gone = {item.remote for item, body in zip(items, bodies, strict=True) if body is None}
        if gone and not gone.isdisjoint(item.remote for item in (yield from self._items(shelf))):
            raise moving(shelf)  # the server says of a file that it is not there, and lists it
        return found

    def _items(self, shelf: Shelf, enough: Callable[[Entry], bool] | None = None) -> Plan[list[Item]]:
        """A shelf's rows of ours. A remembered dataset that may not be read any more is looked up again."""
        for last in (False, True):
            home = yield from self._datasets.home(shelf)
            if home is None:
                return []
            try:
                entries = yield from listing(home, enough)
            except NotReadable:
                self._datasets.drop()
                if last:
                    raise _closed(shelf) from None
                continue
            except StoreError as error:
                raise StoreError(
                    f"namespace {shelf.namespace!r:.200} cannot be read whole: {error}"
                ) from None
            return [item for item in _ours(entries, home) if (item.remote, item.total) not in self._foreign]
        raise AssertionError("the second time returns or raises")

    def _decoded(
        self, items: Sequence[Item], bodies: dict[str, bytes | None] | None = None, *, texts: bool = False
    ) -> Plan[list[Row] | None]:
        """Rows of items: the files of those that a listing tells too little of are read. None when one is gone."""
        known = {} if bodies is None else bodies
        due = [item for item in items if item.payload is None or (texts and item.bare)]
        wanted = [item for item in due if item.remote not in known]
        read: list[bytes | None] = yield Together([_raw(item) for item in wanted])
        known.update(zip((item.remote for item in wanted), read, strict=True))
        found: list[Row] = []
        for item in items:
            body = known.get(item.remote)
            if item in due and body is None:
                known.pop(item.remote, None)
                return None
            whole = item.with_body(body) if body is not None else item
            if whole is not None:  # else it is somebody's file under a name of ours
                found.append(whole.row())
        return in_order(found)

    # Writing.

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[None]:
        yield from self._add(shelf, payloads)

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[None]:
        # In this order there is never a moment without the record, and the newest wins meanwhile.
        written = yield from self._add(shelf, [payload])
        yield from self.remove(shelf, [row for row in rows if row.remote not in written])

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        homes = {row.remote: row.home for row in rows}

        def send(ids: Sequence[str]) -> Plan[Collection[str]]:
            answers: list[Answer] = yield Together([_delete(homes[remote], remote) for remote in ids])
            if any(answer.status in (401, 403) for answer in answers):
                # The dataset is another's, or was deleted with all that it held.
                self._datasets.drop()
                if (yield from self._datasets.home(shelf)) is not None:
                    raise _closed(shelf)
                return ids
            # What is absent is answered as what was there is: a 404 is not Cognee's.
            told = [answer.status != 404 and said(answer) is None for answer in answers]
            return {remote for remote, done in zip(ids, told, strict=True) if done}

        def held(ids: Sequence[str]) -> Plan[Collection[str]]:  # noqa: ARG001  # the listing names them all
            return {item.remote for item in (yield from self._items(shelf))}

        yield from until_gone(shelf, list(homes), send, held)

    def _add(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[set[str]]:
        """Add records, and return the ids of their rows."""
        written: set[str] = set()
        done = 0
        for batch in batches([file_of(payload) for payload in payloads], FILES, BATCH):
            answer = yield from _sent(shelf, batch)
            if answer.status == 409:  # a row under one of these names was updated in place by somebody
                longer = [file_of(payload, long=True) for payload in payloads[done : done + len(batch)]]
                answer = yield from _sent(shelf, longer)
                if answer.status == 409:
                    raise Conflict(
                        f"{answer.host} has other files under the names of these: {answer.quoted()}"
                    )
            home, ids = _added(answer, len(batch))
            if any(
                remote[14:15] == "5" for remote in ids
            ):  # made of the content, not random: as before 1.5.0
                yield Together([_delete(home, remote) for remote in ids])
                raise too_old(answer.host)
            self._datasets.remember(shelf, home)
            written.update(ids)
            done += len(batch)
        return written

    # The rest.

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:
        states: dict[str, list[Row]] = {}
        for row in (yield from self.rows(shelf, texts=False)):
            states.setdefault(row.payload.digest, []).append(row)
        # A race, or an end that has passed, may have left others of a record: which one counts is seen to below.
        newest = {digest: newest_first(same) for digest, same in states.items()}
        rows = [row for same in newest.values() for row in [r for r in same if wanted(r.record)][:1]]
        if not rows:
            return Searched((), listed=True)
        hits, came = yield from nearest(rows[0].home, rows, text, limit)
        known = {hit.row.remote for hit in hits}
        unfound = [row for row in rows if row.remote not in known]
        said = found_by_words(unfound, text)
        told = {hit.row.remote for hit in said[:limit]} | known
        hits += said[:limit]
        for hit in list(hits):
            same = newest[hit.row.payload.digest]
            newer = takewhile(lambda row: row.remote != hit.row.remote, same)  # noqa: B023  # used up at once
            hits += [Hit(row, 0.0, excerpt=row.bare) for row in newer]
        # The words of a content that did not come along are known to the server alone.
        unread = any(row.bare and row.remote not in told for row in rows)
        hidden = unread and (came is None or came >= limit)
        return Searched(hits, hidden or len(said) > limit, came or 0, listed=True)

    def total(self, shelf: Shelf) -> Plan[tuple[int, list[Row] | None]]:
        home = yield from self._datasets.home(shelf)
        if home is not None:
            try:
                entries = yield from page(home)
            except NotReadable:
                self._datasets.drop()  # looked up again below
            else:
                counted = (yield from _count(home)) if len(entries) == PAGE else None
                if counted is not None:
                    return counted, None
                rows = yield from self._decoded(_ours(entries, home))
                if rows is not None:
                    return len(rows), rows
        rows = yield from self.rows(shelf, texts=False)
        return len(rows), rows

    def shelves(self) -> Plan[list[Shelf]]:
        return (yield from self._holding((yield from self._datasets.every())))

    def shelves_within(self, namespace: str) -> Plan[list[Shelf]]:
        named = [(shelf_of(name), name, home) for name, home in (yield from self._datasets.every())]
        near = [
            (name, home)
            for shelf, name, home in named
            if shelf is None or within(shelf.namespace, namespace, "subtree")
        ]
        return (yield from self._holding(near))

    def _holding(self, datasets: Sequence[tuple[str, str]]) -> Plan[list[Shelf]]:
        """The shelves among datasets: an emptied one stays on the server, and only a look tells."""
        found: list[Shelf | None] = yield Together([self._glance(name, home) for name, home in datasets])
        return sorted({shelf for shelf in found if shelf is not None})

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        found: list[tuple[Shelf, Row]] = []
        for name, home in (yield from self._datasets.every()):
            shelf = shelf_of(name) or (yield from self._glance(name, home))
            if shelf is not None:
                found += [(shelf, row) for row in (yield from self.rows(shelf))]
        return found

    def _glance(self, name: str, home: str) -> Plan[Shelf | None]:
        """The shelf that a dataset is; None when nothing of ours is in it. Mostly its newest rows tell."""
        try:
            entries = yield from page(home, limit=GLANCE)
            items = _ours(entries, home)
            if not items and len(entries) == GLANCE:
                items = _ours((yield from listing(home)), home)
        except NotReadable:
            return None
        shelf = shelf_of(name)
        if shelf is not None or not items:
            return shelf if items else None
        for item in items:
            rows = [item.row()] if item.payload is not None else (yield from self._decoded([item])) or []
            for row in rows:
                held = Shelf(row.record.namespace, name.startswith("kfs"))
                if held.holds(row.record) and dataset_name(held) == name:
                    return held
        return None

    def probe(self) -> Plan[dict[str, Any]]:
        health = yield from ask(Http("GET", "/health", reads=True))
        said = health.object()
        yield from self._datasets.every()
        return {"service": "Cognee", "version": str(said.get("version") or "unknown")}


def _closed(shelf: Shelf) -> Unauthorized:
    return Unauthorized(
        f"the Cognee server refuses the dataset of namespace {shelf.namespace!r:.200} to this user: check whose key "
        "KEYFOLD_API_KEY (or COGNEE_API_KEY) is, and what it may do there"
    )


def _ours(entries: Sequence[Entry], home: str) -> list[Item]:
    return [item for item in (item_of(entry, home) for entry in entries) if item is not None]


def _raw(item: Item) -> Plan[bytes | None]:
    """A file; None when it is gone."""
    path = f"/api/v1/datasets/{item.home}/data/{item.remote}/raw"
    answer = yield from ask(Http("GET", path, reads=True), GONE)
    if answer.status in GONE.absent:
        return None
    kind = answer.headers.get("content-type", "text/plain")
    if not item.is_file(answer.body) or not kind.startswith("text/plain"):
        raise StoreError(
            f"{answer.host} served something else than the file that it lists ({len(answer.body)} bytes, "
            f"{answer.clean(kind)}): read it again"
        )
    return answer.body


def _delete(home: str, remote: str) -> Plan[Answer]:
    request = Http("DELETE", f"/api/v1/datasets/{home}/data/{remote}", repeatable=True)
    return (yield from ask(request, GONE))


def _sent(shelf: Shelf, files: Sequence[File]) -> Plan[Answer]:
    """An add. A dataset that another request is just making is refused for a moment, though by its name it is ours."""
    lost: list[str] = []  # of any of these tries: a refusal of the last does not undo it
    for pause in MAKING:
        answer = yield from ask(_upload(shelf, files), REFUSED, lost)
        if answer.status != 403:
            return answer
        yield Wait(pause)
    return (yield from ask(_upload(shelf, files), TAKEN, lost))


def _upload(shelf: Shelf, files: Sequence[File]) -> Http:
    # By name: that makes the dataset when it is missing, and it is never somebody else's that was shared.
    form = (
        ("datasetName", dataset_name(shelf)),
        ("labels", json.dumps([file.label for file in files])),
        ("external_metadata", json.dumps([file.metadata for file in files])),
    )
    parts = tuple(file.part for file in files)
    return Http("POST", "/api/v1/add", parts=parts, form=form, repeatable=True)


def _added(answer: Answer, number: int) -> tuple[str, list[str]]:
    """The dataset that an add wrote to, and the ids of the rows, in the order of the files."""
    said = answer.object()
    infos = said.get("data_ingestion_info")
    home = said.get("dataset_id")
    rows = [info for info in infos if isinstance(info, dict)] if isinstance(infos, list) else []
    found = [info.get("data_id") for info in rows if "Errored" not in str(info.get("run_info"))]
    ids = [remote for remote in found if is_path_id(remote)]
    if not is_path_id(home) or len(ids) != number:
        # The answer is not quoted: it may echo what was sent.
        raise answer.unreadable(
            f"{answer.host} took {counted(number, 'file')} and said of {len(ids)} that {'it was' if len(ids) == 1 else 'they were'} stored"
        )
    return home, ids


def _count(home: str) -> Plan[int | None]:
    """How many rows a dataset has; None on a server that does not say (it lists all at once)."""
    answer = yield from ask(Http("GET", f"/api/v1/datasets/{home}/data/count", reads=True), UNCOUNTED)
    if answer.status in UNCOUNTED.absent:
        return None
    counted = answer.object().get("count")
    if not isinstance(counted, int):
        raise StoreError(f"{answer.host} counted a dataset in a form that is not Cognee's")
    return counted
