"""Limits hold for what is stored: after redaction, after a merge. So what a store holds, its export brings back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold import Config, Memory, open_engine
from keyfold.errors import InvalidRequest
from keyfold.memory import checks
from keyfold.portability import export, import_keyfold
from keyfold.text.redact import MARK_GROWS, REDACTED, redact

SAVE: dict[str, Any] = {"user_id": "u", "content": "c", "type": "decision", "title": "t"}
TURN: dict[str, Any] = {"user_id": "u", "thread_id": "t", "index": 0, "role": "assistant"}
OPEN = "<private"  # never closed: its mark is two bytes longer than it is


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def full(limit: int) -> str:
    return "x" * (limit - len(OPEN)) + OPEN


def brought_back(memory: Memory) -> None:
    """Export, import elsewhere, and export again: the same bytes."""
    lines = list(export(memory.engine))
    assert len(lines) > 2
    with closing(open_engine(":memory:")) as other:
        report = import_keyfold(other, lines)
        assert [item.reason for item in report.skipped] == []
        assert report.redacted == 0
        assert list(export(other)) == lines


AT_THE_LIMIT: dict[str, Callable[[Memory], object]] = {
    "title": lambda m: m.mem_save(**{**SAVE, "title": full(4_096)}),
    "content": lambda m: m.mem_save(**{**SAVE, "content": full(1 << 20)}),
    "tag": lambda m: m.mem_save(**SAVE, tags=[full(256)]),
    "tags": lambda m: m.mem_save(**SAVE, tags=[f"{number}{full(250)}" for number in range(100)]),
    "metadata": lambda m: m.mem_save(**SAVE, metadata={"a": full(65_536 - 11)}),
    "an update": lambda m: (
        m.mem_save(**SAVE, topic_key="k"),
        m.mem_update("u", topic_key="k", title=full(4_096), content=full(1 << 20), tags=[full(256)]),
    ),
    "a restored state": lambda m: (
        m.mem_save(**{**SAVE, "title": full(4_096)}, topic_key="k"),
        m.mem_save(**SAVE, topic_key="k"),
        m.mem_restore("u", topic_key="k", revision=1),
    ),
    "a turn": lambda m: m.mem_log_turn(**{**TURN, "role": full(64)}, text=full(1 << 20)),
    "tool calls": lambda m: m.mem_log_turn(**TURN, text="x", tool_calls=["y" * 60_000, "z" * 5_400]),
    "deep tool calls": lambda m: m.mem_log_turn(**TURN, text="", tool_calls=[nested(14)]),
    "a document": lambda m: m.mem_add_document(
        "u", source=full(512), text=full(1 << 20), title=full(4_096), mime=full(256)
    ),
    "a document's metadata": lambda m: m.mem_add_document(
        "u", source="s" * 500, text="x", metadata={"a": "x" * 65_000}
    ),
    "a summary": lambda m: m.mem_session_summary("u", full(1 << 20)),
    "names": lambda m: m.mem_save(
        **{**SAVE, "user_id": "u" * 512}, topic_key="k" * 512, session_id="s" * 512
    ),
}


@pytest.mark.parametrize("write", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT.keys())
def test_what_is_stored_at_its_limit_comes_back_from_an_export(
    memory: Memory, write: Callable[[Memory], object]
) -> None:
    write(memory)
    brought_back(memory)


def patched(memory: Memory) -> None:
    memory.mem_save(**SAVE, topic_key="k", metadata={"a": "x" * 40_000})
    memory.mem_update("u", topic_key="k", title="new", metadata={"b": "y" * 40_000})


def mime_added(memory: Memory) -> None:
    memory.mem_add_document("u", source="s", text="x", metadata={"a": "x" * 65_500})
    memory.mem_add_document("u", source="s", text="y", mime="m" * 200)


OVER: dict[str, tuple[Callable[[Memory], object], str, str]] = {
    "a patch": (patched, "metadata", "80,018 bytes as JSON once it is merged with the 40,009 that are held"),
    "a document's new mime": (mime_added, "metadata", "merged with the 65,524 that are held"),
    "a document's source": (
        lambda m: m.mem_add_document("u", source="s" * 500, text="x", metadata={"a": "x" * 65_500}),
        "metadata",
        "66,023 bytes as JSON with its source and mime; at most 65,536",
    ),
    "tool calls": (
        lambda m: m.mem_log_turn(**TURN, text="x", tool_calls=["y" * 60_000, "z" * 60_000]),
        "tool_calls",
        "bytes as JSON with the thread and the role; at most 65,536",
    ),
    "a long thread's tool calls": (
        lambda m: m.mem_log_turn(**{**TURN, "thread_id": "t" * 512}, text="x", tool_calls=["y" * 60_000, "z" * 5_400]),
        "tool_calls",
        "at most 65,536",
    ),
    "deep tool calls": (
        lambda m: m.mem_log_turn(**TURN, text="x", tool_calls=[nested(15)]),
        "tool_calls",
        "nested more than 15 deep",
    ),
    "a title": (lambda m: m.mem_save(**{**SAVE, "title": "x" + full(4_096)}), "title", "takes 4,097 bytes as UTF-8; at most 4,096"),
    "a turn's only words": (
        lambda m: (
            m.mem_log_turn(**TURN, text="", tool_calls=["ls"]),
            m.mem_update("u", m.mem_list("u")[0].id, metadata={"tool_calls": None}),
        ),
        "metadata",
        "give it one as well",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("write", "field", "words"), OVER.values(), ids=OVER.keys())
def test_what_could_not_come_back_is_refused_and_changes_nothing(
    memory: Memory, write: Callable[[Memory], object], field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        write(memory)
    assert caught.value.field == field
    assert words in str(caught.value)
    assert [record.revision_count for record in memory.mem_list("u")] in ([], [1])
    if memory.mem_list("u"):
        brought_back(memory)


def test_metadata_that_only_grows_comes_to_its_end(memory: Memory) -> None:
    memory.mem_save(**SAVE, topic_key="k")
    for number in range(32):
        memory.mem_update("u", topic_key="k", metadata={f"k{number}": "x" * 2_000})
    with pytest.raises(InvalidRequest, match="Remove keys"):
        memory.mem_update("u", topic_key="k", metadata={"more": "x" * 2_000})
    held = memory.mem_get_observation("u", topic_key="k")
    assert held is not None
    assert 60_000 < checks.json_size(held.metadata) <= 65_536
    memory.mem_update("u", topic_key="k", metadata={"k0": None, "k99": "x" * 1_000})
    memory.mem_update("u", topic_key="k", metadata=None)
    brought_back(memory)


def test_private_text_counts_for_as_much_as_is_kept_of_it(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(max_text_bytes=100)
    secret = f"<private>{'s' * 500}</private>"
    saved = memory.mem_save(**{**SAVE, "content": f"before {secret} after"})
    held = memory.mem_get_observation("u", saved.id)
    assert held is not None
    assert held.content == f"before {REDACTED} after"


def test_a_session_that_an_import_filled_does_not_keep_others_from_beginning(
    open_memory: Callable[..., Memory], clock: Any
) -> None:
    memory = open_memory()
    memory.mem_session_start("u", session_id="s")
    lines = [
        line.replace('"metadata":{}', f'"metadata":{{"a":"{"x" * 65_500}"}}')
        for line in export(memory.engine)
    ]
    memory.mem_delete("u", all=True)
    report = import_keyfold(memory.engine, lines)
    assert report.created == 1
    clock.forward(days=3)
    assert memory.mem_session_start("u").is_new


@pytest.mark.parametrize("name", ["x" * 129, "a\0b", "\ud800", "<private>a</private>"])
def test_a_type_that_an_import_would_refuse_is_no_setting(name: str) -> None:
    with pytest.raises(InvalidRequest, match="observation_types"):
        Config(observation_types=("decision", name))


pieces = st.sampled_from(
    ["<private", "<PRIVATE", ">", "</private>", "< private>", "/>", " ", "x", "<", "é", REDACTED]
)


@settings(max_examples=300)
@given(st.lists(pieces, max_size=12).map("".join))
def test_a_text_that_passes_its_limit_passes_it_again_as_it_is_stored(text: str) -> None:
    safe = redact(text)
    assert len(safe) <= len(text) + (MARK_GROWS if safe.endswith(REDACTED) else 0)
    for limit in range(1, len(text.encode()) + 3):
        try:
            stored = checks.text("text", text, limit, blank=True)
        except InvalidRequest:
            assert len(text.encode()) > limit
        else:
            assert stored == safe
            assert checks.text("text", stored, limit, blank=True) == safe
