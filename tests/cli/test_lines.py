"""What is shown on a line stays on it: no key, tag, session, source or user can pass for another line of output."""

from __future__ import annotations

from typing import Any

import pytest

from keyfold import Memory

ENDS = ["\n", "\r\n", "\r", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"]
COMMANDS = (
    ("save", "--type", "decision", "--title", "other", "--topic", "{name} ", "more"),
    ("search", "apple"),
    ("search", "apple", "--reach", "subtree", "--user", "above"),
    ("get", "1"),
    ("list",),
    ("list", "--reach", "subtree", "--user", "above"),
    ("topics",),
    ("history", "1", "--diff"),
    ("timeline", "1"),
    ("context",),
    ("context", "--query", "apple"),
    ("restore", "1", "--revision", "1"),
    ("stats",),
    ("session", "start"),
    ("session", "summary", "A summary."),
    ("session", "list"),
    ("session", "end"),
    ("get", "--topic", "absent {name}"),
    ("session", "end", "--session", "absent {name}"),
    ("forget", "1", "--dry-run"),
)


@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_name_makes_a_line_of_its_own(keyfold: Any, tmp_path: Any, end: str) -> None:
    name = f"a{end}FORGED  line \x1b[31m"
    user = f"above/{name}"
    with Memory.open(tmp_path / "memory.db") as memory:
        for text in ("apple", "apple\nand pear"):
            memory.mem_save(
                user,
                text,
                type="decision",
                title=name,
                topic_key=name,
                tags=[name],
                session_id=name,
                metadata={name: name},
            )
        memory.mem_add_document(user, text="An apple in a document.", title=name, source=name)
    for words in COMMANDS:
        said = [word.format(name=name) for word in words]
        answer = keyfold(*said, *(() if "--user" in words else ("--user", user)))
        shown = answer.out + answer.err
        assert not any(line.startswith("FORGED") for line in shown.splitlines()), words
        assert "\x1b" not in shown
    assert keyfold("get", "1", "--user", user, "--json").document["topic_key"] == name
    assert keyfold("get", "1", "--user", user, "--json").document["tags"] == [name]


def test_a_text_keeps_its_own_lines(keyfold: Any, saved: Any) -> None:
    saved("one\n\ttwo", topic="k")
    saved("one\n\tthree", topic="k")
    assert keyfold("get", "1").out.endswith("\n\none\n\tthree\n")
    assert "one\n\tthree" in keyfold("context").out
    assert "+\tthree" in keyfold("history", "1", "--diff").out
