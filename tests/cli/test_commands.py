"""Each command: what it prints, as words and as JSON, and the code it ends with."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import keyfold as package
from keyfold.cli.parser import GROUPS, build, parse


def test_a_save_says_what_it_did(keyfold: Any, saved: Any) -> None:
    assert [saved("one", topic="k")["outcome"], saved("two", topic="k")["outcome"]] == ["created", "updated"]
    answer = keyfold("save", "--type", "decision", "--title", "Auth model", "--topic", "k", "two")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == "deduped  id 1  k  revision 2  (nothing was written: it was there already)\n"


def test_a_save_takes_all_that_can_be_said(keyfold: Any, saved: Any) -> None:
    before = datetime.now(UTC)
    receipt = saved(
        "text", "--tag", "a", "--tag", "b", "--meta", "n=1", "--meta", "s=one", "--meta", 'q="1"', "--meta", "t=true",
        "--meta", "list=[1]", "--meta", "nan=NaN", "--meta", "eq=a=b", "--meta", "none=null", "--expires", "30d",
        "--session", "s1", topic="k",
    )  # fmt: skip
    assert receipt["session_id"] == "s1"
    found = keyfold("get", "--topic", "k", "--json").document
    assert found["tags"] == ["a", "b"]
    assert found["metadata"] == {
        "n": 1, "s": "one", "q": "1", "t": True, "list": "[1]", "nan": "NaN", "eq": "a=b", "none": None,
    }  # fmt: skip
    expires = datetime.fromisoformat(found["expires_at"])
    assert timedelta(days=30) <= expires - before < timedelta(days=30, minutes=5)
    saved("text", "--expires", "never", topic="k")
    assert keyfold("get", "--topic", "k", "--json").document["expires_at"] is None


def test_a_conditional_save_that_comes_too_late_ends_with_1(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    answer = keyfold(
        "save", "--type", "decision", "--title", "t", "--topic", "k", "--if-revision", "3", "two"
    )
    assert (answer.code, answer.out) == (1, "")
    assert "is at revision 1, not 3" in answer.err


def test_an_idempotency_key_gives_the_first_answer_again(keyfold: Any, saved: Any) -> None:
    first, again = (saved("one", "--idempotency-key", "x") for _ in range(2))
    assert (again["id"], again["replayed"]) == (first["id"], True)
    answer = keyfold("save", "--type", "decision", "--title", "t", "--idempotency-key", "x", "another")
    assert answer.code == 1


def test_standard_input_is_read_as_utf8_without_its_last_line_end(keyfold: Any) -> None:
    words = ("save", "--type", "decision", "--title", "t", "--topic", "k", "-")
    assert keyfold(*words, stdin="añb\n\n").code == 0
    assert keyfold("get", "--topic", "k", "--json").document["content"] == "añb\n"
    assert keyfold(*words, stdin=b"\xef\xbb\xbfx\r\n").code == 0
    assert keyfold("get", "--topic", "k", "--json").document["content"] == "x"
    answer = keyfold(*words, stdin=b"ab\xff")
    assert (answer.code, answer.out) == (2, "")
    assert "standard input is not UTF-8 (byte 3)" in answer.err


def test_a_text_that_begins_with_a_dash_goes_after_two(keyfold: Any, saved: Any) -> None:
    saved("- a list", topic="k")
    assert keyfold("get", "--topic", "k").out.endswith("\n\n- a list\n")


def test_get_shows_one_memory_or_an_earlier_state_of_it(keyfold: Any, saved: Any) -> None:
    saved("one", "--tag", "x", "--meta", "a=1", topic="k")
    saved("two", topic="k")
    lines = keyfold("get", "--topic", "k").out.split("\n")
    assert lines[0] == "Auth model"
    assert lines[1].startswith("decision  topic k  revision 2  id 1  20")
    assert lines[2:] == ["tags x", 'metadata {"a": 1}', "", "two", ""]
    assert keyfold("get", "1", "--revision", "1").out.endswith("\n\none\n")
    assert keyfold("get", "1", "--revision", "1", "--json").document["is_current"] is False


def test_what_is_not_there_ends_with_1_and_a_word_on_stderr(keyfold: Any) -> None:
    for words in (
        ("get", "7"),
        ("get", "--topic", "nope"),
        ("get", "7", "--revision", "1"),
        ("history", "7"),
        ("restore", "7", "--revision", "1"),
        ("timeline", "7"),
        ("search", "nothing"),
        ("topics",),
        ("list",),
        ("session", "list"),
        ("session", "end", "--session", "nope"),
        ("forget", "7", "--yes"),
        ("import", "absent.jsonl"),
        ("copy", "absent.db", "inmemory:"),
    ):
        answer = keyfold(*words)
        assert answer.code == 1, words
        assert answer.err.startswith("keyfold: "), words
        assert "Traceback" not in answer.err


def test_wrong_use_ends_with_2_and_says_what_to_do(keyfold: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("SECRET")
    for words, told in {
        ("get",): "give either an ID or --topic K",
        ("get", "1", "--topic", "k"): "give either an ID or --topic K",
        ("save", "--type", "nonsense", "--title", "t", "x"): "is not a known type",
        ("save", "--type", "decision", "--title", "t", " "): "CONTENT: is blank",
        ("save", "--type", "decision", "--title", "t", "\udcff"): "lone surrogate",
        ("save", "--type", "decision", "--title", "t", "--meta", "x", "y"): "must be k=v",
        ("save", "--type", "decision", "--title", "t", "--expires", "30x", "y"): "must be a span such as 30d",
        ("save", "--type", "decision", "--title", "t", "--expires", "999999999w", "y"): "beyond the years",
        ("save", "--type", "decision", "x"): "--title",
        ("list", "--since", "2026-01-01T00:00:00"): "an offset is needed",
        ("list", "--limit", "0"): "1 to 1,000 are allowed",
        ("list", "--cursor", "x"): "cursor",
        ("search",): "QUERY",
        ("search", " "): "QUERY: is blank",
        ("forget",): "give exactly one of",
        ("forget", "1", "--all"): "give exactly one of",
        ("nonsense",): "invalid choice",
        ("import", str(tmp_path / "notes.txt")): "neither a keyfold export nor Engram's",
        ("copy", "a.db", "a.db"): "is the store that is copied from",
        ("--store", "ftp://x", "stats"): "not a known scheme",
        ("--user", " ", "stats"): "--user: is blank",
    }.items():
        answer = keyfold(*words)
        assert answer.code == 2, (words, answer)
        assert told in answer.err, (words, answer.err)
        assert answer.out == ""
        assert "SECRET" not in answer.err


def test_a_store_that_fails_ends_with_3(keyfold: Any, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is no database, though it is long enough to be one" * 100)
    for store in (tmp_path, tmp_path / "text.db"):
        answer = keyfold("stats", "--store", str(store))
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("keyfold: ")


def test_errors_are_json_on_stderr_when_json_is_asked_for(keyfold: Any) -> None:
    answer = keyfold("get", "7", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert json.loads(answer.err)["error"]["type"] == "NotFound"


def test_shared_options_stand_before_or_after_the_command(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("alice's", "--user", "alice", topic="k")
    for words in (("--user", "alice", "--json", "topics"), ("topics", "--user", "alice", "--json")):
        assert [item["key"] for item in keyfold(*words).document["items"]] == ["k"]
    other = str(tmp_path / "other.db")
    assert keyfold("--store", other, "topics", "--user", "alice").code == 1
    assert keyfold("session", "--help").code == 0


def test_the_environment_names_store_and_user(
    keyfold: Any, saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved("alice's", "--user", "alice", topic="k")
    monkeypatch.setenv("KEYFOLD_USER", "alice")
    assert keyfold("topics", "--json").document["total"] == 1
    monkeypatch.setenv("KEYFOLD_STORE", "")
    assert keyfold("topics").code == 1  # the default store of this user, which is another


def test_search_and_list_take_the_same_filters(keyfold: Any, saved: Any) -> None:
    saved("JWT for an hour", "--tag", "auth", "--meta", "project=shop", topic="architecture/auth")
    saved("JWT in the logs", "--session", "s9", topic="bugfix/logs", title="Logs")
    assert keyfold("search", "JWT", "--json").document["total"] == 2
    for filters, keys in {
        ("--tag", "auth"): ["architecture/auth"],
        ("--meta", "project=shop"): ["architecture/auth"],
        ("--topic-prefix", "bugfix/"): ["bugfix/logs"],
        ("--session", "s9"): ["bugfix/logs"],
        ("--type", "pattern"): [],
        ("--type", "pattern", "--type", "decision"): ["architecture/auth", "bugfix/logs"],
        ("--since", "1h"): ["architecture/auth", "bugfix/logs"],
        ("--until", "1h"): [],
    }.items():
        for words in (("search", "jwt"), ("list",)):
            answer = keyfold(*words, *filters, "--json")
            assert sorted(item["topic_key"] for item in answer.document["items"]) == keys, (words, filters)
            assert answer.code == (0 if keys else 1)


def test_a_search_shows_previews_and_says_what_it_left_out(keyfold: Any, saved: Any) -> None:
    for number in range(3):
        saved(f"JWT number {number}", topic=f"k{number}")
    answer = keyfold("search", "jwt", "--limit", "2", "--explain")
    assert answer.out.count("Auth model  [decision]  k") == 2
    assert answer.out.count("relevance ") == 2
    assert answer.err == "keyfold: 2 of 3 matches; --limit shows more\n"


def test_a_listing_goes_on_where_it_ended(keyfold: Any, saved: Any) -> None:
    for number in range(5):
        saved(f"text {number}", topic=f"k{number}")
    found, cursor = [], None
    while True:
        page = keyfold("list", "--limit", "2", "--json", *(("--cursor", cursor) if cursor else ())).document
        found += [item["topic_key"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == ["k4", "k3", "k2", "k1", "k0"]


def test_topics_are_listed_in_columns(keyfold: Any, saved: Any) -> None:
    saved("x", topic="a/long/key")
    saved("x", topic="b")
    lines = keyfold("topics").out.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["a/long/key", "b"]
    assert lines[0].index("decision") == lines[1].index("decision")
    assert keyfold("topics", "a/", "--json").document["total"] == 1


def test_history_shows_what_each_revision_changed(keyfold: Any, saved: Any) -> None:
    for text in ("one\nsame", "two\nsame", "three\nsame"):
        saved(text, topic="k")
    told = keyfold("history", "--topic", "k", "--diff").out
    assert [line[:10] for line in told.splitlines() if line.startswith("revision")] == [
        "revision 3",
        "revision 2",
        "revision 1",
    ]
    assert told.index("-two") < told.index("+three") < told.index("-one") < told.index("+two")
    document = keyfold("history", "--topic", "k", "--diff", "--json").document
    assert [(item["from"], item["to"]) for item in document["diffs"]] == [(2, 3), (1, 2)]
    assert document["total"] == 3


def test_history_names_what_is_not_kept(keyfold: Any, tmp_path: Path) -> None:
    with package.Memory.open(str(tmp_path / "memory.db"), config=package.Config(keep_revisions=2)) as memory:
        for number in range(3):
            memory.mem_save("default", f"{number}", type="decision", title="t", topic_key="k")
        assert keyfold("history", "--topic", "k").err == "keyfold: revision 1 is not kept\n"
        memory.mem_save("default", "3", type="decision", title="t", topic_key="k")
    assert keyfold("history", "--topic", "k").err == "keyfold: revisions 1 to 2 are not kept\n"


def test_restore_makes_a_new_revision(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    saved("two", topic="k")
    assert keyfold("restore", "--topic", "k", "--revision", "1").out == "updated  id 1  k  revision 3\n"
    assert keyfold("get", "1", "--json").document["content"] == "one"


def test_a_timeline_marks_the_anchor_and_its_past(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    saved("between", topic="other")
    saved("two", topic="k")
    told = keyfold("timeline", "1").out.splitlines()
    assert [line[0] for line in told] == ["~", " ", ">"]
    items = keyfold("timeline", "1", "--json").document["items"]
    assert [(item["revision_count"], item["is_past"], item["is_anchor"]) for item in items] == [
        (1, True, False),
        (1, False, False),
        (2, False, True),
    ]


def test_forgetting_counts_first_and_asks(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    assert keyfold("forget", "--topic", "k", "--dry-run").out == "would forget 1 record\n"
    refused = keyfold("forget", "--topic", "k")
    assert refused.code == 2
    assert "nobody is there to ask, so say --yes" in refused.err
    assert keyfold("forget", "--topic", "k", stdin="n\n", terminal=True).code == 1
    assert keyfold("get", "--topic", "k").code == 0
    agreed = keyfold("forget", "--topic", "k", stdin="y\n", terminal=True)
    assert (agreed.code, agreed.out) == (0, "forgot 1 record\n")
    assert keyfold("get", "--topic", "k").code == 1


def test_forgetting_by_filter_and_all(keyfold: Any, saved: Any) -> None:
    for number in range(3):
        saved(f"text {number}", "--tag", "odd" if number % 2 else "even")
    assert keyfold("forget", "--tag", "even", "--yes", "--json").document["deleted"] == 2
    assert keyfold("list", "--json").document["total"] == 1
    assert keyfold("forget", "--all", "--yes").code == 0
    assert keyfold("stats", "--json").document["total"] == 0


def test_sessions_are_started_summed_up_ended_and_listed(keyfold: Any, saved: Any) -> None:
    begun = keyfold("session", "start", "--json").document
    assert begun["is_new"] is True
    assert saved("text")["session_id"] == begun["session_id"]
    assert (
        keyfold("session", "summary", "Half way.").out
        == f"created  summary of session {begun['session_id']}\n"
    )
    assert keyfold("session", "end", "-", stdin="Done.\n").out == f"ended session {begun['session_id']}\n"
    (listed,) = keyfold("session", "list", "--json").document["items"]
    assert (listed["status"], listed["summary"]) == ("completed", "Done.")
    assert "completed" in keyfold("session", "list").out
    again = keyfold("session", "start").out
    assert "(new)" in again
    assert "Done." in again
    assert keyfold("session", "end", "--session", begun["session_id"]).code == 1


def test_context_is_cut_to_its_budget(keyfold: Any, saved: Any) -> None:
    saved("word " * 1000, topic="k")
    answer = keyfold("context", "--budget", "500")
    assert len(answer.out) <= 501
    document = keyfold("context", "--budget", "500", "--query", "word", "--json").document
    assert document["truncated"] is True


def test_stats_and_doctor_tell_how_things_are(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    assert "topics     1" in keyfold("stats").out
    assert keyfold("stats", "--json").document["topics"] == 1
    assert keyfold("doctor", "--erase").out.endswith("erased: no file of the store holds forgotten text\n")
    assert keyfold("doctor", "--json").document["erased"] is None


def test_the_version_is_said(keyfold: Any) -> None:
    assert keyfold("--version").out == f"keyfold {package.__version__}\n"


def test_only_what_works_is_offered() -> None:
    parser = build()
    (action,) = (action for action in parser._actions if action.dest == "==SUPPRESS==" or action.choices)
    assert sorted(action.choices or ()) == [
        "backup", "check", "context", "copy", "doctor", "export", "forget", "get", "history", "import", "list", "mcp",
        "restore", "save", "search", "session", "stats", "timeline", "topics", "tour",
    ]  # fmt: skip


def test_a_command_is_understood_the_same_from_its_part_of_the_grammar() -> None:
    whole = build()
    (action,) = (action for action in whole._actions if action.choices)
    assert sorted(action.choices or ()) == sorted(name for names in GROUPS for name in names)
    for words in (
        ["--store", "save", "get", "1"],
        ["get", "1", "--store", "save"],
        ["--json", "session", "end", "x"],
        ["--user=save", "topics"],
    ):
        assert vars(parse(words)) == vars(whole.parse_args(words))


def test_shared_options_stand_anywhere_around_a_session_command(keyfold: Any, saved: Any) -> None:
    saved("alice's", "--user", "alice")
    for words in (
        ("--user", "alice", "--json", "session", "list"),
        ("session", "--user", "alice", "--json", "list"),
        ("session", "list", "--user", "alice", "--json"),
        ("session", "--json", "list", "--user", "alice"),
    ):
        assert keyfold(*words).document["total"] == 1


def test_a_memory_is_pinned_and_unpinned(keyfold: Any, saved: Any) -> None:
    for option, pinned in (("--pin", True), (None, True), ("--no-pin", False)):
        saved("one", *([option] if option else []), topic="k")
        assert keyfold("get", "--topic", "k", "--json").document["pinned"] is pinned


def test_reads_look_above_and_below_a_user_when_asked(keyfold: Any, saved: Any) -> None:
    saved("JWT of the team", "--user", "team", topic="k")
    saved("JWT of kim", "--user", "team/kim", topic="own")
    for reach, user, keys in (("inherit", "team/kim", ["k", "own"]), ("subtree", "team", ["k", "own"])):
        for words in (("search", "jwt"), ("list",), ("topics",)):
            items = keyfold(*words, "--user", user, "--reach", reach, "--json").document["items"]
            assert sorted(item.get("topic_key", item.get("key")) for item in items) == keys, words
        assert keyfold("stats", "--user", user, "--reach", reach, "--json").document["total"] == 2
        told = keyfold("context", "--user", user, "--reach", reach).out
        assert "JWT of the team" in told
        assert "JWT of kim" in told
    words = ("get", "--topic", "k", "--user", "team/kim")
    assert keyfold(*words).code == 1
    assert keyfold(*words, "--reach", "inherit").out.endswith("JWT of the team\n")
    assert keyfold(*words, "--reach", "inherit", "--revision", "1", "--json").document["user_id"] == "team"
    assert "  of team  " in keyfold("search", "jwt", "--user", "team/kim", "--reach", "inherit").out
    assert keyfold("list", "--reach", "nonsense").code == 2


def test_the_past_of_a_memory_and_what_lies_around_it_are_read_above_when_asked(
    keyfold: Any, saved: Any
) -> None:
    saved("JWT of the team", "--user", "team", topic="k")
    saved("JWT of kim", "--user", "team/kim", topic="own")
    for command in ("history", "timeline"):
        words = (command, "--topic", "k", "--user", "team/kim")
        assert keyfold(*words).code == 1
        assert keyfold(*words, "--reach", "inherit").code == 0
    assert keyfold("history", "--topic", "k", "--user", "team/kim", "--reach", "inherit").out.startswith(
        "revision 1  "
    )
    told = keyfold("timeline", "--topic", "own", "--user", "team/kim", "--reach", "inherit").out.splitlines()
    assert [line.endswith(" of team") for line in told] == [True, False]
    assert keyfold("timeline", "--topic", "own", "--user", "team/kim").out.count("\n") == 1


def test_types_are_excluded_and_any_of_several_tags_is_enough(keyfold: Any, saved: Any) -> None:
    saved("text a", "--tag", "a", "--tag", "x", topic="ka")
    saved("text b", "--tag", "b", topic="kb")
    keyfold("save", "--type", "pattern", "--title", "t", "--topic", "kc", "--tag", "x", "text c")
    for filters, keys in {
        ("--exclude-type", "decision"): ["kc"],
        ("--exclude-type", "decision", "--exclude-type", "pattern"): [],
        ("--any-tag", "a", "--any-tag", "b"): ["ka", "kb"],
        ("--any-tag", "a", "--any-tag", "b", "--tag", "x"): ["ka"],
    }.items():
        for words in (("search", "text"), ("list",)):
            items = keyfold(*words, *filters, "--json").document["items"]
            assert sorted(item["topic_key"] for item in items) == keys, (words, filters)


def test_a_timeline_is_asked_for_by_id_or_topic_and_shows_seconds(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    told = keyfold("timeline", "--topic", "k")
    assert told.out == keyfold("timeline", "1").out
    assert re.match(r">  \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  1  r1", told.out)
    assert keyfold("timeline", "1", "--topic", "k").code == 2
    assert keyfold("timeline", "7").err == "keyfold: there is no record '7' of user 'default'\n"


def test_a_revision_as_json_says_whose_it_is(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    found = keyfold("get", "--topic", "k", "--revision", "1", "--json").document
    assert (found["id"], found["user_id"], found["topic_key"], found["revision"]) == ("1", "default", "k", 1)


def test_forgetting_takes_the_text_of_what_has_expired(keyfold: Any, saved: Any, tmp_path: Path) -> None:
    saved("SECRETWORD", "--expires", "1s", topic="k")
    saved("other", topic="other")
    time.sleep(1.1)
    assert keyfold("get", "--topic", "k").code == 1
    held = [file.read_bytes() for file in tmp_path.glob("memory.db*")]
    assert any(b"SECRETWORD" in data for data in held)
    answer = keyfold("forget", "--topic", "k")
    assert (answer.code, answer.out, answer.err) == (
        1,
        "",
        "keyfold: nothing matched, nothing was forgotten\n",
    )
    assert not any(b"SECRETWORD" in file.read_bytes() for file in tmp_path.glob("memory.db*"))


def test_an_expiry_in_the_past_and_a_fact_given_twice_are_refused(keyfold: Any) -> None:
    for words, told in {
        ("--expires", "2020-01-01T00:00:00Z"): "--expires: is not in the future",
        ("--expires", "0s"): "--expires: is not in the future",
        ("--meta", "k=1", "--meta", "k=2"): "--meta: says 'k' twice",
    }.items():
        answer = keyfold("save", "--type", "decision", "--title", "t", *words, "x")
        assert answer.code == 2
        assert told in answer.err
    assert "--meta: says 'k' twice" in keyfold("list", "--meta", "k=1", "--meta", "k=2").err


def test_stats_tell_sessions_apart_so_that_the_kinds_add_up(keyfold: Any, saved: Any) -> None:
    saved("one", topic="k")
    keyfold("session", "summary", "Half way.")
    told = keyfold("stats").out
    assert told.startswith("user default: 2 records, and 1 session\n")
    kinds = told[told.index("by kind") : told.index("by type")]
    assert "session" not in kinds
    assert sum(int(line.split()[1]) for line in kinds.splitlines()[1:]) == 2


def test_options_that_a_command_does_not_use_are_refused(keyfold: Any) -> None:
    for words, told in {
        ("copy", "a.db", "b.db", "--store", "c.db"): "--store: is not for copy",
        ("tour", "--store", "c.db"): "--store: is not for the tour",
        ("--user", "x", "tour"): "--user: is not for the tour",
    }.items():
        answer = keyfold(*words)
        assert answer.code == 2
        assert told in answer.err


def test_the_help_lists_no_option_that_is_refused_and_says_what_every_other_is() -> None:
    (commands,) = (action.choices for action in build()._actions if action.choices)
    shown = {name: command.format_help() for name, command in commands.items()}
    assert {name for name, text in shown.items() if "--store" not in text} == {"copy", "tour"}
    assert {name for name, text in shown.items() if "--user" not in text} == {"tour"}
    unsaid = {
        f"{name} {action.metavar or action.dest}"
        for name, command in commands.items()
        for action in command._actions
        if not action.help and not action.choices
    }
    assert unsaid == set()


def test_the_help_of_save_names_the_types_that_it_takes() -> None:
    (commands,) = (action.choices for action in build()._actions if action.choices)
    shown = " ".join(commands["save"].format_help().split())
    *most, last = package.Config().observation_types
    assert f"{', '.join(most)} or {last}" in shown


def test_the_server_offers_no_json_since_it_prints_for_its_client_alone() -> None:
    (commands,) = (action.choices for action in build()._actions if action.choices)
    shown = {name for name, command in commands.items() if "--json" in command.format_help()}
    assert set(commands) - shown == {"mcp"}


def test_a_list_names_a_document_by_its_source(keyfold: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "books.md").write_text("# Reading list\n\nThe art of doing science.\n", "utf-8")
    assert keyfold("import", str(notes)).code == 0
    listed = keyfold("list", "--meta", "source=books.md").out
    assert re.search(r"document +books\.md +Reading list", listed)


@pytest.mark.parametrize("named", [(), ("--topic", "k"), ("--idempotency-key", "once")])
def test_a_retried_save_with_a_span_is_the_same_save(keyfold: Any, named: Any) -> None:
    words = ("save", "--type", "decision", "--title", "t", "--expires", "30d", *named, "text", "--json")
    first, again = keyfold(*words).document, keyfold(*words).document
    assert (again["id"], again["replayed"]) == (first["id"], True)
