"""Marks: what tells that a source says what it said when its record was stored, without reading either again.

A mark is a digest of the source's own words, which the store keeps beside the record until the record changes
(`Load.mark`). Where the words give the same one again there is nothing to do. So an importer gives one only where
importing the same words again changes nothing and says nothing in the report, whatever the configuration; and
never of words that hold a private region, or may.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from keyfold.contract.protocols import Engine, Marked

_SIZE: Final = 16


def mark_of(reading: bytes, words: bytes) -> bytes:
    """The mark of a source's words.

    `reading` (up to 16 bytes) names the importer and the version of its reading. It has to change whenever the
    same words would make another record, so that what an earlier version read is read again.
    """
    return blake2b(words, digest_size=_SIZE, person=reading).digest()


def marks_held(engine: Engine, namespace: str, kind: str, keys: Sequence[str]) -> dict[str, bytes] | None:
    """The marks of those of these records that have one; None when the engine keeps none."""
    if not isinstance(engine, Marked):
        return None
    try:
        namespace.encode()
    except UnicodeEncodeError:  # it is refused where a record would be stored
        return {}
    return engine.marks(namespace, kind, keys) if keys else {}
