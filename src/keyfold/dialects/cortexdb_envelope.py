"""How a record is written down as events of CortexDB, and read back. Pure.

The text of an event is the record's own (or one piece of it), so that the service indexes what was said. All
else is the envelope, compact JSON in slices among the labels (v3), or, where that is too long, the JSON is the
text (v2). The first label is what a look-up asks for. The layout is TinyMemory's with `kf`, our header, in the
place of its fields, so its body keys begin with `kf3:`, not with `tm3:`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, TypeGuard

from keyfold.clock import from_text, to_text
from keyfold.dialects.cortexdb_chunks import Cut, pieces
from keyfold.dialects.payload import EMPTY_HASH, Payload, header, read, wire_text
from keyfold.errors import InvalidRequest
from keyfold.model import DOCUMENT, OBSERVATION, SESSION, SUMMARY, TURN

KEY_PREFIX: Final = "kf3:"  # names the layout: another layout, another prefix
PART: Final = "tm:e:"
ITEM: Final = "tm:i:"
CALL: Final = "tm:c:"
SLICE: Final = 240  # bytes
MOST_LABELS: Final = 64
MOST_PIECES: Final = 100_000  # of a text; more is no document, and not counted through
LONGEST_LABEL: Final = 256  # bytes
ROLES: Final = ("user", "assistant", "system", "tool")
# a record's kind: what TinyMemory calls it, its modality, and where it came from
KINDS_THERE: Final = {
    OBSERVATION: ("learning", "observation", "agent"),
    DOCUMENT: ("document", "document", "file"),
    TURN: ("conversation", "conversation", "conversation"),
    SUMMARY: ("learning", "observation", "agent"),
    SESSION: ("learning", "observation", "agent"),
}
_ID: Final = re.compile(r"[A-Za-z0-9._:@=+-]{1,256}")
TIMED: Final = ("rev", "created", "updated")  # what the header of a logged turn leaves out
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def label_digest(text: str) -> str:
    """What stands for a text in a label: 16 hex digits."""
    return sha256(text.encode()).hexdigest()[:16]


def item_label(digest: str) -> str:
    """The label under which a record's events are looked up."""
    return ITEM + label_digest(digest)


def call_label(operation: str, key: str) -> str:
    """The label of a caller's idempotency key: a digest of what stands for it."""
    return CALL + label_digest(f"{operation}\0{key}")


def compact(value: Any) -> str:
    """Compact JSON, the keys in their own order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def body_key(body: Mapping[str, Any]) -> str:
    """The idempotency key of an event: the same for equal bodies, in every process and order of keys.

    60 characters of at most 64. An identical retry is a replay; whatever differs makes another key, so a key
    is never used again for another body.
    """
    said = {name: value for name, value in body.items() if name != "idempotency_key"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return KEY_PREFIX + sha256(text.encode()).hexdigest()[:56]


@dataclass(frozen=True, slots=True)
class Piece:
    """An event of ours as it was listed: a record's header and its text, or one piece of it."""

    event: str
    digest: str
    mark: str  # the header as it was written
    header: str  # and with the times that a logged turn's has not
    text: str
    lead: int = 0  # characters before a record's own text
    index: int = 0
    count: int = 1
    recorded: str = ""
    role: str = ""

    @property
    def state(self) -> tuple[str, str, int]:
        """What the pieces of one state of a record have in common."""
        return self.digest, self.mark, self.count


def derives(payload: Payload, engine: bool | None) -> bool:
    """Whether the service may draw facts from a record: the record says, else the engine, else its kind."""
    record = payload.record
    if record.kind == TURN and record.metadata.get("role") == "tool":
        return False
    if payload.derive is not None:
        return payload.derive
    return engine if engine is not None else record.kind in (TURN, DOCUMENT)


def encode(
    payload: Payload, scope: str, *, derive: bool | None = None, nonce: str = "", version: int = 3
) -> list[dict[str, Any]]:
    """The bodies of the events that hold a record: one, or one a piece of a long text.

    InvalidRequest when it cannot be held, whatever is cut. `version` 2 writes the JSON as the text.
    """
    said = _said(payload)
    extra: dict[str, Any] = {"n": nonce} if nonce else {}
    there = KINDS_THERE[payload.record.kind][0]
    lead = _lead(payload)
    if lead:
        extra["lead"] = len(lead)
    plain = {"v": 2, "id": payload.digest, "kind": there, "text": "", "kf": said, **extra}
    cuts = pieces(lead + wire_text(payload), len(compact(plain).encode()))
    if cuts is None:
        raise InvalidRequest("content", "is too long for an event of CortexDB together with its metadata")
    return [_body(payload, scope, {**plain, **_chunk(cut)}, cut, derive, version) for cut in cuts]


