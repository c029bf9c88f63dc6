"""The official client and Keyfold read what the other wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keyfold import Memory
from keyfold.dialects.base import Shelf
from keyfold.dialects.cortexdb_envelope import encode
from keyfold.dialects.cortexdb_names import scope_of
from tests.doubles.cortexdb import CortexDirect
from tests.remote.common import CORTEXDB, KEY, payload

sdk: Any = pytest.importorskip("cortexdb", reason="cortexdbai is absent")

SCOPE = scope_of(Shelf("ana"))


@pytest.fixture
def double(running: Callable[[Any], Any]) -> CortexDirect:
    double: CortexDirect = running(CORTEXDB.double())
    return double


@pytest.fixture
def client(double: CortexDirect) -> Iterator[Any]:
    with sdk.Cortex(double.url, actor="user:local", bearer=KEY) as client:
        yield client


@pytest.fixture
def memory(double: CortexDirect, remembering: Callable[..., Memory]) -> Memory:
    return remembering(CORTEXDB, double)


def test_the_client_lists_recalls_and_asks_about_what_keyfold_wrote(client: Any, memory: Memory) -> None:
    memory.mem_save("ana", "Tokens live one hour.", type="decision", title="Auth", topic_key="auth")
    memory.mem_log_turn("ana", thread_id="t", index=0, role="assistant", text="Good morning.")
    texts = [item["content"]["text"] for item in client.events(SCOPE)["items"]]
    assert set(texts) == {"Good morning.", "Auth · auth\n\nTokens live one hour."}
    pack = client.recall(SCOPE, query="tokens live", view="granular", include=["events"])
    assert pack["layers"]["events"][0]["content"]["text"].endswith("Tokens live one hour.")
    assert "one hour" in client.answer(SCOPE, "tokens live?", use_pack_id=pack["pack_id"])["answer"]


def test_keyfold_reads_what_the_client_wrote_in_its_layout_and_ignores_the_rest(
    client: Any, memory: Memory
) -> None:
    [body] = encode(payload("ana", "auth", "Tokens live one hour."), SCOPE)
    client.experience(
        SCOPE,
        text=body["content"]["text"],
        labels=body["context"]["labels"],
        modality=body["modality"],
        idempotency_key=body["idempotency_key"],
    )
    client.experience(SCOPE, text="a note of the client's own", labels=["a"])
    assert [record.content for record in memory.mem_list("ana")] == ["Tokens live one hour."]
    told = memory.mem_save("ana", "Tokens live two hours.", type="decision", title="Title", topic_key="auth")
    assert (told.outcome, told.revision_count) == ("updated", 2)
    memory.mem_delete("ana", told.id)
    assert {item["content"]["text"] for item in client.events(SCOPE)["items"]} == {
        "a note of the client's own"
    }


def test_a_retry_by_the_client_of_what_keyfold_wrote_is_a_replay(
    client: Any, memory: Memory, double: CortexDirect
) -> None:
    memory.mem_log_turn("ana", thread_id="t", index=0, role="user", text="Good morning.")
    [body] = double.writes
    told = client.experience(
        SCOPE,
        text=body["content"]["text"],
        labels=body["context"]["labels"],
        modality=body["modality"],
        idempotency_key=body["idempotency_key"],
    )
    assert told["replayed_from_idempotency"] is True
