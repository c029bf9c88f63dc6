import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.text.snippet import snippet

FILLER = "nothing to see in this part of the story " * 20
ANY = st.text(alphabet=st.characters(exclude_categories=()))


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert snippet("  one\n\ttwo \u3000 three ", "two") == "one two three"


def test_an_empty_query_shows_the_head() -> None:
    shown = snippet(FILLER, "", width=38)
    assert shown == "nothing to see in this part of the\u2026"


def test_a_hit_far_inside_is_shown_between_ellipses() -> None:
    shown = snippet(FILLER + "the refresh tokens expire " + FILLER, "token refreshing", width=60)
    assert "refresh tokens expire" in shown
    assert shown[0] == shown[-1] == "\u2026"


def test_a_hit_at_the_end_has_no_ellipsis_after_it() -> None:
    shown = snippet(FILLER + "the refresh token", "token", width=60)
    assert shown.startswith("\u2026")
    assert shown.endswith("refresh token")


def test_the_place_with_the_most_words_of_the_query_wins() -> None:
    text = f"a token alone {FILLER} another token {FILLER} the token to refresh the session {FILLER}"
    assert "token to refresh the session" in snippet(text, "session token refresh")


def test_of_equal_places_the_first_is_shown() -> None:
    assert "first token" in snippet(f"{FILLER} first token {FILLER} second token {FILLER}", "tokens")


@pytest.mark.parametrize(
    ("hit", "query"),
    [
        ("las decisiones", "decisi\u00f3n"),
        ("El CAF\u00c9 abre", "cafe"),
        ("StripLegacyATLBlock", "legacy"),
        ("\u6771\u4eac\u90fd\u306b\u4f4f\u3080", "\u4eac\u90fd"),
        ("\u30ed\u30b1\u30c3\u30c8 \U0001f680", "\U0001f680"),
        ("what was that?", "what was"),
    ],
)
def test_words_are_compared_as_the_search_compares_them(hit: str, query: str) -> None:
    filler = "lorem ipsum dolor amet " * 30
    assert hit in snippet(filler + hit + " " + filler, query, width=80)


def test_a_run_of_han_without_spaces_is_cut_around_the_hit() -> None:
    text = "\u3042\u3044\u3046" * 200 + "\u6771\u4eac" + "\u3042\u3044\u3046" * 200
    shown = snippet(text, "\u6771\u4eac", width=40)
    assert "\u6771\u4eac" in shown
    assert len(shown) <= 42


def test_what_lies_beyond_the_part_that_is_read_is_marked_as_left_out() -> None:
    assert snippet("a " + " " * 70_000 + "b", "a") == "a\u2026"
    assert snippet("a " + " " * 70_000, "a") == "a"
    assert snippet("x " * 32_764 + "needle  " + "more " * 9, "needle").endswith("needle\u2026")


@given(ANY, ANY, st.integers(1, 40))
def test_a_preview_is_short_one_line_and_taken_from_the_text(text: str, query: str, width: int) -> None:
    shown = snippet(text, query, width)
    line = " ".join(text.split())
    assert len(shown) <= width + 2
    assert len(shown.splitlines()) <= 1
    if len(line) <= width:
        assert shown == line
    else:
        assert any(core in line for core in (shown, shown[1:], shown[:-1], shown[1:-1]))
        assert "\u2026" in shown


@given(st.lists(st.sampled_from(["alpha", "beta", "gamma", "of", "\u6771\u4eac"]), min_size=1, max_size=60))
def test_an_ellipsis_stands_only_where_something_was_cut(found: list[str]) -> None:
    line = " ".join(found)
    shown = snippet(line, "gamma \u6771", width=30)
    assert shown.startswith("\u2026") == (not line.startswith(shown.rstrip("\u2026")))
    assert shown.endswith("\u2026") == (not line.endswith(shown.lstrip("\u2026")))


@pytest.mark.parametrize("unit", ["token refresh ", "\u6771\u4eac", "token", "-", "\U0001f680"])
def test_a_large_text_costs_no_more_than_its_first_64_kib(unit: str) -> None:
    text = unit * (4 * 1024 * 1024 // len(unit))
    began = time.process_time()
    snippet(text, "token \u6771\u4eac \U0001f680 refresh")
    assert time.process_time() - began < 1


def test_a_word_with_vowel_points_is_shown_for_the_word_without() -> None:
    text = "word " * 100 + "مَرْحَبًا بالعالم" + " word" * 100
    assert "مَرْحَبًا" in snippet(text, "مرحبا", 60)
    assert "مرحبا" in snippet(text.replace("مَرْحَبًا", "مرحبا"), "مَرْحَبًا", 60)
