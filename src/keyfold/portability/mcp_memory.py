"""Import of the MCP reference memory server's memory.jsonl: each entity an observation under `entity/<name>`.

What becomes what is told in docs/import-export.md. An import adds and never takes away: observations that the
store holds and the file no longer does stay, so that two files may be imported into one memory in any order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from keyfold.contract.filters import Filter
from keyfold.contract.intents import Page, Query, Ref
from keyfold.contract.protocols import Engine, Marked
from keyfold.memory.checks import MAX_TITLE_BYTES
from keyfold.model import OBSERVATION, Config, Record
from keyfold.portability.drafts import Draft, State
from keyfold.portability.foreign import json_lines, modified, open_source
from keyfold.portability.loader import Loader
from keyfold.portability.marks import marks_held
from keyfold.portability.mcp_graph import PREFIX, RELATIONS, START, Entity, read_graph
from keyfold.portability.mcp_words import Told, Words
from keyfold.portability.report import Progress, Report
from keyfold.text.counted import counted
from keyfold.text.redact import REDACTED

DEFAULT_TYPE: Final = "discovery"
# Relations beyond this stand in the text alone: metadata holds 64 KiB.
MAX_RELATIONS_BYTES: Final = 24 * 1024
# Entities that changed are looked up one by one when they are at most one in so many, else the listing is read.
FEW: Final = 8
# A line that begins with two spaces continues the observation above it.
_LINES: Final = re.compile(r"\n(?!  )")
# What is left of tags in a text that was redacted on its own; see text/redact.py.
_CLOSER: Final = re.compile(r"</\s*private\s*>", re.IGNORECASE)
_OPENER: Final = re.compile(r"<\s+private(?![\w-])[^<>]*>", re.IGNORECASE)


def import_mcp_memory(
    engine: Engine,
    path: str | Path,
    *,
    namespace: str = "default",
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Load a memory.jsonl of the MCP reference memory server into `namespace`.

    Bad lines are reported and the rest goes in. NotFound when there is nothing at the path.
    """
    report = Report(format="mcp-memory", dry_run=dry_run)
    settings = config or Config()
    loader = Loader(engine, report, settings, dry_run=dry_run, progress=progress)
    with open_source(Path(path)) as file:
        changed = modified(file)
        lines = json_lines(file, START)
        words = Words() if isinstance(engine, Marked) else None
        told: Iterator[Told] = words.note(lines) if words else ((line, ()) for line in lines)
        unchanged: frozenset[str] = frozenset()
        if words and _page(engine, namespace, None, 1).items:  # into a new memory the lines need not be kept
            kept = list(told)
            unchanged = _unchanged(engine, namespace, words)
            told = _let_go(kept)
        graph = read_graph(told, report, unchanged)
    report.redacted += graph.redacted
    same = len(unchanged)
    held = _held(engine, namespace, graph.entities, len(unchanged))
    for name in sorted(graph.entities):
        entity, record = graph.entities[name], held.get(name)
        text, metadata = _text(entity, record, report), _metadata(entity, record.metadata if record else {})
        if record and record.content == text and repr(record.metadata) == repr(metadata):
            same += 1  # the rest of it is never the file's to change
            continue
        draft = _draft(entity, text, metadata, record, namespace, changed, settings)
        if words and entity.known and name not in graph.remarked and _settled(entity, text, metadata, record):
            draft.mark = words.mark(name)
        loader.add(draft)
    loader.unchanged(OBSERVATION, same)
    loader.finish()
    return report


def _let_go(lines: list[Told]) -> Iterator[Told]:
    """The lines in order; none is kept once it was read."""
    lines.reverse()
    while lines:
        yield lines.pop()


def _unchanged(engine: Engine, namespace: str, words: Words) -> frozenset[str]:
    """The entities of which the file says what it said when an import left their records as they are."""
    marks = marks_held(engine, namespace, OBSERVATION, [PREFIX + name for name in words.names]) or {}
    names = ((key.removeprefix(PREFIX), mark) for key, mark in marks.items())
    return frozenset(name for name, mark in names if mark == words.mark(name))


def _settled(entity: Entity, text: str, metadata: dict[str, Any], before: Record | None) -> bool:
    """Whether the same file, imported again, will find nothing to write and nothing to say of this entity."""
    if before is None:
        return True
    record, report = replace(before, content=text, metadata=metadata), Report()
    return (
        _text(entity, record, report) == text
        and repr(_metadata(entity, metadata)) == repr(metadata)
        and report.notes_count == 0
    )


