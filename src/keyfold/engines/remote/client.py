"""httpx2, or the word that it is missing: whatever needs it here gets it from this module."""

from __future__ import annotations

try:
    import httpx2
except ImportError as missing:
    raise ImportError(
        "engines on memory services need httpx2, which is not installed: pip install 'keyfold[remote]'"
    ) from missing

__all__ = ["httpx2"]
