"""The short way for ordinary words gives what the long way gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keyfold.text import tokens
from keyfold.text._words import RUN, pieces

ALPHABET = st.sampled_from(list("aAbzZ.,;:!?()[]{}\"*_`'+#-/019é日 "))


def the_long_way(chunk: str) -> tuple[list[str], list[str]]:
    english: list[str] = []
    either: list[str] = []
    for kind, piece in pieces(chunk):
        assert kind != RUN or not piece.isascii()
        if kind == RUN:
            grams = [*piece, *tokens.bigrams(piece)]
            english += grams
            either += grams
            continue
        _, plain, both = tokens._word_entry(piece)
        english += plain
        either += both
    return english, either


@given(st.text(ALPHABET, max_size=12).map(lambda text: text.replace(" ", "")))
def test_a_chunk_gives_the_same_tokens_either_way(chunk: str) -> None:
    _, english, either = tokens._entry(chunk)
    assert (list(english), list(either)) == the_long_way(chunk)


def test_words_with_marks_around_them_are_the_words() -> None:
    assert tokens.index_tokens('The "Walrus", (he) likes: fish!') == tokens.index_tokens(
        "The Walrus he likes fish"
    )
