"""Import of ChatGPT's export: each conversation a session, its current branch the turns of a thread.

What becomes what is told in docs/import-export.md. A conversation is a tree, because every edit and every new
answer opens a branch; the one that is shown is taken, the messages of the others are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from keyfold.clock import EPOCH, to_text
from keyfold.contract.intents import Ref
from keyfold.contract.keys import turn_key
from keyfold.contract.protocols import Engine
from keyfold.model import SESSION, TURN, Config
from keyfold.portability.chatgpt_files import conversations
from keyfold.portability.chats import ASSISTANT, TOOL, USER, Thread, Turn
from keyfold.portability.foreign import time_from
from keyfold.portability.loader import Loader
from keyfold.portability.report import Progress, Report

_ROLES: Final = {"user": USER, "assistant": ASSISTANT, "tool": TOOL}
_REASONING: Final = ("thoughts", "reasoning_recap", "reasoning", "analysis")
_INSTRUCTIONS: Final = ("user_editable_context", "model_editable_context", "system_error")
_UPDATED: Final = "source_updated_at"
_IMAGE: Final = "images and other media (a placeholder stands for each)"
_FACTS: Final = (
    ("title", "title"), ("default_model_slug", "model"), ("gizmo_id", "gizmo_id"),
    ("conversation_template_id", "conversation_template_id"), ("is_archived", "is_archived"),
)  # fmt: skip  # a pair a line says less


def import_chatgpt(
    engine: Engine,
    path: str | Path,
    *,
    namespace: str = "default",
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Load a conversations.json of ChatGPT's, or the folder or zip that holds it, into `namespace`.

    NotFound when there is nothing at the path, InvalidRequest for a folder or archive without conversations.
    """
    report = Report(format="chatgpt", dry_run=dry_run)
    loader = Loader(engine, report, config or Config(), dry_run=dry_run, progress=progress)
    seen: set[str] = set()
    for where, value in conversations(Path(path), report):
        if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
            report.skip(where, "it is no conversation: its mapping is missing")
            continue
        name = value.get("conversation_id") or value.get("id")
        if not isinstance(name, str) or not name.strip():
            report.skip(where, "it has no conversation_id")
            continue
        thread = Thread(loader, report, namespace, name, rewritten=True)
        if thread.id in seen:
            report.skip(where, "another conversation before it has the same conversation_id")
            continue
        seen.add(thread.id)
        updated = _updated(value)
        if _holds_later(engine, namespace, thread, updated):
            report.note(where, "the store holds a later state of it than this export; that stays")
            report.leave_out("conversations that the store holds in a later state")
            continue
        if updated is not None:
            thread.facts[_UPDATED] = to_text(updated)
        _take(value, thread, where, report)
        thread.close(where)
        if thread.count and _holds(engine, namespace, thread):
            report.note(where, "the store holds later turns of it than its current branch; they stay")
    loader.finish()
    return report


def _updated(value: dict[str, Any]) -> datetime | None:
    """When a conversation last changed: its own word, else the newest of its messages."""
    told = time_from(value.get("update_time"))
    if told is not None:
        return told
    newest = max((_time(node) for node in value["mapping"].values() if isinstance(node, dict)), default=EPOCH)
    return newest if newest > EPOCH else None


def _holds_later(engine: Engine, namespace: str, thread: Thread, updated: datetime | None) -> bool:
    """Whether an export that was made later was imported before: its branch is then not gone back on."""
    if updated is None:
        return False
    session = engine.get(Ref(namespace, key=thread.id, kind=SESSION))
    before = time_from(session.metadata.get(_UPDATED)) if session is not None else None
    return before is not None and before > updated


def _holds(engine: Engine, namespace: str, thread: Thread) -> bool:
    """Whether a turn after the last one is there, from an import when the branch was longer."""
    key = turn_key(thread.id, thread.count)
    return engine.get(Ref(namespace, key=key, kind=TURN)) is not None


