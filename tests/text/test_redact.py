import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.text.redact import has_private, redact, redact_count

WHOLE = ["<private>", "<PRIVATE a='1'>", "</private>", "</Private >", "<private/>", "<privateer>"]
PARTS = ["<private", "</private", "<private ", "<pri", "vate>", "private", "<", ">", "/", "-", "\n"]
FRAGMENTS = st.sampled_from([*WHOLE, *PARTS, "[REDACTED]", "secret", "\u0131", "x"])
TAGGED = st.lists(FRAGMENTS, max_size=12).map("".join)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("help with <private>pw</private>", "help with [REDACTED]"),
        ("a <PrIvAtE>b</pRiVaTe> c", "a [REDACTED] c"),
        ('a <private level="1" x>b</private> c', "a [REDACTED] c"),
        ("a <private\n x='1'\n>b\nb</private\t> c", "a [REDACTED] c"),
        ("a <private>b</ private> c", "a [REDACTED] c"),
        ("a <private>b<private>c</private>d</private> e", "a [REDACTED] e"),
        ("<private>a</private> and <private>b</private>", "[REDACTED] and [REDACTED]"),
        ("<private></private>", "[REDACTED]"),
    ],
)
def test_a_private_region_becomes_one_marker(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "a <private>secret",
        "a <private>secret <private>x</private> secret",
        "a <private/>secret",
        "a <private",
        "a <private secret",
        "a <private secret </private> secret",
        "a <private <private>secret</private> secret",
        'a <private x="</private>">secret</private>',
        "a <private>secret</private secret",
        "a <private>secret</privateer> secret",
        "a <private.secret",
        "a <private>secret <private secret</private></private> secret",
    ],
)
def test_an_unclear_region_redacts_to_the_end(text: str) -> None:
    assert redact(text) == "a [REDACTED]"


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        "a < b > c",
        "<privateer>b</privateer>",
        "<private-key>",
        "<private_key>",
        "a < private",
        "a</private>b",
    ],
)
def test_what_is_no_opener_stays_as_it_is(text: str) -> None:
    assert redact_count(text) == (text, 0)


def test_regions_are_counted_once_each_however_nested() -> None:
    assert redact_count("<private>a<private>b</private></private><private>c</private>x<private>")[1] == 3
    assert redact_count("[REDACTED] <private>a</private>")[1] == 1


@pytest.mark.parametrize(
    "key", ["a/<private>", "</private>", "a<PRIVATE x", "x</private", "<private/>", "</ private>"]
)
def test_a_key_with_any_private_tag_is_recognised(key: str) -> None:
    assert has_private(key)


@pytest.mark.parametrize("key", ["private", "a<b", "<privateer>", "architecture/private", "", "a > private"])
def test_a_key_without_a_private_tag_is_not(key: str) -> None:
    assert not has_private(key)


@given(st.one_of(TAGGED, st.text()))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact_count(once) == (once, 0)


@given(TAGGED)
def test_what_has_no_private_tag_is_left_unchanged(text: str) -> None:
    if not has_private(text):
        assert redact(text) == text


@given(TAGGED, st.text(alphabet="abc <>[]/"))
def test_nothing_from_inside_a_region_survives(before: str, inside: str) -> None:
    # A space, so that the opener is not eaten by an unfinished tag before it; either way
    # what follows it is private.
    assert "SECRET" not in redact(f"{before} <private>{inside}SECRET{inside}</private>")
    assert "SECRET" not in redact(f"{before} <private>{inside}SECRET")


@pytest.mark.parametrize(
    "unit",
    [
        "<private",
        "<private>",
        "</private>",
        "<private ",
        "</private ",
        "<private></private>",
        "</ ",
        "<private a=<",
    ],
)
def test_a_megabyte_of_tags_is_redacted_in_linear_time(unit: str) -> None:
    text = unit * (1024 * 1024 // len(unit))
    began = time.process_time()  # of this process alone: a busy machine is no slow redaction
    redact(text)
    has_private(text)
    assert time.process_time() - began < 2


def test_white_space_after_the_bracket_makes_a_region_only_when_a_closer_follows() -> None:
    assert redact("a < private>b</private> c") == "a [REDACTED] c"
    assert redact("<\tPRIVATE x='1' >b</ private >") == "[REDACTED]"
    assert redact("public < private and more > less") == "public < private and more > less"
    assert redact("</private> then < private>b") == "</private> then < private>b"
