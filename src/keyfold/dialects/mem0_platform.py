"""Mem0's platform (api.mem0.ai), its v3 routes. From its documents and its SDK; see docs/unverified.md.

The same mapping as on the open-source server: user_id is the tagged namespace, run_id the record's digest, which
makes the scope of a text unique per record (the platform may drop an exact repeat of a text within one scope).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from keyfold.dialects.base import BaseDialect, Looked, Row, Searched, Shelf, Wanted
from keyfold.dialects.mem0_oss import (
    AGENT,
    GONE,
    added,
    removed,
    results,
    rewritten,
    row_of,
    searched,
    strayed,
)
from keyfold.dialects.names import SESSIONS_TAG, untagged
from keyfold.dialects.payload import FIELD, Payload, header, wire_text
from keyfold.dialects.removing import remove_rows
from keyfold.dialects.wire import Http, Together, ask
from keyfold.errors import StoreError
from keyfold.flow import Plan

PAGE: Final = 200  # rows, the most
READINGS: Final = 3  # of a listing that moved while it was read
# An entity that a filter does not name may be taken to be null (by one page of the documents), so each is named.
ANY_RUN: Final = {"run_id": "*"}
_WHOLE: Final = [{"user_id": "*"}, {"agent_id": AGENT}, ANY_RUN]


class Mem0Platform(BaseDialect):
    """The dialect."""

    capabilities = replace(BaseDialect.capabilities, engine="mem0", keyed_reads=True)
    most_hits = 1000
    erases = "the service keeps a history of deleted memories"

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        scope = _scope(shelf, {"run_id": digest})
        items, more, _ = yield from _page(scope, 1)
        if strayed(items, shelf, digest):  # the filter was ignored: what was asked for may be on any page
            return Looked((), strayed=True)
        if more:
            items = yield from _every(scope, f"record {digest}")
        return Looked(tuple(_rows(items)))

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:  # noqa: ARG002  # texts always come along
        return _rows((yield from _every(_scope(shelf, ANY_RUN), f"namespace {shelf.namespace!r:.200}")))

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        items = yield from _every(_WHOLE, "the account")
        found = [(_shelf_of(item), row_of(item)) for item in items]
        return [(shelf, row) for shelf, row in found if shelf is not None and row is not None]

    def shelves(self) -> Plan[list[Shelf]]:
        items = yield from _every(_WHOLE, "the account")
        return sorted({shelf for shelf in map(_shelf_of, items) if shelf is not None})

    def total(self, shelf: Shelf) -> Plan[tuple[int, list[Row] | None]]:
        items, more, count = yield from _page(_scope(shelf, ANY_RUN), 1)
        # Then the count is another's too; or it is of more than came, and no page is named that has them.
        if (more and strayed(items, shelf)) or (not more and count != len(items)):
            rows = yield from self.rows(shelf)
            return len(rows), rows
        return (count, None) if more else (len(items), _rows(items))

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:  # noqa: ARG002  # nothing is looked up
        body = {
            "query": text,
            "filters": {"AND": _scope(shelf, ANY_RUN)},
            "top_k": limit,
            "threshold": 0.0,
            "show_expired": True,
        }
        answer = yield from ask(Http("POST", "/v3/memories/search/", json=body, reads=True))
        return searched(results(answer), limit)

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[None]:
        yield Together([_add(shelf, payload) for payload in payloads])

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[None]:
        body = {"text": wire_text(payload), "metadata": {FIELD: header(payload)}}
        answer = yield from ask(Http("PUT", _path(rows[0]), json=body, repeatable=True), GONE)
        if not rewritten(answer):  # somebody removed it meanwhile
            yield from self.insert(shelf, [payload])
        yield from self.remove(shelf, rows[1:])

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        yield from remove_rows(self, shelf, rows, _delete)

    def probe(self) -> Plan[dict[str, Any]]:
        yield from ask(Http("GET", "/v1/ping/", reads=True))
        return {"service": "Mem0 platform"}


def _scope(shelf: Shelf, *more: dict[str, str]) -> list[dict[str, str]]:
    # One AND list and nothing beside it: the service drops an OR that stands next to it.
    return [{"user_id": shelf.wire_name}, {"agent_id": AGENT}, *more]


def _shelf_of(item: dict[str, Any]) -> Shelf | None:
    name = untagged(str(item.get("user_id")))
    return None if name is None else Shelf(name[1], name[0] == SESSIONS_TAG)


def _page(scope: list[dict[str, str]], number: int) -> Plan[tuple[list[Any], bool, int]]:
    """A page of a listing: its items, whether there is another, and how many the service counts in all."""
    query = (("page", str(number)), ("page_size", str(PAGE)))
    # What somebody gave an expiration date there is still a row: hidden, it would be written a second time.
    body = {"filters": {"AND": scope}, "show_expired": True}
    request = Http("POST", "/v3/memories/", query, json=body, reads=True)
    answer = yield from ask(request)
    items, said = results(answer), answer.object()
    count = said.get("count")
    if not isinstance(count, int):
        raise StoreError(
            f"{answer.host} listed memories without their count: check that the address is Mem0's"
        )
    return items, said.get("next") is not None, count


def _every(scope: list[dict[str, str]], what: str) -> Plan[list[dict[str, Any]]]:
    """All pages. They are numbered, so they shift under writes: read again until they agree with the count."""
    for _ in range(READINGS):
        found: dict[str, dict[str, Any]] = {}
        number, more, counts, read = 1, True, set[int](), 0
        while more:
            items, more, count = yield from _page(scope, number)
            before = len(found)
            found.update((str(item.get("id")), item) for item in items)
            counts.add(count)
            read, number = read + len(items), number + 1
            if len(found) == before or read > count:  # the last page always names a next one: it has no end
                break
        if len(found) == read and counts == {read}:
            return list(found.values())
    raise StoreError(
        f"{what} changed each of the {READINGS} times that its listing was read: read it again when fewer write to it"
    )


def _add(shelf: Shelf, payload: Payload) -> Plan[None]:
    answer = yield from ask(Http("POST", "/v3/memories/add/", json=added(shelf, payload)))
    if results(answer):  # its status is not asked: what was stored is what is in the results
        return
    # An exact repeat of a text in one scope may be dropped: no harm, when another writer stored the very record.
    items, _, _ = yield from _page(_scope(shelf, {"run_id": payload.digest}), 1)
    held = [row.record for row in _rows(items) if row.payload.digest == payload.digest]
    if not any(record.normalized_hash == payload.record.normalized_hash for record in held):
        raise StoreError(
            f"{answer.host} took a memory and stored nothing: it may hold this very text already, in a row with the "
            f"run_id {payload.digest} that Keyfold did not write; remove that row there"
        )


def _delete(row: Row) -> Plan[bool]:
    return removed((yield from ask(Http("DELETE", _path(row), repeatable=True), GONE)))


def _path(row: Row) -> str:
    return f"/v1/memories/{quote(row.remote, safe='')}/"


def _rows(items: Sequence[dict[str, Any]]) -> list[Row]:
    return [row for row in map(row_of, items) if row is not None]
