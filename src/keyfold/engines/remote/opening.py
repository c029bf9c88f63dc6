"""From a URL to an engine on a service: which dialect, which header carries the credential, blocking or async."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from keyfold.clock import Clock
from keyfold.dialects.base import Dialect
from keyfold.dialects.cognee import Cognee
from keyfold.dialects.mem0_oss import Mem0Oss
from keyfold.dialects.mem0_platform import Mem0Platform
from keyfold.dialects.supermemory import Supermemory
from keyfold.engines.remote.credential import Credential
from keyfold.engines.remote.endpoint import Endpoint, endpoint
from keyfold.engines.remote.transport import AwaitedTransport, BlockingTransport
from keyfold.errors import InvalidRequest
from keyfold.faces.planned import AsyncPlannedEngine, PlannedEngine, Plans
from keyfold.model import Config


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of service: its dialect, the environment variables of its key, and the header that carries it."""

    dialect: Callable[[], Dialect]
    variables: tuple[str, ...]
    header: Callable[[str], tuple[str, str]]
    scheme: str = ""  # http or https; empty: https, but http to this machine


def _api_key(key: str) -> tuple[str, str]:
    return "X-API-Key", key


def _token(key: str) -> tuple[str, str]:
    return "Authorization", f"Token {key}"


def _bearer(key: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {key}"


SUPERMEMORY_KEYS: Final = ("KEYFOLD_API_KEY", "SUPERMEMORY_API_KEY")
SERVICES: Final[dict[str, Service]] = {
    "mem0": Service(Mem0Platform, ("KEYFOLD_API_KEY", "MEM0_API_KEY"), _token),
    "mem0+http": Service(
        Mem0Oss, ("KEYFOLD_API_KEY", "MEM0_API_KEY", "ADMIN_API_KEY"), _api_key, scheme="http"
    ),
    "mem0+https": Service(
        Mem0Oss, ("KEYFOLD_API_KEY", "MEM0_API_KEY", "ADMIN_API_KEY"), _api_key, scheme="https"
    ),
    "supermemory": Service(Supermemory, SUPERMEMORY_KEYS, _bearer),
    "supermemory+https": Service(Supermemory, SUPERMEMORY_KEYS, _bearer),
    "supermemory+http": Service(Supermemory, SUPERMEMORY_KEYS, _bearer, scheme="http"),
    "cognee+http": Service(Cognee, ("KEYFOLD_API_KEY", "COGNEE_API_KEY"), _api_key, scheme="http"),
    "cognee+https": Service(Cognee, ("KEYFOLD_API_KEY", "COGNEE_API_KEY"), _api_key, scheme="https"),
}


def open_remote(url: str, scheme: str, config: Config, clock: Clock) -> PlannedEngine:
    """A blocking engine on the service that a URL names. Nothing is asked of it yet."""
    service, where, headers = _parts(url, scheme, config)
    plans = Plans(service.dialect(), clock, config.keep_revisions)
    return PlannedEngine(plans, BlockingTransport(where, headers, config.timeout))


def open_async_remote(url: str, scheme: str, config: Config, clock: Clock) -> AsyncPlannedEngine:
    """An async engine on the service that a URL names. Nothing is asked of it yet."""
    service, where, headers = _parts(url, scheme, config)
    plans = Plans(service.dialect(), clock, config.keep_revisions)
    return AsyncPlannedEngine(plans, AwaitedTransport(where, headers, config.timeout))


def _parts(url: str, scheme: str, config: Config) -> tuple[Service, Endpoint, Callable[[], dict[str, str]]]:
    service = SERVICES.get(scheme)
    if service is None:
        raise InvalidRequest("store", f"{scheme}: is not a known scheme; services are {', '.join(SERVICES)}")
    plain = os.environ.get("KEYFOLD_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    where = endpoint(url, scheme=service.scheme, allow_plain=plain)
    credential = Credential(config.credential, service.variables)

    def headers() -> dict[str, str]:
        key = credential.key()
        return {} if key is None else dict([service.header(key)])

    return service, where, headers
