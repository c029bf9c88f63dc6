"""The commands that look after a store."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, Final

from keyfold.cli.inputs import existing_store
from keyfold.cli.output import Output
from keyfold.contract.protocols import Examined
from keyfold.errors import Unsupported
from keyfold.model import plain
from keyfold.registry import embedded_file, open_engine
from keyfold.text.counted import counted

if TYPE_CHECKING:
    from keyfold.engines.sqlite.doctor import Diagnosis
    from keyfold.engines.sqlite.repair import Treatment

# What facts are called for people: the states before the present one, which `stats` counts among the revisions.
_FACTS: Final = {"revisions": "past_states"}


def doctor(args: Namespace, output: Output) -> int:
    """keyfold doctor"""
    path = embedded_file(existing_store(args))
    if path is None:
        return _ask_for_health(args, output)
    from keyfold.engines.sqlite.doctor import examine

    found = examine(path, quick=args.quick)
    treatment: Treatment | None = None
    if args.repair or args.purge or args.erase:
        from keyfold.engines.sqlite.repair import treat

        remedies = {finding.remedy for finding in found.findings if finding.remedy}
        treatment = treat(
            path, remedies=remedies if args.repair else (), purges=args.purge, erases=args.erase
        )
        output.changed = bool(treatment.repaired or treatment.purged or treatment.erased is True)
        found = examine(path, quick=args.quick)
    if output.json:
        output.document(_document(found, treatment, args))
    else:
        _tell(found, treatment, args, output)
    if treatment is not None and treatment.erased not in (None, True):
        return 3
    return 0 if found.ok else 1


def _document(found: Diagnosis, treatment: Treatment | None, args: Namespace) -> dict[str, Any]:
    erased = treatment.erased if treatment is not None else None
    return {
        "ok": found.ok and erased in (None, True),
        "engine": "sqlite",
        "facts": plain(found.facts),
        "findings": plain(found.findings),
        "repaired": plain(treatment.repaired) if treatment is not None and args.repair else None,
        "not_repaired": plain(treatment.failed) if treatment is not None and args.repair else None,
        "purged": treatment.purged if treatment is not None else None,
        "erased": erased,
    }


def _tell(found: Diagnosis, treatment: Treatment | None, args: Namespace, output: Output) -> None:
    faults = [finding for finding in found.findings if finding.fault]
    output.line("sqlite: healthy" if found.ok else f"sqlite: {counted(len(faults), 'fault')} found")
    facts = {_FACTS.get(name, name): value for name, value in found.facts.items()}
    output.table([(name, "?" if value is None else value) for name, value in facts.items()], "  ")
    for finding in faults:
        output.line(f"fault  {finding}")
    for finding in found.findings:
        if not finding.fault:
            output.line(f"note   {finding}")
    if treatment is None:
        if any(finding.remedy for finding in faults):
            output.line("keyfold doctor --repair makes again what can be made again")
        return
    if args.repair:
        for done in treatment.repaired:
            output.line(f"repaired: {done}")
        for failed in treatment.failed:
            output.line(f"not repaired: {failed}")
        if not treatment.repaired and not treatment.failed and not faults:
            output.line("repaired: nothing, there was no fault")
        if faults:
            output.line("what is left cannot be made again: restore a backup, or export what can be read")
    if treatment.purged is not None:
        output.line(f"purged: {counted(treatment.purged, 'expired record')}")
    _tell_erased(treatment.erased, output)


def _tell_erased(erased: bool | str | None, output: Output) -> None:
    if erased is not None:
        output.line(
            "erased: no file of the store holds forgotten text" if erased is True else f"not erased: {erased}"
        )


def _ask_for_health(args: Namespace, output: Output) -> int:
    """What can be said of an engine that has no file of ours: what it says itself."""
    engine = open_engine(existing_store(args))
    try:
        name = engine.capabilities.engine
        if args.repair or args.purge or args.erase:
            raise Unsupported(
                f"--repair, --purge and --erase are for a store in a file; {name} looks after its own"
            )
        health = engine.health()
        findings = engine.examine() if isinstance(engine, Examined) and not args.quick else None
    finally:
        engine.close()
    ok = health.ok and not any(finding.fault for finding in findings or ())
    if output.json:
        output.document(
            {"ok": ok, "engine": health.engine, "facts": plain(health.facts), "findings": plain(findings)}
        )
    else:
        output.line(f"{health.engine}: {'healthy' if health.ok else 'not healthy'}, by its own word")
        output.table([(name, value) for name, value in health.facts.items()], "  ")
        for finding in findings or ():
            output.line(f"{'fault ' if finding.fault else 'note  '} {finding}")
        if findings is None:
            output.note("keyfold: rows and indexes are looked over in a store in a file only")
    return 0 if ok else 1


def backup(args: Namespace, output: Output) -> int:
    """keyfold backup"""
    path = embedded_file(existing_store(args))
    if path is None:
        raise Unsupported("a backup is of a store in a file; keyfold export takes the memories out of any")
    from keyfold.engines.sqlite import SqliteEngine

    engine = SqliteEngine.open(path)
    try:
        made = engine.backup(args.file, force=args.force)
        output.changed = True
    finally:
        engine.close()
    if output.json:
        output.document(made.to_dict())
    else:
        output.line(
            f"wrote {made.path}: {counted(made.records, 'record')}, {counted(made.sessions, 'session')}, "
            f"{counted(made.revisions, 'past state')}, {counted(made.namespaces, 'user')}, {made.bytes:,} bytes"
        )
        share = "all" if made.compared >= made.records + made.sessions else f"{made.compared:,}"
        output.line(
            f"verified: read back whole, all counts compared, and {share} of the records letter for letter"
        )
    return 0
