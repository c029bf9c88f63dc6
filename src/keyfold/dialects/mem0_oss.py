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

from keyfold.dialects.base import BaseDialect, Hit, Looked, Row, Searched, Shelf, Wanted
from keyfold.dialects.names import SESSIONS_TAG, is_digest, is_path_id, untagged
from keyfold.dialects.payload import FIELD, Payload, header, is_cut, ranks, read, wire_text
from keyfold.dialects.removing import remove_rows, says
from keyfold.dialects.wire import Answer, Http, Statuses, Together, ask
from keyfold.errors import StoreError
from keyfold.flow import Plan

AGENT: Final = "keyfold"
LIST_CAP: Final = 1000  # rows that a listing returns at most; there is no next page
READINGS: Final = 2  # of a shelf that is longer than a listing
REMEMBERED: Final = 10_000  # shelves
EVERYTHING: Final = 1_000_000  # top_k of the search that reads past the cap
SCANNED: Final = 10_000  # rows behind the list of entities, measured
GONE: Final = Statuses(absent=(404,))


class Mem0Oss(BaseDialect):
    """The dialect. It remembers only which shelves were found to be longer than a listing."""

    capabilities = replace(BaseDialect.capabilities, engine="mem0", keyed_reads=True)
    most_hits = EVERYTHING
    erases = "the server keeps the texts of deleted memories in its history table"

    def __init__(self) -> None:
        self._long: set[Shelf] = set()

    def lookup(self, shelf: Shelf, digest: str) -> Plan[Looked]:
        items = yield from _listed(shelf, LIST_CAP, ("run_id", digest))
        if len(items) >= LIST_CAP:  # the newest may be among those that were cut off
            return Looked((), sure=False)
        return Looked(tuple(_rows(items)))

    def rows(self, shelf: Shelf, *, texts: bool = True) -> Plan[list[Row]]:  # noqa: ARG002  # texts always come along
        listed, total = yield from self._listing(shelf)
        return _rows(listed) if total is None else (yield from self._long_rows(shelf, total))

    def total(self, shelf: Shelf) -> Plan[tuple[int, list[Row] | None]]:
        listed, total = yield from self._listing(shelf)
        return (len(listed), _rows(listed)) if total is None else (total, None)

    def everything(self) -> Plan[list[tuple[Shelf, Row]]]:
        found: list[tuple[Shelf, Row]] = []
        for name, total in (yield from _users()).items():
            shelf = _shelf(name)
            if shelf is None:
                continue
            self._remember(shelf, total)
            if total >= LIST_CAP:
                rows = yield from self._long_rows(shelf, total)
            else:
                rows = yield from self.rows(shelf)
            found += [(shelf, row) for row in rows]
        return found

    def _listing(self, shelf: Shelf) -> Plan[tuple[list[Any], int | None]]:
        """A shelf's listing; or when it is longer than the server lists, how many rows the server counts there."""
        ours, total = 0, 0
        for _ in range(READINGS):
            listed: list[Any] = []
            if shelf not in self._long:
                listed = yield from _listed(shelf, LIST_CAP)
                if len(listed) < LIST_CAP:
                    return listed, None
            total = (yield from _users(shelf)).get(shelf.wire_name, 0)
            self._remember(shelf, total)
            ours = len(_of(shelf, listed))
            # Fewer than were listed, and yet not all of them: the list was cut among the rows of others.
            if total > LIST_CAP or (listed and ours < total):
                return [], total
            if listed and ours == total:
                return listed, None
            # It has become shorter since, or the server does not count what it lists: it is read again.
        raise StoreError(
            f"the Mem0 server lists {ours:,} memories of {_named(shelf)}, as many as it lists at most, and counts "
            f"{total:,}: it cannot be told whether these are all; call again"
        )

    def _remember(self, shelf: Shelf, total: int) -> None:
        if total > LIST_CAP and len(self._long) < REMEMBERED:
            self._long.add(shelf)
        elif total <= LIST_CAP:
            self._long.discard(shelf)

    def _long_rows(self, shelf: Shelf, total: int) -> Plan[list[Row]]:
        """The rows that a search finds which leaves nothing out: as many as the server counts, or it is an error.

        The server's index is an approximate one, so a search may leave rows out, and says nothing of it.
        """
        found: list[Any] = []
        for _ in range(READINGS):
            # By user alone: that is how the server counts. What is another program's is left out below.
            found = _of(shelf, (yield from _found({"user_id": shelf.wire_name}, "memory", EVERYTHING)))
            if len(found) >= total:
                return _rows(found)
            total = (yield from _users(shelf)).get(shelf.wire_name, 0)  # some may have been removed meanwhile
            if len(found) == total:
                return _rows(found)
        raise StoreError(
            f"{_named(shelf)} has {total:,} memories, the Mem0 server lists at most {LIST_CAP:,}, and its search "
            f"left out some of them, it found {len(found):,}: it cannot be read whole, only record by record"
        )

    def search(self, shelf: Shelf, text: str, limit: int, wanted: Wanted) -> Plan[Searched]:  # noqa: ARG002  # nothing is looked up
        found = yield from _found({"user_id": shelf.wire_name, "agent_id": AGENT}, text, limit)
        return searched(found, limit)

    def insert(self, shelf: Shelf, payloads: Sequence[Payload]) -> Plan[None]:
        yield Together([_add(shelf, payload) for payload in payloads])

    def rewrite(self, shelf: Shelf, rows: Sequence[Row], payload: Payload) -> Plan[None]:
        body = {"text": wire_text(payload), "metadata": {FIELD: header(payload)}}
        path = f"/memories/{quote(rows[0].remote, safe='')}"
        answer = yield from ask(Http("PUT", path, json=body, repeatable=True), GONE)
        if not rewritten(answer):  # somebody removed it meanwhile
            yield from self.insert(shelf, [payload])
        yield from self.remove(shelf, rows[1:])

    def remove(self, shelf: Shelf, rows: Sequence[Row]) -> Plan[None]:
        yield from remove_rows(self, shelf, rows, _delete)

    def shelves(self) -> Plan[list[Shelf]]:
        found = map(_shelf, (yield from _users()))
        return sorted({shelf for shelf in found if shelf is not None})

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


