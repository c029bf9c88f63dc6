"""Times as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from keyfold import Memory
from keyfold.clock import from_text


@pytest.mark.parametrize(
    "text", ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05z", "2026-01-02 03:04:05.000z", "20260102T030405z"]
)
def test_a_time_may_end_in_a_small_z_as_rfc_3339_allows(text: str) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert from_text(text) == from_text(text, naive=True) == moment
    with Memory.open("inmemory:") as memory:
        memory.mem_save("ana", "x", type="decision", title="t")
        assert len(memory.mem_list("ana", since=text)) == 1


@pytest.mark.parametrize("text", ["z", "", "zZ", "2026-01-02T03:04:05+01:00z", "2026-01-02z"])
def test_a_small_z_makes_no_time_of_anything_else(text: str) -> None:
    with pytest.raises(ValueError, match="isoformat"):
        from_text(text)


@pytest.mark.parametrize("given", [5, None, ["z"], {"z": 1}, b"2026-01-02T03:04:05z", 1.5])
def test_what_is_no_text_is_no_time(given: Any) -> None:
    with pytest.raises(TypeError):
        from_text(given)
