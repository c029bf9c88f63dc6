"""What went wrong, in the shell's words: the calls name their parameters, a user of the shell typed flags."""

from __future__ import annotations

import re
from typing import Final

from keyfold.errors import InvalidRequest, KeyfoldError

FLAGS: Final = {
    "after": "--after",
    "before": "--before",
    "budget": "--budget",
    "content": "CONTENT",
    "cursor": "--cursor",
    "expect_revision": "--if-revision",
    "expires_at": "--expires",
    "filter": "--meta",
    "idempotency_key": "--idempotency-key",
    "limit": "--limit",
    "max_text_bytes": "--max-text-bytes",
    "metadata": "--meta",
    "namespace-per": "--namespace-per",
    "observation_id": "ID",
    "path": "PATH",
    "pinned": "--pin",
    "prefix": "PREFIX",
    "query": "QUERY",
    "reach": "--reach",
    "revision": "--revision",
    "session_id": "--session",
    "since": "--since",
    "source": "--from",
    "store": "--store",
    "summary": "TEXT",
    "tags": "--tag",
    "title": "--title",
    "topic_key": "--topic",
    "topic_prefix": "--topic-prefix",
    "type": "--type",
    "types": "--type",
    "types_exclude": "--exclude-type",
    "until": "--until",
    "user_id": "--user",
}
COMMANDS: Final = {
    "add_document": "save",
    "delete": "forget",
    "get_observation": "get",
    "log_turn": "save",
    "revision": "get --revision",
    "save_many": "import",
    "suggest_topic_key": "topics",
    "update": "save",
}

# What is quoted is somebody's own words and stays. Parameters are told from plain words by their underscore.
_WORDS: Final = re.compile(
    r"(?P<quoted>(?<!\w)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"))"
    r"|(?P<config>[.;,]? *\bConfig\([^)]*\)[^.;]*)"
    r"|\bmem_(?P<call>\w+)"
    r"|(?P<all>\ball=True\b)"
    rf"|(?:\ban? )?\b(?P<name>{'|'.join(name for name in FLAGS if '_' in name)})\b"
)


def words_of(error: KeyfoldError, command: str) -> str:
    """The message of an error for one who ran a command."""
    if not isinstance(error, InvalidRequest):
        return _in_shell(str(error))
    field = FLAGS.get(error.field, error.field)
    if command == "context" and field == "QUERY":
        field = "--query"
    if command == "export" and field == "PATH":
        field = "--output"
    return f"{field}: {_in_shell(error.problem)}"


def _in_shell(message: str) -> str:
    return _WORDS.sub(_replaced, message)


def _replaced(found: re.Match[str]) -> str:
    if found["quoted"] is not None:
        return found["quoted"]
    if found["call"] is not None:
        return "keyfold " + COMMANDS.get(found["call"], found["call"].replace("_", " "))
    if found["name"] is not None:
        return FLAGS[found["name"]]
    return "--all" if found["all"] is not None else ""
