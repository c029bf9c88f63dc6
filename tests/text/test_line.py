"""Text that stays on its line."""

from __future__ import annotations

import pytest

from keyfold.text.line import one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\r\n\tc", r"a\nb\r\n\tc"),
        ("\x00\x1b[31m\x7f\x85\x9b", r"\x00\x1b[31m\x7f\x85\x9b"),
        ("\u2028\u2029", r"\u2028\u2029"),
        (
            "two  spaces, ñ 日本 🙂 👨\u200d👩\u200d👧 \u00a0",
            "two  spaces, ñ 日本 🙂 👨\u200d👩\u200d👧 \u00a0",
        ),
    ],
)
def test_line_ends_and_control_characters_are_spelt_out_and_nothing_else(text: str, line: str) -> None:
    assert one_line(text) == line
    assert one_line(line) == line
