import re
import sys
import threading
import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.text import tokens
from keyfold.text.tokens import all_words, index_tokens, query_units

ANY = st.text(
    alphabet=st.one_of(st.characters(exclude_categories=()), st.sampled_from("aB_-'.#+\0\ud800\u0301 \u00e9"))
)
LATIN = st.text(alphabet="abcdeilnorstuáéíóúñü", min_size=1, max_size=12)
HAN = "\u6771\u4eac\u90fd\u4e2d\u56fd\u304b\u304c\uac00\ub098\u30ab\u30ac"


def finds(query: str, text: str) -> bool:
    """Whether the text has all that the query asks for, and that is something."""
    have = set(index_tokens(text))
    units = query_units(query)
    return bool(units) and all(have & set(unit) for unit in units)


def touches(query: str, text: str) -> bool:
    have = set(index_tokens(text))
    return any(have & set(unit) for unit in query_units(query))


def is_token(token: str) -> bool:
    return bool(token) and all(
        ("a" <= c <= "z" or "0" <= c <= "9")
        if c < "\x80"
        else not c.isspace() and not "\ud800" <= c <= "\udfff"
        for c in token
    )


@given(ANY)
def test_any_string_is_legal_and_every_token_survives_the_index(text: str) -> None:
    found = index_tokens(text) + [token for unit in query_units(text) for token in unit] + all_words(text)
    assert all(map(is_token, found))


def test_every_character_of_unicode_gives_legal_tokens() -> None:
    # Beyond these are Han, unassigned and private characters only.
    for start in [*range(0, 0x20000, 4096), 0xE0000]:
        block = [chr(code) for code in range(start, start + 4096)]
        for text in (" ".join(block), "a".join(block), "#".join(block)):
            assert [token for token in set(index_tokens(text)) if not is_token(token)] == []


@given(ANY)
def test_a_text_is_found_by_itself(text: str) -> None:
    if query_units(text):
        assert finds(text, text)


WORDS = "the of el que son \u00e9l corri\u00f3 token tokens C++ a-b"


@given(st.lists(st.sampled_from(WORDS.split()), max_size=8))
def test_a_text_is_found_by_each_of_its_words(chosen: list[str]) -> None:
    text = " ".join(chosen)
    assert all(finds(word, text) for word in chosen if query_units(word))


@given(ANY)
def test_no_token_is_in_two_units(query: str) -> None:
    found = [token for unit in query_units(query) for token in unit]
    assert len(found) == len(set(found))


@given(LATIN, st.sampled_from(["", "the ", "el "]))
def test_a_word_is_found_with_and_without_its_accents_in_any_case(word: str, before: str) -> None:
    bare = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    forms = [word, bare, word.upper(), unicodedata.normalize("NFD", word)]
    for query in forms:
        if query_units(query):
            assert all(finds(query, before + text) for text in (word, bare.lower(), word.casefold()))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("decisi\u00f3n", "las decisiones"),
        ("decisiones", "la decision"),
        ("autenticacion", "Autenticaci\u00f3n"),
        ("autenticaciones", "autenticaci\u00f3n"),
        ("correr", "\u00e9l corri\u00f3 ayer"),
        ("corriendo", "sali\u00f3 a correr"),
        ("escribir", "lo escribi\u00f3"),
        ("escribi\u00f3", "hay que escribir"),
        ("ni\u00f1os", "la nina"),
        ("deciding", "we decided"),
        ("tokens", "one token"),
        ("Caroline", "Caroline\u2019s plan"),
        ("Caroline's", "caroline has a plan"),
        ("may 2023", "in May 2023"),
    ],
)
def test_inflected_words_find_each_other_in_both_languages(query: str, text: str) -> None:
    assert finds(query, text)


def test_plain_english_is_indexed_by_its_english_stems_alone() -> None:
    assert index_tokens("the legacy server") == ["legaci", "server"]
    assert index_tokens("the server \u2014 \u201clegacy\u201d \U0001f680") == [
        "server",
        "legaci",
        "\U0001f680",
    ]


@pytest.mark.parametrize(
    "text", ["legacy server", "the legacy server de la nube", "the legacy caf\u00e9 server"]
)
def test_what_may_be_spanish_is_indexed_by_both_stems(text: str) -> None:
    assert {"legaci", "legacy", "server", "serv"} <= set(index_tokens(text))


def test_function_words_of_both_languages_are_left_out() -> None:
    assert index_tokens("what did we do with it? Don\u2019t") == []
    assert index_tokens("\u00bfQu\u00e9 es lo que est\u00e1n por ah\u00ed?") == ["ahi"]
    assert query_units("what did we decide?") == query_units("decide")


@pytest.mark.parametrize(
    "word", ["son", "sin", "once", "dos", "he", "can", "may", "sea", "solo", "todo", "hay"]
)
def test_a_function_word_that_is_content_in_the_other_language_is_kept(word: str) -> None:
    assert finds(word, f"the {word}")


