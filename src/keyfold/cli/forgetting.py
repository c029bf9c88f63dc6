"""The command that forgets. It counts first and asks, since what is forgotten cannot be brought back."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from keyfold.cli.inputs import filters_of, looked_into, user_of
from keyfold.cli.output import Output
from keyfold.errors import InvalidRequest
from keyfold.memory.reads import narrowed
from keyfold.model import DeleteResult
from keyfold.text.counted import counted


def forget(args: Namespace, output: Output) -> int:
    """keyfold forget"""
    target = _target(args)
    user = user_of(args)
    with looked_into(args, output) as memory:
        if args.dry_run:
            return _told(memory.mem_delete(user, **target, dry_run=True), output)
        if not args.yes:
            foreseen = memory.mem_delete(user, **target, dry_run=True)
            if (foreseen.deleted or args.all) and not _agreed(foreseen.deleted, user):
                output.note("keyfold: nothing was forgotten")
                return 1
        # also where the count is 0: the text of what has expired is in the store until it is forgotten
        result = memory.mem_delete(user, **target)
        output.changed = bool(result.deleted)
    return _told(result, output)


def _target(args: Namespace) -> dict[str, Any]:
    """What to forget, as mem_delete takes it: exactly one of the four ways to say it."""
    filters = filters_of(args)
    given = {key: value for key, value in filters.items() if key != "filter"}
    where = narrowed(**given, filter=filters["filter"])
    ways = [args.id is not None, args.topic is not None, args.all, not where.empty]
    if sum(ways) != 1:
        raise InvalidRequest(
            "forget", "give exactly one of ID, --topic K, --all and filters (--type, --tag, ...)"
        )
    if args.id is not None:
        return {"observation_id": args.id}
    if args.topic is not None:
        return {"topic_key": args.topic}
    return {"all": True} if args.all else {"filter": where}


def _agreed(number: int, user: str) -> bool:
    """Whether a person says yes. InvalidRequest where nobody is there to ask."""
    what = f"{counted(number, 'record')} of user {user!r:.200} would be forgotten, history and all"
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidRequest(
            "forget", f"{what}; nobody is there to ask, so say --yes (or --dry-run to only count)"
        )
    sys.stderr.write(f"{what}. Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _told(result: DeleteResult, output: Output) -> int:
    if output.json:
        output.document(result.to_dict())
        return 0 if result.deleted else 1
    if not result.deleted:
        output.note("keyfold: nothing matched, nothing was forgotten")
        if isinstance(result.erased, str):
            output.note(f"keyfold: the bytes of what had expired are not erased: {result.erased}")
        return 1
    if result.dry_run:
        output.line(f"would forget {counted(result.deleted, 'record')}")
        return 0
    output.line(f"forgot {counted(result.deleted, 'record')}")
    if result.erased is not True:
        output.note(f"keyfold: the bytes are not erased: {result.erased}")
    return 0
