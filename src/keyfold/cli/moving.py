"""The commands that take memories out and bring them in."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from keyfold.cli.inputs import existing_store, missing_file, readable_store, standard_input, store_of, user_of
from keyfold.cli.output import Output
from keyfold.errors import InvalidRequest, NotFound
from keyfold.model import SESSION, Config
from keyfold.portability import Report, detect, export_file, import_keyfold, import_path, lines_of
from keyfold.portability import copy as copy_store
from keyfold.portability import export as export_lines
from keyfold.registry import open_engine
from keyfold.text.counted import counted


def export(args: Namespace, output: Output) -> int:
    """keyfold export"""
    engine = open_engine(existing_store(args))
    beyond: list[str] = []
    try:
        if args.output is not None and args.output != "-":
            kinds: dict[str, int] = {}
            lines_written = export_file(engine, args.output, namespace=args.user, kinds=kinds, beyond=beyond)
            if output.json:
                output.document({"records": lines_written, "kinds": kinds, "output": args.output})
            else:
                sessions = kinds.get(SESSION, 0)
                told = f"{counted(lines_written - sessions, 'record')} and {counted(sessions, 'session')}"
                output.note(f"keyfold: wrote {told} to {args.output}")
            return 0
        lines = export_lines(engine, namespace=args.user, beyond=beyond)
        if output.json:
            return _as_document(list(lines)[1:-1], output)
        for line in lines:
            output.raw(line)
    finally:
        engine.close()
        for told in beyond:
            output.note(
                f"keyfold: note: {told} has a history too long for an import of this file: `keyfold copy` takes it"
            )
    return 0


def _as_document(lines: list[str], output: Output) -> int:
    import json

    output.document({"items": [json.loads(line) for line in lines], "total": len(lines), "truncated": False})
    return 0


def bring(args: Namespace, output: Output) -> int:
    """keyfold import"""
    options: dict[str, Any] = {
        "config": _config(args), "dry_run": args.dry_run, "progress": _progress(output),
    }  # fmt: skip
    given = standard_input("PATH") if args.path == "-" else None
    engine = open_engine(readable_store(args, output) if args.dry_run else store_of(args))
    try:
        if given is not None:
            if args.source not in ("auto", "keyfold") or args.namespace_per is not None:
                raise InvalidRequest(
                    "PATH", "standard input is read as a keyfold export; give other data as a path"
                )
            lines = lines_of(given, options["config"].max_text_bytes)
            report = import_keyfold(engine, lines, namespace=args.user, **options)
        else:
            named = args.user
            source = detect(Path(args.path)) if args.source == "auto" else args.source
            if named is None and source != "keyfold":
                named = user_of(args)
            report = import_path(
                engine,
                args.path,
                source=source,
                namespace=named,
                per_project=args.namespace_per == "project",
                **options,
            )
    finally:
        engine.close()
    return _told(report, output)


def copy(args: Namespace, output: Output) -> int:
    """keyfold copy"""
    if args.origin == args.target:
        raise InvalidRequest("TO_URL", "is the store that is copied from")
    if args.store is not None:
        raise InvalidRequest("--store", "is not for copy: FROM_URL and TO_URL are its stores")
    if missing_file(args.origin) is not None:
        raise NotFound(f"there is no store at {args.origin!r}")
    config = _config(args)
    source = open_engine(args.origin)
    try:
        target = open_engine(args.target)
        try:
            report = copy_store(
                source, target, namespace=args.user, config=config, progress=_progress(output)
            )
        finally:
            target.close()
    finally:
        source.close()
    return _told(report, output)


def _config(args: Namespace) -> Config:
    """The settings of an import: as always, but for the longest text where that is named."""
    return Config() if args.max_text_bytes is None else Config(max_text_bytes=args.max_text_bytes)


def _progress(output: Output) -> Any:
    def tell(report: Report) -> None:
        output.progress(counted(report.records, "record"))

    return tell if sys.stderr is not None and sys.stderr.isatty() else None


def _told(report: Report, output: Output) -> int:
    """The report of an import; 2 when something of the input was skipped, 1 when there was nothing in it."""
    output.progress("")
    output.changed = report.changed and not report.dry_run
    if output.json:
        output.document(report.to_dict())
    else:
        _summary(report, output)
        for item in report.skipped:
            output.note(f"keyfold: skipped {item.where}: {item.reason}")
        if report.skipped_count > len(report.skipped):
            output.note(f"keyfold: skipped {report.skipped_count - len(report.skipped):,} more")
        for item in report.notes:
            output.note(f"keyfold: note: {item.where}: {item.reason}")
        if report.notes_count > len(report.notes):
            output.note(f"keyfold: {counted(report.notes_count - len(report.notes), 'more note')}")
    if report.skipped_count:
        return 2
    return 0 if report.records else 1


def _summary(report: Report, output: Output) -> None:
    would = "would be " if report.dry_run else ""
    if report.records and not report.changed:
        output.line(
            f"nothing {'would change' if report.dry_run else 'changed'}: {_all(report)} there already"
        )
    else:
        output.line(
            f"{counted(report.records, 'record')}: {report.created:,} {would}created, "
            f"{report.updated:,} {would}updated, {report.deduped:,} there already"
        )
    output.table([(kind, f"{number:,}") for kind, number in sorted(report.kinds.items())], "  ")
    if report.revisions and report.changed:
        output.line(f"{counted(report.revisions, 'past revision')} made of keys that occur more than once")
    if report.stubs and report.changed:
        output.line(f"{counted(report.stubs, 'session')} referred to but absent: a stub each")
    if report.redacted:
        output.line(f"{counted(report.redacted, 'private region')} redacted")
    for reason, number in sorted(report.left_out.items()):
        output.line(f"{number:,} left out: {reason}")
    if report.skipped_count:
        output.line(f"{report.skipped_count:,} skipped, see below")


def _all(report: Report) -> str:
    return "the one record is" if report.records == 1 else f"all {report.records:,} records are"