def test_a_query_of_function_words_alone_has_no_units_but_words() -> None:
    assert query_units("To be, or not to be") == []
    assert all_words("To be, or not to be") == ["to", "be", "or", "not"]
    assert all_words("\u00bfQU\u00c9 es? \u6771\u4eac") == ["que", "es", "\u6771\u4eac"]


def test_a_word_given_twice_or_in_two_forms_is_one_unit() -> None:
    assert len(query_units("token Token tokens TOKEN's")) == 1
    assert len(query_units("\u6771\u4eac \u6771\u4eac")) == 1
    assert len(query_units("decisi\u00f3n decisiones decision")) == 1


def test_a_word_that_shares_a_stem_with_two_others_makes_the_three_one() -> None:
    groups = [("a", "b"), ("c", "d"), ("e",), ("b", "c", "f"), ("d",)]
    assert tokens._merged(groups) == [("a", "b", "c", "d", "f"), ("e",)]


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("snake_case", "snake case snakecase snakeCase"),
        ("__init__", "init"),
        ("camelCase", "camel case camelcase camel_case camel-case"),
        ("StripLegacyATLBlock", "strip legacy ATL block striplegacyatlblock"),
        ("HTTPServer2", "http server 2"),
        ("ni\u00f1oFeliz", "nino feliz ninofeliz"),
        ("state-of-the-art", "state art stateoftheart"),
        ("e-mail", "mail email"),
        ("Downloads/transcripts", "downloads transcripts Downloads/transcripts"),
        ("grammar::fa", "grammar fa"),
        ('foo"bar', "foo bar"),
        ("Vol. 2", "vol 2"),
        ("v1.14.0", "v1.14.0 1.14.0 14 v1"),
        ("C++17", "c++ c 17"),
        ("C#", "c# c"),
        ("O'Brien", "brien obrien"),
        ("sha256", "sha 256"),
        ("URLs", "url"),
    ],
)
def test_an_identifier_is_found_whole_and_by_its_parts(identifier: str, parts: str) -> None:
    text = f"we use {identifier}, of course"
    assert finds(identifier, text)
    assert [part for part in parts.split() if not finds(part, text)] == []


@pytest.mark.parametrize(
    ("query", "other"),
    [("C++", "plan C"), ("C#", "C++"), ("1.14.0", "11.40"), ("v1.14.0", "1 of 0"), ("AC", "A C")],
)
def test_an_identifier_does_not_find_what_only_shares_letters_with_it(query: str, other: str) -> None:
    assert not touches(query, other)


@pytest.mark.parametrize(
    ("query", "apart"),
    [("long-term", "a long term"), ("user_name", "the user's name"), ("getUser", "get the user")],
)
def test_the_holder_of_a_compound_matches_more_than_a_text_that_writes_it_apart(
    query: str, apart: str
) -> None:
    assert finds(query, f"the {query}")
    assert touches(query, apart)
    assert not finds(query, apart)


def test_an_identifier_is_found_in_another_case() -> None:
    assert touches("httpserver2", "the HTTPServer2")
    assert touches("HTTPServer2", "the httpserver2")


def test_a_hash_is_one_word() -> None:
    assert len(index_tokens("the 3f2a9bc1d0e4f5a6b7c8d9")) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cafe\u0301", "caf\u00e9"),
        ("\u1100\u1173\u11ab\u1111\u1167\u11bc", "\uadfc\ud3c9"),
        ("\uff26\uff55\uff4c\uff4c", "full"),
        ("\ufb01n", "fin"),
        ("\uff76\uff9e", "\u30ac"),
        ("Stra\u00dfe", "STRASSE"),
        ("\u0130stanbul", "istanbul"),
        ("co\u00adoperate", "cooperate"),
        ("\u0663", "3"),
        ("\u2764\ufe0f", "\u2764"),
        ("\u0141\u00f3d\u017a", "lodz"),
    ],
)
def test_forms_that_mean_the_same_find_each_other(one: str, other: str) -> None:
    """C009."""
    assert finds(one, other)
    assert finds(other, one)


@pytest.mark.parametrize(
    ("pointed", "plain"),
    [
        ("مَرْحَبًا", "مرحبا"),
        ("مـــرحبـا", "مرحبا"),
        ("مُحَمَّدٌ", "محمد"),
        ("ٱلرَّحْمَٰنِ", "ٱلرحمن"),
        ("أَكَلَ", "أكل"),
        ("ا\u0654كل", "أكل"),  # hamza of its own composes before what is a sign goes
        ("قُرۡءَانٞ", "قرءان"),
        ("שָׁלוֹם", "שלום"),
        ("\ufb2a\u05b8לוֹם", "שלום"),  # a letter that has its point with it
        ("בְּרֵאשִׁ֖ית", "בראשית"),
        ("ܡܰܠܟܳܐ", "ܡܠܟܐ"),
    ],
)
def test_vowel_points_make_no_difference(pointed: str, plain: str) -> None:
    for query, text in ((pointed, plain), (plain, pointed), (pointed, pointed)):
        assert finds(query, f"before {text}, after")
    assert index_tokens(pointed) == index_tokens(plain)
    assert all_words(pointed) == all_words(plain)


