"""Rows of the tables as models, and models as rows. Positional throughout: this is the hot path."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, cast

from keyfold.clock import EPOCH, from_micros, to_micros
from keyfold.model import KINDS, Record, Revision, Taint
from keyfold.text.keys import fold_key

Row = tuple[Any, ...]

# What a column holds is known here and not to apsw's types.
Rows = list[Any]

# A space is a kind's index * 2 + minted: its number sorts as exports do.
SPACES: Final = tuple((kind, minted) for kind in KINDS for minted in (False, True))
SESSION_SPACE: Final = 8  # the first of a session: every other record lies below
TAINTS: Final[tuple[Taint, ...]] = ("internal", "external")
MAX_ID: Final = (1 << 63) - 1
FOREVER: Final = 1 << 62  # microseconds: farther than any moment of a row lies from 1970, or from another
DAMAGED: Final = "a value of another type stands there"

_NUMBERS: Final = {space: number for number, space in enumerate(SPACES)}

# What `record_of` reads, in this order; SLOT follows where it is needed.
RECORD: Final = (
    "r.id, r.space, r.key, r.type, r.title, r.content, r.metadata, r.tags, r.session, r.revision, r.hash, "
    "r.created_at, r.updated_at, r.expires_at, r.pinned, r.taint, r.observed_at"
)
SPACE, REVISIONS, UPDATED, EXPIRES, SLOT = 1, 9, 12, 13, 17
REVISION: Final = (
    "revision, content, title, type, metadata, tags, session, written_at, hash, pinned, expires_at"
)


def space_of(kind: str, minted: bool) -> int:
    """The number of a key space."""
    return _NUMBERS[kind, minted]


def is_session(row: Row) -> bool:
    """Whether a row read by RECORD is of a session."""
    return cast(int, row[SPACE]) >= SESSION_SPACE


def record_of(row: Row, namespace: str) -> Record:
    """The record in a row of RECORD's columns."""
    kind, minted = SPACES[row[1]]
    metadata, tags, session, digest, expires, observed = row[6], row[7], row[8], row[10], row[13], row[16]
    # SQLite sees to the types on writing. A byte that turned in the file makes another type of a value, and whoever
    # asks is to learn of it here. (What is not looked at cannot be taken for anything else below.)
    if not (
        row[2].__class__ is row[3].__class__ is row[4].__class__ is row[5].__class__ is str
        and row[0].__class__
        is row[9].__class__
        is row[11].__class__
        is row[12].__class__
        is row[14].__class__
        is int
        and (session is None or session.__class__ is str)
        and isinstance(digest, (bytes, str))
    ):
        raise TypeError(DAMAGED)
    return Record(
        str(row[0]),
        namespace,
        kind,
        row[2],
        minted,
        row[3],
        row[4],
        row[5],
        {} if metadata is None else _metadata_from(metadata),
        () if tags is None else _tags_from(tags),
        session,
        row[9],
        digest.hex() if isinstance(digest, bytes) else digest,
        EPOCH + timedelta(0, 0, row[11]),
        EPOCH + timedelta(0, 0, row[12]),
        None if expires is None else from_micros(expires),
        row[14] == 1,
        TAINTS[row[15]],
        None if observed is None else from_micros(observed),
    )


def revision_from(row: Row) -> Revision:
    """The past state in a row of REVISION's columns."""
    number, content, title, kind, metadata, tags, session, written, digest, pinned, expires = row
    if not (
        content.__class__ is title.__class__ is kind.__class__ is str
        and number.__class__ is written.__class__ is pinned.__class__ is int
        and (session is None or session.__class__ is str)
        and isinstance(digest, (bytes, str))
    ):
        raise TypeError(DAMAGED)
    return Revision(
        number,
        content,
        title,
        kind,
        {} if metadata is None else _metadata_from(metadata),
        () if tags is None else _tags_from(tags),
        session,
        from_micros(written),
        False,
        digest.hex() if isinstance(digest, bytes) else digest,
        bool(pinned),
        None if expires is None else from_micros(expires),
    )


def _metadata_from(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if found.__class__ is not dict:
        raise TypeError(DAMAGED)
    return cast("dict[str, Any]", found)


def _tags_from(text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if found.__class__ is not list or not all(tag.__class__ is str for tag in found):
        raise TypeError(DAMAGED)
    return tuple(found)


def words_in(value: Any) -> str:
    """A text that a column must hold; TypeError where it is something else."""
    if value.__class__ is not str:
        raise TypeError(DAMAGED)
    return str(value)


def pack_json(value: Any) -> str | None:
    """Compact JSON; None for what is empty."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else None


def pack_time(moment: datetime | None) -> int | None:
    """Microseconds, where there is a time."""
    return None if moment is None else to_micros(moment)


def pack_hash(digest: str) -> bytes | str:
    """A SHA-256 as 32 bytes; anything else (a foreign import) as it is."""
    if len(digest) == 64:
        try:
            packed = bytes.fromhex(digest)
        except ValueError:
            return digest
        if packed.hex() == digest:
            return packed
    return digest


def state_row(slot: int, state: Revision) -> Row:
    """A past state as a row of `revisions`, in the order of its columns."""
    return (
        slot,
        state.revision,
        to_micros(state.written_at),
        pack_time(state.expires_at),
        int(state.pinned),
        pack_hash(state.normalized_hash),
        state.type,
        state.session_id,
        state.title,
        pack_json(state.tags),
        pack_json(state.metadata),
        state.content,
    )


def folded_hash(namespace: str, folded: str) -> int:
    """63 bits that stand for a folded key of a namespace; whoever finds them compares the keys themselves.

    The upper ones are the namespace's, so that its keys lie together in the index: an import of a user's records
    changes a few of its pages, not one each.
    """
    digest = blake2b(folded.encode(), digest_size=4).digest()
    return _namespace_bits(namespace) | int.from_bytes(digest)


@lru_cache(maxsize=256)
def _namespace_bits(namespace: str) -> int:
    return int.from_bytes(blake2b(namespace.encode(), digest_size=4).digest()) >> 1 << 32


def folded_of(key: str) -> str:
    """What keys have in common that differ only in case, spaces, `-` or `_`."""
    return fold_key(key)


def id_number(identity: str) -> int | None:
    """The number behind a public id; None where it is no id of this engine."""
    if not (0 < len(identity) < 20 and identity.isascii() and identity.isdecimal()):
        return None
    number = int(identity)
    return number if str(number) == identity and number <= MAX_ID else None


def namespace_slots(num: int) -> tuple[int, int]:
    """The first and last slot that a namespace can have."""
    return num << 32, num << 32 | 0xFFFF_FFFF
