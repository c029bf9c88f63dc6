"""The commands that read: one memory, its past, what lies around it, and what there is."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from keyfold.cli.inputs import looked_into, record_of, user_of
from keyfold.cli.output import Output, inline, when
from keyfold.errors import NotFound
from keyfold.model import SESSION, History, Record, Revision, plain
from keyfold.text.counted import counted, not_kept


def get(args: Namespace, output: Output) -> int:
    """keyfold get"""
    named = record_of(args)
    user = user_of(args)
    with looked_into(args, output) as memory:
        record = memory.mem_get_observation(user, **named, reach=args.reach)
        if record is None:
            raise NotFound(f"there is no record {_told(args)} of user {user!r:.200}")
        if args.revision is not None:
            state = memory.mem_revision(record.namespace, record.id, revision=args.revision)
            _show_revision(state, record, output)
            return 0
    if output.json:
        output.document(record.to_dict())
    else:
        _show(record, output)
    return 0


def _told(args: Namespace) -> str:
    if args.topic is not None:
        return f"with topic key {args.topic!r:.200}"
    return f"{args.id!r:.200}{' (a topic key goes by --topic)' if '/' in args.id else ''}"


def _show(record: Record, output: Output) -> None:
    output.line(inline(record.title))
    name = f"  topic {record.topic_key}" if record.topic_key is not None else ""
    output.line(
        f"{record.type}{name}  revision {record.revision_count}  id {record.id}  {when(record.updated_at)}"
    )
    facts: list[str] = []
    if record.tags:
        facts.append("tags " + ", ".join(record.tags))
    if record.metadata:
        facts.append("metadata " + _compact(record.metadata))
    if record.expires_at is not None:
        facts.append("expires " + when(record.expires_at))
    if record.pinned:
        facts.append("pinned")
    for fact in facts:
        output.line(fact)
    output.line()
    output.body(record.content)


def _compact(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _show_revision(state: Revision, record: Record, output: Output) -> None:
    if output.json:
        named = {"id": record.id, "user_id": record.namespace, "topic_key": record.topic_key}
        output.document(named | state.to_dict())
        return
    now = "current" if state.is_current else "past"
    output.line(inline(state.title))
    output.line(f"{state.type}  revision {state.revision} ({now})  {when(state.written_at)}")
    output.line()
    output.body(state.content)


def topics(args: Namespace, output: Output) -> int:
    """keyfold topics"""
    with looked_into(args, output) as memory:
        found = memory.mem_topics(user_of(args), args.prefix, reach=args.reach)
    if output.json:
        output.document(found.to_dict())
        return 0 if found else 1
    output.table(
        [
            (topic.key, f"r{topic.revision_count}", when(topic.updated_at), topic.type, topic.title)
            for topic in found
        ]
    )
    if not found:
        output.note("keyfold: there is no topic key" + (" with this prefix" if args.prefix else ""))
        return 1
    if found.truncated:
        output.note(f"keyfold: {len(found):,} of {found.total:,}; a longer prefix shows the rest")
    return 0


def history(args: Namespace, output: Output) -> int:
    """keyfold history"""
    with looked_into(args, output) as memory:
        found = memory.mem_history(user_of(args), **record_of(args), reach=args.reach)
    if not found:
        raise NotFound(f"there is no record {_told(args)} of user {user_of(args)!r:.200}")
    diffs = _diffs(found) if args.diff else []
    if output.json:
        form = found.to_dict()
        if args.diff:
            form["diffs"] = [{"from": old, "to": new, "diff": text} for old, new, text in diffs]
        output.document(form)
        return 0
    show_history(found, diffs, output)
    return 0


def show_history(found: History, diffs: list[tuple[int, int, str]], output: Output) -> None:
    """The revisions, each with what it changed when that is known."""
    changes = {new: text for _, new, text in diffs}
    for state in found:
        mark = "  (current)" if state.is_current else ""
        output.line(
            f"revision {state.revision}  {when(state.written_at)}  {state.type}  {inline(state.title)}{mark}"
        )
        if state.revision in changes:
            for line in (changes[state.revision] or "the text is the same").split("\n"):
                output.body(f"    {line}")
    for first, last in found.gaps:
        output.note(f"keyfold: {not_kept(first, last)}")


def _diffs(found: History) -> list[tuple[int, int, str]]:
    """Old number, new number and difference of each pair of neighbours, newest first."""
    numbers = [state.revision for state in found]
    return [(old, new, found.diff(old, new)) for new, old in pairwise(numbers)]


def timeline(args: Namespace, output: Output) -> int:
    """keyfold timeline"""
    named = record_of(args)
    user = user_of(args)
    with looked_into(args, output) as memory:
        anchor = memory.mem_get_observation(user, **named, reach=args.reach)
        if anchor is None:
            raise NotFound(f"there is no record {_told(args)} of user {user!r:.200}")
        entries = memory.mem_timeline(user, anchor.id, before=args.before, after=args.after, reach=args.reach)
    if output.json:
        output.document({"items": plain(entries), "total": len(entries), "truncated": False})
        return 0
    show_timeline(entries, output, user)
    return 0


def show_timeline(entries: Sequence[Record], output: Output, user: str) -> None:
    """Entries, oldest first: the one asked about is marked `>`, its earlier states `~`, those of others by name."""
    rows = []
    for entry in entries:
        mark = ">" if getattr(entry, "is_anchor", False) else "~" if getattr(entry, "is_past", False) else " "
        rows.append(
            (
                mark,
                when(entry.updated_at, seconds=True),
                entry.id,
                f"r{entry.revision_count}",
                entry.type,
                entry.title + (f" of {entry.namespace}" if entry.namespace != user else ""),
            )
        )
    output.table(rows)


def context(args: Namespace, output: Output) -> int:
    """keyfold context"""
    with looked_into(args, output) as memory:
        text = memory.mem_context(user_of(args), query=args.query, budget=args.budget, reach=args.reach)
    if output.json:
        output.document({"text": str(text), "truncated": text.truncated})
    elif text:
        output.body(text)
    return 0  # nothing to tell is an answer: a hook prints what there is


def stats(args: Namespace, output: Output) -> int:
    """keyfold stats"""
    with looked_into(args, output) as memory:
        found = memory.mem_stats(user_of(args), reach=args.reach)
    if output.json:
        output.document(plain(found))
        return 0
    sessions = "" if found["sessions"] is None else f", and {counted(found['sessions'], 'session')}"
    output.line(f"user {found['user_id']}: {counted(found['total'], 'record')}{sessions}")
    rows = [
        *[
            (name, f"{found[name]:,}")
            for name in ("topics", "revisions", "pinned")
            if found[name] is not None
        ],
        ("oldest", when(found["oldest"])),
        ("newest", when(found["newest"])),
    ]
    output.table(rows, "  ")
    kinds = {kind: number for kind, number in found["by_kind"].items() if kind != SESSION}
    for title, counts in (("by kind", kinds), ("by type", found["by_type"])):
        if counts:
            output.line(title)
            ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
            output.table([(name, f"{number:,}") for name, number in ordered], "  ")
    return 0
