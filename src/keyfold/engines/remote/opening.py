"""From a URL to an engine on a service: which dialect, which header carries the credential, blocking or async."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from keyfold.clock import Clock
from keyfold.dialects.base import Dialect
from keyfold.dialects.mem0_oss import Mem0Oss
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
    secure: bool  # https, else http


def _api_key(key: str) -> tuple[str, str]:
    return "X-API-Key", key


SERVICES: Final[dict[str, Service]] = {
    "mem0+http": Service(
        Mem0Oss, ("KEYFOLD_API_KEY", "MEM0_API_KEY", "ADMIN_API_KEY"), _api_key, secure=False
    ),
    "mem0+https": Service(
        Mem0Oss, ("KEYFOLD_API_KEY", "MEM0_API_KEY", "ADMIN_API_KEY"), _api_key, secure=True
    ),
}


def open_remote(url: str, scheme: str, config: Config, clock: Clock) -> PlannedEngine:
    """A blocking engine on the service that a URL names. Nothing is asked of it yet."""
    service, where, headers = _parts(url, scheme, config)
    return PlannedEngine(Plans(service.dialect(), clock), BlockingTransport(where, headers, config.timeout))


def open_async_remote(url: str, scheme: str, config: Config, clock: Clock) -> AsyncPlannedEngine:
    """An async engine on the service that a URL names. Nothing is asked of it yet."""
    service, where, headers = _parts(url, scheme, config)
    return AsyncPlannedEngine(
        Plans(service.dialect(), clock), AwaitedTransport(where, headers, config.timeout)
    )


def _parts(url: str, scheme: str, config: Config) -> tuple[Service, Endpoint, Callable[[], dict[str, str]]]:
    service = SERVICES.get(scheme)
    if service is None:
        raise InvalidRequest("store", f"{scheme}: is not a known scheme; services are {', '.join(SERVICES)}")
    plain = os.environ.get("KEYFOLD_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    where = endpoint(url, scheme="https" if service.secure else "http", allow_plain=plain)
    credential = Credential(config.credential, service.variables)

    def headers() -> dict[str, str]:
        key = credential.key()
        return {} if key is None else dict([service.header(key)])

    return service, where, headers