def test_a_word_of_points_alone_is_no_word() -> None:
    assert index_tokens("\u064b \u0640\u0640 \u05b8") == []
    assert query_units("\u064b \u0640\u0640 \u05b8") == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("कि", "की"),  # Hindi: vowel signs are letters of the word
        ("பல", "பால"),
        ("ދިވެހި", "ދވހ"),
        ("أكل", "اكل"),  # hamza is no point
        ("פּ־ל", "פּל"),  # maqaf joins two words
        ("\u06de", "\u06e9"),  # ornaments are symbols
    ],
)
def test_marks_that_tell_words_apart_stay(one: str, other: str) -> None:
    assert index_tokens(one) != index_tokens(other)
    assert index_tokens(one)


def test_kana_voicing_and_hangul_survive_the_folding_of_accents() -> None:
    assert not touches("\u30ab", "\u30ac")
    assert finds("\uadfc\ud3c9", "\uadfc\ud3c9\uc774 \uc88b\ub2e4")
    assert not touches("\uadfc\ud3c9", "\ube44\uacc4")


@given(st.text(alphabet=HAN + " a1\u3002", max_size=30), st.text(alphabet=HAN, min_size=2, max_size=2))
def test_a_word_of_two_characters_is_found_exactly_where_it_stands(text: str, word: str) -> None:
    """C010, C011: the count of the search is the count of a substring search."""
    assert [word in index_tokens(text)] == [word in unicodedata.normalize("NFKC", text)]
    assert query_units(word) == [(word,)]
    assert index_tokens(text).count(word) == sum(text.startswith(word, at) for at in range(len(text)))


@pytest.mark.parametrize(
    "run",
    [
        "\u6771\u4eac\u90fd",
        "\u3072\u3089\u304c\u306a",
        "\u30bf\u30ef\u30fc",
        "\ud55c\uad6d\uc5b4",
        "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
        "\u0ea5\u0eb2\u0ea7",
        "\u1781\u17d2\u1798\u17c2\u179a",
        "\u1019\u103c\u1014\u103a\u1019\u102c",
        "\U00020000\U00020001\U00020002",
    ],
)
def test_a_run_without_spaces_is_found_by_each_of_its_substrings(run: str) -> None:
    text = f"x{run}y"
    for start in range(len(run)):
        for end in range(start + 1, len(run) + 1):
            assert finds(run[start:end], text)
    assert query_units(run) == [(pair,) for pair in dict.fromkeys(map("".join, pairwise(run)))]


def test_a_symbol_is_found_and_punctuation_asks_for_nothing() -> None:
    assert finds("\U0001f680", "launch\U0001f680\U0001f680day")
    assert finds("\u20ac", "100\u20ac")
    assert query_units("\U0001fae8") == [("\U0001fae8",)]
    assert query_units("???") == query_units("\u3002\u2014\u201c\u00bf") == query_units("\0 \ud800") == []
    assert all_words("???") == []


def test_vowel_signs_stay_in_their_word() -> None:
    assert index_tokens("\u0939\u093f\u0928\u094d\u0926\u0940") == ["\u0939\u093f\u0928\u094d\u0926\u0940"]


def test_words_of_any_length_are_kept_within_the_limit() -> None:
    assert finds("x" * 5000, "x" * 5000)
    assert all(len(token) <= 64 for token in index_tokens("x" * 5000 + " " + "a-" * 500 + "1." * 500))


def test_the_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_SEEN_LIMIT", 100)
    for number in range(1000):
        index_tokens(f"word{number}")
    index_tokens("x" * 1000)
    assert len(tokens._seen) <= 100
    assert max(map(len, tokens._seen)) <= 48


def test_threads_get_the_same_tokens() -> None:
    texts = [" ".join(f"running{a}tion decisiones{b}" for b in range(40)) for a in range(40)]
    tokens._seen.clear()
    expected = [index_tokens(text) for text in texts]
    wrong: list[str] = []

    def work() -> None:
        for _ in range(5):
            tokens._seen.clear()
            wrong.extend(t for t, right in zip(texts, expected, strict=True) if index_tokens(t) != right)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


@pytest.mark.parametrize(
    "unit",
    [
        "the word ",
        "\u6771\u4eac",
        "a-",
        "aB",
        "a'",
        "n't",
        "1.",
        "_",
        "\u0301\u0316",
        "\uff9e\u0301",
        "\U0001f680",
        "a+#",
    ],
)
def test_a_megabyte_of_anything_is_cut_in_linear_time(unit: str) -> None:
    text = unit * (1024 * 1024 // len(unit.encode()))
    began = time.process_time()  # the machine may be busy with other things
    index_tokens(text)
    query_units(text)
    assert time.process_time() - began < 10


def test_tokens_have_no_white_space_of_any_kind() -> None:
    spaces = "".join(chr(code) for code in range(sys.maxunicode) if chr(code).isspace())
    assert index_tokens("x".join(spaces)) == ["x"] * (len(spaces) - 1)
    assert not re.search(r"\s", "".join(index_tokens(spaces + "\u200b\u3164\u2800")))
