"""A store that was closed says so at once, and of a write it does not say that its outcome is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from keyfold.dialects.wire import Closed, Http, ask
from keyfold.flow import drive


@pytest.mark.parametrize(
    "request_", [Http("GET", "/", reads=True), Http("POST", "/"), Http("PUT", "/", repeatable=True)]
)
def test_a_closed_store_is_asked_once(request_: Http) -> None:
    asked: list[Any] = []

    def closed(request: Any) -> Any:
        asked.append(request)
        raise Closed("this store was closed; open it again")

    with pytest.raises(Closed, match="closed"):
        drive(ask(request_), closed)
    assert asked == [request_]
