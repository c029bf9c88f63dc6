"""ULIDs: the keys of records that got none from the caller. They sort by the time they were minted."""

from __future__ import annotations

from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(micros: int, entropy: bytes) -> str:
    """A ULID of a time (microseconds since 1970, cut to milliseconds) and ten random bytes."""
    number = (micros // 1000) % (1 << 48) << 80 | int.from_bytes(entropy[:10])
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
