"""The checks, by area. Importing this registers them all."""

from keyfold.conformance.checks import (
    filters,
    forget,
    idempotency,
    past,
    reach,
    reads,
    search,
    sessions,
    texts,
    unkeyed,
    writes,
)

__all__ = [
    "filters",
    "forget",
    "idempotency",
    "past",
    "reach",
    "reads",
    "search",
    "sessions",
    "texts",
    "unkeyed",
    "writes",
]
