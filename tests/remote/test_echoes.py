"""A message never quotes what was sent: a service that repeats it in its error is quoted without it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold import KeyfoldError, Memory
from keyfold.dialects.echoes import GAP, Sent
from tests.doubles.faults import Seen
from tests.doubles.serving import Double
from tests.remote.common import SERVICES, Service

TEXT = 'My salary is 84,000 € & my PIN is "47-11"\nand the rest'
TITLE = "Pay slip of the third month"
NOTE = "in the drawer under the stairs"
PRIVATE = ("salary", "84,000", "47-11", "the rest", "slip", "third", "drawer", "stairs")

Echo = Callable[[str], Any]


def refused(where: str, said: Any) -> dict[str, Any]:
    return {"detail": [{"type": "value_error", "loc": ["body", where], "msg": "is not allowed", **said}]}


ECHOES: dict[str, Echo] = {
    "FastAPI's input": lambda text: refused("here", {"input": text}),
    "FastAPI's input, whole": lambda text: refused("here", {"input": {"content": text, "n": [text]}}),
    "FastAPI's context": lambda text: refused("here", {"ctx": {"given": text[:6]}}),
    "in the words": lambda text: refused("here", {"msg": f"value '{text}' is not allowed"}),
    "its start in the words": lambda text: refused("here", {"msg": f"value '{text[:20]}...' is not allowed"}),
    "its middle in the words": lambda text: refused("here", {"msg": f"near {text[5:25]}: is not allowed"}),
    "as plain text": lambda text: f"here: {text} is not allowed",
    "as a page": lambda text: f"<p>here: {html.escape(text)} is not allowed</p>",
    "as JSON in a text": lambda text: {"error": "is not allowed here: " + json.dumps({"text": text})},
    "as JSON in JSON in a text": lambda text: {
        "error": "not allowed here: " + json.dumps(json.dumps([text]))
    },
    "as Python writes it": lambda text: {"error": f"not allowed here: {text!r}"},
    "in a URL": lambda text: {"error": f"not allowed here: /x?text={quote(text)}"},
    "on one line": lambda text: {"error": f"not allowed here: {' '.join(text.split())}"},
    "half a document": lambda text: json.dumps(refused("here", {"input": text}), ensure_ascii=False)[:-4],
    "half a document, escaped": lambda text: json.dumps(refused("here", {"input": text}))[:-4],
}


def echoing(double: Double, status: int, echo: Echo, text: str) -> list[Seen]:
    """Let a double refuse whatever carries private text, and repeat it; returns what it refused."""
    inner: Any = double._carry_out
    struck: list[Seen] = []

    async def carried(seen: Seen, scope: Any) -> Any:
        if b"salary" not in seen.body + seen.query.encode():
            return await inner(seen, scope)
        struck.append(seen)
        said = echo(text)
        body = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        start = {"type": "http.response.start", "status": status, "headers": headers}
        return [start, {"type": "http.response.body", "body": body}]

    double._carry_out = carried  # type: ignore[method-assign]
    return struck


def save(memory: Memory) -> None:
    memory.mem_save("ana", TEXT, type="decision", title=TITLE, topic_key="k", metadata={"where": NOTE})


def leaked(error: BaseException) -> list[str]:
    return [word for word in PRIVATE if word in str(error)]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("echo", ECHOES)
def test_no_echo_of_what_was_saved_is_in_a_message(
    service: Service, echo: str, running: Any, remembering: Any, without_pauses: None
) -> None:
    for text in (TEXT, TITLE, NOTE):
        double: Double = running(service.double())
        memory: Memory = remembering(service, double)
        struck = echoing(double, 422, ECHOES[echo], text)
        with pytest.raises(KeyfoldError, match="422") as caught:
            save(memory)
        assert struck
        assert leaked(caught.value) == []
        assert "here" in str(caught.value)
        assert "allowed" in str(caught.value)


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 418, 422, 500, 501, 503, 507])
def test_no_status_lets_an_echo_into_a_message(
    service: Service, status: int, running: Any, remembering: Any, without_pauses: None
) -> None:
    double: Double = running(service.double())
    memory: Memory = remembering(service, double)
    struck = echoing(double, status, ECHOES["in the words"], TEXT)
    with pytest.raises(KeyfoldError) as caught:
        save(memory)
    assert struck
    assert leaked(caught.value) == []


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_no_echo_of_what_is_searched_for_is_in_a_message(
    service: Service, running: Any, remembering: Any, without_pauses: None
) -> None:
    double: Double = running(service.double())
    memory: Memory = remembering(service, double)
    memory.mem_save("ana", "text", type="decision", title="T", topic_key="k")
    words = "salary is 84,000"
    struck = echoing(double, 400, ECHOES["in the words"], words)
    with pytest.raises(KeyfoldError) as caught:
        memory.mem_search("ana", words)
    assert struck
    assert leaked(caught.value) == []


@pytest.mark.parametrize(
    "said",
    [
        '{ "detail" : "Invalid API key." }',
        '{"detail":[{"loc":["body","title"],"msg":"Field required","type":"missing"}]}',
        "Bad  gateway\n",
        "<html><body>502 &amp; so on</body></html>",
        '{"loc": ["body", "content"], "msg": "half \\ud83d"}',
        "",
    ],
)
def test_an_error_that_repeats_nothing_is_quoted_as_it_is(said: str) -> None:
    assert (
        Sent([{"content": TEXT, "title": TITLE, "role": "user", "n": 7, "tags": ["a", "pin"]}]).left_out(said)
        == said
    )


@given(st.text(min_size=8, max_size=60), st.text(max_size=20), st.booleans())
def test_whatever_was_sent_is_not_in_what_is_quoted(text: str, around: str, whole: bool) -> None:
    text = " ".join(text.split())
    said: Any = {"detail": text if whole else f"{around} '{text}' {around}"}
    for body in (json.dumps(said), json.dumps(said, ensure_ascii=False)):
        kept = json.loads(Sent([{"content": text}]).left_out(body))["detail"]
        assert len(text) < 8 or text not in kept or text in GAP + around


def test_a_short_value_is_left_out_where_it_stands_in_quotes() -> None:
    sent = Sent([{"content": "4711", "role": "user"}])
    assert (
        sent.left_out('{"msg":"\'4711\' is too short","got":"4711"}')
        == '{"msg":"\'[...]\' is too short","got":"[...]"}'
    )
    assert sent.left_out("the user is 471100 here") == "the user is 471100 here"


def test_a_text_that_looks_like_what_stands_in_its_place_comes_to_an_end() -> None:
    said = json.dumps({"msg": "'[...]' and '[...]', [...] and so on"})
    assert Sent([{"content": GAP, "title": f"{GAP} and so on"}]).left_out(said).count(GAP) <= 3
