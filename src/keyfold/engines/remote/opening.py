"""From a URL to an engine on a service: which dialect, which header carries the credential, blocking or async."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

from keyfold.clock import Clock
from keyfold.dialects.base import Dialect
from keyfold.dialects.cognee import Cognee
from keyfold.dialects.cortexdb import CortexDB
from keyfold.dialects.cortexdb_direct import DirectWire
from keyfold.dialects.cortexdb_hosted import HostedWire
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
    """A kind of service: its dialect, the environment variables of its key, and the header that carries it.

    `options`: what may be said behind `?` in its URL, and how; the dialect is given it by name.
    """

    dialect: Callable[..., Dialect]
    variables: tuple[str, ...]
    header: Callable[[str], tuple[str, str]]
    scheme: str = ""  # http or https; empty: https, but http to this machine
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _api_key(key: str) -> tuple[str, str]:
    return "X-API-Key", key


def _token(key: str) -> tuple[str, str]:
    return "Authorization", f"Token {key}"


def _bearer(key: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {key}"


def _nonce() -> str:
    return os.urandom(8).hex()


def _claims() -> Callable[[], str]:
    """A source of claims that no other write has: random, and never made of what is written."""
    salt, numbers = _nonce(), count()
    # The process too: after a fork two of them count on from the same number.
    return lambda: f"tm-{salt}{os.getpid():x}-{time.time_ns()}-{next(numbers)}"


def _cortexdb(**options: Any) -> Dialect:
    return CortexDB(DirectWire(), _nonce, **options)


def _tinyhumans(**options: Any) -> Dialect:
    return CortexDB(HostedWire(_claims()), _nonce, **options)


SUPERMEMORY_KEYS: Final = ("KEYFOLD_API_KEY", "SUPERMEMORY_API_KEY")
CORTEXDB_KEYS: Final = ("KEYFOLD_API_KEY", "CORTEX_API_KEY")
TINYHUMANS_KEYS: Final = ("KEYFOLD_API_KEY", "TINYHUMANS_API_KEY")
LOG_OPTIONS: Final = {"history": ("keep", "none"), "derive": ("on", "off")}
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
    "cortexdb": Service(_cortexdb, CORTEXDB_KEYS, _bearer, options=LOG_OPTIONS),
    "cortexdb+https": Service(_cortexdb, CORTEXDB_KEYS, _bearer, "https", LOG_OPTIONS),
    "cortexdb+http": Service(_cortexdb, CORTEXDB_KEYS, _bearer, "http", LOG_OPTIONS),
    "tinyhumans": Service(_tinyhumans, TINYHUMANS_KEYS, _bearer, options=LOG_OPTIONS),
    "tinyhumans+https": Service(_tinyhumans, TINYHUMANS_KEYS, _bearer, "https", LOG_OPTIONS),
    "tinyhumans+http": Service(_tinyhumans, TINYHUMANS_KEYS, _bearer, "http", LOG_OPTIONS),
}


def open_remote(url: str, scheme: str, config: Config, clock: Clock) -> PlannedEngine:
    """A blocking engine on the service that a URL names. Nothing is asked of it yet."""
    service, where, credential, headers = _parts(url, scheme, config)
    afresh = partial(_plans, service, where, config, clock)
    return PlannedEngine(
        afresh(), BlockingTransport(where, headers, config.timeout, credential.absence), afresh
    )


def open_async_remote(url: str, scheme: str, config: Config, clock: Clock) -> AsyncPlannedEngine:
    """An async engine on the service that a URL names. Nothing is asked of it yet."""
    service, where, credential, headers = _parts(url, scheme, config)
    afresh = partial(_plans, service, where, config, clock)
    return AsyncPlannedEngine(
        afresh(), AwaitedTransport(where, headers, config.timeout, credential.absence), afresh
    )


def _plans(service: Service, where: Endpoint, config: Config, clock: Clock) -> Plans:
    return Plans(service.dialect(**where.options), clock, config.keep_revisions)


def _parts(
    url: str, scheme: str, config: Config
) -> tuple[Service, Endpoint, Credential, Callable[[], dict[str, str]]]:
    service = SERVICES.get(scheme)
    if service is None:
        raise InvalidRequest("store", f"{scheme}: is not a known scheme; services are {', '.join(SERVICES)}")
    plain = os.environ.get("KEYFOLD_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    where = endpoint(url, scheme=service.scheme, allow_plain=plain, options=service.options)
    credential = Credential(config.credential, service.variables)

    def headers() -> dict[str, str]:
        key = credential.key()
        return {} if key is None else dict([service.header(key)])

    return service, where, credential, headers
