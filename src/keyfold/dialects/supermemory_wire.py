"""The requests to Supermemory's v4 memories, and what their answers must look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from keyfold.dialects.removing import said
from keyfold.dialects.supermemory_rows import LONGEST_TAG, number_of
from keyfold.dialects.wire import AT_ONCE, Answer, Http, Statuses, Together, ask
from keyfold.errors import StoreError
from keyfold.flow import Plan
from keyfold.text.counted import counted

Found = TypeVar("Found")

PAGE: Final = 200  # memories of a page
MOST_PAGES: Final = 10_000
MOST_HITS: Final = 100  # that a search returns
BATCH: Final = 100  # memories of a request
FORGOTTEN_AT_ONCE: Final = 500
GONE: Final = Statuses(absent=(404, 409))  # 409: forgotten already
MAY_LACK: Final = Statuses(absent=(400, 404, 405, 501))


def search(tag: str, words: str, most: int, filters: Mapping[str, Any] | None = None) -> Plan[list[Any]]:
    """What the service finds in a tag, best first. It looks at living memories, and may be a moment behind."""
    body: dict[str, Any] = {
        "q": words,
        "containerTag": tag,
        "searchMode": "memories",
        "limit": min(most, MOST_HITS),
        "threshold": 0,  # the default, a half, drops what is there
    }
    if filters is not None:
        body["filters"] = filters
    answer = yield from ask(Http("POST", "/v4/search", json=body, reads=True))
    return _items(answer, "results")


def any_of(conditions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """A filter that lets through what has one of these values under its key."""
    return {"OR": [{"key": key, "value": value} for key, value in conditions]}


def page(tag: str, number: int, *, newest: bool = False) -> Plan[tuple[list[Any], int, int]]:
    """A page of all memories of a tag, superseded and forgotten ones too; how many there are, and how many pages.

    Oldest first, so that what is written meanwhile comes last and no page shifts.
    """
    body = {
        "containerTags": [tag],
        "limit": PAGE,
        "page": number,
        "sort": "createdAt",
        "order": "desc" if newest else "asc",
    }
    answer = yield from ask(Http("POST", "/v4/memories/list", json=body, reads=True))
    items, told = _items(answer, "memoryEntries"), answer.object().get("pagination")
    total, pages = (
        (number_of(told.get(name), -1) for name in ("totalItems", "totalPages"))
        if isinstance(told, dict)
        else (-1, -1)
    )
    if total < 0 or pages < 0 or pages > MOST_PAGES:
        raise StoreError(f"{answer.host} listed memories without saying how many there are in all")
    return items, total, pages


def listing(tag: str) -> Plan[list[Any] | None]:
    """All memories of a tag; None when the pages do not add up to as many as there are."""
    items, total, pages = yield from page(tag, 1)
    found = _by_id(items)
    done = 1
    while done < pages:
        last = min(pages, done + AT_ONCE)
        rest = yield Together([page(tag, number) for number in range(done + 1, last + 1)])
        done, before = last, len(found)
        for more, _, now in rest:
            found.update(_by_id(more))
            if len(found) < total:  # only then does what was added meanwhile matter
                pages = max(pages, min(now, MOST_PAGES))
        if len(found) == before:
            break  # whatever number of pages is told, nothing more comes
    return list(found.values()) if len(found) >= total else None


def newest(tag: str, wanted: Callable[[Any], Found | None]) -> Plan[Found | None]:
    """The first thing that is wanted among the memories of a tag, newest first; None when there is none."""
    seen: set[str] = set()
    number, pages = 1, 1
    while number <= pages:
        items, total, pages = yield from page(tag, number, newest=True)
        number += 1
        for item in items:
            found = wanted(item)
            if found is not None:
                return found
        before = len(seen)
        seen.update(_by_id(items))
        if len(seen) == before:
            if before < total:
                raise StoreError(
                    f"Supermemory says that container tag {tag} holds {counted(total, 'memory', 'memories')} and lists {before}: call again"
                )
            break
    return None


def add(tag: str, memories: Sequence[Mapping[str, Any]]) -> Plan[list[str]]:
    """Keep memories word for word, in order; their ids. What was kept, when the answer does not say it, is unknown."""
    ids: list[str] = []
    for start in range(0, len(memories), BATCH):
        batch = memories[start : start + BATCH]
        body = {"memories": batch, "containerTag": tag}
        answer = yield from ask(Http("POST", "/v4/memories", json=body))
        told = _items(answer, "memories")
        made = [item["id"] for item in told if isinstance(item.get("id"), str)]
        if len(made) != len(batch):
            raise answer.unreadable(
                f"{answer.host} took {counted(len(batch), 'memory', 'memories')} and says that it kept {len(made)}"
            )
        ids += made
    return ids


def put(tag: str, identity: str, text: str, metadata: Mapping[str, Any]) -> Plan[str | None]:
    """A new version of a memory; its id, or None when the memory is gone. Not to be sent twice: it would fork."""
    body = {"id": identity, "newContent": text, "containerTag": tag, "metadata": metadata}
    answer = yield from ask(Http("PATCH", "/v4/memories", json=body), Statuses(absent=(404,)))
    if answer.status == 404:
        return None
    made = answer.object().get("id")
    if not isinstance(made, str):
        raise answer.unreadable(f"{answer.host} rewrote a memory and did not say its new id")
    return made


def forget(tag: str, identity: str) -> Plan[bool]:
    """Mark a memory as forgotten; whether the service says that it did."""
    body = {"id": identity, "containerTag": tag}
    answer = yield from ask(Http("DELETE", "/v4/memories", json=body, repeatable=True), GONE)
    told = said(answer)
    return answer.status not in GONE.absent and isinstance(told, dict) and told.get("forgotten") is True


def forget_many(tag: str, ids: Sequence[str]) -> Plan[set[str]]:
    """Mark memories as forgotten, in order; those of which the service says that it did, which may be none."""
    found: set[str] = set()
    for start in range(0, len(ids), FORGOTTEN_AT_ONCE):
        batch = list(ids[start : start + FORGOTTEN_AT_ONCE])
        body = {"ids": batch, "containerTag": tag, "dryRun": False, "maxForget": len(batch)}
        request = Http("POST", "/v4/memories/forget-matching", json=body, repeatable=True)
        answer = yield from ask(request, MAY_LACK)
        told = said(answer)
        gone = (
            told.get("forgotten") if isinstance(told, dict) and answer.status not in MAY_LACK.absent else None
        )
        if not isinstance(gone, list):
            break  # then each is asked for by itself
        found |= {str(item.get("id")) for item in gone if isinstance(item, dict)}
    return found


def tags() -> Plan[list[str]]:
    """The container tags of the account."""
    answer = yield from ask(Http("GET", "/v3/container-tags/list", reads=True))
    found = answer.json()
    if not isinstance(found, list):
        raise StoreError(f"{answer.host} listed its container tags in a form that is not Supermemory's")
    names = [item.get("containerTag") for item in found if isinstance(item, dict)]
    return [name for name in names if isinstance(name, str) and len(name) <= LONGEST_TAG]


def _by_id(items: Sequence[Any]) -> dict[str, Any]:
    return {str(item.get("id")): item for item in items}


def _items(answer: Answer, name: str) -> list[Any]:
    found = answer.object().get(name)
    if not isinstance(found, list):
        raise answer.unreadable(
            f"{answer.host} answered without `{name}`: check that the address is Supermemory's"
        )
    return [item for item in found if isinstance(item, dict)]
