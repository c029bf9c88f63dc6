"""Redaction before everything, and the one place where a text's hash is made.

`prepare` is the only caller of `normalized_hash`, and it feeds it redacted text (a test reads the syntax
tree to keep it so): two saves that differ only inside private text are the same save.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, NewType

from keyfold.contract.intents import Idempotency
from keyfold.text.redact import redact

Redacted = NewType("Redacted", str)


def normalized_hash(text: Redacted) -> str:
    """SHA-256, in hex, of redacted content as UTF-8."""
    return sha256(text.encode()).hexdigest()


def prepare(content: str) -> tuple[Redacted, str]:
    """The redacted content and its hash. The content holds no lone surrogate (it was checked before)."""
    redacted = Redacted(redact(content) if "<" in content else content)
    return redacted, normalized_hash(redacted)


def idempotency(operation: str, key: str, body: dict[str, Any]) -> Idempotency:
    """A caller's key and the body it stands for, as digests: neither key nor text is kept.

    `body` holds the redacted arguments that were passed, JSON-ready; its form is compact with sorted keys.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return Idempotency(operation, sha256(key.encode()).digest(), sha256(text.encode()).digest())
