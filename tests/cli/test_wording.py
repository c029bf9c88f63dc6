"""What is said to a user of the shell: flags rather than parameters, and the usage of the command that was meant."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyfold.cli.wording import words_of
from keyfold.errors import InvalidRequest, NotFound

SAVE = ("save", "--type", "decision", "--title", "t")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*SAVE, " "), "CONTENT: is blank"),
        (("save", "--type", "nope", "--title", "t", "x"), "--type: is not a known type; allowed: "),
        ((*SAVE, "--if-revision", "1", "x"), "--if-revision: needs --topic: "),
        ((*SAVE, "--tag", " ", "x"), "--tag: "),
        ((*SAVE, "--topic", " ", "x"), "--topic: is blank"),
        (("--user", " ", "stats"), "--user: is blank"),
        (("search", " "), "QUERY: is blank; give words, or a filter to list by (keyfold list lists everything)"),
        (("context", "--query", " "), "--query: is blank"),
        (("get", ""), "ID: "),
        (("list", "--limit", "0"), "--limit: "),
        (("list", "--topic-prefix", " "), "--topic-prefix: "),
        (("context", "--budget", "0"), "--budget: "),
        (("list", "--since", "yesterday"), "--since: must be a span such as 7d"),
        (("list", "--until", "yesterday"), "--until: must be a span such as 7d"),
        (("list", "--since", "yesterday"), "a time such as 2026-01-31T12:00:00Z (RFC 3339"),
        ((*SAVE, "--expires", "soon", "x"), "--expires: must be a span such as 30d"),
    ],
)  # fmt: skip
def test_an_argument_that_is_refused_is_named_as_it_was_typed(keyfold: Any, words: Any, told: str) -> None:
    answer = keyfold(*words)
    assert answer.code == 2
    assert f"{told}" in answer.err
    assert "mem_" not in answer.err
    assert "Config(" not in answer.err


@pytest.mark.parametrize("character", ["\x7f", "\x80", "\x85", "\x9b", "\x9d", "\x9f"])
def test_json_spells_out_every_control_character_and_says_the_same(keyfold: Any, character: str) -> None:
    text = f"a{character}31m ñ"
    assert keyfold(*SAVE, "--topic", text, "--tag", text, "--meta", f"{text}={text}", text).code == 0
    for words in (("get", "1"), ("list",), ("search", "31m"), ("context",), ("history", "1", "--diff")):
        answer = keyfold(*words, "--json")
        assert character not in answer.out
        assert f"a\\u{ord(character):04x}31m" in answer.out
    assert keyfold("get", "1", "--json").document["content"] == text


def test_a_call_is_named_as_the_command_that_does_it(keyfold: Any) -> None:
    told = keyfold("session", "end").err
    assert "keyfold session start opens one" in told
    assert "mem_" not in told


def test_what_is_quoted_keeps_its_words() -> None:
    error = NotFound("there is no record with topic key 'mem_save Config(x)' of user \"topic_key\"")
    assert words_of(error, "get") == str(error)
    refused = InvalidRequest(
        "mem_delete", "give exactly one of observation_id, topic_key, filter or all=True"
    )
    assert words_of(refused, "forget").endswith("give exactly one of ID, --topic, filter or --all")


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "nonsense"),
        ("get", "--json", "--nonsense"),
        ("save", "--json", "x"),
        ("session", "--json", "nonsense"),
        ("list", "--limit", "many", "--json"),
        ("get", "1", "--topic", "k", "--json"),
        ("--json",),
    ],
)
def test_wrong_use_is_told_as_json_wherever_json_is_asked_for(keyfold: Any, words: tuple[str, ...]) -> None:
    answer = keyfold(*words)
    assert (answer.code, answer.out) == (2, "")
    error = json.loads(answer.err)["error"]
    assert error["type"] == "InvalidRequest"
    assert error["message"]


def test_a_text_that_says_json_asks_for_none(keyfold: Any) -> None:
    assert keyfold("save", "--", "--json").err.startswith("usage: keyfold save ")


def test_what_a_command_does_not_know_is_told_with_its_own_usage(keyfold: Any) -> None:
    for words, program in {
        ("timeline", "1", "--nonsense"): "keyfold timeline",
        ("stats", "more"): "keyfold stats",
        ("session", "list", "--budget", "5"): "keyfold session list",
        ("--nonsense", "stats"): "keyfold",
    }.items():
        answer = keyfold(*words)
        assert answer.code == 2
        assert answer.err.startswith(f"usage: {program} [-h]"), answer.err
        assert f"\n{program}: error: unrecognized arguments: " in answer.err


def test_help_tells_the_defaults_and_the_exit_codes(keyfold: Any) -> None:
    for words, defaults in {
        ("search",): ["(default 10)"],
        ("list",): ["(default 50)"],
        ("session", "list"): ["(default 20)"],
        ("timeline",): ["(default 5)", "(default 5)"],
        ("context",): ["(default 8000)"],
        ("session", "start"): ["(default 8000)"],
    }.items():
        told = " ".join(keyfold(*words, "--help").out.split())
        for default in set(defaults):
            assert told.count(default) >= defaults.count(default), words
    told = " ".join(keyfold("--help").out.split())
    assert "1 not found, nothing matched, or another state than expected" in told


@pytest.mark.parametrize(
    "secret",
    [
        "<private>hunter2</private>",
        "<private>hunter2",
        "a<PRIVATE x=1>hunter2</Private >b",
        "<\tprivate>hunter2</\nprivate>",
        "<private\n>it's hunter2</private>",
        "hunter2</private>",
        "hunter2</\tprivate\t>",
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("{}",),
        ("search", "q", "{}"),
        ("search", "q", "--strange={}"),
        ("search", "q", "--limit", "{}"),
        ("search", "q", "--reach", "{}"),
        ("search", "q", "--since", "{}"),
        ("search", "q", "--type", "{}"),
        ("search", "q", "--store", "{}/none.db"),
        ("search", "q", "--store", "{}://host"),
        ("search", "q", "--user", "{}"),
        ("get", "{}"),
        ("get", "1", "--revision", "{}"),
        ("session", "{}"),
        ("session", "end", "--session", "{}"),
        (*SAVE, "x", "--if-revision", "{}"),
        (*SAVE, "x", "--expires", "{}"),
        (*SAVE, "x", "--topic", "{}"),
        (*SAVE, "x", "--meta", "{}"),
        (*SAVE, "x", "--meta", "{}=1", "--meta", "{}=2"),
        ("import", "{}"),
        ("import", ".", "--from", "{}"),
        ("export", "--output", "{}/none/x"),
        ("backup", "{}/none/x"),
        ("check", "{}://host"),
        ("check", "{}/none/x.db"),
        ("copy", "{}/none.db", "to.db"),
        ("doctor", "--store", "{}/none.db"),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_no_message_tells_what_is_private_in_the_words_of_the_command(
    keyfold: Any, saved: Any, words: Any, secret: str, form: Any
) -> None:
    saved("there", topic="k")
    answer = keyfold(*[word.replace("{}", secret) for word in words], *form)
    assert "hunter2" not in answer.err
    assert "hunter2" not in answer.out
    if answer.err.startswith("{"):  # what is not found is no error, and told on stdout
        assert json.loads(answer.err)["error"]["message"]


def test_a_message_without_private_text_stays_as_it_is(keyfold: Any) -> None:
    told = keyfold("search", "q", "--limit", "<five> </b> private").err
    assert "'<five> </b> private'" in told