def _lead(payload: Payload) -> str:
    """What stands before an observation's text, so that its title, key and tags are found too: one line."""
    record = payload.record
    if record.kind not in (OBSERVATION, SUMMARY) or not record.content:
        return ""
    names = [record.title, *([] if record.minted else [record.key]), *record.tags]
    return " · ".join(" ".join(name.split()) for name in names) + "\n\n"


def _said(payload: Payload) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(header(payload))
    if payload.bare:  # what the caller passed and no more: two calls of one turn are one body
        for name in TIMED:
            del said[name]
    return said


def _chunk(cut: Cut) -> dict[str, Any]:
    if cut.count == 1:
        return {}
    chunk: dict[str, Any] = {"index": cut.index, "count": cut.count}
    if cut.pages is not None:
        chunk["pages"] = list(cut.pages)
    if cut.section:
        chunk["section"] = cut.section
    return {"chunk": chunk}


def _body(
    payload: Payload, scope: str, envelope: dict[str, Any], cut: Cut, derive: bool | None, version: int
) -> dict[str, Any]:
    record = payload.record
    role = str(record.metadata.get("role", "")) if record.kind == TURN else "user"
    lookup = _lookup_labels(payload)
    labels = [*lookup, *_readable(payload, cut), *_slices(compact({**envelope, "v": 3}))]
    text = cut.text
    if version == 2 or not text.strip() or len(labels) > MOST_LABELS:
        text, labels = compact({**envelope, "text": text}), lookup
    context: dict[str, Any] = {"labels": labels}
    if record.observed_at is not None:
        context["observed_at"] = to_text(record.observed_at)
    body: dict[str, Any] = {
        "scope": scope,
        "modality": KINDS_THERE[record.kind][1],
        "content": {"kind": "message", "role": role if role in ROLES else "user", "text": text},
        "context": context,
    }
    if not derives(payload, derive):
        body["directives"] = {"extract": []}
    return {**body, "idempotency_key": body_key(body)}


def _lookup_labels(payload: Payload) -> list[str]:
    record = payload.record
    labels = [item_label(payload.digest)]  # first: whoever waits for an event asks for this one
    if record.kind == TURN and "thread_id" in record.metadata:
        labels.append("tm:t:" + label_digest(str(record.metadata["thread_id"])))
    if record.kind == DOCUMENT:
        labels.append("tm:s:" + label_digest(record.key))
    labels.append("tm:k:" + label_digest(KINDS_THERE[record.kind][2]))
    labels += [call_label(call.operation, call.key) for call in payload.calls]
    return list(dict.fromkeys(labels))


def _readable(payload: Payload, cut: Cut) -> list[str]:
    """Labels for people and other tools. Of a path its last part at most: paths never leave in a label."""
    labels = ["kind:" + KINDS_THERE[payload.record.kind][0]]
    if payload.record.kind == DOCUMENT:
        name = payload.record.key.replace("\\", "/").rstrip("/").rpartition("/")[2]
        labels += ["file:" + name] if name else []
    if cut.pages is not None:
        first, last = cut.pages
        labels.append(f"page:{first}" if first == last else f"page:{first}-{last}")
    if cut.section:
        labels.append("section:" + cut.section)
    return [label for label in labels if len(label.encode()) <= LONGEST_LABEL]


def _slices(text: str) -> list[str]:
    """A text as labels, cut between characters."""
    found: list[str] = []
    raw, at = text.encode(), 0
    while at < len(raw):
        end = min(at + SLICE, len(raw))
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        found.append(f"{PART}{len(found):02}:{raw[at:end].decode()}")
        at = end
    return found


def is_event_id(said: Any) -> TypeGuard[str]:
    """Whether a service's word can be the id of an event: it goes into paths and bodies."""
    return isinstance(said, str) and _ID.fullmatch(said) is not None and said.strip(".") != ""


