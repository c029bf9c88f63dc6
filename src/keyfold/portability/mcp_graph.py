"""The knowledge graph in a memory.jsonl: the entities and relations it holds, copies of one put together.

The same entity often stands on several lines, a later copy with more observations than an earlier one. Nothing
dates the difference, so the copies are one entity with all their observations in the order of first mention.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from keyfold.portability.foreign import (
    ODD_NUMBERS,
    REPAIRED,
    Line,
    clean,
    cleaned,
    is_repaired,
    redact_json,
    time_from,
)
from keyfold.portability.report import Report
from keyfold.text.redact import has_private, redact, redact_count

# Where an object of this file can begin after one that was cut off on the same line.
START: Final = re.compile(r'\{\s*"(?:type|name|entityType|observations|from|to|relationType)"\s*:')
RELATIONS: Final = "relations"
OWN_RELATIONS: Final = "relations (its own)"
COPIES: Final = "copies of an entity on other lines, put together"
PREFIX: Final = "entity/"
_ENTITY: Final = frozenset(("type", "name", "entityType", "observations", "createdAt"))
_RELATION: Final = ("from", "relationType", "to")
_NAMED: Final = frozenset(("type", *_RELATION))


class Relation(NamedTuple):
    """How one relation is told."""

    form: dict[str, Any]  # as it stands in metadata: redacted here, so that it can be told from what is held
    line: str  # as a line of text, redacted on its own


@dataclass(slots=True)
class Entity:
    """One entity: all that the lines about it say. Observations and relations are kept once each, in order."""

    name: str
    line: int
    kind: str = ""
    observations: dict[str, None] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    created: datetime | None = None
    updated: datetime | None = None
    known: bool = True


@dataclass(slots=True)
class Graph:
    """The entities by name, and how much was put together."""

    entities: dict[str, Entity] = field(default_factory=dict)
    relations: dict[tuple[str, str, str], Relation] = field(default_factory=dict)
    redacted: int = 0
    repaired: int = 0
    left_out: int = 0
    remarked: set[str] = field(default_factory=set)  # what the report says something about

    def leave_out(self, reason: str, report: Report) -> None:
        """Count what is not taken of an entity or of a relation."""
        self.left_out += 1
        report.leave_out(reason)

    @property
    def remarks(self) -> int:
        """How often there was something to say of what was taken."""
        return self.redacted + self.repaired + self.left_out


def concerned(value: Any) -> tuple[str, ...]:
    """Of what entities a value of such a file tells: the one that it describes, or the two of a relation."""
    if value.__class__ is not dict:
        return ()
    kind = _kind(value)
    if kind == "entity":
        name = value.get("name")
        return (clean(name),) if name.__class__ is str else ()
    source, target = value.get("from"), value.get("to")
    return (clean(source), clean(target)) if source.__class__ is target.__class__ is str else ()


def read_graph(
    lines: Iterable[tuple[Line, tuple[str, ...]]], report: Report, unchanged: frozenset[str] = frozenset()
) -> Graph:
    """Read the lines of a file, but those that tell of none but what is unchanged.

    Beside each line stand the entities that it concerns, where that is known. Lines that hold neither an entity
    nor a relation are reported, the rest is taken.
    """
    graph = Graph()
    seen: set[str] = set()
    for line, names in lines:
        if names and unchanged.issuperset(names):
            if len(names) == 1:
                if names[0] in seen:
                    report.leave_out(COPIES)
                seen.add(names[0])
            continue
        where = f"line {line.number}"
        if line.problem is not None:
            report.skip(where, line.problem, line.number)
            continue
        values = line.value if isinstance(line.value, list) and line.value else [line.value]
        escaped = line.words is None or b"\\u" in line.words or b"\0" in line.words
        for value in values:
            before = graph.remarks
            problem = _take(value, line.number, graph, report)
            if problem is not None:
                report.skip(where, problem, line.number)
            elif escaped and is_repaired(value):
                graph.repaired += 1
                report.note(where, REPAIRED, line.number)
            if problem is not None or graph.remarks > before:
                graph.remarked.update(concerned(value))
        if line.odd:
            report.note(where, ODD_NUMBERS, line.number)
    _fold(graph, report, unchanged)
    return graph


def is_graph(value: Any) -> bool:
    """Whether an object can be one of this file's."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "entity" or (kind is None and "name" in value):
        return isinstance(value.get("name"), str) and ("observations" in value or "entityType" in value)
    return kind in ("relation", None) and isinstance(value.get("from"), str) and "relationType" in value


def _take(value: Any, number: int, graph: Graph, report: Report) -> str | None:
    """Add an entity or a relation; what is wrong with it otherwise."""
    if not isinstance(value, dict):
        return "not an object"
    kind = _kind(value)
    if kind is None:
        return "neither an entity (a name is missing) nor a relation (from is missing)"
    if kind == "entity":
        return _take_entity(value, number, graph, report)
    return _take_relation(value, graph, report)