def _take(value: dict[str, Any], thread: Thread, where: str, report: Report) -> None:
    at = time_from(value.get("create_time")) or time_from(value.get("update_time")) or EPOCH
    thread.facts["source"] = "chatgpt"
    for theirs, ours in _FACTS:
        if value.get(theirs) not in (None, "", False):
            thread.facts[ours] = value[theirs]
    mapping: dict[str, Any] = value["mapping"]
    branch = _branch(mapping, value.get("current_node"))
    for name in branch:
        message = mapping[name].get("message")
        if isinstance(message, dict):
            at = time_from(message.get("create_time")) or at
            turn = _turn(message, at, where, report)
            if turn is not None:
                thread.add(turn)
    taken = set(branch)
    others = sum(1 for name, node in mapping.items() if name not in taken and _is_talk(node))
    if others:
        report.leave_out("messages on branches that are not shown", others)


def _branch(mapping: dict[str, Any], current: Any) -> list[str]:
    """The names of the nodes from the root to the current one. Without a current one: to the latest leaf."""
    if not isinstance(current, str) or not isinstance(mapping.get(current), dict):
        current = max(
            (name for name, node in mapping.items() if isinstance(node, dict) and not node.get("children")),
            key=lambda name: _time(mapping[name]),
            default=None,
        )
    found: dict[str, None] = {}
    while isinstance(current, str) and current not in found and isinstance(mapping.get(current), dict):
        found[current] = None
        current = mapping[current].get("parent")
    return list(reversed(found))


def _time(node: dict[str, Any]) -> datetime:
    message = node.get("message")
    moment = time_from(message.get("create_time")) if isinstance(message, dict) else None
    return moment or EPOCH


def _is_talk(node: Any) -> bool:
    message = node.get("message") if isinstance(node, dict) else None
    return isinstance(message, dict) and _role(message) in (USER, ASSISTANT)


def _role(message: dict[str, Any]) -> Any:
    author = message.get("author")
    return author.get("role") if isinstance(author, dict) else None


def _turn(message: dict[str, Any], at: datetime, where: str, report: Report) -> Turn | None:
    """A message as a turn, or None for one that is no talk, which is counted."""
    role, content = _role(message), message.get("content")
    metadata = message.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind = content.get("content_type") if isinstance(content, dict) else None
    if role == "system" or kind in _INSTRUCTIONS:
        report.leave_out("instructions and messages of the system")
        return None
    if metadata.get("is_visually_hidden_from_conversation") is True:
        report.leave_out("hidden messages")
        return None
    if kind in _REASONING:
        report.leave_out("thinking")
        return None
    if not isinstance(role, str) or role not in _ROLES or not isinstance(content, dict):
        report.leave_out("messages of an unknown kind")
        return None
    text = "\n\n".join(_texts(content, report))
    recipient = message.get("recipient")
    calls: list[dict[str, Any]] = []
    if role == ASSISTANT and isinstance(recipient, str) and recipient not in ("", "all", "assistant"):
        calls.append({"name": recipient})
    facts: dict[str, Any] = {}
    names = [item.get("name") for item in _list(metadata.get("attachments")) if isinstance(item, dict)]
    if any(isinstance(name, str) for name in names):
        facts["attachments"] = [name for name in names if isinstance(name, str)][:100]
    if not text.strip() and not calls:
        report.leave_out("empty messages")
        return None
    return Turn(_ROLES[role], text, at, where, calls=calls, facts=facts)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(content: dict[str, Any], report: Report) -> Iterator[str]:
    """The texts of a message's content; a placeholder for what is no text."""
    text = content.get("text") or content.get("result")
    if isinstance(text, str) and text.strip():
        yield text
    for part in _list(content.get("parts")):
        if isinstance(part, str):
            if part.strip():
                yield part
            continue
        if not isinstance(part, dict):
            continue
        said = part.get("text")
        if isinstance(said, str) and said.strip():
            yield said
            continue
        kind = part.get("content_type")
        word = str(kind) if isinstance(kind, str) else ""
        report.leave_out(_IMAGE)
        yield (
            "[image]"
            if "image" in word
            else "[audio]"
            if "audio" in word
            else "[video]"
            if "video" in word
            else "[attachment]"
        )
