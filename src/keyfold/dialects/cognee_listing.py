"""A dataset's listing on Cognee, read whole. DESIGN 9: complete or an error, never a part.

From 1.6.1 on it comes in pages of at most 1,000, newest first, counted from an offset that shifts under writes;
before, all at once whatever limit is asked for. Which it is shows in what comes, so no version is asked for.

Each page begins with the last row of the one before. When it does not, rows went meanwhile and others moved up
unread: the reading steps back until it meets a row it knows. Rows that came meanwhile are at the front, so when the
newest is another one than at the start, the front is read again: a record that was rewritten while its old row was
yet unread is found there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from keyfold.dialects.wire import Answer, Http, Statuses, ask
from keyfold.errors import StoreError, Unsupported
from keyfold.flow import Plan

PAGE: Final = 1000  # rows, the most that a server gives
DENIED: Final = Statuses(
    absent=(401, 403, 404)
)  # a dataset that is gone, or another's: the caller resolves again
SPARE: Final = 50  # requests beyond those that a listing at rest takes, before it is given up

Entry = dict[str, Any]


class NotReadable(Exception):  # it never leaves the dialect
    """The dataset may not be read: it is gone, or is another's."""


def page(home: str, offset: int = 0, limit: int = PAGE) -> Plan[list[Entry]]:
    """A page of a dataset's rows."""
    query = (("limit", str(limit)), *((("offset", str(offset)),) if offset else ()))
    answer: Answer = yield from ask(Http("GET", f"/api/v1/datasets/{home}/data", query, reads=True), DENIED)
    if answer.status in DENIED.absent:
        raise NotReadable
    found = answer.json()
    if not isinstance(found, list) or not all(isinstance(item, dict) and "id" in item for item in found):
        raise StoreError(f"{answer.host} listed a dataset in a form that is not Cognee's")
    if any("externalMetadata" not in item for item in found):
        raise too_old(answer.host)
    return found


def too_old(host: str) -> Unsupported:
    """The error of a server before 1.5.0, whose rows have neither label nor metadata."""
    return Unsupported(
        f"{host} runs a Cognee older than 1.5.0, which keeps no metadata with a file: upgrade it "
        "(pip install --upgrade cognee), then call again"
    )


def listing(home: str, enough: Callable[[Entry], bool] | None = None) -> Plan[list[Entry]]:
    """Every row of a dataset. With `enough`, the reading ends at the page that has such a row.

    NotReadable when the dataset is gone or another's.
    """
    rows = yield from page(home)
    seen = {str(row["id"]): row for row in rows}
    offset, spare, back, last = 0, SPARE, 1, rows
    while len(last) == PAGE and not (enough and any(map(enough, last))):
        offset += PAGE - 1
        last = yield from page(home, offset)
        if len(last) >= PAGE and seen.keys() <= {str(row["id"]) for row in last}:
            return last  # it has no pages, and by chance as many rows as a page would have
        while offset and not (last and str(last[0]["id"]) in seen):
            offset, back, spare = max(0, offset - back), back * 8, spare - 1
            if spare < 0:
                raise moved()
            last = yield from page(home, offset)
        back, before = 1, len(seen)
        seen.update((str(row["id"]), row) for row in last)
        spare -= len(seen) == before
        if spare < 0:
            raise moved()
    if offset and len(seen) > PAGE and not (enough and any(map(enough, last))):
        seen.update((yield from _front(home, rows, seen)))
    return list(seen.values())


def _front(home: str, first: list[Entry], seen: dict[str, Entry]) -> Plan[dict[str, Entry]]:
    """The rows that came while the pages were read."""
    found = yield from page(home, limit=1)
    if found and found[0]["id"] == first[0]["id"]:
        return {}
    fresh: dict[str, Entry] = {}
    for number in range(SPARE):
        found = yield from page(home, number * (PAGE - 1))
        fresh.update((str(row["id"]), row) for row in found)
        if len(found) < PAGE or any(str(row["id"]) in seen for row in found):
            return fresh
    raise moved()


def moved() -> StoreError:
    """The error of a listing that could not be read whole."""
    return StoreError(
        "its listing on the Cognee server moved faster than it could be read: read it again when fewer write to it"
    )
