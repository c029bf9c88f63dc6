"""How a record is written down on a service: its text as it is, everything else as one JSON text, the header.

One text, because services merge, flatten or reorder nested metadata. It holds namespace, key and revision, so
that whatever a service returns can be verified, and so that no two records have identical bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from keyfold.clock import from_text, to_text
from keyfold.contract.intents import IDEMPOTENCY_LIFE, Idempotency, Wait
from keyfold.dialects.names import digest_of
from keyfold.model import KINDS, Outcome, Receipt, Record

VERSION: Final = 1
FIELD: Final = "kf"  # the name of the metadata field that holds the header
EMPTY_HASH: Final = sha256(b"").hexdigest()
MOST: Final = 2**63 - 1  # revisions
KEPT_CALLS: Final = 8  # idempotency keys that a record remembers


@dataclass(frozen=True, slots=True)
class KeptCall:
    """The first answer to a caller's idempotency key, as the record that it wrote remembers it: digests only."""

    operation: str
    key: str
    body: str
    at: datetime
    outcome: Outcome
    revision: int
    digest: str  # of the content then
    session: str | None


@dataclass(frozen=True, slots=True)
class Payload:
    """A record (its id is its digest) and the idempotency keys it remembers, newest last.

    The rest says how it is written, and is not read back. `bare`: a logged turn, of which a log holds what the
    caller passed and no more. `derive`: whether a service may draw facts from it, where the caller said.
    `wait`: how long a write takes to return, on services where what is accepted cannot be read at once.
    """

    record: Record
    calls: tuple[KeptCall, ...] = ()
    bare: bool = False
    derive: bool | None = None
    wait: Wait = "listed"

    @property
    def digest(self) -> str:
        """The digest of the record's address."""
        record = self.record
        return digest_of(record.namespace, record.key, record.kind, minted=record.minted)


def wire_text(payload: Payload) -> str:
    """The text that a service is given: the content, or the title where there is none (services refuse an empty one)."""
    return payload.record.content or payload.record.title


def header(payload: Payload) -> str:
    """Everything but the content, as compact JSON. The order of the metadata's own keys is the caller's."""
    record = payload.record
    said: dict[str, Any] = {
        "v": VERSION,
        "ns": record.namespace,
        "key": record.key,
        "kind": record.kind,
        "type": record.type,
        "title": record.title,
        "rev": record.revision_count,
        "hash": record.normalized_hash,
        "created": to_text(record.created_at),
        "updated": to_text(record.updated_at),
    }
    optional: dict[str, Any] = {
        "minted": record.minted,
        "meta": record.metadata,
        "tags": list(record.tags),
        "session": record.session_id,
        "expires": to_text(record.expires_at) if record.expires_at else None,
        "pinned": record.pinned,
        "taint": record.taint if record.taint != "internal" else None,
        "observed": to_text(record.observed_at) if record.observed_at else None,
        "calls": [
            [c.operation, c.key, c.body, to_text(c.at), c.outcome, c.revision, c.digest, c.session]
            for c in payload.calls
        ],
    }
    said.update({name: value for name, value in optional.items() if value})
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False)


def read(text: Any, content: str) -> Payload | None:
    """The record behind a header and its text; None when the header is none of ours (foreign, damaged, newer)."""
    try:
        said = json.loads(text) if isinstance(text, str) else None
        if not isinstance(said, dict) or said.get("v") != VERSION or said["kind"] not in KINDS:
            return None
        _check_writable(said, content)
        empty = _text(said["hash"]) == EMPTY_HASH
        return Payload(
            _record(said, "" if empty else content), tuple(_call(item) for item in said.get("calls", ()))
        )
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
        return None


def share(value: Any) -> float:
    """A service's score as a number from 0 to 1; 0 for what is none."""
    # In this order what is not a number (NaN) becomes 0, and no large one is turned into a float.
    return float(max(0, min(value, 1))) if type(value) in (int, float) else 0.0


