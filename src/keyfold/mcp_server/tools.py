"""The table of tools: each one's name, words, arguments, answer and handler. Listing and calling both read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from keyfold.mcp_server import answers, handlers
from keyfold.mcp_server.parameters import Parameter, moment, strings, text, whole
from keyfold.mcp_server.replies import Reply
from keyfold.memory import AsyncMemory, checks
from keyfold.model import Config

Handler = Callable[[AsyncMemory, str, dict[str, Any]], Awaitable[Reply]]

MAX_BUDGET: Final = 30_000  # characters of context in one reply
MAX_HITS: Final = 200
MAX_AROUND: Final = 50
MAX_REVISIONS: Final = 100

INSTRUCTIONS: Final = """\
Keyfold is your long-term memory: it outlives this conversation.
Begin with mem_session_start (it returns what matters and how earlier sessions ended); search before you ask the user \
something they may have told you. Save decisions, preferences, conventions and causes of bugs as soon as they are \
settled, under a topic_key from mem_suggest_topic_key, so that a later change rewrites the same memory. Put secrets \
in <private> tags: they are never stored. Before you finish, call mem_session_end with a summary."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `reads` says that it changes nothing; `repeatable` that the same call again changes nothing more."""

    name: str
    title: str
    words: str
    parameters: tuple[Parameter, ...]
    handler: Handler
    output: dict[str, Any]
    reads: bool = True
    repeatable: bool = True

    def input_schema(self) -> dict[str, Any]:
        """The arguments as a JSON Schema object; others are refused."""
        required = [parameter.name for parameter in self.parameters if parameter.required]
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


def tools(config: Config) -> tuple[Tool, ...]:
    """Every tool, with the types and the limits of a configuration."""
    return (*_writing(config), *_finding(config), *_past(), *_sessions(config))


def _type(config: Config, words: str) -> Parameter:
    return Parameter("type", "string", words, True, {"enum": list(config.observation_types)})


def _title(words: str) -> Parameter:
    return text("title", words, checks.MAX_TITLE_BYTES, required=True)


def _session_id() -> Parameter:
    return text(
        "session_id", "The session it belongs to. Leave it out for the current one.", checks.MAX_NAME_BYTES
    )


def _once() -> Parameter:
    words = (
        "A name for this very call: made again with the same name within a day, it gives the first answer."
    )
    limits = {"minLength": 1, "maxLength": checks.MAX_IDEMPOTENCY_KEY}
    return Parameter("idempotency_key", "string", words, False, limits)


def _record() -> tuple[Parameter, Parameter]:
    either = "Give this or the other, not both."
    return (
        text("observation_id", f"The id of a memory, as a result showed it. {either}", checks.MAX_NAME_BYTES),
        text("topic_key", f"The topic_key of a memory. {either}", checks.MAX_NAME_BYTES),
    )


_SAVE: Final = """\
Save one memory that should outlive this conversation. Save as soon as it is settled: a decision and its reason, a \
preference of the user, the cause of a bug and its fix, a convention of the team, a fact that was hard to find. Do not \
save chit-chat, what the code or the repository already says, or steps of the present task. One memory, one subject; \
write it to be understood without this conversation.
topic_key names a subject that may change later: call mem_suggest_topic_key first and use a key that exists if the \
subject is the same. Saving under it rewrites that memory and keeps its past. Leave it out for an event that happened once.
The outcome: created (new), updated (the same memory, revision_count one higher, the former text in mem_history), \
deduped (it said so already). replayed is true when nothing was written; that is not an error, do not save it again.
Put passwords, keys and other private text in <private>...</private>: it is replaced by [REDACTED] before it is stored."""

_SUGGEST: Final = """\
Suggest the topic_key for a memory you are about to save: keys in use whose subject is near come first (exists: true), \
then a new one. Call it before mem_save for anything that may change later. Use a key in use if the subject is the \
same; two keys for one subject split its memory in two."""


def _writing(config: Config) -> tuple[Tool, ...]:
    size = config.max_text_bytes
    return (
        Tool(
            "mem_save",
            "Save a memory",
            _SAVE,
            (
                text("content", "What to remember, in full sentences.", size, required=True),
                _type(config, "What kind of memory it is."),
                _title("One line that says what it is about."),
                text("topic_key", "Its stable name, such as architecture/auth.", checks.MAX_NAME_BYTES),
                strings(
                    "tags", "Words to filter by, as an array. Left out, a rewrite keeps them; [] clears them."
                ),
                Parameter(
                    "metadata", "object", 'Facts to filter by, such as {"project": "shop"}.', False, {}
                ),
                Parameter("pinned", "boolean", "True: always among the first in mem_context.", False, {}),
                moment("expires_at", "When it stops being true and is no longer found."),
                moment("observed_at", "When the fact was true, if not now."),
                whole(
                    "expect_revision", "Write only if the memory is at this revision (0: absent).", 0, 2**53
                ),
                _once(),
                _session_id(),
            ),
            handlers.save,
            answers.RECEIPT,
            reads=False,
            repeatable=False,
        ),
        Tool(
            "mem_suggest_topic_key",
            "Suggest a topic key",
            _SUGGEST,
            (_type(config, "The type it will be saved with."), _title("The title it will be saved with.")),
            handlers.suggest_topic_key,
            answers.SUGGESTIONS,
        ),
    )


