"""The reference engine: what every other one must do, in plain dicts. Nothing outlives the process."""

from keyfold.engines.inmemory.engine import InMemoryEngine

__all__ = ["InMemoryEngine"]
