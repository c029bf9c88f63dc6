"""A hosted write whose claim was taken and that was never carried out: no earlier state is taken for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import OutcomeUnknown
from tests.remote.common import TINYHUMANS
from tests.remote.cortexdb_service import hasty, late

NOTE = {"type": "decision", "title": "Auth model", "topic_key": "k"}
LONG = "".join(f"# Part {number}\n\n{'word ' * 20_000}\n\n" for number in range(6))


@pytest.fixture
def double(running: Callable[[Any], Any]) -> Any:
    return running(late(TINYHUMANS.double()))


@pytest.fixture
def memory(double: Any, remembering: Callable[..., Memory]) -> Memory:
    memory = remembering(TINYHUMANS, double)
    hasty(memory.engine)  # type: ignore[arg-type]
    return memory


def note(memory: Memory) -> Any:
    [record] = memory.mem_list("ana")
    return record


@pytest.mark.parametrize("changed", [{"metadata": {"x": 1}}, {"pinned": True}, {"title": "Another title"}])
@pytest.mark.parametrize("prefixed", [False, True])
def test_a_rewrite_with_the_same_text_is_not_taken_for_the_state_before(
    memory: Memory, double: Any, changed: dict[str, Any], prefixed: bool
) -> None:
    double.knobs.role_prefix_listed = prefixed
    memory.mem_save("ana", "A", **NOTE)
    double.knobs.claim_then_fail = 1
    with pytest.raises(OutcomeUnknown):
        memory.mem_save("ana", "A", **(NOTE | changed))
    assert len(double.events) == 1
    assert memory.mem_save("ana", "A", **(NOTE | changed)).revision_count == 2
    held = note(memory)
    assert held.revision_count == 2
    assert {name: getattr(held, name) for name in changed} == changed


def test_a_text_of_before_that_is_saved_or_restored_again_is_not_taken_for_the_first_one(
    memory: Memory, double: Any
) -> None:
    for text in "AB":
        memory.mem_save("ana", text, **NOTE)
    acts: list[Callable[[], Any]] = [
        lambda: memory.mem_save("ana", "A", **NOTE),
        lambda: memory.mem_restore("ana", topic_key="k", revision=2),
    ]
    for number, act in enumerate(acts, 3):
        double.knobs.claim_then_fail = 1
        with pytest.raises(OutcomeUnknown):
            act()
        assert act().revision_count == number
        assert note(memory).revision_count == number
    assert note(memory).content == "B"


def test_a_document_of_which_one_piece_changed_is_never_left_without_the_others(
    memory: Memory, double: Any
) -> None:
    memory.mem_add_document("ana", source="a.md", text=LONG)
    double.knobs.claim_then_fail = 1
    with pytest.raises(OutcomeUnknown):
        memory.mem_add_document("ana", source="a.md", text=LONG + "tail")
    assert note(memory).content == LONG
    assert memory.mem_add_document("ana", source="a.md", text=LONG + "tail").revision_count == 2
    assert note(memory).content == LONG + "tail"


@pytest.mark.parametrize("prefixed", [False, True])
def test_what_was_carried_out_is_found_under_its_own_state(
    memory: Memory, double: Any, prefixed: bool
) -> None:
    double.knobs.role_prefix_listed = prefixed
    for metadata in ({}, {"x": 1}):
        double.knobs.apply_then_fail = 1
        memory.mem_save("ana", "A", **NOTE, metadata=metadata)
        assert note(memory).metadata == metadata
    assert len(double.events) == 2
