"""A readable difference between two texts."""

import re

# Beyond these, difflib (quadratic, and worse when lines repeat) is not asked.
MAX_LINES = 20_000
MAX_PAIRS = 200_000
_CONTEXT = 3
_LONG_LINE = 120

_NEWLINE = re.compile(r"\r\n|\r|\n")
# The space after a sentence goes with the cut; further ones stay and so stay visible.
_SENTENCE_END = re.compile(r"(?<=[.!?]) |(?<=[\u3002\uff01\uff1f])")


def diff_lines(old: str, new: str, old_label: str, new_label: str) -> str:
    """Return a unified diff of two texts, or ``""`` where no line differs.

    ``old`` and ``new`` are any strings; the labels head the diff and should be one line
    each. Where a line is longer than 120 characters (prose in one line) both texts are
    split at sentence ends first, so that only the sentence that changed is shown. The kind
    of line end, and one at the end of the text, make no difference. The work is bounded:
    above 20,000 lines, or where lines repeat so much that comparing would be slow, all
    between the common beginning and the common end is shown as removed and added.
    """
    before, after = _lines(old), _lines(new)
    if max(map(len, before + after), default=0) > _LONG_LINE:
        before, after = _sentences(before), _sentences(after)
    if before == after:
        return ""
    if _too_much(before, after):
        return "\n".join(_plain(before, after, old_label, new_label))
    import difflib

    return "\n".join(difflib.unified_diff(before, after, old_label, new_label, n=_CONTEXT, lineterm=""))


def _lines(text: str) -> list[str]:
    lines = _NEWLINE.split(text)
    if lines[-1] == "":
        lines.pop()
    return lines


def _sentences(lines: list[str]) -> list[str]:
    return [part for line in lines for part in _split_sentences(line)]


def _split_sentences(line: str) -> list[str]:
    parts = _SENTENCE_END.split(line)
    if len(parts) > 1 and parts[-1] == "":
        parts.pop()
    return parts


def _common(before: list[str], after: list[str]) -> int:
    """How many lines the two have in common at their beginning."""
    shortest = min(len(before), len(after))
    return next((i for i in range(shortest) if before[i] != after[i]), shortest)


def _too_much(before: list[str], after: list[str]) -> bool:
    if len(before) + len(after) > MAX_LINES:
        return True
    counts: dict[str, int] = {}
    for line in after:
        counts[line] = counts.get(line, 0) + 1
    pairs = 0
    for line in before:
        # difflib itself leaves out lines that make up more than 1 % of a long text.
        times = counts.get(line, 0)
        if len(after) < 200 or times <= len(after) // 100 + 1:
            pairs += times
    return pairs > MAX_PAIRS


def _plain(before: list[str], after: list[str], old_label: str, new_label: str) -> list[str]:
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    start = max(0, head - _CONTEXT)
    old_end, new_end = len(before) - tail, len(after) - tail
    trailing = before[old_end : old_end + _CONTEXT]
    old_count = old_end + len(trailing) - start
    new_count = new_end + len(trailing) - start
    return [
        f"--- {old_label}",
        f"+++ {new_label}",
        f"@@ -{_range(start, old_count)} +{_range(start, new_count)} @@",
        *(f" {line}" for line in before[start:head]),
        *(f"-{line}" for line in before[head:old_end]),
        *(f"+{line}" for line in after[head:new_end]),
        *(f" {line}" for line in trailing),
    ]


def _range(start: int, count: int) -> str:
    """A unified diff counts lines from 1, and names the line before an empty range."""
    return f"{start + 1 if count else start},{count}"
