"""Import of a folder of notes in Markdown: each file a document, keyed by its path.

What becomes what is told in docs/import-export.md. The key is the path within the folder with "/" between its
parts, in Unicode's composed form (NFC): one system stores accents composed and another apart, and both must
name the same document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from keyfold.contract.filters import Condition, Filter
from keyfold.contract.intents import Query
from keyfold.contract.protocols import Engine
from keyfold.memory.checks import MAX_TAG_BYTES, MAX_TAGS, MAX_TITLE_BYTES
from keyfold.model import DOCUMENT, Config
from keyfold.portability.drafts import Draft, State
from keyfold.portability.foreign import REPAIRED, cleaned, is_repaired, time_from
from keyfold.portability.front_matter import parse, split
from keyfold.portability.loader import CHUNK, Loader
from keyfold.portability.markdown_files import Note, is_note, notes_in, read
from keyfold.portability.marks import mark_of, marks_held
from keyfold.portability.report import Progress, Report
from keyfold.portability.strict_json import BadInput
from keyfold.text.counted import counted
from keyfold.text.redact import redact_count

MIME: Final = "text/markdown"
READING: Final = b"markdown 1"  # see marks.py
CREATED: Final = frozenset(("created", "date", "created_at", "date created"))
UPDATED: Final = frozenset(("updated", "modified", "updated_at", "lastmod", "last_modified", "date modified"))
_TAGS: Final = frozenset(("tags", "tag", "keywords"))
# What the importer itself puts into the metadata; the same names in front matter go below `front_matter`.
_OWN: Final = ("source", "mime", "front_matter", "front_matter_text")
_HEADING: Final = re.compile(r"#[ \t]+(.*)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


def import_markdown(
    engine: Engine,
    path: str | Path,
    *,
    namespace: str = "default",
    config: Config | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Load the notes of a folder (or one note) as documents of `namespace`.

    An unchanged note is left alone whatever its file's date, a changed one is a new revision, and one that is
    no longer there is reported and kept. NotFound when there is nothing at the path.
    """
    report = Report(format="markdown", dry_run=dry_run)
    settings = config or Config()
    loader = Loader(engine, report, settings, dry_run=dry_run, progress=progress)
    place = Path(path)
    notes = notes_in(place, report)
    for start in range(0, len(notes), CHUNK):
        some = notes[start : start + CHUNK]
        marks = marks_held(engine, namespace, DOCUMENT, [note.key for note in some])
        unchanged = 0
        for note in some:
            try:
                text, data, changed = read(note, settings.max_text_bytes)
            except BadInput as error:
                report.skip(note.key, str(error))
                continue
            safe, regions = redact_count(text)  # as a whole: a region may begin in the front matter
            report.redacted += regions
            mark = None if marks is None or regions or not _is_plain(text) else mark_of(READING, data)
            if mark and marks and marks.get(note.key) == mark:
                unchanged += 1
            else:
                loader.offer(_draft(note, safe, changed, namespace, report, mark))
        loader.unchanged(DOCUMENT, unchanged)
    loader.finish()
    if place.is_dir():
        _report_vanished(engine, namespace, {note.key for note in notes}, report)
    return report


def _is_plain(text: str) -> bool:
    """Whether what is read from a note without a private region is sure to have none either.

    Front matter can write a tag in escapes, or in halves with a comment between them.
    """
    if "<" not in text and "\\" not in text:
        return True
    front, _ = split(text)
    return front is None or ("<" not in front and "\\" not in front)


def _draft(
    note: Note, text: str, changed: datetime, namespace: str, report: Report, mark: bytes | None = None
) -> Draft:
    front, body = split(text)
    facts = _Facts(note.key)
    if front is not None:
        facts.read(front, report)
    # a note that is front matter alone says what that says
    content = body if body and not body.isspace() else text
    created = facts.created or facts.updated or changed
    updated = facts.updated or facts.created or changed
    state = State(
        1,
        DOCUMENT,
        facts.title or heading(body) or _name(note.key),
        content,
        max(created, updated),
        facts.metadata,
        facts.tags,
    )
    if facts.told:
        mark = None  # the report is to tell it each time
    return Draft(
        note.key, None, namespace, DOCUMENT, note.key, False, state, created, current=changed, mark=mark
    )


