"""Answers of a double, changed on their way: what a service says that none of the doubles' own knobs makes it say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.doubles.faults import Seen
from tests.doubles.serving import Double

Change = Callable[[Any], Any]


@contextmanager
def changed(double: Double, path: str, change: Change) -> Iterator[None]:
    """What is answered to requests whose path ends with `path` is what `change` makes of it: JSON, or its bytes."""
    whole = double._carry_out

    async def carried_out(seen: Seen, scope: Any) -> list[Any]:
        answer = await whole(seen, scope)
        if not seen.path.rstrip("/").endswith(path):
            return answer
        start, *rest = answer
        told = change(json.loads(b"".join(message.get("body", b"") for message in rest)))
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        start = {**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]}
        return [start, {"type": "http.response.body", "body": body}]

    double._carry_out = carried_out  # type: ignore[method-assign]
    try:
        yield
    finally:
        double._carry_out = whole  # type: ignore[method-assign]


def inner(answer: Any) -> Any:
    """What an answer of CortexDB says, on either wire."""
    return answer["data"] if "success" in answer else answer
