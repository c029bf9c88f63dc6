"""An answer that cannot be understood: of a write nobody knows what it did, and no part of the key is ever shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from keyfold import KeyfoldError, Memory
from keyfold.dialects.wire import Answer
from keyfold.errors import OutcomeUnknown
from tests.remote.common import (
    COGNEE,
    CORTEXDB,
    KEY,
    MEM0_OSS,
    MEM0_PLATFORM,
    SERVICES,
    SUPERMEMORY,
    TINYHUMANS,
    Service,
)

WRITES = {
    MEM0_OSS: "/memories",
    MEM0_PLATFORM: "/v3/memories/add/",
    COGNEE: "/api/v1/add",
    CORTEXDB: "experience",
    TINYHUMANS: "experience",
}
REWRITES = {
    MEM0_OSS: ("PUT", "/memories"),
    MEM0_PLATFORM: ("PUT", "/memories"),
    SUPERMEMORY: ("PATCH", "/v4/memories"),
    COGNEE: ("POST", "/api/v1/add"),
    CORTEXDB: ("POST", "experience"),
    TINYHUMANS: ("POST", "experience"),
}
SPELT = "".join(f"\\u{ord(character):04x}" for character in KEY)
FORMS = {
    "as it is": KEY,
    "escaped": SPELT,
    "escaped twice": SPELT.replace("\\", "\\\\"),
    "in part": KEY[:3] + SPELT[18:],
    "in capitals": SPELT.replace("d", "D"),
    "in a URL": quote(KEY).replace("-", "%2D"),
    "in HTML": KEY.replace("-", "&#45;"),
}

pytestmark = pytest.mark.usefixtures("hurried", "without_pauses")

Running = Callable[[Any], Any]
Remembering = Callable[..., Memory]


def save(memory: Memory, text: str = "JWT, one hour.") -> Any:
    return memory.mem_save("ana", text, type="decision", title="Auth", topic_key="auth")


@pytest.mark.parametrize("service", WRITES, ids=lambda service: service.name)
@pytest.mark.parametrize("kind", ["truncate", "html", "list"])
def test_a_write_whose_answer_cannot_be_read_is_unknown_and_its_retry_writes_nothing_twice(
    service: Service, kind: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    body: Any = {"html": "<html>Please wait</html>", "list": ["what", "is this"]}.get(kind)
    how = {} if body is None else {"code": 200, "body": body}
    double.faults.add(
        "truncate" if body is None else "apply_then_status", method="POST", path=WRITES[service], **how
    )
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        save(memory)
    again = save(memory)
    assert again.replayed
    assert again.revision_count == 1
    assert len(memory.mem_list("ana")) == 1


@pytest.mark.parametrize("service", REWRITES, ids=lambda service: service.name)
@pytest.mark.parametrize("kind", ["status", "apply_then_status"])
@pytest.mark.parametrize("body", ["<html>Please sign in</html>", "", {}, [], None, {"results": []}])
def test_a_rewrite_that_is_not_answered_in_the_services_own_form_is_unknown_and_its_retry_makes_one_revision(
    service: Service, kind: str, body: Any, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    save(memory)
    method, path = REWRITES[service]
    double.faults.add(kind, method=method, path=path, code=200, body=body)
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        save(memory, "JWT, two hours.")
    held = [record.content for record in remembering(service, double).mem_list("ana").items]
    assert held == ["JWT, one hour." if kind == "status" else "JWT, two hours."], (
        "nothing but what was done is there"
    )
    again = save(memory, "JWT, two hours.")
    assert (again.replayed, again.revision_count) == (kind != "status", 2)
    assert [record.content for record in memory.mem_list("ana").items] == ["JWT, two hours."]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("code", [200, 400, 401, 404, 500])
def test_no_error_shows_the_key_that_a_service_repeats(
    service: Service, code: int, text: str, running: Running, remembering: Remembering
) -> None:
    double = running(service.double())
    memory = remembering(service, double)
    body = f'{{"success": false, "error": "the key {text} is bad", "status": "{text}"}}'
    for headers in ({"content-type": f"text/{text}"}, {"content-type": "application/json"}):
        double.faults.add("status", code=code, body=body, headers=headers, times=99)
        for call in (lambda: save(memory), lambda: memory.mem_get_observation("ana", topic_key="auth")):
            with pytest.raises(KeyfoldError) as error:
                call()
            assert KEY not in str(error.value)
            assert text not in str(error.value)
        double.faults.clear()


@pytest.mark.parametrize("key", ['a"key\\with/signs', "sk-plain"])
def test_a_key_is_left_out_however_json_writes_it_and_wherever_a_quotation_is_cut(key: str) -> None:
    for before in range(0, 320, 7):
        said = json.dumps({"x": "y" * before, "error": key}).encode()
        quoted = Answer(400, {}, said, secrets=(key,)).quoted()
        assert key[:5] not in quoted
        assert json.dumps(key)[1:6] not in quoted


def test_what_a_service_says_beside_the_key_is_quoted() -> None:
    said = b'{"error": "the key sk-secret is bad"}'
    assert Answer(400, {}, said, secrets=("sk-secret",)).quoted() == '{"error": "the key [the key] is bad"}'
    assert "sk-secret" not in repr(Answer(400, {}, b"", secrets=("sk-secret",)))
