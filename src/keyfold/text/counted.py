"""Counts in words, singular and plural."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 record`, `2 records`; `many` says what no added s makes (`1 record that is`, `2 records that are`)."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def not_kept(first: int, last: int) -> str:
    """What a gap of a history is told as: `revision 1 is not kept`, `revisions 1 to 3 are not kept`."""
    return f"revision {first} is not kept" if first == last else f"revisions {first} to {last} are not kept"
