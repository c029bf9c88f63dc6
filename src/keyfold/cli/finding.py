"""The commands that find memories: search and list."""

from __future__ import annotations

from argparse import Namespace

from keyfold.cli.inputs import filters_of, looked_into, user_of
from keyfold.cli.output import Output, inline, when
from keyfold.model import DOCUMENT, Record
from keyfold.text.counted import counted


def search(args: Namespace, output: Output) -> int:
    """keyfold search"""
    user = user_of(args)
    with looked_into(args, output) as memory:
        results = memory.mem_search(
            user,
            " ".join(args.query),
            limit=args.limit,
            explain=args.explain,
            reach=args.reach,
            **filters_of(args),
        )
    if output.json:
        output.document(results.to_dict())
        return 0 if results else 1
    for hit in results:
        name = f"  {hit.topic_key}" if hit.topic_key is not None else ""
        whose = f"  of {inline(hit.user_id)}" if hit.user_id != user else ""
        output.line(
            f"{hit.id}  {inline(hit.title)}  [{hit.type}]{name}{whose}  {hit.score:.2f}  {when(hit.updated_at)}"
        )
        output.line(f"    {inline(hit.snippet)}")
        if hit.explain:
            output.line("    " + "  ".join(f"{part} {value:.3f}" for part, value in hit.explain.items()))
    if not results:
        seen = " in what could be looked through; other words may find more" * results.truncated
        output.note(f"keyfold: nothing matched{seen}")
        return 1
    if results.truncated and len(results) == results.total:  # on a memory service
        output.note(
            f"keyfold: {counted(len(results), 'match', 'matches')}, and perhaps more; --limit or other words may show them"
        )
    elif results.truncated:
        output.note(
            f"keyfold: {len(results):,} of {counted(results.total, 'match', 'matches')}; --limit shows more"
        )
    return 0


def _name(record: Record) -> str:
    """What a memory is called: its topic key, or where a document comes from."""
    if record.topic_key is not None:
        return record.topic_key
    source = record.metadata.get("source") if record.kind == DOCUMENT else None
    return source if isinstance(source, str) else "-"


def listing(args: Namespace, output: Output) -> int:
    """keyfold list"""
    with looked_into(args, output) as memory:
        page = memory.mem_list(
            user_of(args), limit=args.limit, cursor=args.cursor, reach=args.reach, **filters_of(args)
        )
    if output.json:
        output.document(page.to_dict())
        return 0 if page else 1
    far = args.reach != "exact"
    rows = [(record.id, when(record.updated_at), record.type, _name(record), record.title) for record in page]
    output.table([(item.user_id, *row) for item, row in zip(page, rows, strict=True)] if far else rows)
    if not page:
        output.note("keyfold: there is nothing to list")
        return 1
    if page.truncated:
        more = f"--limit shows more, --cursor {page.next_cursor} goes on"
        output.note(f"keyfold: {counted(len(page), 'record')} of {page.total:,}; {more}")
    return 0