def piece_of(item: Any) -> Piece | None:
    """An event of ours from a service's item; None when it is none of ours, or was redacted."""
    if not isinstance(item, dict) or not isinstance(item.get("content"), dict):
        return None
    given = item.get("context")
    context: dict[str, Any] = given if isinstance(given, dict) else item  # the documents show its fields flat
    labels, event = context.get("labels"), item.get("id") or item.get("event_id")
    text, role = item["content"].get("text"), str(item["content"].get("role") or "")
    if not is_event_id(event) or not isinstance(text, str) or not text.strip():
        return None
    found = _v3(labels, text) if isinstance(labels, list) else None
    prefix = f"[{role}] "
    found = found or _v2(text) or (_v2(text.removeprefix(prefix)) if role else None)
    if found is None:
        return None
    recorded = str(context.get("recorded_at") or context.get("observed_at") or "")
    return _read_piece(event, found, recorded, context.get("observed_at"), role)


def holds(item: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether a listed event is what a body was sent to make, and not an earlier state with the same text: what
    tells states apart is in the labels (v3), or in the text itself (v2)."""
    given, content = item.get("context"), item.get("content")
    context = given if isinstance(given, Mapping) else item
    labels = context.get("labels")
    if not isinstance(content, Mapping) or not isinstance(labels, list):
        return False
    sent = body["content"]
    texts = (sent["text"], f"[{sent['role']}] {sent['text']}")
    held = {label for label in labels if isinstance(label, str)}
    return content.get("text") in texts and held.issuperset(body["context"]["labels"])


def _v3(labels: Sequence[Any], text: str) -> dict[str, Any] | None:
    parts: dict[int, str] = {}
    for label in labels:
        if isinstance(label, str) and label.startswith(PART):
            number, colon, slice_ = label[len(PART) :].partition(":")
            if not colon or not (number.isascii() and number.isdecimal() and len(number) < 5):
                return None
            parts[int(number)] = slice_
    if not parts or sorted(parts) != list(range(len(parts))):
        return None
    found = _json("".join(parts[number] for number in range(len(parts))))
    return {**found, "text": text} if found is not None and found.get("v") == 3 else None


def _v2(text: str) -> dict[str, Any] | None:
    found = _json(text) if text.startswith("{") else None
    return found if found is not None and found.get("v") == 2 and isinstance(found.get("text"), str) else None


def _json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read_piece(
    event: str, envelope: dict[str, Any], recorded: str, observed: Any, role: str
) -> Piece | None:
    said, chunk = envelope.get("kf"), envelope.get("chunk") or {"index": 0, "count": 1}
    if not isinstance(said, dict) or not isinstance(envelope.get("id"), str) or not isinstance(chunk, dict):
        return None
    index, count = chunk.get("index"), chunk.get("count")
    if type(index) is not int or type(count) is not int or not 0 <= index < count <= MOST_PIECES:
        return None
    mark = compact(said)
    if "created" not in said:  # a logged turn: its time is the caller's, or else the service's
        moment = said.get("observed") or _moment(recorded) or _moment(observed) or to_text(EPOCH)
        said = {**said, "rev": 1, "created": moment, "updated": moment}
    return Piece(
        event,
        envelope["id"],
        mark,
        compact(said),
        envelope["text"],
        _lead_of(envelope),
        index,
        count,
        recorded,
        role,
    )


def _lead_of(envelope: dict[str, Any]) -> int:
    lead = envelope.get("lead", 0)
    return lead if type(lead) is int and lead >= 0 else 0


def _moment(text: Any) -> str | None:
    """A service's time in our form, or None."""
    try:
        return to_text(from_text(text))
    except (ValueError, TypeError, AttributeError, OverflowError):
        return None


def assembled(found: Sequence[Piece]) -> tuple[Payload, tuple[int, ...]] | None:
    """The record behind the pieces of one state, and which of them are missing; None when it is none of ours.

    Older servers put `[role] ` before each text; the hash of the whole tells whether that is so.
    """
    first = found[-1]  # they come newest first; of what was written twice the first counts
    held = {piece.index: piece for piece in found}
    missing = tuple(index for index in range(first.count) if index not in held)
    ordered = [held[index] for index in sorted(held)]
    said = _json(first.header) or {}
    texts = [piece.text for piece in ordered]
    if all(piece.role and piece.text.startswith(f"[{piece.role}] ") for piece in ordered):
        stripped = [piece.text.removeprefix(f"[{piece.role}] ") for piece in ordered]
        whole = sha256("".join(stripped)[first.lead :].encode()).hexdigest()
        if whole == said.get("hash") or (said.get("hash") == EMPTY_HASH and not missing):
            texts = stripped
    payload = read(first.header, "".join(texts)[first.lead :])
    if payload is None or payload.digest != first.digest:
        return None
    return replace(payload, bare="created" not in (_json(first.mark) or {})), missing