def _kind(value: dict[str, Any]) -> str | None:
    kind = value.get("type")
    if kind == "entity" or kind == "relation":
        return str(kind)
    return "entity" if "name" in value else "relation" if "from" in value else None


def _take_entity(value: dict[str, Any], number: int, graph: Graph, report: Report) -> str | None:
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        return "an entity without a name"
    observations = value.get("observations")
    if observations is None:
        observations = []
    if isinstance(observations, str):
        observations = [observations]
    if not isinstance(observations, list):
        return "an entity's observations must be a list"
    name = clean(name)
    entity = graph.entities.get(name)
    if entity is None:
        entity = graph.entities[name] = Entity(name, number)
    else:
        report.leave_out(COPIES)
    if isinstance(value.get("entityType"), str) and value["entityType"].strip():
        entity.kind = clean(value["entityType"])
    for observation in observations:
        text = _observed(observation, graph, report)
        if text:
            entity.observations[text] = None
    if not value.keys() <= _ENTITY:
        rest = {key: item for key, item in value.items() if key not in _ENTITY and item is not None}
        safe, regions = redact_json(cleaned(rest))
        graph.redacted += regions
        if RELATIONS in safe:  # that name is for the relations of the graph
            safe[OWN_RELATIONS] = safe.pop(RELATIONS)
        entity.extra |= safe
    _date(entity, value)
    return None


def _observed(observation: Any, graph: Graph, report: Report) -> str:
    """An observation as it stands in a record: redacted on its own, its further lines indented."""
    if isinstance(observation, dict):  # variants of the server date each observation
        key = next((key for key in ("content", "text", "observation") if key in observation), None)
        if key is not None:
            if len(observation) > 1:
                graph.leave_out("what is said of an observation beside its text (dates and the like)", report)
            observation = observation[key]
    if observation is None:
        graph.leave_out("observations that are null", report)
        return ""
    given = (
        observation if isinstance(observation, str) else json.dumps(cleaned(observation), ensure_ascii=False)
    )
    text = clean(given)
    if "<" not in text and "\n" not in text and "\r" not in text:
        return text.strip()
    safe, regions = redact_count(text)
    graph.redacted += regions
    return "\n  ".join(line.rstrip() for line in safe.strip().splitlines())


def _date(entity: Entity, value: dict[str, Any]) -> None:
    created = time_from(value.get("createdAt"))
    if created is not None:
        entity.created = created if entity.created is None else min(created, entity.created)
    elif value.get("createdAt") is not None:
        entity.extra["createdAt"] = cleaned(value["createdAt"])
    updated = time_from(value.get("updatedAt"))
    if updated is not None:
        entity.updated = updated if entity.updated is None else max(updated, entity.updated)


def _take_relation(value: dict[str, Any], graph: Graph, report: Report) -> str | None:
    source, kind, target = value.get("from"), value.get("relationType"), value.get("to")
    if not (isinstance(source, str) and isinstance(kind, str) and isinstance(target, str)):
        return "a relation needs from, to and relationType"
    if not (source.strip() and kind.strip() and target.strip()):
        return "a relation needs from, to and relationType"
    source, kind, target = clean(source), clean(kind), clean(target)
    if (source, kind, target) in graph.relations:
        graph.leave_out("copies of a relation", report)
    shown = (source, kind, target)
    line = f"{source} {kind} {target}"
    if "<" in line:
        graph.redacted += sum(redact_count(part)[1] for part in shown)
        line, shown = redact(line), (redact(source), redact(kind), redact(target))
    form: dict[str, Any] = {"from": shown[0], "relationType": shown[1], "to": shown[2]}
    if len(value) > len(_RELATION):
        rest = {key: item for key, item in value.items() if key not in _NAMED and item is not None}
        safe, regions = redact_json(cleaned(rest))
        graph.redacted += regions
        form |= safe
    graph.relations[source, kind, target] = Relation(form, " ".join(line.split()))
    return None


def _fold(graph: Graph, report: Report, unchanged: frozenset[str]) -> None:
    """Give each relation to both its entities; one that no line describes is made, and reported."""
    for (source, _, target), relation in graph.relations.items():
        for name in (source,) if source == target else (source, target):
            if name in unchanged:
                continue
            entity = graph.entities.get(name)
            if entity is None:
                entity = graph.entities[name] = Entity(name, 0, known=False)
                told = "an entity whose name is private" if has_private(name) else f"{PREFIX}{name}"
                report.note(
                    told, "relations name it, and the file does not describe it; it is made from them"
                )
            entity.relations.append(relation)
