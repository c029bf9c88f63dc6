"""A save that names its end as a span says the same in a retry, on a service as on a file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from keyfold import Memory
from tests.conftest import SteppedClock
from tests.remote.common import COGNEE, CORTEXDB, MEM0_OSS, MEM0_PLATFORM, SUPERMEMORY, Service

SPAN: dict[str, Any] = {"type": "decision", "title": "T", "expires_at": timedelta(days=30)}


@pytest.mark.parametrize("named", [{"topic_key": "k"}, {"idempotency_key": "once"}])
@pytest.mark.parametrize(
    "service", [MEM0_OSS, MEM0_PLATFORM, SUPERMEMORY, COGNEE, CORTEXDB], ids=lambda service: service.name
)
def test_a_span_given_again_is_a_repeat_on_a_service(
    service: Service,
    running: Callable[[Any], Any],
    remembering: Callable[..., Memory],
    clock: SteppedClock,
    named: dict[str, Any],
) -> None:
    memory = remembering(service, running(service.double()), clock=clock)
    first = memory.mem_save("ana", "text", **SPAN, **named)
    clock.forward(seconds=50 if "topic_key" in named else 7_200)
    again = memory.mem_save("ana", "text", **SPAN, **named)
    assert (again.id, again.replayed) == (first.id, True)
    assert memory.mem_list("ana").total == 1
