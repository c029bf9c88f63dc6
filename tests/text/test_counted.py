"""Counts in words."""

from __future__ import annotations

import pytest

from keyfold.text.counted import counted, not_kept


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 records"), (1, "1 record"), (2, "2 records"), (12_345, "12,345 records")]
)
def test_one_is_singular_and_everything_else_plural(number: int, told: str) -> None:
    assert counted(number, "record") == told


def test_a_plural_may_be_named() -> None:
    assert counted(1, "match that is", "matches that are") == "1 match that is"
    assert counted(2, "match that is", "matches that are") == "2 matches that are"


def test_a_gap_of_one_revision_is_told_in_the_singular() -> None:
    assert not_kept(1, 1) == "revision 1 is not kept"
    assert not_kept(1, 2) == "revisions 1 to 2 are not kept"
