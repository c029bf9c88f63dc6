"""The tools, called by the SDK's own client on a server in this process."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from keyfold import AsyncMemory, Config, InvalidRequest, __version__
from keyfold.mcp_server import handlers
from keyfold.mcp_server.parameters import json_type
from keyfold.mcp_server.replies import CEILING, Reply, bounded, packed
from keyfold.mcp_server.toolbox import Toolbox
from keyfold.mcp_server.tools import Tool, tools
from keyfold.mcp_server.wording import Wording
from keyfold.memory import checks
from mcp import Client
from tests.mcp.common import SAVE, said, talk

TABLE = tools(Config())
NAMES = {
    "mem_save",
    "mem_search",
    "mem_get_observation",
    "mem_timeline",
    "mem_history",
    "mem_context",
    "mem_session_start",
    "mem_session_summary",
    "mem_session_end",
    "mem_suggest_topic_key",
}
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])


@MODES
def test_every_tool_is_listed_and_every_listed_tool_answers_as_its_schema_says(mode: str) -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == NAMES
        keyed = {**SAVE, "topic_key": "architecture/auth"}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("mem_session_start", {}),
            ("mem_save", keyed),
            (
                "mem_save",
                {**keyed, "content": "JWT, 15 days.", "tags": ["auth"], "metadata": {"project": "shop"}},
            ),
            ("mem_suggest_topic_key", {"type": "decision", "title": "Auth"}),
            ("mem_search", {"query": "jwt", "tags": ["auth"], "filter": {"project": "shop"}}),
            ("mem_get_observation", {"topic_key": "architecture/auth"}),
            ("mem_get_observation", {"topic_key": "architecture/auth", "revision": 1}),
            ("mem_timeline", {"observation_id": "2"}),
            ("mem_history", {"topic_key": "architecture/auth"}),
            ("mem_context", {"query": "jwt", "budget": 500}),
            ("mem_session_summary", {"summary": "Settled the tokens."}),
            ("mem_session_end", {"summary": "The cookie comes next."}),
            ("mem_session_start", {"session_id": "another"}),
        ]
        assert {name for name, _ in calls} == NAMES
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)  # the client checks the output schema
            assert not result.is_error, said(result)
            assert said(result).strip()
            assert listed[name].output_schema is not None
            assert isinstance(result.structured_content, dict)
            assert "user_id" not in packed(result.structured_content).decode()

    talk(work, mode=mode)


def test_the_server_says_who_it_is_and_how_to_use_it() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        assert client.instructions is not None
        assert "mem_session_start" in client.instructions
        assert (client.server_info.name, client.server_info.version) == ("keyfold", __version__)

    talk(work, mode="legacy")


@pytest.mark.parametrize("tool", TABLE, ids=lambda tool: tool.name)
def test_no_schema_has_a_user_id_and_every_argument_is_one_of_the_call(tool: Tool) -> None:
    assert "user_id" not in json.dumps([tool.input_schema(), tool.output])
    of_the_tool = {
        "mem_get_observation": {"revision", "offset"},
        "mem_history": {"limit", "before_revision"},
    }
    taken = set(inspect.signature(getattr(AsyncMemory, tool.name)).parameters) - {"user_id"}
    assert {parameter.name for parameter in tool.parameters} <= taken | of_the_tool.get(tool.name, set())


def test_the_schema_states_the_limits_of_the_configuration() -> None:
    table = {tool.name: tool for tool in tools(Config(observation_types=("rule", "fact"), max_text_bytes=99))}
    fields = table["mem_save"].input_schema()["properties"]
    assert fields["type"]["enum"] == ["rule", "fact"]
    assert (fields["content"]["minLength"], fields["content"]["maxLength"]) == (1, 99)
    assert fields["topic_key"]["maxLength"] == checks.MAX_NAME_BYTES
    assert fields["tags"] == {**fields["tags"], "type": "array", "maxItems": checks.MAX_TAGS}
    assert table["mem_save"].input_schema()["required"] == ["content", "type", "title"]
    assert table["mem_search"].input_schema()["properties"]["limit"]["maximum"] == 200
    assert all(tool.input_schema()["additionalProperties"] is False for tool in table.values())


def test_a_save_says_what_it_did() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        keyed = {**SAVE, "topic_key": "architecture/auth"}
        outcomes = []
        for arguments in (keyed, keyed, {**keyed, "content": "JWT, 15 days."}):
            result = await client.call_tool("mem_save", arguments)
            assert result.structured_content is not None
            outcomes.append((result.structured_content["outcome"], result.structured_content["replayed"]))
        assert outcomes == [("created", False), ("deduped", True), ("updated", False)]
        near = await client.call_tool("mem_save", {**SAVE, "content": "x", "topic_key": "Architecture/Auth"})
        assert near.structured_content is not None
        assert near.structured_content["similar_keys"] == ["architecture/auth"]
        assert "architecture/auth" in said(near)
        assert (await memory.mem_stats("ana"))["topics"] == 2

    talk(work)


def test_private_text_reaches_neither_the_store_nor_a_reply() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        secret = {**SAVE, "content": "Ask Kim for <private>hunter2</private>.", "topic_key": "k"}
        await client.call_tool("mem_save", secret)
        for name, arguments in (
            ("mem_get_observation", {"topic_key": "k"}),
            ("mem_search", {"query": "Kim"}),
        ):
            result = await client.call_tool(name, arguments)
            assert "[REDACTED]" in said(result)
            assert "hunter2" not in str(result)
        refused = await client.call_tool("mem_save", {**SAVE, "topic_key": "<private>hunter2</private>"})
        assert refused.is_error
        assert "hunter2" not in said(refused)

    talk(work)


# calls and settings of Python's, which an agent does not have
UNKNOWN = re.compile(r"mem_(list|update|delete|revision|restore|recall|topics|stats)\b|Config\b")
WRONG: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "mem_save",
        {**SAVE, "user_id": "eve"},
        ["user_id", "the host decides", "allowed: content, type, title"],
    ),
    ("mem_save", {**SAVE, "topic": "x"}, ["'topic'", "allowed: content", "topic_key"]),
    ("mem_save", {"content": "x"}, ["type, title must be given", "Received the arguments 'content'"]),
    ("mem_save", {**SAVE, "title": None}, ["title must be given"]),
    ("mem_save", {**SAVE, "type": "chat"}, ["allowed: profile, preference, decision"]),
    (
        "mem_save",
        {**SAVE, "tags": '["a"]'},
        ["tags", "not a string", "array itself", "Received the arguments"],
    ),
    ("mem_save", {**SAVE, "tags": [1]}, ["tags", "must be a string"]),
    (
        "mem_save",
        {**SAVE, "metadata": '{"a": 1}'},
        ["metadata", "an object", "not a string", "object itself"],
    ),
    ("mem_save", {**SAVE, "content": ["x"]}, ["content", "must be a string, not an array"]),
    ("mem_save", {**SAVE, "content": " "}, ["content", "blank"]),
    ("mem_save", {**SAVE, "content": "a\ud83d"}, ["content", "lone surrogate at position 1"]),
    ("mem_save", {**SAVE, "content": "a\0"}, ["content", "NUL at position 1"]),
    ("mem_save", {**SAVE, "metadata": {"\ud800": 1}}, ["metadata", "lone surrogate"]),
    ("mem_save", {**SAVE, "\ud800": 1}, ["there is no argument", "allowed: content"]),
    ("mem_save", {**SAVE, "content": "x" * 5_000_000}, ["content", "5,000,000 bytes", "1,048,576"]),
    ("mem_save", {**SAVE, "x" * 5_000_000: 1}, ["there is no argument", "allowed: content"]),
    ("mem_save", {**SAVE, "pinned": "yes"}, ["pinned", "must be a boolean, not a string"]),
    ("mem_save", {**SAVE, "expires_at": "tomorrow"}, ["expires_at", "2026-01-31T12:00:00Z"]),
    ("mem_search", {"query": ""}, ["query", "blank"]),
    ("mem_search", {"query": "x", "limit": 0}, ["limit", "1 to 200"]),
    ("mem_search", {"query": "x", "limit": True}, ["limit", "must be an integer, not a boolean"]),
    ("mem_search", {"query": "x", "limit": 1.5}, ["limit", "must be an integer, not a number"]),
    ("mem_get_observation", {}, ["either an observation_id or a topic_key"]),
    ("mem_get_observation", {"observation_id": "404"}, ["no memory with id '404'"]),
    ("mem_get_observation", {"topic_key": "k\ud800"}, ["lone surrogate"]),
    ("mem_history", {"topic_key": "nope"}, ["no memory with topic_key 'nope'"]),
    ("mem_timeline", {"observation_id": "404"}, ["404"]),
    ("mem_timeline", {"topic_key": "nope"}, ["'nope'"]),
    ("mem_timeline", {}, ["either an observation_id or a topic_key"]),
    ("mem_context", {"budget": 10**9}, ["budget", "1 to 30,000"]),
    ("mem_session_end", {}, ["no session"]),
]


@MODES
@pytest.mark.parametrize(
    ("name", "arguments", "words"), WRONG, ids=lambda value: str(value)[:40] if isinstance(value, str) else ""
)
def test_a_wrong_call_is_an_error_that_says_what_is_right(
    name: str, arguments: dict[str, Any], words: list[str], mode: str
) -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        toolbox = Toolbox(memory, "ana")
        # the client's own JSON cannot say a lone surrogate; how one arrives in bytes is another file's business
        if "\\ud8" in ascii(arguments):
            reply = await toolbox.call(name, arguments)
            assert reply.is_error
            text = reply.text
        else:
            result = await client.call_tool(name, arguments)
            assert result.is_error
            text = said(result)
        for word in words:
            assert word in text
        assert "Traceback" not in text
        assert not UNKNOWN.search(text)
        assert len(text) < 2_000
        assert (await memory.mem_stats("ana"))["total"] == 0
        assert not (await client.call_tool("mem_save", SAVE)).is_error

    talk(work, mode=mode)


def test_messages_name_what_an_agent_has_and_leave_its_own_words_alone() -> None:
    words = Wording(tool.name for tool in tools(Config()))
    for message, told in (
        ("is blank; give words, or a filter to list by (mem_list lists everything)",
         "is blank; give words, or a filter to list by (mem_context gives what matters most)"),
        ("the x engine does not support this; mem_list lists by filter",
         "the x engine does not support this; an empty query with a filter lists by that"),
        ("allowed: a, b. Config(observation_types=...) replaces the set", "allowed: a, b"),
        ("what is logged is not changed; correct it with mem_update", "what is logged is not changed"),
        ("is too long (mem_update can cut it), and more", "is too long, and more"),
        ("no session is open; mem_session_start opens one", "no session is open; mem_session_start opens one"),
        ("there is no memory 'a, mem_list'; mem_search finds what there is",
         "there is no memory 'a, mem_list'; mem_search finds what there is"),
    ):  # fmt: skip  # a pair a line or two
        assert words(message) == told


def test_a_timeline_is_found_by_topic_key_too() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        await memory.mem_save("ana", "one", type="decision", title="One", topic_key="k/one")
        await memory.mem_save("ana", "two", type="decision", title="Two")
        result = await client.call_tool("mem_timeline", {"topic_key": "k/one", "after": 1})
        assert [item["content"] for item in result.structured_content["items"]] == ["one", "two"]
        assert [item["is_anchor"] for item in result.structured_content["items"]] == [True, False]

    talk(work)


def test_a_tool_that_is_not_there_is_a_protocol_error_naming_those_that_are() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        with pytest.raises(MCPError, match=r"no tool 'mem_sav'; there are .*mem_save") as caught:
            await client.call_tool("mem_sav", {})
        assert caught.value.error.code == -32602

    talk(work)


class Surprise(Exception):
    pass


@pytest.mark.parametrize("error", [Surprise("hunter2"), SystemExit("hunter2"), RecursionError("hunter2")])
def test_an_unexpected_failure_is_answered_by_its_kind_alone(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        async def broken(*_: Any, **__: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(AsyncMemory, "mem_save", broken)
            result = await client.call_tool("mem_save", SAVE)
        assert result.is_error
        assert type(error).__name__ in said(result)
        assert "hunter2" not in str(result)
        assert not (await client.call_tool("mem_save", SAVE)).is_error

    talk(work)


def test_null_means_that_an_optional_argument_was_not_passed() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        await client.call_tool("mem_save", {**SAVE, "topic_key": "k", "tags": ["a"]})
        await client.call_tool("mem_save", {**SAVE, "topic_key": "k", "content": "y", "tags": None})
        record = await memory.mem_get_observation("ana", topic_key="k")
        assert record is not None
        assert (record.content, record.tags) == ("y", ("a",))

    talk(work)


def test_a_user_that_is_no_name_is_refused_at_once() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        with pytest.raises(InvalidRequest):
            Toolbox(memory, " ")

    talk(work)


def test_another_user_s_memory_is_not_there() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        theirs = await memory.mem_save("eve", **SAVE, topic_key="k")
        for arguments in ({"observation_id": theirs.id}, {"topic_key": "k"}):
            assert (await client.call_tool("mem_get_observation", arguments)).is_error
            assert (await client.call_tool("mem_history", arguments)).is_error
        found = await client.call_tool("mem_search", {"query": "JWT"})
        assert found.structured_content == {"items": [], "total": 0, "truncated": False}

    talk(work)


def sizes(result: Any) -> tuple[int, int]:
    return len(said(result).encode()), len(packed(result.structured_content))


@pytest.mark.parametrize("letter", ["x", "日", "🙂", "\n"])
def test_a_long_text_is_read_whole_in_pieces(letter: str) -> None:
    content = "a" + letter * (250_000 // len(letter.encode())) + "z"

    async def work(client: Client, memory: AsyncMemory) -> None:
        await memory.mem_save("ana", content, type="decision", title="t", topic_key="k")
        pieces, offset = [], 0
        while offset is not None:
            result = await client.call_tool("mem_get_observation", {"topic_key": "k", "offset": offset})
            data = result.structured_content
            assert max(sizes(result)) <= 2 * CEILING
            assert sizes(result)[0] <= CEILING
            assert data["truncated"] == (data["next_offset"] is not None) == ("[truncated" in said(result))
            assert data["content"] in said(result)
            pieces.append(data["content"])
            offset = data["next_offset"]
        assert len(pieces) > 3
        assert "".join(pieces) == content
        beyond = await client.call_tool("mem_get_observation", {"topic_key": "k", "offset": len(content)})
        assert beyond.is_error

    talk(work)


def test_a_history_names_what_is_not_kept() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        for number in range(3):
            await memory.mem_save("ana", f"{number}", type="decision", title="t", topic_key="k")
        result = await client.call_tool("mem_history", {"topic_key": "k"})
        assert "Revision 1 is not kept." in said(result)

    talk(work, keep_revisions=2)


def test_a_long_history_comes_in_pages_and_none_is_left_out() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        for number in range(1, 61):
            await memory.mem_save("ana", f"{number} " * 3_000, type="decision", title="t", topic_key="k")
        seen: list[int] = []
        before = None
        while True:
            asked = {"topic_key": "k", "limit": 100, "before_revision": before}
            result = await client.call_tool("mem_history", asked)
            data = result.structured_content
            assert max(sizes(result)) <= CEILING
            assert all(item["content_truncated"] for item in data["items"])
            assert "revision reads one in full" in said(result)
            seen += [item["revision"] for item in data["items"]]
            before = data["next_before_revision"]
            assert data["truncated"] == (before is not None) == ("[truncated" in said(result))
            if before is None:
                break
        assert seen == list(range(60, 0, -1))
        one = await client.call_tool("mem_get_observation", {"topic_key": "k", "revision": 7})
        assert one.structured_content["content"] == "7 " * 3_000

    talk(work)


def test_lists_stay_below_the_ceiling_and_say_so() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        items = [
            {
                "content": f"word {number} " + "日本 " * 1_000,
                "type": "decision",
                "title": f"{number} " + "t" * 2_000,
                "metadata": {"k": "v" * 5_000},
            }
            for number in range(120)
        ]
        receipts = await memory.mem_save_many("ana", items)
        found = await client.call_tool("mem_search", {"query": "word", "limit": 100})
        around = await client.call_tool(
            "mem_timeline", {"observation_id": receipts[60].id, "before": 50, "after": 50}
        )
        for result in (found, around):
            data = result.structured_content
            assert max(sizes(result)) <= CEILING
            assert data["truncated"] is True
            assert data["advice"] in said(result)
            assert 5 < len(data["items"]) < data["total"]
        places = [item["id"] for item in around.structured_content["items"]]
        assert receipts[60].id in places[len(places) // 2 - 1 : len(places) // 2 + 2]
        assert around.structured_content["items"][0]["metadata_truncated"] is True

    talk(work)


def test_a_long_context_and_long_summaries_stay_below_the_ceiling() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        for number in range(30):
            await memory.mem_save("ana", f"{number} " + "🙂" * 2_000, type="decision", title="t")
        for number in range(6):
            await memory.mem_session_start("ana", session_id=str(number))
            await memory.mem_session_end("ana", session_id=str(number), summary=f"{number} " + "日" * 200_000)
        for name in ("mem_context", "mem_session_start"):
            result = await client.call_tool(name, {"budget": 30_000})
            assert max(sizes(result)) <= CEILING
            data = result.structured_content
            assert data.get("context", data)["truncated"] is True
            assert "[cut]" in said(result)

    talk(work)


def test_a_reply_of_any_size_and_any_text_can_be_sent() -> None:
    reply = bounded(Reply("\ud800" + "日" * CEILING, {"a\udfff": ["\ud800", float(1)]}))
    assert len(reply.text.encode()) <= CEILING
    assert reply.text.startswith("?日")
    assert reply.text.endswith("[cut]")
    assert reply.data == {"a?": ["?", 1.0]}


def test_values_are_named_as_json_names_them() -> None:
    values = [None, True, "x", 1, 1.5, [], {}]
    assert [json_type(value) for value in values] == [
        "null",
        "boolean",
        "string",
        "integer",
        "number",
        "array",
        "object",
    ]


def test_every_handler_is_in_the_table_once() -> None:
    public = {
        function
        for name, function in vars(handlers).items()
        if inspect.iscoroutinefunction(function) and not name.startswith("_")
    }
    assert {tool.handler for tool in TABLE} == public
    assert len(TABLE) == len(public) == len(NAMES)


def test_the_listing_fits_a_context_window() -> None:
    async def work(client: Client, memory: AsyncMemory) -> None:
        listed = (await client.list_tools()).tools
        shown = sum(len(packed([tool.name, tool.description, tool.input_schema])) for tool in listed)
        assert shown < 14_000  # some 3,500 tokens, which every conversation pays

    talk(work)
