"""What an import did, in counts, and which of its input it could not take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from keyfold.text.counted import counted
from keyfold.text.redact import redact

Progress = Callable[["Report"], None]

# How many of the skipped are listed one by one; all of them are counted.
LISTED: Final = 1000


@dataclass(frozen=True, slots=True)
class Skipped:
    """One piece of the input that was not taken, or is worth a note: where it stands and why. Never its text."""

    where: str
    reason: str
    line: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"line": self.line, "where": self.where, "reason": self.reason}


@dataclass(slots=True)
class Report:
    """The outcome of an import.

    `created`, `updated` and `deduped` count records; `kinds` counts the same records by kind. `revisions`
    counts the earlier states made of a key that recurs in the input. `redacted` counts the private regions
    found in the input. `dropped` counts the earlier revisions in the input that a store without a history does not
    keep. `stubs` counts sessions that are referred to but absent from it. `left_out` counts
    what was rightly not taken, by reason. `skipped` lists what was wrong (the first thousand; all are
    counted in `skipped_count`); the rest of the input went in all the same. `notes` lists what is worth
    knowing and is no fault (the first thousand, with `notes_count` as above): a note that vanished, a
    relation to nothing.
    """

    format: str = ""
    dry_run: bool = False
    created: int = 0
    updated: int = 0
    deduped: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    revisions: int = 0
    redacted: int = 0
    dropped: int = 0
    stubs: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    notes: list[Skipped] = field(default_factory=list)
    notes_count: int = 0

    @property
    def records(self) -> int:
        """How many records the input held and the store has now."""
        return self.created + self.updated + self.deduped

    @property
    def changed(self) -> bool:
        """Whether anything was (or, on a dry run, would be) written."""
        return bool(self.created or self.updated)

    def skip(self, where: str, reason: str, line: int | None = None) -> None:
        """Note a piece of the input that is not taken."""
        self.skipped_count += 1
        if len(self.skipped) < LISTED:
            self.skipped.append(Skipped(_shown(where), reason, line))

    def note(self, where: str, reason: str, line: int | None = None) -> None:
        """Note what was taken, or never was to be taken, and deserves a word."""
        self.notes_count += 1
        if len(self.notes) < LISTED:
            self.notes.append(Skipped(_shown(where), reason, line))

    def tell_of_the_past(self, records: int) -> None:
        """Note, once and before all else, that the store keeps no history, and what of the input is lost by that."""
        behind = f"{counted(self.dropped, 'earlier revision')} of {counted(records, 'record')}"
        behind += " stays behind" if self.dropped == 1 else " stay behind"
        self.notes_count += 1
        self.notes.insert(0, Skipped("history", f"this store keeps none: {behind}"))
        del self.notes[LISTED:]

    def leave_out(self, reason: str, number: int = 1) -> None:
        """Count what is not taken and is not wrong either."""
        self.left_out[reason] = self.left_out.get(reason, 0) + number

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "format": self.format,
            "dry_run": self.dry_run,
            "records": self.records,
            "created": self.created,
            "updated": self.updated,
            "deduped": self.deduped,
            "kinds": dict(sorted(self.kinds.items())),
            "revisions": self.revisions,
            "redacted": self.redacted,
            "dropped": self.dropped,
            "stubs": self.stubs,
            "left_out": dict(sorted(self.left_out.items())),
            "skipped_count": self.skipped_count,
            "skipped": [item.to_dict() for item in self.skipped],
            "notes_count": self.notes_count,
            "notes": [item.to_dict() for item in self.notes],
        }


def _shown(where: str) -> str:
    """A place as it can be told: the name of a file may hold private text, and bytes that are no text."""
    return redact(where if where.isascii() else where.encode("utf-8", "backslashreplace").decode())
