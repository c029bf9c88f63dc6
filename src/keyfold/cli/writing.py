"""The commands that write one memory."""

from __future__ import annotations

from argparse import Namespace

from keyfold.cli.inputs import expiry_of, looked_into, metadata_of, opened, record_of, text_of, user_of
from keyfold.cli.output import Output
from keyfold.model import UNSET, SaveResult


def save(args: Namespace, output: Output) -> int:
    """keyfold save"""
    content = text_of(args.content, "content")
    metadata = metadata_of(args.meta) if args.meta else UNSET
    expires = UNSET if args.expires is None else expiry_of(args.expires)
    with opened(args) as memory:
        receipt = memory.mem_save(
            user_of(args),
            content,
            type=args.type,
            title=args.title,
            topic_key=args.topic,
            metadata=metadata,
            tags=args.tag or UNSET,
            session_id=args.session,
            expires_at=expires,
            pinned=UNSET if args.pin is None else args.pin,
            idempotency_key=args.idempotency_key,
            expect_revision=args.if_revision,
        )
    show_receipt(receipt, output)
    return 0


def restore(args: Namespace, output: Output) -> int:
    """keyfold restore"""
    with looked_into(args, output) as memory:  # where no store is, there is nothing to restore
        receipt = memory.mem_restore(user_of(args), **record_of(args), revision=args.revision)
    show_receipt(receipt, output)
    return 0


def show_receipt(receipt: SaveResult, output: Output) -> None:
    """What a write did, in a line."""
    output.changed = receipt.outcome != "deduped" and not receipt.replayed
    if output.json:
        output.document(receipt.to_dict())
        return
    name = f"  {receipt.topic_key}" if receipt.topic_key is not None else ""
    replayed = "  (nothing was written: it was there already)" if receipt.replayed else ""
    output.line(f"{receipt.outcome}  id {receipt.id}{name}  revision {receipt.revision_count}{replayed}")
    if receipt.similar_keys:
        near = ", ".join(receipt.similar_keys)
        output.note(f"keyfold: a new topic key; there is one much like it already: {near}")
