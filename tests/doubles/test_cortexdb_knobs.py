"""Each knob of the CortexDB double that makes the next requests go wrong strikes as often as told, and as told."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

import pytest

from tests.doubles.cortexdb import CortexDirect
from tests.doubles.cortexdb_asking import SCOPE, Asking, event, refusal
from tests.doubles.cortexdb_knobs import Knobs


def test_a_knob_that_does_not_exist_cannot_be_turned() -> None:
    with pytest.raises(AttributeError):
        Knobs().listing_lags = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "called"), [(401, "MISSING_TOKEN"), (429, "RATE_LIMITED"), (500, "INTERNAL")]
)
def test_everything_may_fail_until_told_otherwise(
    cortex: CortexDirect, ask: Asking, code: int, called: str
) -> None:
    cortex.knobs.fail_all = code
    assert refusal(ask.write()) == (code, called)
    assert refusal(ask.get("admin/health")) == (code, called)
    cortex.knobs.fail_all = 0
    assert ask.write().status_code == 202
    assert len(cortex.events) == 1


def test_listings_may_come_out_empty_though_all_is_held(cortex: CortexDirect, ask: Asking) -> None:
    ask.written()
    cortex.knobs.hide_listing_for = 2
    assert [len(ask.ids()) for _ in range(3)] == [0, 0, 2]


def test_a_cursor_may_not_advance(cortex: CortexDirect, ask: Asking) -> None:
    cortex.seed([event(str(n)) for n in range(3)])
    cortex.knobs.stuck_cursor = 1
    page = ask.page(limit=2, cursor="2")
    assert (page["has_more"], page["next_cursor"]) == (True, "2")
    assert ask.page(limit=2, cursor="2")["next_cursor"] == "4"


@pytest.mark.parametrize("knob", ["rate_limit_events", "rate_limit_experience", "rate_limit_forget"])
def test_a_route_may_be_limited_for_the_next_few_requests(
    cortex: CortexDirect, ask: Asking, knob: str
) -> None:
    ask.written("one")
    setattr(cortex.knobs, knob, 2)
    calls = {
        "rate_limit_events": lambda: ask.get("events", scope=SCOPE),
        "rate_limit_experience": lambda: ask.write("two", "k2"),
        "rate_limit_forget": lambda: ask.forget("evt_1"),
    }
    answers = [calls[knob]() for _ in range(3)]
    assert [answer.status_code for answer in answers[:2]] == [429, 429]
    assert answers[0].json()["error_code"] == "RATE_LIMITED"
    assert answers[2].is_success
    assert all(call().is_success for name, call in calls.items() if name != knob)


def test_a_scope_may_be_just_being_registered(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.state_change_events = cortex.knobs.state_change_experience = 1
    for answer in (ask.get("events", scope=SCOPE), ask.write()):
        assert refusal(answer) == (503, "AUTHORIZATION_STATE_CHANGED")
        assert answer.json()["retriable"] is True
    assert cortex.events == []
    assert (ask.get("events", scope=SCOPE).status_code, ask.write().status_code) == (200, 202)


def test_a_write_may_be_carried_out_and_answered_as_failed(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.apply_then_fail = 1
    assert ask.write("one", "k1").status_code == 503
    assert [held.text for held in cortex.events] == ["one"]
    assert ask.write("one", "k1").json()["replayed_from_idempotency"] is True


def test_every_nth_write_may_be_carried_out_and_answered_as_failed(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.apply_then_fail_every = 3
    assert [ask.write(str(n)).status_code for n in range(6)] == [202, 202, 503, 202, 202, 503]
    assert len(cortex.events) == 6


def test_half_of_a_bulk_may_be_carried_out(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.apply_half_then_fail = 1
    items = {"items": [event(str(n), f"k{n}") for n in range(4)]}
    assert ask.post("experience/bulk", items).status_code == 503
    assert [held.text for held in cortex.events] == ["0", "1"]
    results = ask.post("experience/bulk", items).json()["results"]
    assert [item["replayed_from_idempotency"] for item in results] == [True, True, False, False]


def test_the_nth_event_may_fail_with_those_before_it_written(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.fail_nth_experience = 3
    assert ask.write("0").status_code == 202
    assert ask.post("experience/bulk", {"items": [event("1"), event("2"), event("3")]}).status_code == 503
    assert [held.text for held in cortex.events] == ["0", "1"]
    assert ask.write("4").status_code == 202


def test_a_wait_may_run_out_on_an_event_that_is_durable(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.wait_timeouts = 1
    assert ask.write("not waited for").status_code == 202
    assert refusal(ask.post("experience?wait=indexed", event("one", "k1"))) == (408, "WAIT_TIMEOUT")
    again = ask.post("experience?wait=indexed", event("one", "k1")).json()
    assert again["replayed_from_idempotency"] is True


def test_a_forget_may_be_carried_out_and_answered_as_failed(cortex: CortexDirect, ask: Asking) -> None:
    ask.written("one")
    cortex.knobs.forget_then_fail = 1
    assert ask.forget("evt_1").status_code == 503
    assert cortex.events == []
    assert ask.forget("evt_1").json()["deleted"]["events"] == 0


def test_recall_may_be_down_while_the_rest_is_up(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.recall_down = True
    assert ask.post("recall", {"scope": SCOPE}).status_code == 503
    assert ask.get("events", scope=SCOPE).status_code == 200


def test_the_next_packs_may_be_gone_when_they_are_used(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.expire_packs = 2
    packs = [ask.recall()["pack_id"] for _ in range(3)]
    used = [ask.post("answer", {"scope": SCOPE, "question": "q", "use_pack_id": pack}) for pack in packs]
    assert [answer.status_code for answer in used] == [404, 404, 200]


def test_faults_may_wait_for_the_next_write(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.arm_after_write(rate_limit_events=1, hide_listing_for=1)
    assert ask.get("events", scope=SCOPE).status_code == 200
    ask.written("one")
    assert ask.get("events", scope=SCOPE).status_code == 429
    assert [len(ask.ids()) for _ in range(2)] == [0, 2]


def test_events_on_behalf_of_others_may_be_refused(cortex: CortexDirect, ask: Asking) -> None:
    attributed: list[dict[str, Any]] = [
        {"observed_actor": {"id": "user:a", "type": "user"}},
        {"subject": {"id": "x"}},
    ]
    assert [ask.write("one", **more).status_code for more in attributed] == [202, 202]
    cortex.knobs.refuse_attribution = True
    for more in attributed:
        assert refusal(ask.write("one", **more)) == (403, "POLICY_DENIED")
    assert refusal(ask.post("experience/bulk", {"items": [event(**attributed[0])]})) == (403, "POLICY_DENIED")


def test_the_version_may_be_down(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.version_down = True
    assert ask.get("admin/version").status_code == 500


def test_a_server_may_not_tell_replays(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.no_replay_flag = True
    assert (
        ask.write("one", "k1").json()
        == ask.write("one", "k1").json()
        == {"event_id": "evt_1", "status": "captured"}
    )
    bulk = ask.post("experience/bulk", {"items": [event("one", "k1")]}).json()
    assert bulk["results"] == [{"index": 0, "event_id": "evt_1"}]


def test_a_server_may_compare_by_the_text_alone(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.compare_text_only = True
    ask.write("one", "k1", labels=["a"])
    assert ask.write("one", "k1", labels=["b"]).json()["replayed_from_idempotency"] is True
    assert ask.write("two", "k1", labels=["a"]).status_code == 409


def test_a_server_may_show_events_as_the_documents_do(cortex: CortexDirect, ask: Asking) -> None:
    ask.written("tea", labels=["a"])
    cortex.knobs.flat_events = True
    shown = ask.page()["items"][0]
    assert (shown["event_id"], shown["labels"]) == ("evt_1", ["a"])
    assert not {"id", "context"} & set(shown)
    assert ask.recall("tea")["layers"]["events"][0]["event_id"] == "evt_1"


def test_what_is_awkward_by_default_can_be_put_right(cortex: CortexDirect, ask: Asking) -> None:
    knobs = cortex.knobs
    knobs.doubled, knobs.listing_lag, knobs.recall_lag, knobs.packs_die_at_forget = False, 0, 0, False
    ask.write("tea")
    assert ask.ids() == ["evt_1"]
    pack = ask.recall("tea")
    assert len(pack["layers"]["events"]) == 1
    ask.forget("evt_1")
    assert (
        ask.post("answer", {"scope": SCOPE, "question": "q", "use_pack_id": pack["pack_id"]}).status_code
        == 200
    )


def test_a_listing_may_take_its_time(cortex: CortexDirect, ask: Asking) -> None:
    cortex.knobs.listing_delay = 0.2
    assert ask.get("events", scope=SCOPE).elapsed.total_seconds() >= 0.2
    assert ask.write().status_code == 202


def test_eight_writers_at_once_lose_and_double_nothing(cortex: CortexDirect) -> None:
    """A tenth of what the double is made for; every twentieth write is carried out and answered 503."""
    cortex.knobs.apply_then_fail_every = 20
    host, port = cortex.url.removeprefix("http://").split(":")
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
    receipts: list[str] = []

    def write(writer: int) -> None:
        connection = http.client.HTTPConnection(host, int(port))
        for number in range(125):
            body = json.dumps(event(f"{writer} {number}", f"{writer}-{number}"))
            status = 0
            while status != 202:
                connection.request("POST", "/v1/experience", body, headers)
                answer = connection.getresponse()
                status, said = answer.status, json.loads(answer.read())
            receipts.append(said["event_id"])
        connection.close()

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({held.text for held in cortex.events}) == len(cortex.events) == 1_000
    assert sorted(receipts) == sorted(held.id for held in cortex.events)
    assert cortex.count > 1_000
