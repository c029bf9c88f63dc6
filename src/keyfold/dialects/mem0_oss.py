"""Mem0's open-source server. The facts this rests on were measured against the real one (docs/wire.md).

There is no uniqueness, no cursor and no metadata look-up that does not decay, but ids are filters: user_id is the
tagged namespace and run_id the record's digest, so one request reads one record at any size. `*` as an id reads
or deletes every tenant, so no id is ever passed raw. The header lies in one metadata field, because a PUT merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from keyfold.dialects.base import BaseDialect, Hit, Looked, Row, Shelf
from keyfold.dialects.names import untagged
from keyfold.dialects.payload import FIELD, Payload, header, read, wire_text
from keyfold.dialects.wire import Answer, Http, Statuses, Together, ask
from keyfold.errors import StoreError
from keyfold.flow import Plan

AGENT: Final = "keyfold"
LIST_CAP: Final = 1000  # rows that a listing returns at most; there is no next page
LOOKED_AT: Final = 100  # rows of one address that are read
EVERYTHING: Final = 1_000_000  # top_k of the search that reads past the cap
SCANNED: Final = 10_000  # rows behind the list of entities, measured
GONE: Final = Statuses(absent=(404,))


class Mem0Oss(BaseDialect):
    """The dialect. It remembers only which shelves were found to be longer than a listing."""

    capabilities = replace(BaseDialect.capabilities, engine="mem0", keyed_reads=True)
    erases = "the server keeps the texts of deleted memories in its history table"

    def __init__(self) -> None:
        self._long: set[Shelf] = set()

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        items = yield from _listed(shelf, LOOKED_AT, ("run_id", digest))
        return Looked(tuple(_rows(items)), sure=len(items) < LOOKED_AT)

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:  # noqa: ARG002  # texts always come along
        listed: list[Any] = []
        if shelf not in self._long:
            listed = yield from _listed(shelf, LIST_CAP)
            if len(listed) < LIST_CAP:
                return _rows(listed)
        found = yield from self._found(shelf, "memory", EVERYTHING)
        missing = {item.get("id") for item in listed} - {item.get("id") for item in found}
        if missing or len(found) < LIST_CAP:
            self._long.discard(shelf)
            raise StoreError(
                f"namespace {shelf.namespace!r:.200} has more memories than the Mem0 server lists ({LIST_CAP:,}), "
                f"and its search left out at least {len(missing) or 'some'} of them: it cannot be read whole, "
                "only record by record"
            )
        self._long.add(shelf)
        return _rows(found)

    def _found(self, shelf: Shelf, query: str, most: int) -> Plan[list[Any]]:
        body = {
            "query": query,
            "filters": {"user_id": shelf.wire_name, "agent_id": AGENT},
            "top_k": most,
            "threshold": 0.0,
            "show_expired": True,
        }
        answer = yield from ask(Http("POST", "/search", json=body, reads=True))
        return results(answer)

    def search(self, shelf: Shelf, text: str, limit: int) -> Plan[list[Hit]]:
        found = yield from self._found(shelf, text, limit)
        hits = [(row_of(item), item.get("score")) for item in found]
        return [Hit(row, float(score or 0.0)) for row, score in hits if row is not None]

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[None]:
        yield Together([_add(shelf, payload) for payload in payloads])

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[None]:
        body = {"text": wire_text(payload), "metadata": {FIELD: header(payload)}}
        path = f"/memories/{quote(rows[0].remote, safe='')}"
        answer = yield from ask(Http("PUT", path, json=body, repeatable=True), GONE)
        if answer.status == 404:  # somebody removed it meanwhile
            yield from self.insert(shelf, [payload])
        yield from self.remove(shelf, rows[1:])

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:  # noqa: ARG002  # an id names a row alone
        yield Together([_delete(row) for row in rows])

    def shelves(self) -> Plan[list[Shelf]]:
        answer = yield from ask(Http("GET", "/entities", reads=True))
        entities = answer.json()
        if not isinstance(entities, list):
            raise StoreError(f"{answer.host} listed its entities in a form that is not Mem0's")
        users = [item for item in entities if isinstance(item, dict) and item.get("type") == "user"]
        if sum(int(item.get("total_memories") or 0) for item in users) >= SCANNED:
            raise StoreError(
                f"the Mem0 server names only the users of its first {SCANNED:,} memories, and it holds that many: "
                "namespaces cannot be listed; name the ones you read"
            )
        names = [untagged(str(item.get("id"))) for item in users]
        return sorted({Shelf(name[1], name[0] != "kf:") for name in names if name is not None})

    def probe(self) -> Plan[dict[str, Any]]:
        yield from _listed(Shelf("keyfold-probe"), 1)
        return {"service": "Mem0 open source"}


def _listed(shelf: Shelf, most: int, *more: tuple[str, str]) -> Plan[list[Any]]:
    # The server drops expired rows after it has cut the list, so without them a short list might not be a whole one.
    query = (
        ("user_id", shelf.wire_name),
        ("agent_id", AGENT),
        *more,
        ("top_k", str(most)),
        ("show_expired", "true"),
    )
    return results((yield from ask(Http("GET", "/memories", query, reads=True))))


def _add(shelf: Shelf, payload: Payload) -> Plan[None]:
    body = {
        "messages": [{"role": "user", "content": wire_text(payload)}],
        "user_id": shelf.wire_name,
        "agent_id": AGENT,
        "run_id": payload.digest,
        "metadata": {FIELD: header(payload)},
        "infer": False,  # it defaults to true, and a model would rewrite the text
    }
    answer = yield from ask(Http("POST", "/memories", json=body))
    if not results(answer):
        raise StoreError(
            f"{answer.host} took a memory and stored nothing: is this Mem0's open-source server?"
        )


def _delete(row: Row) -> Plan[None]:
    yield from ask(Http("DELETE", f"/memories/{quote(row.remote, safe='')}", repeatable=True), GONE)


def results(answer: Answer) -> list[Any]:
    """The rows of an answer. StoreError when there is no list of them."""
    found = answer.object().get("results")
    if not isinstance(found, list):
        raise StoreError(f"{answer.host} answered without `results`: check that the address is Mem0's")
    return [item for item in found if isinstance(item, dict)]


def row_of(item: dict[str, Any]) -> Row | None:
    """A row from a service's item; None when it is none of ours."""
    metadata = item.get("metadata")
    payload = read(metadata.get(FIELD), str(item.get("memory") or "")) if isinstance(metadata, dict) else None
    remote = item.get("id")
    if payload is None or not isinstance(remote, str):
        return None
    return Row(remote, payload, str(item.get("created_at") or ""))


def _rows(items: Sequence[dict[str, Any]]) -> list[Row]:
    return [row for row in map(row_of, items) if row is not None]
