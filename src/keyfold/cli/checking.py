"""The command that tries a store by the conformance suite."""

from __future__ import annotations

import uuid
from argparse import Namespace
from collections import Counter
from typing import Any

from keyfold.cli.inputs import missing_file
from keyfold.cli.output import Output
from keyfold.conformance import Outcome, run
from keyfold.contract.intents import Selector
from keyfold.contract.protocols import Engine
from keyfold.errors import NotFound, StoreError
from keyfold.registry import open_engine
from keyfold.text.counted import counted


def check(args: Namespace, output: Output) -> int:
    """keyfold check"""
    if missing_file(args.url) is not None:
        raise NotFound(f"there is no store at {args.url!r:.300}")
    prefix = f"keyfold-check-{uuid.uuid4().hex}"
    try:
        outcomes = run(lambda config: open_engine(args.url, config=config), prefix=prefix)
    finally:
        left, erased = _clean_up(args.url, prefix)
    counts: Counter[str] = Counter(outcome.status for outcome in outcomes)
    if output.json:
        output.document(
            {
                "items": [outcome.to_dict() for outcome in outcomes],
                "total": len(outcomes),
                "truncated": False,
                **{status: counts[status] for status in ("passed", "failed", "skipped")},
                "left_behind": left,
                "erased": erased,
            }
        )
    else:
        _tell(outcomes, counts, left, erased, output)
    if left:
        raise StoreError(
            f"the store still names {counted(len(left), 'namespace')} of this check, below {prefix}: "
            "forget them when it works again"
        )
    return 1 if counts["failed"] else 0


def _tell(
    outcomes: list[Outcome], counts: Counter[str], left: list[str], erased: bool | str | None, output: Output
) -> None:
    for outcome in outcomes:
        if outcome.status != "passed":
            output.line(str(outcome))
    output.line(
        f"{counted(len(outcomes), 'clause')}: {counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['skipped']} skipped"
    )
    if not left:
        output.line("cleaned up: nothing of the check is left in the store")
    if isinstance(erased, str):
        output.note(f"keyfold: its bytes are not erased: {erased}")


def _clean_up(url: str, prefix: str) -> tuple[list[str], bool | str | None]:
    """Forget what the run may have left, and say what is there all the same, and whether bytes are erased."""
    engine = open_engine(url)
    try:
        for namespace in engine.namespaces(prefix):
            engine.forget(Selector(namespace, everything=True))
        return engine.namespaces(prefix), _erase(engine)
    finally:
        engine.close()


def _erase(engine: Engine) -> bool | str | None:
    erase: Any = getattr(engine, "erase", None)
    return None if erase is None else erase()
