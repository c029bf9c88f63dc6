"""What the CortexDB double refuses: the closed schema of a write, of a forget and of a recall, as the service words it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

MAX_TEXT = 1_048_576
MAX_KEY = 64
MAX_LABELS = 64
MAX_LABEL = 256
MAX_BULK = 1_000
MAX_FORGET = 100
MAX_SEGMENTS = 32
MAX_TOKENS = 8_388_608
SCOPE_TYPES = frozenset(
    ["org", "dept", "team", "app", "user", "agent", "service", "ws", "project", "global", "system", "source"]
)
WAITS = ("accepted", "captured", "indexed", "consolidated", "settled")
ROLES = ("user", "assistant", "system", "tool")
LAYERS = ("events", "facts", "beliefs", "episodes", "understanding")

EVENT_FIELDS = frozenset(
    [
        "scope",
        "modality",
        "content",
        "context",
        "idempotency_key",
        "directives",
        "observed_actor",
        "subject",
        "source",
        "language",
        "scripts",
    ]
)
CONTEXT_FIELDS = frozenset(
    [
        "labels",
        "observed_at",
        "timezone",
        "refers_to",
        "intent",
        "location",
        "preceded_by",
        "source_recorded_at",
    ]
)
CONTENT_FIELDS = {
    "message": frozenset({"kind", "role", "text"}),
    "text": frozenset({"kind", "text"}),
    "json": frozenset({"kind", "data"}),
    "blob_ref": frozenset({"kind", "blob_id", "transcript"}),
    "triple": frozenset({"kind", "triple"}),
}
FORGET_FIELDS = frozenset(
    ["scope", "layers", "selector", "cascade", "audit_note", "confirm_all", "reason", "from_preview_id"]
)
ERASURE_FIELDS = frozenset(
    ["scope", "selector", "confirm_all", "audit_note", "from_preview_id", "idempotency_key"]
)
#: What a forget knows to select by. Another name is no error: it deserialises to a selector of nothing.
SELECTORS = ("memory_ids", "about_subject", "about_entity", "predicate")
RECALL_FIELDS = frozenset(
    [
        "scope",
        "query",
        "view",
        "include",
        "budgets",
        "filters",
        "diagnostics",
        "temporal",
        "language",
        "scripts",
        "query_variants",
    ]
)
FILTERS = frozenset(["labels", "intent", "modality", "caller", "observed_actor"])
VIEWS = ("holistic", "granular", "descend", "lineage", "local")
ANSWER_FIELDS = frozenset(
    [
        "scope",
        "view",
        "question",
        "question_type",
        "question_date",
        "answer_model",
        "answer_max_tokens",
        "answer_instructions",
        "cite_sources",
        "include_context",
        "use_pack_id",
        "temporal",
        "diagnostics",
        "filters",
    ]
)
MAX_INSTRUCTIONS = 4_000
#: Left out of what a repeated key is compared by: when it happened, and hints on how to read it.
HINTS = frozenset({"language", "scripts"})
CONTEXT_HINTS = frozenset({"observed_at", "timezone", "refers_to"})


class Refused(Exception):
    """An answer other than success, in the words of the direct wire."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str = "",
        *,
        retriable: bool = False,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {code} {message}")
        self.status = status
        self.code = code
        self.message = message or code.replace("_", " ").lower()
        self.retriable = retriable
        self.details = dict(details) if details is not None else None
        self.headers = dict(headers or {})

    def body(self, request_id: str) -> dict[str, Any]:
        body = {
            "error_code": self.code,
            "message": self.message,
            "request_id": request_id,
            "retriable": self.retriable,
        }
        return body if self.details is None else body | {"details": self.details}


def invalid_body(message: str) -> Refused:
    return Refused(422, "INVALID_BODY", message)


def invalid_envelope(message: str) -> Refused:
    return Refused(422, "INVALID_ENVELOPE", message)


