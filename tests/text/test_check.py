import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.text.check import bad_character

ANY = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\0\ud800\udcaf\udfffa\u00e9")))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("plain", None),
        ("caf\u00e9 \U0001f680", None),
        ("a\0b", (1, "NUL")),
        ("\u00e9\0", (1, "NUL")),
        ("ab\udcaf", (2, "lone surrogate")),
        ("\ud83d\ude80", (0, "lone surrogate")),
        ("\udcaf\0", (0, "lone surrogate")),
        ("\0\udcaf", (0, "NUL")),
    ],
)
def test_the_first_nul_or_lone_surrogate_is_named(text: str, found: tuple[int, str] | None) -> None:
    assert bad_character(text) == found


@given(ANY)
def test_a_text_without_a_bad_character_can_be_stored_as_utf_8(text: str) -> None:
    slow = next(
        (
            (i, "NUL" if c == "\0" else "lone surrogate")
            for i, c in enumerate(text)
            if c == "\0" or "\ud800" <= c <= "\udfff"
        ),
        None,
    )
    assert bad_character(text) == slow
    if slow is None:
        assert text.encode().decode() == text
