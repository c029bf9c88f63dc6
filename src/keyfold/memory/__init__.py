"""The agent-facing face: observations, sessions and topics, over any engine."""

from keyfold.memory.face import AsyncMemory, Memory

__all__ = ["AsyncMemory", "Memory"]
