"""Half a character (a lone surrogate) in what a service lists is no raw error, and no other record suffers by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import KeyfoldError, Memory
from tests.doubles.faults import Seen
from tests.doubles.serving import Double
from tests.remote.common import SERVICES, Service

HALF = "half \ud83d"


def every_text(value: Any, change: Callable[[str, str], Any], name: str = "") -> Any:
    """A JSON value with every text in it changed; `change` is given the name that it stands under."""
    if isinstance(value, dict):
        return {key: every_text(item, change, key) for key, item in value.items()}
    if isinstance(value, list):
        return [every_text(item, change, name) for item in value]
    return change(name, value) if isinstance(value, str) else value


def names_of(value: Any) -> set[str]:
    """The names of all texts in a JSON value."""
    found: set[str] = set()
    every_text(value, lambda name, text: found.add(name) or text)
    return found


def answering_with(double: Double, change: Callable[[Any], Any]) -> None:
    """Let a double change what it answers to reads."""
    inner: Any = double._carry_out

    async def carried(seen: Seen, scope: Any) -> Any:
        start, *rest = await inner(seen, scope)
        body = b"".join(message.get("body", b"") for message in rest)
        if seen.path.endswith("/raw") or not body.startswith((b"{", b"[")):
            return [start, *rest]
        body = json.dumps(change(json.loads(body))).encode()
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        headers.append((b"content-length", str(len(body)).encode()))
        return [{**start, "headers": headers}, {"type": "http.response.body", "body": body}]

    double._carry_out = carried  # type: ignore[method-assign]


CALLS: dict[str, Callable[[Memory], Any]] = {
    "list": lambda memory: [item.content.encode() for item in memory.mem_list("ana").items],
    "search": lambda memory: [hit.snippet.encode() for hit in memory.mem_search("ana", "one").items],
    "topics": lambda memory: [topic.key.encode() for topic in memory.mem_topics("ana")],
    "context": lambda memory: str(memory.mem_context("ana")).encode(),
    "stats": lambda memory: memory.mem_stats("ana"),
    "export": lambda memory: memory.engine.everything(),  # type: ignore[attr-defined]
    "save": lambda memory: memory.mem_save("ana", "x", type="decision", title="T", topic_key="c"),
    "delete": lambda memory: memory.mem_delete("ana", topic_key="a"),
}


@pytest.mark.parametrize("how", ["added", "instead"])
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_half_a_character_in_any_text_of_an_answer_is_no_raw_error(
    service: Service, how: str, running: Any, remembering: Any, without_pauses: None
) -> None:
    double: Double = running(service.double())
    memory: Memory = remembering(service, double)
    names: set[str] = set()

    def note(answer: Any) -> Any:
        names.update(names_of(answer))
        return answer

    answering_with(double, note)
    memory.mem_save("ana", "one", type="decision", title="T", topic_key="a")
    memory.mem_save("ana", "two", type="decision", title="T", topic_key="b")
    for call in ("list", "search", "topics", "export"):
        CALLS[call](memory)
    assert len(names) > 3
    wanted = ""

    def spoilt(answer: Any) -> Any:
        def change(name: str, text: str) -> str:
            return text if name != wanted else HALF if how == "instead" else text + HALF

        return every_text(answer, change)

    answering_with(double, spoilt)
    raw: list[str] = []
    for wanted in sorted(names):
        fresh: Memory = remembering(service, double)
        for name, call in CALLS.items():
            try:
                call(fresh)
            except KeyfoldError:
                pass
            except Exception as error:  # noqa: BLE001 - it is told below
                raw.append(f"{name} with {wanted}: {error!r}")
    assert raw == []
