"""The commands about sessions."""

from __future__ import annotations

from argparse import Namespace

from keyfold.cli.inputs import looked_into, opened, text_of, user_of
from keyfold.cli.output import Output, inline, when
from keyfold.cli.writing import show_receipt
from keyfold.memory.sessions import SHORT


def start(args: Namespace, output: Output) -> int:
    """keyfold session start"""
    with opened(args) as memory:
        begun = memory.mem_session_start(user_of(args), session_id=args.session, budget=args.budget)
        output.changed = True
    if output.json:
        form = begun.to_dict()
        form["context"] = {"text": str(begun.context), "truncated": begun.context.truncated}
        output.document(form)
        return 0
    output.line(f"session {begun.session_id}  ({'new' if begun.is_new else 'going on'})")
    for past in begun.summaries:
        output.line(f"earlier, {when(past.last_activity_at)}: {inline(past.summary or '')[:SHORT]}")
    if begun.context:
        output.line()
        output.body(begun.context)
    return 0


def summary(args: Namespace, output: Output) -> int:
    """keyfold session summary"""
    text = text_of(args.text, "summary")
    with opened(args) as memory:
        receipt = memory.mem_session_summary(user_of(args), text, session_id=args.session)
    if output.json:
        show_receipt(receipt, output)
    else:
        output.changed = True
        output.line(f"{receipt.outcome}  summary of session {receipt.session_id}")
    return 0


def end(args: Namespace, output: Output) -> int:
    """keyfold session end"""
    text = None if args.text is None else text_of(args.text, "summary")
    with looked_into(args, output) as memory:  # where no store is, there is nothing to end
        ended = memory.mem_session_end(user_of(args), summary=text, session_id=args.session)
        output.changed = True
    if output.json:
        output.document(ended.to_dict())
    else:
        output.line(f"ended session {ended.id}")
    return 0


def listing(args: Namespace, output: Output) -> int:
    """keyfold session list"""
    with looked_into(args, output) as memory:
        found = memory.mem_session_list(user_of(args), limit=args.limit)
    if output.json:
        output.document(found.to_dict())
        return 0 if found else 1
    output.table(
        [
            (
                item.id,
                item.status,
                when(item.started_at),
                when(item.last_activity_at),
                inline(item.summary or "-")[:80],
            )
            for item in found
        ]
    )
    if not found:
        output.note("keyfold: there is no session")
        return 1
    if found.truncated:
        output.note(f"keyfold: {len(found):,} of {found.total:,}; --limit shows more")
    return 0
