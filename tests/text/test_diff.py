import difflib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.text import diff
from keyfold.text.diff import diff_lines

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "d e. f"]), max_size=30).map("\n".join)


def changes(text: str) -> list[str]:
    return [line for line in text.split("\n")[2:] if line[:1] in ("-", "+")]


def test_a_changed_line_is_shown_between_its_neighbours() -> None:
    assert diff_lines("a\nb\nc", "a\nB\nc", "revision 1", "revision 2").split("\n") == [
        "--- revision 1",
        "+++ revision 2",
        "@@ -1,3 +1,3 @@",
        " a",
        "-b",
        "+B",
        " c",
    ]


def test_equal_texts_have_no_difference() -> None:
    assert diff_lines("a\nb", "a\nb", "1", "2") == ""


@pytest.mark.parametrize("other", ["a\nb\n", "a\r\nb", "a\rb\r"])
def test_line_ends_make_no_noise(other: str) -> None:
    assert diff_lines("a\nb", other, "1", "2") == ""
    assert "No newline" not in diff_lines(other, "a\nc", "1", "2")


def test_in_prose_without_newlines_only_the_changed_sentence_is_shown() -> None:
    old = "We use JWT for all of the services here. Tokens live for one hour. Keys rotate every night. " * 2
    new = old.replace("one hour", "two hours", 1)
    assert changes(diff_lines(old, new, "1", "2")) == [
        "-Tokens live for one hour.",
        "+Tokens live for two hours.",
    ]


def test_sentences_of_han_end_without_a_space() -> None:
    old = "\u4eca\u65e5\u306f\u6674\u308c\u3002" * 30 + "\u7d42\u308f\u308a\u3002"
    assert changes(diff_lines(old, old + "\u65b0\u3002", "1", "2")) == ["+\u65b0\u3002"]


def test_a_short_text_that_grows_long_is_split_on_both_sides() -> None:
    old = "One sentence. Another sentence."
    assert changes(diff_lines(old, old + " " + "A long third one " * 10 + ".", "1", "2"))[0].startswith(
        "+A long"
    )


@given(LINES, LINES)
def test_the_bounded_diff_says_what_changed_as_well(old: str, new: str) -> None:
    before, after = diff._lines(old), diff._lines(new)
    if before == after:
        return
    plain = diff._plain(before, after, "1", "2")
    removed = [line[1:] for line in plain[3:] if line[0] == "-"]
    added = [line[1:] for line in plain[3:] if line[0] == "+"]
    head = plain[2]
    start = int(head.split("-")[1].split(",")[0])
    kept = [line for line in plain[3:] if line[0] != "+"]
    begin = start - 1 if kept else start
    rest = [line[1:] for line in plain[3:] if line[0] != "-"]
    assert before[:begin] + rest + before[begin + len(kept) :] == after
    assert len(removed) <= len(before)
    assert len(added) <= len(after)


@given(LINES, LINES)
def test_the_diff_is_difflibs(old: str, new: str) -> None:
    expected = list(difflib.unified_diff(diff._lines(old), diff._lines(new), "1", "2", lineterm=""))
    assert diff_lines(old, new, "1", "2") == "\n".join(expected)


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(old: str, new: str) -> None:
    assert isinstance(diff_lines(old, new, "1", "2"), str)


@pytest.mark.parametrize("kinds", [1, 2, 10, 100, 150, 1000, 10**9])
def test_long_texts_are_compared_in_bounded_time(kinds: int) -> None:
    chance = random.Random(kinds)
    old = "\n".join(str(chance.randrange(kinds)) for _ in range(9_900))
    new = "\n".join(str(chance.randrange(kinds)) for _ in range(9_900))
    began = time.process_time()
    diff_lines(old, new, "1", "2")
    assert time.process_time() - began < 5


def test_difflib_is_not_asked_where_lines_repeat_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(difflib, "unified_diff")
    old = [str(number % 110) for number in range(9_000)]
    shown = changes(diff_lines("\n".join(old), "\n".join(old[::-1]), "1", "2"))
    assert len(shown) == 18_000


def test_beyond_the_limit_the_common_ends_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(difflib, "unified_diff")
    old = [str(number) for number in range(30_000)]
    new = [*old[:15_000], "new", *old[15_001:]]
    assert changes(diff_lines("\n".join(old), "\n".join(new), "1", "2")) == ["-15000", "+new"]
