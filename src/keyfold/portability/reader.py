"""Import of keyfold JSON Lines: one line at a time, a bad one reported and skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from keyfold.clock import from_text
from keyfold.contract.protocols import Engine
from keyfold.errors import InvalidRequest
from keyfold.model import Config, Taint
from keyfold.portability.drafts import Draft, State
from keyfold.portability.loader import Loader
from keyfold.portability.report import Progress, Report
from keyfold.portability.strict_json import BadInput, loads
from keyfold.portability.writer import FORMAT, VERSION
from keyfold.text.counted import counted

_BOM: Final = "\ufeff"
_STATE: Final = frozenset(
    {"type", "title", "content", "metadata", "tags", "session_id", "revision", "expires_at", "pinned"}
)
_RECORD: Final = _STATE | {
    "namespace", "kind", "key", "minted", "created_at", "updated_at", "observed_at", "taint", "history",
}  # fmt: skip
_REVISION: Final = _STATE | {"written_at"}
_NEEDED: Final = ("namespace", "kind", "key", "type", "title", "content", "created_at", "updated_at")
_ALL_NEEDED: Final = frozenset(_NEEDED)


def import_keyfold(
    engine: Engine,
    lines: Iterable[str | bytes | BadInput],
    *,
    config: Config | None = None,
    namespace: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Load an export into a store. Importing it again changes nothing.

    `lines` come from an export or a file opened in binary (a byte order mark and CRLF are tolerated), or from
    `lines_of`, which sees to it that a file's line is no longer than memory bears.
    With `namespace` only that namespace's records are taken. InvalidRequest when the first header is of
    another format or a newer version; everything else that is wrong, a later header with what it heads
    included, is reported by line and skipped, and the rest goes in.
    """
    report = Report(format=FORMAT, dry_run=dry_run)
    loader = Loader(engine, report, config or Config(), dry_run=dry_run, progress=progress)
    for draft in _drafts(lines, report):
        if namespace is not None and draft.namespace != namespace:
            report.leave_out("of another user")
        else:
            loader.add(draft)
    loader.finish()
    return report


def _drafts(lines: Iterable[str | bytes | BadInput], report: Report) -> Iterator[Draft]:
    number = records = 0
    whole = False  # whether the last line was a closing one (or is reported already)
    begun = False  # whether a header or a record was read
    foreign = False  # whether this is below a header that cannot be read
    for number, line in enumerate(lines, 1):
        try:
            value = _value(line)
            if value is None:
                continue
            if "format" in value:
                foreign = _is_foreign(value, number, report, first=not begun)
                if foreign and records and not whole:
                    report.skip(f"line {number}", "the export before it has no closing line", number)
                begun, whole = True, foreign
                records = 0 if foreign else records
                continue
            if foreign:
                foreign = "end" not in value
                continue
            begun = True
            whole = value.get("end") == FORMAT
            if whole:
                given = value.get("records")
                if given != records:
                    told = counted(given, "record") if isinstance(given, int) else "another number of records"
                    problem = (
                        f"it closes {told}, but {records:,} {'stands' if records == 1 else 'stand'} before it"
                    )
                    report.skip(f"line {number}", problem, number)
                records = 0
            else:
                draft = read_record(value, number)
                records += 1
                yield draft
        except BadInput as error:
            if foreign:
                continue
            report.skip(f"line {number}", str(error), number)
            records += 1  # it stood for one
            whole = True
    if not whole:
        report.skip(
            "end of input", "there is no closing line: the end of the export is missing", number or None
        )


def _value(line: str | bytes | BadInput) -> dict[str, Any] | None:
    """A line's JSON object; None for an empty line. BadInput, the line's own included."""
    if isinstance(line, BadInput):
        raise line
    line = line.removeprefix(b"\xef\xbb\xbf") if isinstance(line, bytes) else line.removeprefix(_BOM)
    if not line or line.isspace():
        return None
    value = loads(line)
    if not isinstance(value, dict):
        raise BadInput("not a JSON object")
    return value


