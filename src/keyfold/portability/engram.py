"""Import of Engram's memory: its observations, sessions and prompts as Keyfold's records.

What becomes what is told in docs/import-export.md. Every address is stable (a topic key, Engram's sync_id, a
session's id, a place in a thread), so importing again, or importing a later state, adds only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from keyfold.clock import MICROSECOND
from keyfold.contract.protocols import Engine
from keyfold.errors import InvalidRequest
from keyfold.model import OBSERVATION, SUMMARY, Config
from keyfold.portability.drafts import Draft, State
from keyfold.portability.engram_fields import (
    SUMMARY_TYPE,
    identity,
    metadata_of,
    optional_text,
    time_of,
)
from keyfold.portability.engram_files import Contents, Item, read
from keyfold.portability.engram_sessions import Sessions
from keyfold.portability.engram_turns import Turns
from keyfold.portability.loader import Loader
from keyfold.portability.report import Progress, Report
from keyfold.portability.strict_json import BadInput
from keyfold.text.redact import redact

# A session without an end counts as over when nothing was written in it for a day before the newest entry.
QUIET: Final = timedelta(days=1)


def import_engram(
    engine: Engine,
    path: str | Path,
    *,
    namespace: str = "default",
    per_project: bool = False,
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Load Engram's export, a chunk of it or its `.engram` folder into a store.

    Everything goes into `namespace`, or with `per_project` into one namespace a project (what names no
    project goes into `namespace`). What is wrong is reported and skipped. InvalidRequest when the path holds
    nothing of Engram's, NotFound when there is nothing.
    """
    report = Report(format="engram", dry_run=dry_run)
    loader = Loader(engine, report, config or Config(), dry_run=dry_run, progress=progress)
    contents = read(Path(path), report)
    _Import(engine, loader, report, namespace, per_project).run(contents)
    loader.finish()
    return report


Address = tuple[str, str, bool, str]


class _Import:
    def __init__(
        self, engine: Engine, loader: Loader, report: Report, namespace: str, per_project: bool
    ) -> None:
        self._loader = loader
        self._report = report
        self._namespace = namespace
        self._per_project = per_project
        self._sessions = Sessions(report)
        self._turns = Turns(engine)

    def run(self, contents: Contents) -> None:
        """Observations first, then turns: sessions last, since what was written in them dates them."""
        deleted = self._deletions(contents.mutations)
        groups: dict[Address, list[Draft]] = {}
        for item in contents.observations:
            if item.value.get("deleted_at") or str(item.value.get("sync_id")) in deleted:
                self._report.leave_out("deleted in Engram")
                continue
            draft = self._checked(item, self._observation)
            if draft is not None:
                address = (draft.namespace, draft.kind, draft.minted, draft.key)
                groups.setdefault(address, []).append(draft)
        for versions in groups.values():
            self._add(_in_time_order(versions))
        for draft in self._turns.drafts(self._prompts(contents.prompts)):
            self._add(draft)
        for item in contents.sessions:
            self._take_session(item)
        for draft in self._sessions.drafts(QUIET):
            self._loader.add(draft)

    def _deletions(self, mutations: list[Item]) -> set[str]:
        """The observations that newer versions say were deleted; other mutations are counted and not read."""
        deleted = set()
        for item in mutations:
            if item.value.get("op") == "delete" and item.value.get("entity") == "observation":
                deleted.add(str(item.value.get("entity_key")))
            else:
                self._report.leave_out("mutations of newer versions of Engram")
        return deleted

    def _checked(self, item: Item, make: Callable[[Item], Draft]) -> Draft | None:
        """The draft of one entry when it could be stored as it is; else it is reported."""
        try:
            draft = make(item)
            self._loader.sealer.seal(draft)
        except (BadInput, InvalidRequest) as error:
            self._report.skip(item.where, str(error))
            return None
        return draft

    def _add(self, draft: Draft) -> None:
        if self._loader.add(draft):
            self._report.revisions += len(draft.past)
            self._sessions.used(draft)

    def _home(self, value: dict[str, Any]) -> str:
        project = optional_text(value, "project")
        return project if self._per_project and project else self._namespace

    def _observation(self, item: Item) -> Draft:
        value = item.value
        created = time_of(value, "created_at")
        updated = time_of(value, "updated_at") if value.get("updated_at") else created
        topic = optional_text(value, "topic_key")
        kind = SUMMARY if value.get("type") == SUMMARY_TYPE else OBSERVATION
        state = State(
            1,
            SUMMARY if kind == SUMMARY else value.get("type"),
            value.get("title"),
            value.get("content"),
            max(created, updated),
            metadata_of(value, drop=("type",) if kind == OBSERVATION else ()),
            session_id=optional_text(value, "session_id"),
        )
        key = topic if topic is not None else identity(value)
        return Draft(item.where, None, self._home(value), kind, key, topic is None, state, created)

    def _prompts(self, items: list[Item]) -> Iterator[Draft]:
        for item in items:
            draft = self._checked(item, lambda found: self._turns.draft(found, self._home(found.value)))
            if draft is not None:
                yield draft

    def _take_session(self, item: Item) -> None:
        try:
            self._sessions.known(item, self._home(item.value))
        except BadInput as error:
            self._report.skip(item.where, str(error))


def _in_time_order(versions: list[Draft]) -> Draft:
    """One record of all that a key was used for: the newest is what it says now, the rest are its past.

    Equal times are ordered by Engram's id, and moved a microsecond apart. The same entry in two chunks counts once.
    """
    versions.sort(key=_place)
    states: list[State] = []
    written: datetime | None = None  # when the last one was, in the past that is being made
    for version in versions:
        state = version.now
        if states and _told(state) == _told(states[-1]):
            continue
        at = state.written_at if written is None else max(state.written_at, written + MICROSECOND)
        states.append(replace(state, revision=len(states) + 1, written_at=at))
        written = at
    created = min(version.created_at for version in versions)
    return replace(versions[-1], now=states[-1], past=tuple(states[:-1]), created_at=created)


def _told(state: State) -> tuple[Any, ...]:
    """What tells one entry from another: all but its place in the past, and what stands in private regions."""
    return redact(state.title), redact(state.content), state.type, state.metadata, state.session_id


def _place(draft: Draft) -> tuple[datetime, datetime, int, str]:
    number = draft.now.metadata["engram"].get("id")
    return draft.now.written_at, draft.created_at, number if isinstance(number, int) else 0, draft.where
