import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.text.keys import fold_key, suggest_key

ANY = st.text(alphabet=st.characters(exclude_categories=()))


def test_keys_that_differ_in_case_spaces_hyphens_or_underscores_fold_to_one() -> None:
    keys = ["auth-model", "Auth Model", "auth_model", "AUTHMODEL", " auth\t-\u3000_model\u00a0"]
    assert {fold_key(key) for key in keys} == {"authmodel"}


def test_keys_that_differ_otherwise_stay_apart() -> None:
    assert len({fold_key(key) for key in ["a/b", "a.b", "ab", "\u00e4b", "a/b/"]}) == 5


@given(ANY, st.integers(0, 50))
def test_the_fold_of_a_prefix_is_a_prefix_of_the_fold(key: str, cut: int) -> None:
    assert fold_key(key).startswith(fold_key(key[:cut]))


def test_a_final_sigma_folds_like_any_other() -> None:
    whole = "\u039f\u0394\u039f\u03a3\u0391"
    assert fold_key(whole).startswith(fold_key(whole[:4]))


@given(ANY)
def test_folding_a_key_twice_changes_nothing_more(key: str) -> None:
    once = fold_key(key)
    assert fold_key(once) == once
    assert not re.search(r"[\s_-]", once)


@pytest.mark.parametrize(
    ("kind", "title", "key"),
    [
        ("decision", "Auth model: JWT", "decision/auth-model-jwt"),
        ("architecture", "Auth", "architecture/auth"),
        ("bugfix", "Fixed N+1 query in UserList", "bugfix/fixed-n-1-query-in-userlist"),
        ("decision", "Don't use the user\u2019s name", "decision/dont-use-the-users-name"),
        (
            "decision",
            "Decisi\u00f3n: \uff26\uff55\uff4c\uff4c \ufb01n Stra\u00dfe",
            "decision/decision-full-fin-strasse",
        ),
        ("config", "\u6771\u4eac\u306e\u8a2d\u5b9a 2", "config/\u6771\u4eac\u306e\u8a2d\u5b9a-2"),
        ("config", "\ud55c\uad6d\uc5b4 \uc124\uc815", "config/\ud55c\uad6d\uc5b4-\uc124\uc815"),
        ("config", "\u30ac\u30a4\u30c9", "config/\u30ac\u30a4\u30c9"),
        ("learning", "\U0001f680 Launch \u2192 day", "learning/launch-day"),
        ("My Type", "a", "my-type/a"),
        ("", "a", "note/a"),
    ],
)
def test_a_suggested_key_is_the_slug_of_type_and_title(kind: str, title: str, key: str) -> None:
    assert suggest_key(kind, title) == key


def test_a_long_title_is_cut_at_a_word() -> None:
    key = suggest_key("decision", "wonderful " * 50)
    assert key == "decision/" + "-".join(["wonderful"] * 7)
    assert len(suggest_key("decision", "w" * 500)) == 80


def test_titles_without_a_letter_get_different_keys() -> None:
    assert suggest_key("decision", "!!!") != suggest_key("decision", "???")
    assert suggest_key("decision", "\U0001f680") != suggest_key("decision", "\U0001f681")
    assert suggest_key("decision", "\ud800").startswith("decision/untitled-")


@given(ANY, ANY)
def test_a_suggested_key_is_short_and_never_empty(kind: str, title: str) -> None:
    key = suggest_key(kind, title)
    group, _, name = key.partition("/")
    assert group
    assert name
    assert len(key) <= 80
    assert len(key.encode()) <= 512
    assert not re.search(r"[\s_]", key)
