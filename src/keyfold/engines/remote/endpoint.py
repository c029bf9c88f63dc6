"""Where a service is: its URL, checked before anything is sent there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from keyfold.errors import InvalidRequest

_PLAIN: Final = "http:// would send the credential and the memories in the clear"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service's origin (scheme, host and port) and the path below which its routes lie, without a slash at its end."""

    origin: str
    host: str
    prefix: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def endpoint(
    url: str,
    *,
    scheme: str,
    allow_plain: bool = False,
    options: Mapping[str, tuple[str, ...]] | None = None,
) -> Endpoint:
    """Read the address of a store's URL. `scheme` is http, https, or empty: https, but http to this machine.

    A user or password in it is refused: credentials come from the environment or a callable, so that a URL can be
    logged. http:// goes to this machine only, unless `allow_plain`. `options` are those that a service takes
    behind `?`, with their values.
    """
    rest = url.split("://", 1)
    if len(rest) != 2 or not rest[1].strip("/"):
        raise InvalidRequest("store", "names no host; write for example mem0+http://127.0.0.1:8888")
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise InvalidRequest("store", "has white space or control characters in its address")
    try:
        parts = urlsplit(f"//{rest[1]}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidRequest("store", "has an address that cannot be read: check host and port") from None
    if "@" in parts.netloc:
        raise InvalidRequest(
            "store", "has a user or key before the host: put it into KEYFOLD_API_KEY, URLs end up in logs"
        )
    if not host:
        raise InvalidRequest("store", "names no host; write for example mem0+http://127.0.0.1:8888")
    if parts.fragment or (parts.query and not options):
        raise InvalidRequest(
            "store", "has a query or a fragment, which an address of a service does not have"
        )
    chosen = _options(parts.query, options or {})
    scheme = scheme or ("http" if _loopback(host) else "https")
    if scheme == "http" and not allow_plain and not _loopback(host):
        raise InvalidRequest(
            "store", f"{_PLAIN}: use https, or set KEYFOLD_ALLOW_HTTP=1 when the network between is yours"
        )
    shown = f"[{host}]" if ":" in host else host
    origin = f"{scheme}://{shown}" + (f":{port}" if port is not None else "")
    return Endpoint(origin, shown + (f":{port}" if port is not None else ""), parts.path.rstrip("/"), chosen)


def _options(query: str, known: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The options behind `?`, each known, given once and one of its values."""
    chosen: dict[str, str] = {}
    for pair in query.split("&") if query else []:
        name, _, value = pair.partition("=")
        if name not in known or name in chosen or value not in known[name]:
            forms = ", ".join(f"{option}={'|'.join(values)}" for option, values in known.items())
            raise InvalidRequest("store", f"has an option that is not known behind its `?`: it takes {forms}")
        chosen[name] = value
    return chosen


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
