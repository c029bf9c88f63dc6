"""Forgetting, as a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyfold.contract import calls
from keyfold.contract.filters import EVERYTHING, Filter
from keyfold.contract.intents import Selector
from keyfold.errors import InvalidRequest
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.core import Core, reference
from keyfold.memory.reads import FilterLike, narrowed
from keyfold.model import DeleteResult, Reach


def mem_delete(
    core: Core,
    user_id: str,
    observation_id: str | int | None = None,
    *,
    topic_key: str | None = None,
    filter: FilterLike | None = None,
    all: bool = False,
    dry_run: bool = False,
    reach: Reach = "exact",
    idempotency_key: str | None = None,
) -> Plan[DeleteResult]:
    """Forget one memory (by id or key), those a filter matches, or `all` of the user's.

    History, index entries and idempotency keys go along; `all` takes sessions and the user's name too.
    `deleted` counts what went: 0 when there was nothing. `erased` is True when no file holds the texts
    any more, else says what that waits for. `dry_run` only counts. A filter must say something.
    """
    user = checks.name("user_id", user_id)
    everything, dry = checks.switch("all", all), checks.switch("dry_run", dry_run)
    given = [observation_id is not None, topic_key is not None, filter is not None, everything]
    if sum(given) != 1:
        raise InvalidRequest(
            "mem_delete", "give exactly one of observation_id, topic_key, filter or all=True"
        )
    far = core.reach(reach)
    parts: dict[str, Any] = {"everything": True}
    if observation_id is not None or topic_key is not None:
        parts = {"ref": reference(user, observation_id, topic_key)}
        if far != "exact":
            raise InvalidRequest("reach", "one memory is forgotten where it is; name its own user_id")
    elif filter is not None:
        parts = {"where": _filter(filter)}
    body = {
        "id": None if observation_id is None else checks.record_id(observation_id),
        "topic_key": topic_key,
        "filter": parts["where"].digest() if "where" in parts else None,
        "all": everything,
        "reach": far,
    }
    key = None if dry else core.idempotency("mem_delete", idempotency_key, body)
    selector = Selector(user, reach=far, dry_run=dry, idempotency=key, **parts)
    result = yield from calls.forget(selector)
    if everything and not dry:
        core.sessions.pop(user, None)
        core.ended.pop(user, None)
        core.moved_on(user)
    return result


def _filter(filter: FilterLike) -> Any:
    where = narrowed(
        types=None, types_exclude=None, tags=None, topic_prefix=None, filter=filter, since=None, until=None
    )
    if where in (EVERYTHING, Filter(topic_prefix="")) or (isinstance(filter, Mapping) and not filter):
        raise InvalidRequest(
            "filter", "is empty, which would forget everything; say all=True if that is meant"
        )
    return where