def ranks(scores: Sequence[Any]) -> list[float]:
    """How good the hits of a list are, best first: their scores, or where none is a number, their places.

    One without among others that have a number comes behind what has anything in common, and is not lost.
    """
    known = [share(score) if type(score) in (int, float) and score == score else None for score in scores]
    numbers = [score for score in known if score is not None]
    least = min((score for score in numbers if score > 0), default=1.0) / 2 if numbers else 1.0
    return [least / (1 + place) if score is None else score for place, score in enumerate(known)]


def is_cut(scores: Sequence[Any], limit: int) -> bool:
    """Whether a list of `limit` hits may have been cut: not when it reaches down to what has nothing in common."""
    worthless = any(type(score) in (int, float) and score <= 0 for score in scores)
    return len(scores) >= limit and not worthless


def _check_writable(said: Mapping[str, Any], content: str) -> None:
    """ValueError for what JSON lets in but cannot be written again: half a character, a number without end."""
    json.dumps(said, ensure_ascii=False, allow_nan=False).encode()
    content.encode()


def _text(value: Any, *, empty: bool = True) -> str:
    if not isinstance(value, str) or not (empty or value):
        raise ValueError("not a text, or an empty one")
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MOST:
        raise ValueError("not a revision")
    return value


def _record(said: Mapping[str, Any], content: str) -> Record:
    namespace, key = _text(said["ns"], empty=False), _text(said["key"], empty=False)
    kind, minted = str(said["kind"]), bool(said.get("minted"))
    meta, tags = said.get("meta", {}), said.get("tags", [])
    if not isinstance(meta, dict) or not isinstance(tags, list):
        raise ValueError("not metadata, or not tags")
    return Record(
        id=digest_of(namespace, key, kind, minted=minted),
        namespace=namespace,
        kind=kind,
        key=key,
        minted=minted,
        type=_text(said["type"]),
        title=_text(said["title"]),
        content=content,
        metadata=meta,
        tags=tuple(_text(tag) for tag in tags),
        session_id=_text(said["session"]) if said.get("session") is not None else None,
        revision_count=_number(said["rev"]),
        normalized_hash=_text(said["hash"]),
        created_at=from_text(said["created"]),
        updated_at=from_text(said["updated"]),
        expires_at=from_text(said["expires"]) if said.get("expires") else None,
        pinned=bool(said.get("pinned")),
        taint="external" if said.get("taint") == "external" else "internal",
        observed_at=from_text(said["observed"]) if said.get("observed") else None,
    )


def _call(item: Any) -> KeptCall:
    operation, key, body, at, outcome, revision, digest, session = item
    if outcome not in ("created", "updated", "deduped"):
        raise ValueError("not an outcome")
    return KeptCall(
        str(operation),
        str(key),
        str(body),
        from_text(at),
        outcome,
        _number(revision),
        str(digest),
        str(session) if session is not None else None,
    )


def remembered(
    calls: tuple[KeptCall, ...], use: Idempotency | None, receipt: Receipt, now: datetime
) -> tuple[KeptCall, ...]:
    """The calls that a record remembers once `receipt` has answered another: the newest few of the last day."""
    young = [call for call in calls if now - call.at < IDEMPOTENCY_LIFE]
    if use is not None:
        young.append(
            KeptCall(
                use.operation,
                use.key.hex(),
                use.body.hex(),
                now,
                receipt.outcome,
                receipt.revision_count,
                receipt.normalized_hash,
                receipt.session_id,
            )
        )
    return tuple(young[-KEPT_CALLS:])


def first_receipt(record: Record, call: KeptCall) -> Receipt:
    """What a remembered call was answered, marked as replayed."""
    return Receipt(record.id, record.topic_key, call.outcome, call.revision, True, call.session, call.digest)


def first_call(calls: tuple[KeptCall, ...], use: Idempotency | None, now: datetime) -> KeptCall | None:
    """The call that had the same idempotency key, within a day."""
    if use is None:
        return None
    for call in reversed(calls):
        if (call.operation, call.key) == (use.operation, use.key.hex()) and now - call.at < IDEMPOTENCY_LIFE:
            return call
    return None


def with_id(record: Record) -> Record:
    """The record under its id, which is its digest."""
    return replace(record, id=digest_of(record.namespace, record.key, record.kind, minted=record.minted))
