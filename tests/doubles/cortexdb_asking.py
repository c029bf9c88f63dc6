"""A client for the tests of the CortexDB doubles, which says exactly what goes over the wire and judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from tests.doubles.cortexdb import Cortex

SCOPE = "app:notes/agent:a1"


def event(
    text: str = "hello there", key: str | None = None, *, scope: str = SCOPE, labels: Any = (), **more: Any
) -> dict[str, Any]:
    """The body of a write; `more` replaces or adds top-level fields."""
    body: dict[str, Any] = {
        "scope": scope,
        "modality": "conversation",
        "content": {"kind": "message", "role": "user", "text": text},
        "context": {"labels": list(labels)},
    }
    if key is not None:
        body["idempotency_key"] = key
    return body | more


class Clock:
    """The double's clock, which moves when told."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def forward(self, **span: float) -> None:
        self.moment += timedelta(**span)


class Asking:
    """One client of a double, with the routes of its wire under short names."""

    def __init__(self, double: Cortex, base: str = "/v1", token: str | None = None) -> None:
        token = double.key if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.double = double
        self.base = base
        self.http = httpx2.Client(base_url=double.url, headers=headers, timeout=10)

    def close(self) -> None:
        self.http.close()

    def post(self, name: str, body: Any, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return self.http.post(f"{self.base}/{name}", json=body, headers=dict(headers or {}))

    def get(self, name: str, **params: Any) -> httpx2.Response:
        return self.http.get(f"{self.base}/{name}", params=params)

    def write(self, *args: Any, claim: str | None = None, **kwargs: Any) -> httpx2.Response:
        """Write one `event(...)`."""
        headers = {"Idempotency-Key": claim} if claim else {}
        return self.post("experience", event(*args, **kwargs), headers)

    def written(self, *args: Any, **kwargs: Any) -> str:
        """Write one `event(...)`; its id, once time has passed and it is listed."""
        answer = self.write(*args, **kwargs).json()
        self.double.settle()
        return str(answer.get("data", answer)["event_id"])

    def page(self, scope: str = SCOPE, **params: Any) -> dict[str, Any]:
        answer = self.get("events", scope=scope, **params).json()
        page: dict[str, Any] = answer.get("data", answer)
        return page

    def ids(self, scope: str = SCOPE, **params: Any) -> list[str]:
        """The ids of a page, as they come: every one twice."""
        return [item["id"] for item in self.page(scope, **params)["items"]]

    def recall(self, query: str = "", scope: str = SCOPE, **more: Any) -> dict[str, Any]:
        body = {"scope": scope, "query": query, "view": "granular", "include": ["events"]} | more
        answer = self.post("recall", body).json()
        pack: dict[str, Any] = answer.get("data", answer)
        return pack

    def found(self, query: str = "", scope: str = SCOPE, **more: Any) -> list[str]:
        """The texts that a recall finds, best first."""
        return [item["content"]["text"] for item in self.recall(query, scope, **more)["layers"]["events"]]

    def forget(self, *ids: str, scope: str = SCOPE, **more: Any) -> httpx2.Response:
        body = {"scope": scope, "layers": ["events"], "cascade": "redact_events"}
        selector = {"selector": {"memory_ids": list(ids)}} if ids else {}
        return self.post("forget", body | selector | more)


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of an answer that is no success, on either wire."""
    body = answer.json()
    return answer.status_code, str(body.get("error_code") or body.get("errorCode"))
