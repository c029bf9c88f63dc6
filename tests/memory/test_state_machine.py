"""Any interleaving of calls ends in the same state, with the same answers, whichever engine holds the memory.

The reference in memory says what is right; the embedded engine, in a file and in memory, must answer the same:
receipts, errors, lists, searches with their scores, histories, timelines, contexts and counts. What is random (the
ids of sessions) is made the same for all; record ids agree by construction.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from keyfold import Config, Filter, KeyfoldError, Memory
from keyfold.engines.sqlite import bulk, index
from keyfold.model import DeleteResult, SaveResult, plain
from tests.conftest import SteppedClock

USERS = ("ana", "ana/x", "ben")
users = st.sampled_from(("ana", "ana", "ana", "ana/x", "ben"))
reaches = st.sampled_from(("exact", "exact", "inherit", "subtree"))
keys = st.sampled_from(("a", "b/c", "B-c", "b c"))
texts = st.sampled_from(
    (
        "apple pear",
        "Apple apple and plum",
        "the of",
        "東京都の天気",
        "crème brûlée",
        "<private>x</private> pear",
        "plum" + " word" * 900,
    )
)
titles = st.sampled_from(("One", "Two apples"))
types = st.sampled_from(("decision", "profile"))
sessions = st.sampled_from((None, None, None, "s1", "s2"))
idempotency = st.sampled_from((None, None, None, None, "i1", "i2"))
tags = st.sampled_from((None, (), ("red",), ("red", "blue"), ("blue", "red")))
metadata = st.sampled_from((None, {}, {"n": 1}, {"n": 10, "s": {"t": [1, None]}}, {"n": "10"}))
pins = st.sampled_from((True, False, None))
expiries = st.sampled_from((None, 20, 3600, -5))  # seconds from now
more = st.fixed_dictionaries(
    {}, optional={"tags": tags, "metadata": metadata, "pinned": pins, "expires_at": expiries}
)
expected = st.sampled_from((None, None, None, None, 0, 1, 2))
filters = st.sampled_from(
    (
        Filter(types=("decision",)),
        Filter(tags=("red",)),
        Filter(tags_any=("red", "blue")),
        Filter(topic_prefix="b"),
        Filter(pinned=True),
        Filter(session_id="s1"),
        {"n": {"gte": 2}},
        {"n": {"ne": 1}},
        {"s.t": {"eq": [1, None]}},
    )
)
queries = st.sampled_from(
    ("apple", "pear plum", "the of", "東京", "creme", "red", "b", "what? (apple) - NOT")
)
numbers = st.integers(1, 12)


class Fresh:
    """Ids of sessions that are the same for every memory that carries a call out."""

    def __init__(self) -> None:
        self.call = self.place = 0

    def __call__(self) -> UUID:
        self.place += 1
        return UUID(int=self.call * 1000 + self.place)


class Interleaving(RuleBasedStateMachine):
    """The same calls to three memories."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.fresh = Fresh()
        self.patch.setattr("keyfold.memory.core.uuid4", self.fresh)
        self.patch.setattr("keyfold.memory.sessions.uuid4", self.fresh)
        self.clock = SteppedClock()
        self.folder = tempfile.TemporaryDirectory()
        self.memories: list[Memory] = []

    @initialize(
        dedup_on=st.sampled_from(("material", "material", "content")),
        batch=st.sampled_from((1, 2, 16)),
        worth=st.sampled_from((2, 16)),
    )
    def open(self, dedup_on: Any, batch: int, worth: int) -> None:
        self.patch.setattr(index, "BATCH", batch)  # how many texts wait for the word index
        self.patch.setattr(
            bulk, "WORTH", worth
        )  # from how many saves on a batch is written statement by statement
        self.config = Config(clock=self.clock, durability="process", dedup_on=dedup_on)
        self.path = str(Path(self.folder.name) / "store.db")
        for url in ("inmemory:", ":memory:", self.path):
            self.memories.append(Memory.open(url, config=self.config))

    def teardown(self) -> None:
        try:
            if self.memories:
                self.everything_reads_the_same()
        finally:
            for memory in self.memories:
                memory.close()
            self.patch.undo()
            self.folder.cleanup()

    # How a call is carried out and compared.

    def answer(self, memory: Memory, call: Callable[[Memory], Any]) -> Any:
        self.fresh.place = 0
        try:
            return comparable(call(memory))
        except KeyfoldError as error:
            told = [
                getattr(error, name, None) for name in ("field", "problem", "current_revision", "existing_id")
            ]
            return ("refused", type(error).__name__, *told)

    def same(self, call: Callable[[Memory], Any]) -> Any:
        reference, *others = [self.answer(memory, call) for memory in self.memories]
        for other in others:
            assert other == reference
        return reference

    def write(self, call: Callable[[Memory], Any]) -> Any:
        """A write: compared, and a refused or a deduplicated one moves nothing."""
        self.fresh.call += 1
        before = [state(memory) for memory in self.memories]
        told = self.same(call)
        nothing = told[0] in ("refused", "deduped") or (told[0] == "deleted" and told[1]["dry_run"])
        if nothing:
            assert [state(memory) for memory in self.memories] == before, "what did nothing moved something"
        return told

    def when(self, fields: dict[str, Any]) -> dict[str, Any]:
        """With an expiry in seconds from now made a time."""
        seconds = fields.get("expires_at")
        return (
            fields if seconds is None else {**fields, "expires_at": self.clock() + timedelta(seconds=seconds)}
        )

    # Writes.

    @rule(
        user=users, text=texts, title=titles, type=types, key=st.one_of(st.none(), keys, keys),
        fields=more, session=sessions, once=idempotency, expect=expected,
    )  # fmt: skip
    def save(
        self, user: str, text: str, key: Any, fields: Any, session: Any, once: Any, expect: Any, **named: Any
    ) -> None:
        given = {
            **named,
            "topic_key": key,
            "session_id": session,
            "idempotency_key": once,
            **self.when(fields),
        }
        if key is not None:
            given["expect_revision"] = expect
        self.write(lambda memory: memory.mem_save(user, text, **given))

    @rule(
        user=users,
        items=st.lists(
            st.fixed_dictionaries(
                {"content": texts, "title": titles, "type": types},
                optional={"topic_key": keys, "tags": tags, "session_id": sessions},
            ),
            max_size=5,
        ),
    )
    def save_many(self, user: str, items: list[Any]) -> None:
        self.write(lambda memory: memory.mem_save_many(user, items))

    @rule(
        user=users, key=keys, number=numbers, by_key=st.booleans(), once=idempotency, expect=expected, session=sessions,
        content=st.one_of(st.none(), texts), patch=st.sampled_from((None, {"n": None}, {"n": 2, "k": "v"})), fields=more,
    )  # fmt: skip
    def update(
        self, user: str, key: str, number: int, by_key: bool, once: Any, expect: Any, session: Any, content: Any,
        patch: Any, fields: Any,
    ) -> None:  # fmt: skip
        given = {
            **self.when(fields),
            "session_id": session,
            "idempotency_key": once,
            "expect_revision": expect,
        }
        given |= {"content": content} if content is not None else {}
        given |= {"metadata": patch} if patch is not None else {}
        named = {"topic_key": key} if by_key else {"observation_id": number}
        self.write(lambda memory: memory.mem_update(user, **named, **given))

    @rule(user=users, key=keys, revision=st.integers(1, 4), once=idempotency)
    def restore(self, user: str, key: str, revision: int, once: Any) -> None:
        self.write(
            lambda memory: memory.mem_restore(user, topic_key=key, revision=revision, idempotency_key=once)
        )

    @rule(user=users, number=numbers, dry=st.booleans(), once=idempotency)
    def forget_id(self, user: str, number: int, dry: bool, once: Any) -> None:
        self.write(lambda memory: memory.mem_delete(user, number, dry_run=dry, idempotency_key=once))

    @rule(user=users, key=keys, once=idempotency)
    def forget_key(self, user: str, key: str, once: Any) -> None:
        self.write(lambda memory: memory.mem_delete(user, topic_key=key, idempotency_key=once))

    @rule(user=users, where=filters, reach=reaches, dry=st.booleans())
    def forget_filtered(self, user: str, where: Any, reach: Any, dry: bool) -> None:
        self.write(lambda memory: memory.mem_delete(user, filter=where, reach=reach, dry_run=dry))

    @precondition(lambda self: self.fresh.call > 8)
    @rule(user=users, reach=st.sampled_from(("exact", "subtree")))
    def forget_all(self, user: str, reach: Any) -> None:
        self.write(lambda memory: memory.mem_delete(user, all=True, reach=reach))

    @rule(
        user=users,
        index=st.integers(0, 2),
        role=st.sampled_from(("user", "tool")),
        text=texts,
        once=idempotency,
    )
    def log_turn(self, user: str, index: int, role: str, text: str, once: Any) -> None:
        turn = {"thread_id": "t", "index": index, "role": role, "text": text, "idempotency_key": once}
        self.write(lambda memory: memory.mem_log_turn(user, **turn))

    @rule(
        user=users, source=st.sampled_from(("a.md", "b.md")), text=texts, title=st.one_of(st.none(), titles)
    )
    def add_document(self, user: str, source: str, text: str, title: Any) -> None:
        self.write(lambda memory: memory.mem_add_document(user, source=source, text=text, title=title))

    @rule(user=users, session=sessions, once=idempotency)
    def start_session(self, user: str, session: Any, once: Any) -> None:
        self.write(
            lambda memory: memory.mem_session_start(
                user, session_id=session, budget=400, idempotency_key=once
            )
        )

    @rule(user=users, session=sessions, text=texts, once=idempotency)
    def summarise(self, user: str, session: Any, text: str, once: Any) -> None:
        self.write(
            lambda memory: memory.mem_session_summary(user, text, session_id=session, idempotency_key=once)
        )

    @rule(user=users, session=sessions, summary=st.one_of(st.none(), texts), once=idempotency)
    def end_session(self, user: str, session: Any, summary: Any, once: Any) -> None:
        self.write(
            lambda memory: memory.mem_session_end(
                user, session_id=session, summary=summary, idempotency_key=once
            )
        )

    # What happens beside the calls.

    @rule(seconds=st.sampled_from((0.5, 7.0, 61.0, 3600.0, 90_000.0, -0.5, -3600.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.forward(seconds=seconds)

    @rule()
    def another_handle(self) -> None:
        """Handles remember only hints; the file is opened anew."""
        self.memories[2].close()
        engines = [memory.engine for memory in self.memories[:2]]
        self.memories = [Memory(engine, config=self.config) for engine in engines]
        self.memories.append(Memory.open(self.path, config=self.config))

    # Reads.

    @rule(
        user=users,
        query=queries,
        where=st.one_of(st.none(), filters),
        reach=reaches,
        limit=st.sampled_from((1, 3, 20)),
    )
    def search(self, user: str, query: str, where: Any, reach: Any, limit: int) -> None:
        self.same(
            lambda memory: memory.mem_search(
                user, query, filter=where, reach=reach, limit=limit, explain=True
            )
        )

    @rule(user=users, where=st.one_of(st.none(), filters), reach=reaches)
    def list_in_pages(self, user: str, where: Any, reach: Any) -> None:
        def pages(memory: Memory) -> list[Any]:
            found: list[Any] = []
            cursor: str | None = None
            while True:
                page = memory.mem_list(user, filter=where, reach=reach, cursor=cursor, limit=2)
                found += [page.total, *page]
                cursor = page.next_cursor
                if cursor is None:
                    return found

        self.same(pages)

    @rule(user=users, key=keys, number=numbers, reach=reaches)
    def look_around(self, user: str, key: str, number: int, reach: Any) -> None:
        self.same(lambda memory: memory.mem_timeline(user, number, before=2, after=2, reach=reach))
        self.same(lambda memory: memory.mem_history(user, topic_key=key, reach=reach))
        self.same(lambda memory: memory.mem_history(user, number))
        self.same(lambda memory: memory.mem_get_observation(user, topic_key=key, reach=reach))
        self.same(lambda memory: memory.mem_topics(user, key[:1], reach=reach))

    @rule(user=users, query=st.one_of(st.none(), queries), reach=reaches)
    def ask_for_context(self, user: str, query: Any, reach: Any) -> None:
        self.same(lambda memory: memory.mem_context(user, query=query, budget=500, reach=reach))
        self.same(lambda memory: memory.mem_suggest_topic_key(user, type="decision", title=query or "b c"))

    def everything_reads_the_same(self) -> None:
        reference, *others = [state(memory) for memory in self.memories]
        for other in others:
            assert other == reference
        for user in USERS:
            for query in ("apple", "pear plum", "東京"):
                self.same(lambda memory, u=user, q=query: memory.mem_search(u, q, reach="subtree"))  # type: ignore[misc]

    @invariant()
    def revisions_add_up_and_times_rise(self) -> None:
        for memory in self.memories:
            for user in USERS:
                for record in memory.mem_list(user, limit=1000):
                    history = memory.mem_history(user, record.id)
                    numbers_held = [state.revision for state in history]
                    assert numbers_held == list(range(record.revision_count, 0, -1))
                    written = [state.written_at for state in history]
                    assert written == sorted(set(written), reverse=True)
                    assert record.created_at <= record.updated_at == written[0]


def comparable(answer: Any) -> Any:
    """An answer as plain values: scores rounded, and what erasure waits for is a matter of files."""
    if isinstance(answer, SaveResult):
        word = "deduped" if answer.replayed else "saved"
        return word, answer.to_dict()
    if isinstance(answer, DeleteResult):
        return "deleted", {**answer.to_dict(), "erased": bool(answer.erased)}
    if isinstance(answer, list) and answer and all(isinstance(item, SaveResult) for item in answer):
        repeats = all(item.replayed for item in answer)
        return "deduped" if repeats else "saved", plain(answer)
    return "answered", rounded(plain(answer)), getattr(answer, "truncated", None)


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def state(memory: Memory) -> dict[str, Any]:
    """All that a caller can see of the users."""
    seen: dict[str, Any] = {}
    for user in USERS:
        records = [record.to_dict() for record in memory.mem_list(user, limit=1000)]
        past = [memory.mem_history(user, record["id"]).to_dict() for record in records]
        open_and_ended = memory.mem_session_list(user, limit=1000).to_dict()
        seen[user] = [records, past, open_and_ended, plain(memory.mem_stats(user))]
    return seen


Interleaving.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestInterleaving = Interleaving.TestCase
