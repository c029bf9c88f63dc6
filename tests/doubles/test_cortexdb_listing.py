"""Listing what the CortexDB double holds: everything twice, late, and newest first."""

from __future__ import annotations

import time

import pytest

from tests.doubles.cortexdb import CortexDirect
from tests.doubles.cortexdb_asking import SCOPE, Asking, Clock, event, refusal


def test_every_event_is_listed_twice_in_a_row_and_the_newest_first(ask: Asking) -> None:
    ask.written("one")
    ask.written("two")
    page = ask.page()
    assert [item["id"] for item in page["items"]] == ["evt_2", "evt_2", "evt_1", "evt_1"]
    assert page["items"][0] == page["items"][1]
    assert page["has_more"] is False


def test_the_limit_counts_copies_so_that_a_page_may_end_between_two(ask: Asking) -> None:
    for text in ("one", "two", "three"):
        ask.written(text)
    first = ask.page(limit=3)
    assert [item["id"] for item in first["items"]] == ["evt_3", "evt_3", "evt_2"]
    assert first["has_more"] is True
    second = ask.page(limit=3, cursor=first["next_cursor"])
    assert [item["id"] for item in second["items"]] == ["evt_2", "evt_1", "evt_1"]
    assert second["has_more"] is False


def test_a_cursor_is_there_even_when_there_is_no_more(ask: Asking) -> None:
    ask.written("one")
    assert ask.page()["next_cursor"] == "2"


def test_the_limit_is_50_unless_told_and_500_at_most(cortex: CortexDirect, ask: Asking) -> None:
    cortex.seed([event(str(n)) for n in range(300)])
    assert len(ask.ids()) == 50
    assert len(ask.ids(limit=200)) == 200
    assert len(ask.ids(limit=1000)) == 500


def test_only_the_scope_itself_is_listed(ask: Asking) -> None:
    ask.written("above", scope="app:notes")
    ask.written("here")
    ask.written("below", scope=SCOPE + "/agent:b")
    assert ask.ids() == ["evt_2"] * 2


def test_labels_are_joined_by_commas_and_any_of_them_will_do(ask: Asking) -> None:
    ask.written("one", labels=["tm:i:1", "kind:note"])
    ask.written("two", labels=["tm:i:2", "kind:note"])
    ask.written("three", labels=["tm:i:3", "with,comma"])
    assert ask.ids(labels="tm:i:1,tm:i:3") == ["evt_3", "evt_3", "evt_1", "evt_1"]
    assert ask.ids(labels="kind:note") == ["evt_2", "evt_2", "evt_1", "evt_1"]
    assert ask.ids(labels="tm:i:9") == []
    assert ask.ids(labels="with,comma") == []


def test_parameters_that_are_not_known_are_ignored(ask: Asking) -> None:
    ask.written("one")
    ask.written("two")
    first = ask.page(limit=2)
    assert ask.ids(limit=2, curser=first["next_cursor"], label="nothing") == ["evt_2", "evt_2"]


def test_a_listing_can_be_narrowed_by_modality_and_time(ask: Asking, moment: Clock) -> None:
    ask.written("a note", modality="document")
    moment.forward(hours=1)
    ask.written("a turn")
    assert ask.ids(modality="document") == ["evt_1"] * 2
    assert ask.ids(since="2026-01-01T12:30:00Z") == ["evt_2"] * 2
    assert ask.ids(until="2026-01-01T12:30:00Z") == ["evt_1"] * 2


def test_an_event_is_shown_with_when_it_was_recorded(ask: Asking) -> None:
    ask.written("one", labels=["a"], context={"labels": ["a"], "observed_at": "2025-12-31T23:00:00+01:00"})
    shown = ask.page()["items"][0]
    assert shown == {
        "id": "evt_1",
        "scope": SCOPE,
        "modality": "conversation",
        "content": {"kind": "message", "role": "user", "text": "one"},
        "context": {
            "labels": ["a"],
            "observed_at": "2025-12-31T23:00:00+01:00",
            "recorded_at": "2026-01-01T12:00:00.000Z",
        },
    }
    assert ask.get("events/evt_1").json() == shown
    assert refusal(ask.get("events/evt_9")) == (404, "NOT_FOUND")


def test_an_event_can_be_fetched_before_it_is_listed(ask: Asking) -> None:
    ask.write("one")
    assert ask.get("events/evt_1").json()["content"]["text"] == "one"


def test_an_accepted_event_is_not_listed_yet(ask: Asking) -> None:
    ask.write("one")
    assert ask.ids() == []
    assert ask.ids() == ["evt_1"] * 2


def test_a_second_later_it_is(ask: Asking, moment: Clock) -> None:
    ask.write("one")
    moment.forward(seconds=1)
    assert ask.ids() == ["evt_1"] * 2


def test_how_many_listings_miss_an_event_can_be_set(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.listing_lag = 3
    ask.write("one")
    assert [len(ask.ids()) for _ in range(5)] == [0, 0, 0, 2, 2]


def test_five_thousand_events_are_seeded_and_listed_in_a_moment(cortex: CortexDirect, ask: Asking) -> None:
    before = time.perf_counter()
    cortex.seed([event(f"turn {n}", f"k{n}", labels=[f"tm:i:{n}"]) for n in range(5_000)])
    seen: set[str] = set()
    cursor: dict[str, str] = {}
    while True:
        page = ask.page(limit=500, **cursor)
        seen |= {item["id"] for item in page["items"]}
        if not page["has_more"]:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert len(seen) == 5_000
    assert time.perf_counter() - before < 20, "well under a second on an idle machine"


def test_a_scope_that_is_none_is_refused(ask: Asking) -> None:
    assert refusal(ask.get("events")) == (422, "INVALID_BODY")
    assert refusal(ask.get("events", scope="notes")) == (422, "INVALID_BODY")


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("", ["app:notes", "app:notes/agent:a", "app:notes2"]),
        ("app:notes", ["app:notes", "app:notes/agent:a"]),
        ("app:note", []),
        ("app:notes/", ["app:notes/agent:a"]),
    ],
)
def test_scopes_are_listed_by_a_prefix_of_whole_segments(ask: Asking, prefix: str, found: list[str]) -> None:
    for scope in ("app:notes2", "app:notes/agent:a", "app:notes"):
        ask.write(scope=scope)
    paths = ask.get("scopes/list", **({"prefix": prefix} if prefix else {})).json()
    assert paths == {"items": [{"path": path} for path in found]}


def test_a_write_registers_only_the_scope_that_it_lands_in(ask: Asking) -> None:
    ask.write(scope="app:notes/agent:a")
    assert ask.get("scopes/list").json()["items"] == [{"path": "app:notes/agent:a"}]


def test_scopes_are_50_unless_told_and_a_thousand_at_most_without_a_cursor(
    cortex: CortexDirect, ask: Asking
) -> None:
    cortex.knobs.padding_scopes = 1_200
    assert len(ask.get("scopes/list").json()["items"]) == 50
    whole = ask.get("scopes/list", limit=5_000, prefix="app:notes").json()
    assert len(whole["items"]) == 1_000
    assert list(whole) == ["items"]
