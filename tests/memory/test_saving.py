"""mem_save and its kin: outcomes, material fields, privacy, conditions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keyfold import Conflict, IdempotencyConflict, InvalidRequest, Memory, NotFound
from tests.conftest import SteppedClock

AUTH: dict[str, Any] = {"type": "decision", "title": "Auth model", "topic_key": "architecture/auth"}
LOOSE: dict[str, Any] = {"type": "discovery", "title": "Loose"}


def test_a_keyed_save_is_created_then_updated_in_place_then_deduped(
    memory: Memory, clock: SteppedClock
) -> None:
    first = memory.mem_save("alice", "JWT, one hour.", **AUTH)
    clock.forward(minutes=5)
    second = memory.mem_save("alice", "JWT, two hours.", **AUTH)
    third = memory.mem_save("alice", "JWT, two hours.", **AUTH)
    assert [first.outcome, second.outcome, third.outcome] == ["created", "updated", "deduped"]
    assert first.id == second.id == third.id
    assert [first.revision_count, second.revision_count, third.revision_count] == [1, 2, 2]
    assert [first.replayed, second.replayed, third.replayed] == [False, False, True]
    held = memory.mem_get_observation("alice", second.id)
    assert held is not None
    assert held.content == "JWT, two hours."
    assert held.created_at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert held.updated_at == held.created_at + timedelta(minutes=5)


def test_two_saves_that_differ_only_inside_private_text_are_the_same_save(memory: Memory) -> None:
    first = memory.mem_save("alice", "key <private>aaa</private>.", **AUTH)
    second = memory.mem_save("alice", "key <PRIVATE why='x'>bbb</private>.", **AUTH)
    assert second.outcome == "deduped"
    assert first.normalized_hash == second.normalized_hash == hashlib.sha256(b"key [REDACTED].").hexdigest()
    held = memory.mem_get_observation("alice", first.id)
    assert held is not None
    assert held.content == "key [REDACTED]."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", "Other"),
        ("type", "pattern"),
        ("metadata", {"a": 1}),
        ("tags", ["x"]),
        ("pinned", True),
        ("expires_at", datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_every_material_field_that_is_passed_makes_a_revision(memory: Memory, field: str, value: Any) -> None:
    memory.mem_save("alice", "text", **AUTH)
    changed = memory.mem_save("alice", "text", **{**AUTH, field: value})
    again = memory.mem_save("alice", "text", **{**AUTH, field: value})
    assert (changed.outcome, changed.revision_count, again.outcome) == ("updated", 2, "deduped")


def test_what_is_not_passed_is_kept_and_none_clears_it(memory: Memory) -> None:
    memory.mem_save("alice", "one", **AUTH, metadata={"a": 1}, tags=["x", "y"], pinned=True)
    memory.mem_save("alice", "two", **AUTH)
    kept = memory.mem_get_observation("alice", topic_key="architecture/auth")
    assert kept is not None
    assert (kept.metadata, kept.tags, kept.pinned) == ({"a": 1}, ("x", "y"), True)
    memory.mem_save("alice", "two", **AUTH, metadata=None, tags=None, pinned=None)
    cleared = memory.mem_get_observation("alice", topic_key="architecture/auth")
    assert cleared is not None
    assert (cleared.metadata, cleared.tags, cleared.pinned) == ({}, (), False)


def test_the_order_of_tags_is_not_a_change(memory: Memory) -> None:
    memory.mem_save("alice", "one", **AUTH, tags=["x", "y"])
    assert memory.mem_save("alice", "one", **AUTH, tags=["y", "x", "x"]).outcome == "deduped"


def test_an_unkeyed_repeat_is_deduped_within_the_window_and_created_after_it(
    memory: Memory, clock: SteppedClock
) -> None:
    first = memory.mem_save("alice", "text", **LOOSE)
    clock.forward(seconds=59)
    assert memory.mem_save("alice", "text", **LOOSE).id == first.id
    clock.forward(seconds=2)
    later = memory.mem_save("alice", "text", **LOOSE)
    assert (later.outcome, later.id != first.id) == ("created", True)


def test_an_unkeyed_save_with_another_title_is_another_memory(memory: Memory) -> None:
    memory.mem_save("alice", "text", **LOOSE)
    assert memory.mem_save("alice", "text", **{**LOOSE, "title": "Else"}).outcome == "created"


def test_a_window_of_zero_turns_unkeyed_dedup_off(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(dedup_window=0)
    memory.mem_save("alice", "text", **LOOSE)
    assert memory.mem_save("alice", "text", **LOOSE).outcome == "created"


def test_dedup_on_content_is_the_literal_rule(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(dedup_on="content")
    memory.mem_save("alice", "text", **AUTH)
    assert memory.mem_save("alice", "text", **{**AUTH, "title": "Else"}, tags=["x"]).outcome == "deduped"
    loose = memory.mem_save("alice", "loose", **LOOSE)
    assert memory.mem_save("alice", "loose", **{**LOOSE, "title": "Else"}).id == loose.id


def test_one_key_of_two_users_is_two_memories(memory: Memory) -> None:
    memory.mem_save("alice", "hers", **AUTH)
    assert memory.mem_save("bob", "his", **AUTH).outcome == "created"
    held = memory.mem_get_observation("alice", topic_key="architecture/auth")
    assert held is not None
    assert held.content == "hers"


def test_another_users_id_is_as_absent(memory: Memory) -> None:
    saved = memory.mem_save("alice", "hers", **AUTH)
    assert memory.mem_get_observation("bob", saved.id) is None
    with pytest.raises(NotFound):
        memory.mem_update("bob", saved.id, title="taken")
    assert memory.mem_delete("bob", saved.id).deleted == 0
    assert memory.mem_get_observation("alice", int(saved.id)) is not None


def test_a_new_key_names_its_near_twins(memory: Memory) -> None:
    memory.mem_save("alice", "text", **AUTH)
    twin = memory.mem_save("alice", "text", **{**AUTH, "topic_key": "Architecture/ AU_th"})
    assert (twin.outcome, twin.similar_keys) == ("created", ("architecture/auth",))
    assert memory.mem_save("alice", "new text", **AUTH).similar_keys == ()


def test_expect_revision_writes_only_on_what_was_read(memory: Memory) -> None:
    assert memory.mem_save("alice", "one", **AUTH, expect_revision=0).outcome == "created"
    memory.mem_save("alice", "two", **AUTH, expect_revision=1)
    with pytest.raises(Conflict) as caught:
        memory.mem_save("alice", "three", **AUTH, expect_revision=1)
    assert caught.value.current_revision == 2
    held = memory.mem_get_observation("alice", topic_key="architecture/auth")
    assert held is not None
    assert held.content == "two"


def test_an_idempotency_key_gives_the_first_receipt_again(memory: Memory) -> None:
    first = memory.mem_save("alice", "one", **AUTH, idempotency_key="k1")
    memory.mem_save("alice", "two", **AUTH)
    replay = memory.mem_save("alice", "one", **AUTH, idempotency_key="k1")
    assert (replay.outcome, replay.replayed, replay.revision_count) == (first.outcome, True, 1)
    held = memory.mem_get_observation("alice", topic_key="architecture/auth")
    assert held is not None
    assert held.content == "two"


def test_an_idempotency_key_with_another_body_conflicts_and_names_the_record(memory: Memory) -> None:
    first = memory.mem_save("alice", "one", **LOOSE, idempotency_key="k1")
    with pytest.raises(IdempotencyConflict) as caught:
        memory.mem_save("alice", "other", **LOOSE, idempotency_key="k1")
    assert caught.value.existing_id == first.id


def test_a_key_is_free_again_once_its_record_is_forgotten_or_a_day_old(
    memory: Memory, clock: SteppedClock
) -> None:
    first = memory.mem_save("alice", "one", **LOOSE, idempotency_key="k1")
    memory.mem_delete("alice", first.id)
    second = memory.mem_save("alice", "other", **LOOSE, idempotency_key="k1")
    assert (second.outcome, second.replayed) == ("created", False)
    clock.forward(hours=25)
    assert memory.mem_save("alice", "third", **LOOSE, idempotency_key="k1").outcome == "created"


def test_a_delete_with_a_key_replays_its_count(memory: Memory) -> None:
    saved = memory.mem_save("alice", "one", **AUTH)
    first = memory.mem_delete("alice", saved.id, idempotency_key="d1")
    again = memory.mem_delete("alice", saved.id, idempotency_key="d1")
    assert (first.deleted, first.replayed, again.deleted, again.replayed) == (1, False, 1, True)


def test_a_batch_gives_a_receipt_an_item_and_folds_repeats(memory: Memory) -> None:
    item = {"content": "same", **LOOSE}
    keyed = {"content": "A", **AUTH}
    receipts = memory.mem_save_many("alice", [item, keyed, item, {**keyed, "content": "B"}, keyed])
    assert [receipt.outcome for receipt in receipts] == [
        "created",
        "created",
        "deduped",
        "updated",
        "updated",
    ]
    assert receipts[0].id == receipts[2].id
    assert receipts[4].revision_count == 3


SAME_ITEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the same": ({}, {}),
    "metadata in another order": ({"metadata": {"a": 1, "b": [2]}}, {"metadata": {"b": [2.0], "a": 1.0}}),
    "tags in another order": ({"tags": ["a", "b"]}, {"tags": ["b", "a", "b"]}),
    "the same span of expiry": ({"expires_at": timedelta(days=1)}, {"expires_at": timedelta(hours=24)}),
    "the same end, told in another zone": (
        {"expires_at": "2030-01-01T00:00:00Z"},
        {"expires_at": "2030-01-01T01:00:00+01:00"},
    ),
    "observed at another time": ({"observed_at": "2020-01-01T00:00:00Z"}, {"observed_at": None}),
    "defaults that one passes": ({"tags": None, "metadata": {}, "pinned": False, "expires_at": None}, {}),
    "another session": ({"session_id": "a"}, {"session_id": "b"}),
    "an idempotency key": ({}, {"idempotency_key": "k"}),
    "two idempotency keys": ({"idempotency_key": "j"}, {"idempotency_key": "k"}),
}


@pytest.mark.parametrize("window", [0, 60])
@pytest.mark.parametrize(("one", "other"), SAME_ITEMS.values(), ids=SAME_ITEMS.keys())
def test_items_of_a_batch_that_say_the_same_are_one_whatever_the_window(
    open_memory: Callable[..., Memory],
    clock: SteppedClock,
    window: int,
    one: dict[str, Any],
    other: dict[str, Any],
) -> None:
    clock.step = timedelta(microseconds=1)
    memory = open_memory(dedup_window=window)
    item = {"content": "same", **LOOSE}
    receipts = memory.mem_save_many("alice", [{**item, **one}, {**item, **other}])
    assert [receipt.outcome for receipt in receipts] == ["created", "deduped"]
    assert receipts[0].id == receipts[1].id
    for key in filter(None, (one.get("idempotency_key"), other.get("idempotency_key"))):
        again = memory.mem_save_many("alice", [{**item, "idempotency_key": key}])[0]
        assert (again.id, again.replayed) == (receipts[0].id, True)


OTHER_ITEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "title": ({}, {"title": "Another"}),
    "metadata": ({"metadata": {"a": 1}}, {"metadata": {"a": True}}),
    "tags": ({"tags": ["a,b"]}, {"tags": ["a", "b"]}),
    "a pin": ({}, {"pinned": True}),
    "span": ({"expires_at": timedelta(days=1)}, {"expires_at": timedelta(days=2)}),
}


@pytest.mark.parametrize(("one", "other"), OTHER_ITEMS.values(), ids=OTHER_ITEMS.keys())
def test_items_of_a_batch_that_differ_are_two_unless_the_content_alone_counts(
    open_memory: Callable[..., Memory], one: dict[str, Any], other: dict[str, Any]
) -> None:
    item = {"content": "same", **LOOSE}
    items = [{**item, **one}, {**item, **other}]
    for number, (rule, outcome) in enumerate((("material", "created"), ("content", "deduped"))):
        memory = open_memory(str(number), dedup_window=0, dedup_on=rule)
        assert [receipt.outcome for receipt in memory.mem_save_many("bob", items)] == ["created", outcome]


def test_a_batch_with_a_bad_item_writes_nothing_and_names_it(memory: Memory) -> None:
    with pytest.raises(InvalidRequest) as caught:
        memory.mem_save_many("alice", [{"content": "good", **LOOSE}, {"content": " ", **LOOSE}])
    assert caught.value.field == "items[1].content"
    assert memory.mem_list("alice").total == 0


def test_a_batch_that_conflicts_writes_nothing(memory: Memory) -> None:
    with pytest.raises(Conflict):
        memory.mem_save_many(
            "alice", [{"content": "good", **LOOSE}, {"content": "x", **AUTH, "expect_revision": 3}]
        )
    assert memory.mem_list("alice").total == 0


def test_an_update_patches_metadata_and_leaves_the_text(memory: Memory) -> None:
    memory.mem_save("alice", "text", **AUTH, metadata={"a": 1, "b": 2})
    changed = memory.mem_update("alice", topic_key="architecture/auth", metadata={"a": None, "c": 3})
    held = memory.mem_get_observation("alice", changed.id)
    assert held is not None
    assert (held.content, held.metadata, held.revision_count) == ("text", {"b": 2, "c": 3}, 2)


def test_an_update_of_nothing_is_refused_and_of_the_absent_not_found(memory: Memory) -> None:
    with pytest.raises(InvalidRequest):
        memory.mem_update("alice", topic_key="architecture/auth")
    with pytest.raises(NotFound):
        memory.mem_update("alice", topic_key="architecture/auth", title="x")
    assert memory.mem_stats("alice")["total"] == 0


def test_a_turn_is_immutable_and_the_same_again_is_a_replay(memory: Memory) -> None:
    turn: dict[str, Any] = {"thread_id": "t#1", "index": 0, "role": "user"}
    first = memory.mem_log_turn("alice", **turn, text="hello")
    again = memory.mem_log_turn("alice", **turn, text="hello")
    assert (first.outcome, again.outcome, again.replayed, again.id) == ("created", "deduped", True, first.id)
    with pytest.raises(Conflict):
        memory.mem_log_turn("alice", **turn, text="changed")
    assert memory.mem_update("alice", first.id, content="corrected").revision_count == 2


def test_a_document_keeps_what_its_metadata_says_of_source_and_mime(memory: Memory) -> None:
    read: dict[str, Any] = {"source": "a.md", "mime": "text/x", "original_source": "http://origin"}
    first = memory.mem_add_document("alice", source="a.md", text="x", metadata=read)
    held = memory.mem_get_observation("alice", first.id)
    assert held is not None
    assert held.metadata == read
    again = memory.mem_add_document("alice", source="a.md", text="x", mime="text/x", metadata=held.metadata)
    assert again.outcome == "deduped"


def test_a_document_is_keyed_by_its_source(memory: Memory) -> None:
    first = memory.mem_add_document("alice", source="notes/a.md", text="one", mime="text/markdown")
    same = memory.mem_add_document("alice", source="notes/a.md", text="one", mime="text/markdown")
    changed = memory.mem_add_document("alice", source="notes/a.md", text="two", mime="text/markdown")
    assert [first.outcome, same.outcome, changed.outcome] == ["created", "deduped", "updated"]
    held = memory.mem_get_observation("alice", first.id)
    assert held is not None
    assert (held.type, held.taint, held.metadata["source"]) == ("document", "external", "notes/a.md")


def test_an_expired_memory_is_invisible_everywhere_at_once(memory: Memory, clock: SteppedClock) -> None:
    saved = memory.mem_save("alice", "zebra", **AUTH, expires_at=clock.moment + timedelta(hours=1))
    assert memory.mem_search("alice", "zebra").total == 1
    clock.forward(hours=1)
    assert memory.mem_get_observation("alice", saved.id) is None
    assert memory.mem_get_observation("alice", topic_key="architecture/auth") is None
    assert memory.mem_search("alice", "zebra").total == 0
    assert memory.mem_list("alice").total == 0
    assert memory.mem_topics("alice").total == 0
    assert len(memory.mem_history("alice", topic_key="architecture/auth")) == 0
    assert "zebra" not in memory.mem_context("alice")
    fresh = memory.mem_save("alice", "zebra", **AUTH)
    assert (fresh.outcome, fresh.revision_count, fresh.id != saved.id) == ("created", 1, True)


def test_times_of_a_record_never_go_back(memory: Memory, clock: SteppedClock) -> None:
    memory.mem_save("alice", "one", **AUTH)
    clock.forward(hours=-2)
    memory.mem_save("alice", "two", **AUTH)
    history = memory.mem_history("alice", topic_key="architecture/auth")
    assert history[0].written_at == history[1].written_at + timedelta(microseconds=1)


@pytest.mark.parametrize("days", [None, 90])
def test_a_restore_does_not_bring_back_an_expiry_that_has_passed(
    memory: Memory, clock: SteppedClock, days: int | None
) -> None:
    start = clock()
    then = None if days is None else start + timedelta(days=days)
    memory.mem_save("alice", "one", **LOOSE, topic_key="k", expires_at=start + timedelta(days=1))
    memory.mem_save("alice", "two", **LOOSE, topic_key="k", expires_at=then)
    clock.forward(hours=30)
    receipt = memory.mem_restore("alice", topic_key="k", revision=1)
    assert (receipt.outcome, receipt.revision_count) == ("updated", 3)
    restored = memory.mem_get_observation("alice", receipt.id)
    assert restored is not None
    assert (restored.content, restored.expires_at) == ("one", then)


def test_a_restore_brings_back_an_expiry_that_is_still_ahead(memory: Memory, clock: SteppedClock) -> None:
    ahead = clock() + timedelta(days=9)
    memory.mem_save("alice", "one", **LOOSE, topic_key="k", expires_at=ahead)
    memory.mem_save("alice", "two", **LOOSE, topic_key="k", expires_at=None)
    receipt = memory.mem_restore("alice", topic_key="k", revision=1)
    restored = memory.mem_get_observation("alice", receipt.id)
    assert restored is not None
    assert restored.expires_at == ahead


DAYS: dict[str, Any] = {"expires_at": timedelta(days=30)}


@pytest.mark.parametrize("named", [{}, {"topic_key": "k"}, {"idempotency_key": "once"}])
def test_a_save_with_a_span_to_its_end_is_recognised_when_it_comes_again(
    memory: Memory, clock: SteppedClock, named: dict[str, Any]
) -> None:
    first = memory.mem_save("alice", "one", **LOOSE, **DAYS, **named)
    held = memory.mem_get_observation("alice", first.id)
    clock.forward(seconds=50)
    again = memory.mem_save("alice", "one", **LOOSE, **DAYS, **named)
    assert (again.id, again.replayed) == (first.id, True)
    assert held is not None
    assert held.expires_at is not None
    assert timedelta(days=30) <= held.expires_at - held.created_at + timedelta(seconds=1)
    assert memory.mem_get_observation("alice", first.id) == held
    other = {**DAYS, "expires_at": timedelta(days=31)}
    if "idempotency_key" in named:
        clock.forward(hours=2)
        assert memory.mem_save("alice", "one", **LOOSE, **DAYS, **named).replayed
        with pytest.raises(IdempotencyConflict):
            memory.mem_save("alice", "one", **LOOSE, **other, **named)
    else:
        assert not memory.mem_save("alice", "one", **LOOSE, **other, **named).replayed


def test_a_span_given_again_later_lets_a_memory_live_on(memory: Memory, clock: SteppedClock) -> None:
    first = memory.mem_save("alice", "one", **LOOSE, topic_key="k", **DAYS)
    before = memory.mem_get_observation("alice", first.id)
    clock.forward(days=20)
    again = memory.mem_save("alice", "one", **LOOSE, topic_key="k", **DAYS)
    after = memory.mem_get_observation("alice", first.id)
    assert (again.outcome, again.id) == ("updated", first.id)
    assert before is not None
    assert after is not None
    assert before.expires_at is not None
    assert after.expires_at is not None
    assert after.expires_at - before.expires_at >= timedelta(days=20)


def test_an_exact_end_is_compared_exactly(memory: Memory, clock: SteppedClock) -> None:
    end = clock() + timedelta(days=30)
    memory.mem_save("alice", "one", **LOOSE, topic_key="k", expires_at=end)
    again = memory.mem_save("alice", "one", **LOOSE, topic_key="k", expires_at=end + timedelta(seconds=1))
    assert again.outcome == "updated"


@pytest.mark.parametrize("span", [timedelta(0), timedelta(days=-1), timedelta.max])
def test_a_span_that_leads_nowhere_is_refused(memory: Memory, span: timedelta) -> None:
    with pytest.raises(InvalidRequest) as raised:
        memory.mem_save("alice", "one", **LOOSE, expires_at=span)
    assert raised.value.field == "expires_at"
