"""Engines on memory services: an address, a credential, a connection, and a dialect that speaks the service's wire."""

from keyfold.engines.remote.opening import open_async_remote as open_async_remote
from keyfold.engines.remote.opening import open_remote as open_remote