def _is_foreign(value: dict[str, Any], number: int, report: Report, *, first: bool) -> bool:
    """Whether a header is one that this program cannot read: InvalidRequest for the first, else it is reported."""
    try:
        _check_header(value)
    except InvalidRequest as error:
        if first:
            raise
        report.skip(f"line {number}", f"{error.problem}; what it heads is not read", number)
        return True
    return False


def _check_header(value: dict[str, Any]) -> None:
    """InvalidRequest for a format or version that this program cannot read: nothing below could be trusted."""
    version = value.get("version")
    if value["format"] != FORMAT or isinstance(version, bool) or not isinstance(version, int):
        raise InvalidRequest("input", "it is not an export of Keyfold: its header names another format")
    if version > VERSION:
        raise InvalidRequest(
            "input",
            f"it is an export of version {version}; this program reads up to version {VERSION}. Update Keyfold",
        )


def read_record(value: dict[str, Any], line: int) -> Draft:
    """The draft on one line. BadInput naming what is missing, unknown or malformed."""
    if value.keys() != _RECORD:  # an export writes them all
        if not value.keys() >= _ALL_NEEDED:
            raise BadInput(f"lacks {', '.join([name for name in _NEEDED if name not in value])}")
        if not _RECORD.issuperset(value):
            raise BadInput(
                f"holds {counted(len(value.keys() - _RECORD), 'field')} that this version does not know"
            )
    past = value.get("history", [])
    if not isinstance(past, list) or (past and not all(isinstance(item, dict) for item in past)):
        raise BadInput("history must be a list of objects")
    minted = value.get("minted", False)
    if not isinstance(minted, bool):
        raise BadInput("minted must be true or false")
    updated = _time(value, "updated_at")
    return Draft(
        f"line {line}",
        line,
        value["namespace"],
        value["kind"],
        value["key"],
        minted,
        _state(value, updated),
        updated if value["created_at"] == value["updated_at"] else _time(value, "created_at"),
        tuple([_past_state(item) for item in past]) if past else (),
        _optional_time(value, "observed_at"),
        _taint(value),
    )


def _past_state(value: dict[str, Any]) -> State:
    unknown = len(value.keys() - _REVISION)
    if unknown:
        raise BadInput(f"history: a revision holds {unknown} field(s) that this version does not know")
    missing = [name for name in ("revision", "type", "title", "content", "written_at") if name not in value]
    if missing:
        raise BadInput(f"history: a revision lacks {', '.join(missing)}")
    return _state(value, _time(value, "written_at"))


def _state(value: dict[str, Any], written_at: datetime) -> State:
    revision = value.get("revision", 1)
    if isinstance(revision, bool) or not isinstance(revision, int):
        raise BadInput("revision must be a whole number")
    return State(
        revision,
        value["type"],
        value["title"],
        value["content"],
        written_at,
        value.get("metadata"),
        value.get("tags"),
        value.get("session_id"),
        value.get("pinned"),
        _optional_time(value, "expires_at"),
    )


def _time(value: dict[str, Any], name: str) -> datetime:
    given = value[name]
    try:
        if isinstance(given, str):
            return from_text(given)
    except (ValueError, OverflowError):
        pass
    raise BadInput(f"{name} is not a time with an offset such as 2026-01-31T12:00:00Z")


def _optional_time(value: dict[str, Any], name: str) -> datetime | None:
    return None if value.get(name) is None else _time(value, name)


def _taint(value: dict[str, Any]) -> Taint:
    """Where the text came from; what does not say is taken for external, because nothing upgrades a taint."""
    taint = value.get("taint", "external")
    if taint == "internal" or taint == "external":
        return taint  # type: ignore[no-any-return]  # narrowed by the comparison
    raise BadInput("taint must be internal or external")