def _name(key: str) -> str:
    return Path(key).stem or key


def heading(text: str) -> str | None:
    """The text of the first `# heading` outside of code, when there is one that can be a title."""
    fence: str | None = None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None:
            if fence is None:
                fence = mark[1]
            elif mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = None
        elif fence is None and line.startswith("#"):
            found = _HEADING.match(line)
            title = re.sub(r"(?:^|[ \t])#+$", "", found[1].strip()).strip() if found else ""
            if found and _fits(title):
                return title
    return None


def _fits(title: str) -> bool:
    return bool(title) and (len(title) * 4 <= MAX_TITLE_BYTES or len(title.encode()) <= MAX_TITLE_BYTES)


@dataclass(slots=True)
class _Facts:
    """What front matter says of a note."""

    key: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    updated: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    told: bool = False  # whether the report has a word about it

    def __post_init__(self) -> None:
        self.metadata = {"source": self.key, "mime": MIME}

    def read(self, text: str, report: Report) -> None:
        """Take what is understood; what is not is kept as text in the metadata, and reported."""
        found = parse(text)
        rest = list(found.rest)
        values = found.values
        if "\\" in text and is_repaired(values):
            self.told = True
            report.note(self.key, REPAIRED)
            values = cleaned(values)
        for name, value in values.items():
            if not self._placed(name.lower(), value):
                self._keep(name, value)
        if rest:
            self.metadata["front_matter_text"] = "\n".join(rest)
            self.told = True
            told = counted(len(rest), "line of front matter is", "lines of front matter are")
            report.note(self.key, f"{told} kept as text: not understood")

    def _placed(self, name: str, value: Any) -> bool:
        """Whether a value has a place of its own in a record, and fits there."""
        if name == "title" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            title = str(value).strip()
            self.title = title if _fits(title) else None
            return self.title is not None
        if name in _TAGS and not self.tags:
            return self._tagged(value)
        if name in CREATED or name in UPDATED:
            moment = time_from(value)
            if moment is None:
                return False
            if name in CREATED:
                self.created = self.created or moment
            else:
                self.updated = self.updated or moment
            return True
        return False

    def _tagged(self, value: Any) -> bool:
        values = value.split(",") if isinstance(value, str) else value
        if not isinstance(values, list):
            return value is None
        tags = [str(tag).strip().lstrip("#") for tag in values if tag is not None]
        tags = list(dict.fromkeys(tag for tag in tags if tag))
        if len(tags) > MAX_TAGS or any(
            len(tag) * 4 > MAX_TAG_BYTES and len(tag.encode()) > MAX_TAG_BYTES for tag in tags
        ):
            return False
        self.tags = tuple(tags)
        return True

    def _keep(self, name: str, value: Any) -> None:
        if name in _OWN:
            self.metadata.setdefault("front_matter", {})[name] = value
        else:
            self.metadata[name] = value


def _report_vanished(engine: Engine, namespace: str, there: set[str], report: Report) -> None:
    """Name the notes that the store holds and the folder does not: they may be renamed, moved or deleted.

    Where the two have none in common it may be another folder altogether (a key is a path within it, so nothing
    tells): then one line says how many there are.
    """
    if not report.dry_run and engine.count(namespace).by_kind.get(DOCUMENT, 0) == report.records:
        return
    common = report.updated + report.deduped > 0
    others = 0
    where = Filter(metadata=(Condition(("mime",), "eq", MIME),))
    position: str | None = None
    while True:
        page = engine.page(
            Query(
                namespace, kinds=(DOCUMENT,), where=where, order="key", position=position,
                limit=200, want_total=False,
            )
        )  # fmt: skip  # one argument a line says less
        for record in page.items:
            if not record.minted and record.key not in there and is_note(record.key):
                others += 1
                if common:
                    report.note(record.key, "it is in the store and no longer in the folder; it is kept")
        position = page.position
        if position is None:
            break
    if others and not common:
        told = "another folder's, or all of them moved or deleted; they are kept"
        report.note(".", f"none of the {others} note(s) that the store holds is in this folder: {told}")
