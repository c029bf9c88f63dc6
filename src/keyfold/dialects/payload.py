"""How a record is written down on a service: its text as it is, everything else as one JSON text, the header.

One text, because services merge, flatten or reorder nested metadata. It holds namespace, key and revision, so
that whatever a service returns can be verified, and so that no two records have identical bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from keyfold.clock import from_text, to_text
from keyfold.contract.intents import Idempotency, Wait
from keyfold.dialects.names import digest_of
from keyfold.model import KINDS, Outcome, Receipt, Record

VERSION: Final = 1
FIELD: Final = "kf"  # the name of the metadata field that holds the header
EMPTY_HASH: Final = sha256(b"").hexdigest()
KEPT_CALLS: Final = 8  # idempotency keys that a record remembers
CALL_LIFE: Final = timedelta(hours=24)


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
        empty = said["hash"] == EMPTY_HASH
        return Payload(
            _record(said, "" if empty else content), tuple(_call(item) for item in said.get("calls", ()))
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def _record(said: Mapping[str, Any], content: str) -> Record:
    namespace, kind, key, minted = (
        str(said["ns"]),
        str(said["kind"]),
        str(said["key"]),
        bool(said.get("minted")),
    )
    return Record(
        id=digest_of(namespace, key, kind, minted=minted),
        namespace=namespace,
        kind=kind,
        key=key,
        minted=minted,
        type=str(said["type"]),
        title=str(said["title"]),
        content=content,
        metadata=dict(said.get("meta", {})),
        tags=tuple(str(tag) for tag in said.get("tags", ())),
        session_id=str(said["session"]) if said.get("session") is not None else None,
        revision_count=int(said["rev"]),
        normalized_hash=str(said["hash"]),
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
        int(revision),
        str(digest),
        str(session) if session is not None else None,
    )


def remembered(
    calls: tuple[KeptCall, ...], use: Idempotency | None, receipt: Receipt, now: datetime
) -> tuple[KeptCall, ...]:
    """The calls that a record remembers once `receipt` has answered another: the newest few of the last day."""
    young = [call for call in calls if now - call.at < CALL_LIFE]
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
        if (call.operation, call.key) == (use.operation, use.key.hex()) and now - call.at < CALL_LIFE:
            return call
    return None


def with_id(record: Record) -> Record:
    """The record under its id, which is its digest."""
    return replace(record, id=digest_of(record.namespace, record.key, record.kind, minted=record.minted))
