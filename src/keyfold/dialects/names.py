"""What namespaces and keys are called on a service's wire. Fixed: other programs and stores rely on it. DESIGN 9.

A namespace is tagged, so that it is never a service's wildcard, and encoded reversibly, so that enumerating a
service yields names. A record is found by its digest: the first 40 hex digits of the SHA-256 of namespace, NUL
and key (and for what is no keyed observation: NUL, its kind, with `!` when the key is minted). It is the
record's id too, which is why an id can be looked up as cheaply as a key.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, Final, TypeGuard
from urllib.parse import quote, unquote

from keyfold.contract.decide import MATERIAL
from keyfold.contract.intents import Intent
from keyfold.model import OBSERVATION, plain

TAG: Final = "kf:"
SESSIONS_TAG: Final = "kf.s:"  # sessions lie apart, so that a listing of memories does not pay for them
DIGEST_KEY: Final = 26  # characters, as of a ULID
_DIGEST: Final = re.compile(r"[0-9a-f]{40}")
_PATH_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")


def digest_of(namespace: str, key: str, kind: str = OBSERVATION, *, minted: bool = False) -> str:
    """The digest of an address: 40 hex digits."""
    other = "" if kind == OBSERVATION and not minted else f"\0{kind}{'!' if minted else ''}"
    return sha256(f"{namespace}\0{key}{other}".encode()).hexdigest()[:40]


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def tagged(namespace: str, tag: str = TAG) -> str:
    """A namespace on the wire: the tag, then the name with all but letters, digits and `._-/:@` percent-encoded."""
    return tag + quote(namespace, safe="/:@")


def untagged(name: str) -> tuple[str, str] | None:
    """The tag and the namespace behind a name on the wire; None when it is none of ours."""
    for tag in (TAG, SESSIONS_TAG):
        if name.startswith(tag):
            try:
                namespace = unquote(name[len(tag) :], errors="strict")
                return (tag, namespace) if namespace and tagged(namespace, tag) == name else None
            except UnicodeError:  # no UTF-8, or half a character: nobody's who writes here
                return None
    return None


def is_path_id(value: object) -> TypeGuard[str]:
    """Whether an id that a service gave is a plain one, and can go into a path without changing where it leads."""
    return isinstance(value, str) and _PATH_ID.fullmatch(value) is not None


def digest_key(intent: Intent) -> str:
    """The key of an unkeyed record: a digest of all that is material, so that a repeat meets the first."""
    material: dict[str, Any] = {
        name: plain(getattr(intent, name)) for name in MATERIAL if getattr(intent, name)
    }
    if intent.dedup_on == "content":
        material = {"content": intent.content}
    if "tags" in material:
        material["tags"] = sorted(material["tags"])
    text = json.dumps(material, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:DIGEST_KEY].upper()
