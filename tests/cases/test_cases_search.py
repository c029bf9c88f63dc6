"""FTS query syntax, Unicode and scripts without spaces: C001 to C012."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keyfold import Memory
from tests.cases.common import USER, found, save

Settle = Callable[[Memory], None]


def test_c001_an_inner_quote_is_legal(memory: Memory, settle: Settle) -> None:
    assert memory.mem_search(USER, 'foo"bar').total == 0
    saved = save(memory, 'he said foo"bar')
    settle(memory)
    assert found(memory, 'foo"bar') == [saved.id]


@pytest.mark.parametrize(
    "query",
    [
        "state-of-the-art",
        "NEAR(",
        "a AND",
        "OR",
        "col:x",
        "*",
        "^x",
        '"',
        "(",
        "{a b}: c",
        "-x",
        "x*",
        "NOT",
        "'",
    ],
)
def test_c002_no_query_is_an_error_of_the_parser(memory: Memory, settle: Settle, query: str) -> None:
    saved = save(memory, "It is state-of-the-art.")
    settle(memory)
    assert memory.mem_search(USER, query).total in (0, 1)
    assert found(memory, "state-of-the-art") == [saved.id]


def test_c003_a_path_is_found_as_it_is_written(memory: Memory) -> None:
    save(memory, "Transcripts are kept elsewhere.")
    save(memory, "Downloads")
    saved = save(memory, "They are in Downloads/transcripts now.")
    assert found(memory, "Downloads/transcripts")[0] == saved.id


def test_c004_a_full_stop_is_harmless_and_a_number_counts(memory: Memory) -> None:
    save(memory, "The album is called Vol. 3")
    saved = save(memory, "The album is called Vol. 2")
    assert found(memory, "Vol. 2")[0] == saved.id


def test_c005_a_colon_is_text(memory: Memory) -> None:
    saved = save(memory, "The rule grammar::fa is for Persian.")
    assert found(memory, "grammar::fa") == [saved.id]
    assert found(memory, "fa::grammar") == [saved.id]
    assert found(memory, "title:persian") == [saved.id]


def test_c006_all_words_first_then_any(memory: Memory, settle: Settle) -> None:
    some = save(memory, "budget meeting")
    every = save(memory, "a review of the budget, in a meeting")
    settle(memory)
    assert found(memory, "meeting budget review") == [every.id, some.id]


def test_c007_a_user_id_with_a_hyphen_travels_as_a_value(memory: Memory) -> None:
    mine = save(memory, "x marks the spot", "a-b")
    save(memory, "x marks the spot", "a")
    assert found(memory, "x", "a-b") == [mine.id]
    assert found(memory, "x", "a-b' OR 1") == []


def test_c008_a_question_mark_is_harmless(memory: Memory, settle: Settle) -> None:
    saved = save(memory, "We decided to use JWT.")
    save(memory, "What did we do?")
    settle(memory)
    assert found(memory, "what did we decide?") == [saved.id]


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"),
        ("cafe\u0301", "caf\u00e9"),
        ("caf\u00e9", "cafe\u0301"),
        ("ＷＩＤＥ", "wide"),
        ("wide", "ＷＩＤＥ"),
        ("\ufb01nd", "find"),
        ("find", "\ufb01nd"),
        ("STRASSE", "straße"),
    ],
)
def test_c009_any_normal_form_is_found_by_any_other(memory: Memory, stored: str, asked: str) -> None:
    saved = save(memory, stored)
    assert found(memory, asked) == [saved.id]
    held = memory.mem_get_observation(USER, saved.id)
    assert held is not None
    assert held.content == stored


def test_c010_two_characters_of_cjk_are_found_alone_and_beside_a_long_word(
    memory: Memory, settle: Settle
) -> None:
    saved = save(memory, "今日は東京都の天気です")
    both = save(memory, "東京 has excellent weather")
    settle(memory)
    assert set(found(memory, "東京")) == {saved.id, both.id}
    assert found(memory, "東京 excellent")[0] == both.id
    assert found(memory, "天気") == [saved.id]


def test_c011_as_many_are_found_as_there_are(memory: Memory, settle: Settle) -> None:
    texts = ["東京", "東京都", "大東京", "大東京都に", "京東", "x東京x", "東 京"]
    for text in texts:
        save(memory, text)
    settle(memory)
    assert memory.mem_search(USER, "東京", limit=20).total >= sum("東京" in text for text in texts)
    hits = memory.mem_search(USER, "東京", limit=20)
    assert sum("東京" in hit.snippet for hit in hits) == 5


def test_c012_names_of_one_length_do_not_collapse(memory: Memory) -> None:
    names = ("근평", "비계", "🙂", "🚀", "!!!", "???")
    keys = [memory.mem_suggest_topic_key(USER, type="decision", title=name)[-1].key for name in names]
    assert len(set(keys)) == len(names)
    for name in names:
        save(memory, f"of {name}", name)
    assert [memory.mem_list(name).total for name in names] == [1] * len(names)