def parsed(raw: bytes) -> dict[str, Any]:
    """The body of a request, which is always an object."""
    try:
        body = json.loads(raw)
    except (ValueError, UnicodeDecodeError) as error:
        raise invalid_body(f"body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise invalid_body("body must be an object")
    if b"\\ud" in raw or b"\\uD" in raw:
        try:
            json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise invalid_body("body holds a lone surrogate") from None
    return body


def closed(body: Mapping[str, Any], fields: Iterable[str], where: str = "") -> None:
    known = frozenset(fields)
    for name in body:
        if name not in known:
            expected = ", ".join(f"`{field}`" for field in sorted(known))
            raise invalid_body(f"unknown field `{where}{name}`, expected one of {expected}")


def scope_path(value: Any, types: frozenset[str] | None = SCOPE_TYPES, most: int = MAX_SEGMENTS) -> str:
    """A scope as it was given, when every segment of it is a known `type:id`."""
    if not isinstance(value, str) or not value:
        raise invalid_body("missing field `scope`")
    segments = value.split("/")
    if len(segments) > most:
        raise invalid_body(f"scope has {len(segments)} segments, at most {most} are accepted")
    for segment in segments:
        kind, colon, name = segment.partition(":")
        if not colon or not kind or not name:
            raise invalid_body(f"scope segment `{segment}` is not `type:id`")
        if types is not None and kind not in types:
            raise Refused(
                422, "UNREGISTERED_SCOPE_TYPE", f"scope type `{kind}` is not in allowed_scope_types"
            )
    return value


def flattened(content: Mapping[str, Any]) -> bytes:
    """The text that is indexed for a content: what the limit of a mebibyte is measured on."""
    match content.get("kind"):
        case "message":
            text = f"[{content['role']}] {content['text']}"
        case "text":
            text = content["text"]
        case "json":
            text = json.dumps(content.get("data"), separators=(",", ":"), ensure_ascii=False)
        case "blob_ref":
            text = content.get("transcript") or f"[blob] {content.get('blob_id')}"
        case _:
            text = "[triple] " + json.dumps(content.get("triple"), separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def experience(body: Any, *, types: frozenset[str] | None = SCOPE_TYPES) -> None:
    """Refuse a write that the service would refuse whatever it holds already."""
    if not isinstance(body, dict):
        raise invalid_body("an experience must be an object")
    closed(body, EVENT_FIELDS)
    scope_path(body.get("scope"), types)
    if not isinstance(body.get("modality"), str) or not body["modality"]:
        raise invalid_body("missing field `modality`")
    _content(body.get("content"))
    _context(body.get("context", {}))
    key = body.get("idempotency_key")
    if key is not None and (not isinstance(key, str) or not key):
        raise invalid_body("idempotency_key must be a non-empty string")
    if key is not None and len(key) > MAX_KEY:
        raise invalid_envelope(f"idempotency_key is {len(key)} characters, at most {MAX_KEY} are accepted")
    directives = body.get("directives", {})
    if not isinstance(directives, dict):
        raise invalid_body("directives must be an object")
    closed(directives, {"extract"}, "directives.")
    if not isinstance(directives.get("extract", []), list):
        raise invalid_body("directives.extract must be a list")


def _content(content: Any) -> None:
    if not isinstance(content, dict) or content.get("kind") not in CONTENT_FIELDS:
        raise invalid_body("content.kind must be one of " + ", ".join(sorted(CONTENT_FIELDS)))
    closed(content, CONTENT_FIELDS[content["kind"]], "content.")
    if content["kind"] == "message" and content.get("role") not in ROLES:
        raise invalid_body("content.role must be one of " + ", ".join(ROLES))
    if content["kind"] in {"message", "text"}:
        if not isinstance(content.get("text"), str):
            raise invalid_body("missing field `content.text`")
        if not content["text"]:
            raise invalid_envelope("message text may not be empty")
    size = len(flattened(content))
    if size > MAX_TEXT:
        raise invalid_envelope(f"flattened content is {size} bytes, at most {MAX_TEXT} are accepted")


def _context(context: Any) -> None:
    if not isinstance(context, dict):
        raise invalid_body("context must be an object")
    closed(context, CONTEXT_FIELDS, "context.")
    labels = context.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise invalid_body("context.labels must be a list of strings")
    if len(labels) > MAX_LABELS:
        raise invalid_envelope(f"{len(labels)} labels, at most {MAX_LABELS} are accepted")
    for label in labels:
        if len(label.encode()) > MAX_LABEL:
            raise invalid_envelope(f"label is {len(label.encode())} bytes, at most {MAX_LABEL} are accepted")
        if label.startswith("lang:"):
            raise invalid_envelope("the label prefix `lang:` is reserved")
    if context.get("observed_at") is not None:
        moment(context["observed_at"], "context.observed_at")


def moment(text: Any, name: str) -> datetime:
    """An RFC 3339 time, with its offset."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise invalid_body(f"{name} is not an RFC 3339 time") from None
    if found.tzinfo is None:
        raise invalid_body(f"{name} has no offset")
    return found


def identity(body: Mapping[str, Any]) -> str:
    """What a repeated key is compared by: all of the body but when it happened and the hints."""
    kept = {name: value for name, value in body.items() if name not in HINTS}
    context = {k: v for k, v in (body.get("context") or {}).items() if k not in CONTEXT_HINTS}
    return json.dumps(kept | {"context": context}, sort_keys=True, separators=(",", ":"))


def selected(body: Mapping[str, Any], both: tuple[int, str]) -> list[str] | None:
    """The ids that a forget or an erasure names; None when it means the whole scope.

    A selector that holds nothing the service knows is a selector of everything, which is why it has to be confirmed.
    """
    selector = body.get("selector") or {}
    if not isinstance(selector, dict):
        raise invalid_body("selector must be an object")
    known = {name: selector[name] for name in SELECTORS if selector.get(name)}
    ids = known.get("memory_ids", [])
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise invalid_body("selector.memory_ids must be a list of strings")
    if len(ids) > MAX_FORGET:
        raise invalid_body(f"{len(ids)} memory_ids, at most {MAX_FORGET} are accepted")
    if known and body.get("confirm_all") is True:
        raise Refused(*both, "a selector and confirm_all together are ambiguous")
    if not known and body.get("confirm_all") is not True:
        raise Refused(
            422, "EMPTY_SELECTOR_WITHOUT_CONFIRMATION", "an empty selector means the whole scope: confirm_all"
        )
    return ids if known else None