_SEARCH: Final = """\
Find memories by plain words: a question or a few words, any punctuation. Search before you decide something that may \
have been decided, and before you ask the user what they may have told you. Results are previews, best first; \
mem_get_observation reads one in full. total counts all matches, and truncated says that more matched than are shown."""

_GET: Final = """\
Read one memory in full, by its id or topic_key; with revision, as it was then. A text longer than a reply comes in \
pieces: truncated is true, and next_offset is the offset of the next piece."""

_CONTEXT: Final = """\
What matters most of everything remembered, or what answers query best, as one text within budget characters. Use it \
to catch up; mem_search finds something particular."""


def _search() -> Tool:
    return Tool(
        "mem_search",
        "Search memories",
        _SEARCH,
        (
            text(
                "query",
                "Words. May be empty with a filter: the newest first.",
                checks.MAX_QUERY_BYTES,
                required=True,
                blank=True,
            ),
            whole("limit", "How many to show.", 1, MAX_HITS, 10),
            strings("types", "Only these types."),
            strings("types_exclude", "Not these types."),
            strings("tags", "Only with all of these tags, as an array."),
            text(
                "topic_prefix",
                "Only topic_keys that begin so, such as architecture/.",
                checks.MAX_NAME_BYTES,
            ),
            Parameter(
                "filter",
                "object",
                'On metadata: {"project": "shop"} or {"tries": {"gte": 3}}.',
                False,
                {},
            ),
            moment("since", "Changed at or after."),
            moment("until", "Changed before."),
        ),
        handlers.search,
        answers.RESULTS,
    )


def _finding(config: Config) -> tuple[Tool, ...]:
    return (
        _search(),
        Tool(
            "mem_get_observation",
            "Read a memory",
            _GET,
            (
                *_record(),
                whole("revision", "The state to read. Left out: the current one.", 1, 2**53),
                whole("offset", "The character to begin at.", 0, config.max_text_bytes, 0),
            ),
            handlers.get_observation,
            answers.OBSERVATION,
        ),
        Tool(
            "mem_context",
            "What matters most",
            _CONTEXT,
            (
                text(
                    "query",
                    "What it should answer. Left out: what matters in general.",
                    checks.MAX_QUERY_BYTES,
                ),
                whole("budget", "The longest text, in characters.", 1, MAX_BUDGET, 8_000),
            ),
            handlers.context,
            answers.CONTEXT,
        ),
    )


_TIMELINE: Final = """\
What was written around a memory, oldest first, its own earlier states among it (is_past). Use it to see what led to a \
decision and what followed."""

_HISTORY: Final = """\
The states of one memory, newest first: what was thought before, and when it changed. When truncated is true, \
before_revision goes on."""


def _past() -> tuple[Tool, ...]:
    return (
        Tool(
            "mem_timeline",
            "What was written around it",
            _TIMELINE,
            (
                *_record(),
                whole("before", "How many earlier ones.", 0, MAX_AROUND, 5),
                whole("after", "How many later ones.", 0, MAX_AROUND, 5),
            ),
            handlers.timeline,
            answers.TIMELINE,
        ),
        Tool(
            "mem_history",
            "Earlier states of a memory",
            _HISTORY,
            (
                *_record(),
                whole("limit", "How many states.", 1, MAX_REVISIONS, handlers.HISTORY_PAGE),
                whole("before_revision", "Only states before this revision.", 1, 2**53),
            ),
            handlers.history,
            answers.HISTORY,
        ),
    )


_START: Final = """\
Begin work, or go on with it: opens or continues the user's session, and returns how earlier sessions ended and the \
memories that matter most. Call it once, before anything else. Saves then belong to this session."""

_SUMMARY: Final = """\
Say what this session has been about so far: the goal, what was settled, what is open. Said again, it is rewritten in \
place. Call it at a turning point; mem_session_end says it for the last time."""

_END: Final = """\
End the session, with a last summary for whoever goes on later: the goal, what was settled, what is open, where to \
begin. Ending a session that is not open is an error and changes nothing."""


def _sessions(config: Config) -> tuple[Tool, ...]:
    size = config.max_text_bytes
    return (
        Tool(
            "mem_session_start",
            "Begin a session",
            _START,
            (
                text(
                    "session_id",
                    "Join or open this one by name. Left out: the current or a new one.",
                    checks.MAX_NAME_BYTES,
                ),
                whole("budget", "The longest context, in characters.", 1, MAX_BUDGET, 8_000),
                _once(),
            ),
            handlers.session_start,
            answers.SESSION_START,
            reads=False,
        ),
        Tool(
            "mem_session_summary",
            "Sum the session up",
            _SUMMARY,
            (text("summary", "The summary.", size, required=True), _session_id(), _once()),
            handlers.session_summary,
            answers.RECEIPT,
            reads=False,
        ),
        Tool(
            "mem_session_end",
            "End the session",
            _END,
            (text("summary", "The last summary.", size), _session_id(), _once()),
            handlers.session_end,
            answers.SESSION,
            reads=False,
            repeatable=False,
        ),
    )
