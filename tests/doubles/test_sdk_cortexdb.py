"""The official client works against the double: the double is what the client takes for CortexDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.doubles.cortexdb import CortexDirect

sdk: Any = pytest.importorskip("cortexdb", reason="cortexdbai is absent")

SCOPE = "app:notes/agent:a1"
ACTOR = "user:local"


@pytest.fixture
def client(cortex: CortexDirect) -> Iterator[Any]:
    with sdk.Cortex(cortex.url, actor=ACTOR, bearer="secret") as client:
        yield client


def test_it_is_the_version_that_the_facts_are_of() -> None:
    assert sdk.__version__ == "0.12.0"


def test_it_writes_and_learns_of_a_replay(client: Any, cortex: CortexDirect) -> None:
    write = {"text": "green tea", "labels": ["a"], "idempotency_key": "k1", "wait": "indexed"}
    first, again = client.experience(SCOPE, **write), client.experience(SCOPE, **write)
    assert (first["event_id"], first["status"]) == ("evt_1", "indexed")
    assert (first["replayed_from_idempotency"], again["replayed_from_idempotency"]) == (False, True)
    assert client.write_status(idempotency_key="k1")["event_id"] == "evt_1"
    (held,) = cortex.events
    assert (held.text, held.labels, held.body["modality"]) == ("green tea", ["a"], "conversation")


def test_it_writes_every_kind_of_content(client: Any, cortex: CortexDirect) -> None:
    client.experience(SCOPE, json_data={"a": 1}, modality="imported")
    client.experience(SCOPE, blob_id="b1", transcript="spoken")
    literal = {"type": "literal", "datatype": "string", "value": "Acme"}
    client.experience(SCOPE, triple={"subject": literal, "predicate": "p", "object": literal})
    client.experience(SCOPE, text="namaste", language="hi-Latn", scripts=["Latn"], timezone="Asia/Kolkata")
    assert [held.content["kind"] for held in cortex.events] == ["json", "blob_ref", "triple", "message"]


def test_it_writes_a_bulk(client: Any) -> None:
    items = [{"text": f"turn {n}", "role": "assistant", "idempotency_key": f"k{n}"} for n in range(3)]
    first, again = (client.experience_bulk(SCOPE, items, wait="indexed") for _ in range(2))
    assert [item["index"] for item in first["results"]] == [0, 1, 2]
    assert [item["event_id"] for item in again["results"]] == [item["event_id"] for item in first["results"]]
    assert all(item["replayed_from_idempotency"] for item in again["results"])


def test_it_writes_a_source_in_fragments(client: Any, cortex: CortexDirect) -> None:
    done = client.experience_source_text(SCOPE, "tea " * 400_000, source_id="file:tea")
    assert done["fragment_count"] == len(done["event_ids"]) == 2
    assert "".join(held.text for held in cortex.events) == "tea " * 400_000


def test_it_lists_by_labels_and_pages(client: Any, cortex: CortexDirect) -> None:
    for number in range(3):
        client.experience(SCOPE, text=f"turn {number}", labels=[f"n{number}"])
    cortex.settle()
    assert [item["id"] for item in client.events(SCOPE, labels=["n0", "n2"])["items"]] == ["evt_3"] * 2 + [
        "evt_1"
    ] * 2
    first = client.events(SCOPE, limit=3)
    second = client.events(SCOPE, limit=3, cursor=first["next_cursor"])
    assert (first["has_more"], second["has_more"]) == (True, False)


def test_it_recalls_and_answers(client: Any, cortex: CortexDirect) -> None:
    client.experience(SCOPE, text="green tea")
    cortex.settle()
    pack = client.recall(
        SCOPE,
        query="tea",
        view="granular",
        include=["events"],
        budgets={"max_tokens": 786_432, "per_layer_limits": {"events": 5}},
    )
    assert [item["content"]["text"] for item in pack["layers"]["events"]] == ["green tea"]
    answer = client.answer(SCOPE, "which tea?", use_pack_id=pack["pack_id"], cite_sources=True)
    assert [cited["id"] for cited in answer["citations"]] == ["evt_1"]
    cortex.knobs.answer_needs_pack = False
    assert client.answer(SCOPE, "which tea?")["answer"].endswith("green tea")
    cortex.knobs.no_answer_model = True
    with pytest.raises(sdk.V1NotConfiguredError):
        client.answer(SCOPE, "which tea?")


def test_it_previews_and_forgets(client: Any, cortex: CortexDirect) -> None:
    client.experience(SCOPE, text="one")
    client.experience(SCOPE, text="two")
    named = {"memory_ids": ["evt_1"], "cascade": "redact_events"}
    preview = client.forget_preview(SCOPE, **named)
    assert preview["estimated_deleted"]["events"] == 1
    done = client.forget(SCOPE, **named, from_preview_id=preview["preview_id"], reason="asked for")
    assert done["deleted"]["events"] == 1
    assert [held.text for held in cortex.events] == ["two"]
    with pytest.raises(sdk.V1APIError) as refused:
        client.forget(SCOPE)
    assert refused.value.error_code == "EMPTY_SELECTOR_WITHOUT_CONFIRMATION"


def test_it_erases(client: Any, cortex: CortexDirect) -> None:
    client.experience(SCOPE, text="one")
    assert client.erasure_preview(SCOPE, confirm_all=True)["estimated_affected"] == 1
    erased = client.erase(SCOPE, confirm_all=True, audit_note="asked for")
    assert erased["status"] == "completed"
    assert cortex.events == []


def test_it_learns_who_it_is_and_what_the_server_can(client: Any) -> None:
    assert client.whoami()["caller"] == ACTOR
    assert "budget_excerpt_v1" in client.capabilities()
    assert client.build_beliefs(SCOPE)["built"] == 0
    assert client.beliefs(SCOPE)["items"] == []


def test_it_raises_its_own_errors_for_what_the_double_refuses(client: Any, cortex: CortexDirect) -> None:
    def refused(kind: type[Exception], **write: Any) -> Any:
        with pytest.raises(kind) as error:
            client.experience(write.pop("scope", SCOPE), text="one", **write)
        return error.value

    client.experience(SCOPE, text="another", idempotency_key="k1")
    conflict = refused(sdk.V1APIError, idempotency_key="k1")
    assert (conflict.status, conflict.error_code) == (409, "IDEMPOTENCY_CONFLICT")
    assert conflict.details == {"existing_event_id": "evt_1"}
    assert refused(sdk.V1APIError, idempotency_key="k" * 65).error_code == "INVALID_ENVELOPE"
    assert refused(sdk.V1PolicyDeniedError, scope="person:a").status == 422
    cortex.knobs.rate_limit_experience = 1
    assert refused(sdk.V1RateLimitError).retriable is True
    with pytest.raises(sdk.V1AuthError), sdk.Cortex(cortex.url, actor="user:a", bearer="secret") as other:
        other.events(SCOPE)


def test_it_works_without_blocking_too(cortex: CortexDirect) -> None:
    async def use() -> list[str]:
        async with sdk.AsyncCortex(cortex.url, actor=ACTOR, bearer="secret") as client:
            await client.experience(SCOPE, text="green tea", idempotency_key="k1")
            cortex.settle()
            pack = await client.recall(SCOPE, query="tea")
            done = await client.forget(SCOPE, memory_ids=["evt_1"], cascade="redact_events")
            assert done["deleted"]["events"] == 1
            return [item["content"]["text"] for item in pack["layers"]["events"]]

    assert asyncio.run(use()) == ["green tea"]
