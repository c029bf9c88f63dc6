"""Removal of ``<private>...</private>`` regions.

The rules (they fail closed: where it is unclear, text is removed, not kept):

- tag names are matched in any case; attributes and white space inside a tag are allowed;
- nested regions are one region; a stray closer without an opener is ordinary text;
- an opener that is never closed, or whose tag lacks its ``>``, redacts to the end;
- with white space after its ``<`` an opener counts when it is whole and a closer follows:
  ``< private>x</private>`` is a region, "public < private" in prose is not;
- ``<private/>`` is an opener; ``<privateer>`` and ``<private-key>`` are not tags.
"""

import re

REDACTED = "[REDACTED]"
# The most by which the mark is longer than what it stands for: an opener that lacks its ">", at the end of a text.
MARK_GROWS = len(REDACTED) - len("<private")

# Both alternatives stop at the next "<", so that every character is looked at a bounded
# number of times however many tags there are: the scan is linear. Group 1 is the rest of
# an opener's tag; it is None when the tag is broken (another "<" or the end of the text
# comes before its ">"). An attribute value that holds "<" counts as broken too.
_TAG = re.compile(
    r"<private(?![\w-])([^<>]*>)?|</\s*private\s*>|<\s+private(?![\w-])([^<>]*>)", re.IGNORECASE
)

# For keys: anything that looks like the tag, whole or not, opener or closer.
_ANY_TAG = re.compile(r"</?\s*private(?![\w-])", re.IGNORECASE)


def redact(text: str) -> str:
    """Return ``text`` with each private region replaced by ``[REDACTED]``.

    ``text`` is any string of any length; the time is linear in it. Applying it twice
    gives the same as applying it once. Source: the project's privacy rule.
    """
    return redact_count(text)[0]


def redact_count(text: str) -> tuple[str, int]:
    """Return the redacted text and the number of regions that were replaced.

    ``text`` is any string of any length; nested regions count as one.
    """
    if "<" not in text:
        return text, 0
    kept: list[str] = []
    depth = 0
    start = 0  # where the text not yet copied begins, while outside a region
    tags = list(_TAG.finditer(text))
    closers = [number for number, tag in enumerate(tags) if tag[0][1] == "/"]
    last_closer = closers[-1] if closers else -1
    for number, tag in enumerate(tags):
        if tag[0][1] == "/":
            if depth == 1:
                start = tag.end()
            depth = max(0, depth - 1)
            continue
        if tag[2] is not None and number > last_closer:
            continue
        if depth == 0:
            kept += text[start : tag.start()], REDACTED
        depth += 1
        if tag[1] is None and tag[2] is None:
            break
    if not kept:
        return text, 0
    if depth == 0:
        kept.append(text[start:])
    return "".join(kept), kept.count(REDACTED)


def has_private(text: str) -> bool:
    """Tell whether ``text`` holds a private tag of any kind.

    Unlike ``redact`` this also says yes to a stray or unfinished closer: an identifier
    (topic key, user id, thread id) with any such tag is refused rather than rewritten.
    Whatever it says no to, ``redact`` leaves unchanged.
    """
    return "<" in text and _ANY_TAG.search(text) is not None