def _found(filters: dict[str, str], query: str, most: int) -> Plan[list[Any]]:
    body = {"query": query, "filters": filters, "top_k": most, "threshold": 0.0, "show_expired": True}
    return results((yield from ask(Http("POST", "/search", json=body, reads=True))))


def _users(asked: Shelf | None = None) -> Plan[dict[str, int]]:
    """How many rows the server counts for each user; StoreError when it may not have counted them all.

    It counts the first 10,000 rows of all, and does not say how many it looked at. There are at most as many as it
    counts for users, and for agents and runs that are none of ours: ours have a user each.
    """
    answer = yield from ask(Http("GET", "/entities", reads=True))
    entities = answer.json()
    if not isinstance(entities, list):
        raise StoreError(f"{answer.host} listed its entities in a form that is not Mem0's")
    users: dict[str, int] = {}
    looked_at = 0
    for item in entities:
        if not isinstance(item, dict):
            continue
        kind, name, number = item.get("type"), str(item.get("id")), item.get("total_memories")
        if not isinstance(number, int):
            raise StoreError(f"{answer.host} counted its memories in a form that is not Mem0's")
        if kind == "user":
            users[name] = number
        if kind == "user" or not (name == AGENT if kind == "agent" else is_digest(name)):
            looked_at += number
    if looked_at < SCANNED:
        return users
    if asked is None:
        raise StoreError(
            f"the Mem0 server names only the users of its first {SCANNED:,} memories, and it may hold more: "
            "namespaces cannot be listed; name the ones you read"
        )
    raise StoreError(
        f"{_named(asked)} has {LIST_CAP:,} memories or more, which is all that the Mem0 server lists, and the server "
        f"counts only its first {SCANNED:,}: it cannot be told whether all were read; read record by record"
    )


def strayed(items: Sequence[dict[str, Any]], shelf: Shelf, digest: str | None = None) -> bool:
    """Whether any of these is under another user or run than was asked for: then the filter was ignored."""
    for item in items:
        run = item.get("session_id", item.get("run_id", digest))  # the platform has two names for it
        if item.get("user_id", shelf.wire_name) != shelf.wire_name or digest not in (None, run):
            return True
    return False


def _of(shelf: Shelf, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for item in items if not strayed([item], shelf)]


def _named(shelf: Shelf) -> str:
    return f"namespace {shelf.namespace!r:.200}"


def _shelf(user: str) -> Shelf | None:
    """The shelf behind a user's name on the wire; None when it is none of ours."""
    name = untagged(user)
    return None if name is None else Shelf(name[1], name[0] == SESSIONS_TAG)


def added(shelf: Shelf, payload: Payload) -> dict[str, Any]:
    """The body of an add, on either of Mem0's wires."""
    return {
        "messages": [{"role": "user", "content": wire_text(payload)}],
        "user_id": shelf.wire_name,
        "agent_id": AGENT,
        "run_id": payload.digest,
        "metadata": {FIELD: header(payload)},
        "infer": False,  # it defaults to true, and a model would rewrite the text
    }


def _add(shelf: Shelf, payload: Payload) -> Plan[None]:
    answer = yield from ask(Http("POST", "/memories", json=added(shelf, payload)))
    if not results(answer):
        raise StoreError(
            f"{answer.host} took a memory and stored nothing: is this Mem0's open-source server?"
        )


def _delete(row: Row) -> Plan[bool]:
    request = Http("DELETE", f"/memories/{quote(row.remote, safe='')}", repeatable=True)
    return removed((yield from ask(request, GONE)))


def rewritten(answer: Answer) -> bool:
    """Whether Mem0 changed a memory, on either of its wires; False when it is gone. What says neither is unknown."""
    if answer.status == 404:
        return False
    if {"message", "id"}.isdisjoint(answer.object()):
        raise answer.unreadable(f"{answer.host} answered a rewrite in a form that is not Mem0's")
    return True


def removed(answer: Answer) -> bool:
    """Whether Mem0 says that it removed a memory, on either of its wires."""
    return answer.status != 404 and says(answer, "message")


def results(answer: Answer) -> list[Any]:
    """The rows of an answer, or the error when there is no list of them."""
    found = answer.object().get("results")
    if not isinstance(found, list):
        raise answer.unreadable(f"{answer.host} answered without `results`: check that the address is Mem0's")
    return [item for item in found if isinstance(item, dict)]


def row_of(item: dict[str, Any]) -> Row | None:
    """A row from a service's item; None when it is none of ours."""
    metadata = item.get("metadata")
    payload = read(metadata.get(FIELD), str(item.get("memory") or "")) if isinstance(metadata, dict) else None
    remote = item.get("id")
    if payload is None or not is_path_id(remote):
        return None
    return Row(remote, payload, str(item.get("created_at") or ""))


def searched(items: Sequence[dict[str, Any]], limit: int) -> Searched:
    """What a search found. A service fills its list with what is as far from the question as can be; then it ends there."""
    scores = [item.get("score") for item in items]
    rows = zip(map(row_of, items), ranks(scores), strict=True)
    return Searched(
        [Hit(row, score) for row, score in rows if row is not None], is_cut(scores, limit), len(items)
    )


def _rows(items: Sequence[dict[str, Any]]) -> list[Row]:
    return [row for row in map(row_of, items) if row is not None]
