"""The command that looks after a store."""

from __future__ import annotations

from argparse import Namespace

from keyfold.cli.inputs import existing_store
from keyfold.cli.output import Output
from keyfold.errors import Unsupported
from keyfold.model import plain
from keyfold.registry import open_engine


def doctor(args: Namespace, output: Output) -> int:
    """keyfold doctor"""
    engine = open_engine(existing_store(args))
    try:
        health = engine.health()
        erased: bool | str | None = None
        if args.erase:
            erase = getattr(engine, "erase", None)
            if erase is None:
                raise Unsupported(f"the {engine.capabilities.engine} engine has no erasure of its own to run")
            erased = erase()
            output.changed = erased is True
    finally:
        engine.close()
    done = erased is None or erased is True
    if output.json:
        output.document(
            {
                "ok": health.ok and done,
                "engine": health.engine,
                "facts": plain(health.facts),
                "erased": erased,
            }
        )
    else:
        output.line(f"{health.engine}: {'healthy' if health.ok else 'not healthy'}")
        output.table([(name, value) for name, value in health.facts.items()], "  ")
        if erased is not None:
            output.line(
                "erased: no file of the store holds forgotten text"
                if erased is True
                else f"not erased: {erased}"
            )
    return 0 if health.ok and done else 3