def _held(
    engine: Engine, namespace: str, entities: Mapping[str, Entity], unchanged: int
) -> dict[str, Record]:
    """The entities of the file that the store holds, by name."""
    if len(entities) * FEW <= unchanged:
        refs = [Ref(namespace, key=PREFIX + name, kind=OBSERVATION) for name in entities]
        return {
            record.key.removeprefix(PREFIX): record for record in map(engine.get, refs) if record is not None
        }
    found: dict[str, Record] = {}
    position: str | None = None
    while True:
        page = _page(engine, namespace, position, 500)
        for record in page.items:
            name = record.key.removeprefix(PREFIX)
            if name in entities:
                found[name] = record
        position = page.position
        if position is None:
            return found


def _page(engine: Engine, namespace: str, position: str | None, limit: int) -> Page:
    """Some of the entities that the store holds, in order."""
    return engine.page(
        Query(
            namespace, kinds=(OBSERVATION,), where=Filter(topic_prefix=PREFIX), order="key", keyed_only=True,
            position=position, limit=limit, want_total=False,
        )
    )  # fmt: skip  # one argument a line says less


def _draft(
    entity: Entity,
    text: str,
    metadata: dict[str, Any],
    held: Record | None,
    namespace: str,
    changed: datetime,
    config: Config,
) -> Draft:
    key = PREFIX + entity.name
    created = entity.created or entity.updated or changed
    updated = max(created, entity.updated or created)
    kind = entity.kind.strip().lower()
    title = entity.name if len(entity.name.encode()) <= MAX_TITLE_BYTES else "entity"
    state = State(
        1,
        held.type if held else kind if kind in config.observation_types else DEFAULT_TYPE,
        held.title if held else title,
        text,
        updated,
        metadata,
        held.tags if held else (),
        held.session_id if held else None,
    )
    line = entity.line or None
    where = f"line {line}" if line else "relations"
    return Draft(where, line, namespace, OBSERVATION, key, False, state, created, current=changed)


def _text(entity: Entity, held: Record | None, report: Report) -> str:
    """What an entity says: its observations one a line, then its relations; after what is held, when something is."""
    said = _apart([*entity.observations, *(relation.line for relation in entity.relations)])
    text = "\n".join(said) or entity.name
    if held is None or held.content == text:
        return text
    lines = dict.fromkeys(_LINES.split(held.content))
    if said and len(lines) == 1:
        lines.pop(entity.name, None)
    missing = len(lines.keys() - said)
    if missing and entity.known:
        told = counted(missing, "line in the store is", "lines in the store are")
        report.note(
            PREFIX + entity.name, f"{told} not in the file; {'it stays' if missing == 1 else 'they stay'}"
        )
    return "\n".join(dict.fromkeys((*lines, *said))) or entity.name


def _apart(said: list[str]) -> list[str]:
    """Texts whose tags are no private region alone and would be one together: what is between them goes from each.

    Else the lines in the store would not be those that the file says, and each import would add them again.
    """
    if not any("</" in text and _CLOSER.search(text) for text in said):
        return said
    alone: list[str] = []
    for text in said:
        *_, end = [0, *(found.end() for found in _CLOSER.finditer(text))]
        kept = REDACTED + text[end:] if end else text
        opener = _OPENER.search(kept)
        alone.append(kept if opener is None else kept[: opener.start()] + REDACTED)
    return list(dict.fromkeys(alone))


def _metadata(entity: Entity, held: Mapping[str, Any]) -> dict[str, Any]:
    """The file's facts over those that are held; relations of both."""
    metadata = {**held, **entity.extra}
    if entity.kind:
        metadata["entityType"] = entity.kind
    forms = [relation.form for relation in entity.relations]
    before = held.get(RELATIONS)
    if not forms or before == forms:
        return metadata
    relations: dict[str, Any] = {}
    for form in (*(before if isinstance(before, list) else ()), *forms):
        if isinstance(form, dict):
            relations[f"{form.get('from')}\0{form.get('relationType')}\0{form.get('to')}"] = form
    metadata[RELATIONS] = list(relations.values())
    if len(relations) > 20 and _size(metadata[RELATIONS]) > MAX_RELATIONS_BYTES:
        metadata[RELATIONS] = f"{len(relations)} relations: they stand in the text"
    return metadata


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())
