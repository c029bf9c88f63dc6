"""What users type, as the values that the calls take."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from io import UnsupportedOperation
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from keyfold.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from argparse import Namespace

    from keyfold.cli.output import Output
    from keyfold.memory import Memory

_SPAN: Final = re.compile(r"(\d{1,9})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def store_of(args: Namespace) -> str | None:
    """The store named on the command line, else in the environment, else None for the default one."""
    if args.store is not None:
        return str(args.store)
    return os.environ.get("KEYFOLD_STORE") or None


def user_of(args: Namespace) -> str:
    """The user named on the command line, else in the environment, else `default`."""
    if args.user is not None:
        return str(args.user)
    return os.environ.get("KEYFOLD_USER") or "default"


@contextmanager
def opened(args: Namespace) -> Iterator[Memory]:
    """The memory that a command works on."""
    from keyfold.memory import Memory

    with Memory.open(store_of(args)) as memory:
        _tell_warnings_plainly()
        yield memory


@contextmanager
def looked_into(args: Namespace, output: Output) -> Iterator[Memory]:
    """The memory that a command only reads: an empty one, and a note, where the store's file is not there."""
    from keyfold.memory import Memory

    with Memory.open(readable_store(args, output)) as memory:
        _tell_warnings_plainly()
        yield memory


def _tell_warnings_plainly() -> None:
    """Let an engine's warnings look like the rest of what is said on stderr. Only engines on services log any."""
    logging = sys.modules.get("logging")
    if logging is not None and logging.lastResort is not None:
        logging.lastResort.setFormatter(logging.Formatter("keyfold: %(message)s"))


def readable_store(args: Namespace, output: Output) -> str | None:
    """The store of a command that must not make one: an empty one in memory where there is none yet."""
    missing = missing_file(store_of(args))
    if missing is None:
        return store_of(args)
    output.aside(_none_yet(missing))
    return ":memory:"


def existing_store(args: Namespace) -> str | None:
    """The store of a command that makes no sense without one. NotFound where there is none yet."""
    missing = missing_file(store_of(args))
    if missing is not None:
        raise NotFound(_none_yet(missing))
    return store_of(args)


def _none_yet(path: str) -> str:
    if Path(path).exists():
        return f"the file {path:.500} is empty, and no store yet; keyfold save makes it one"
    return f"there is no store at {path:.500} yet; keyfold save makes it"


def missing_file(url: str | None) -> str | None:
    """The file of an embedded store that opening would create, or fill where it is empty; None for any other store."""
    from keyfold.registry import default_path, embedded_file

    path = embedded_file(str(default_path()) if url is None else url)
    if path is None:
        return None
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return path
    except (OSError, ValueError):  # opening it says what is the matter
        return None
    return path if stat.S_ISREG(found.st_mode) and not found.st_size else None


def record_of(args: Namespace) -> dict[str, Any]:
    """The record that a command names, as the calls take it: by id or by topic key."""
    if (args.id is None) == (args.topic is None):
        raise InvalidRequest("ID", "give either an ID or --topic K")
    return {"observation_id": args.id} if args.id is not None else {"topic_key": args.topic}


def text_of(value: str, field: str) -> str:
    """A text from the command line, or from standard input when it is `-`."""
    if value != "-":
        return value
    data = standard_input(field).read()
    try:
        text = str(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            field,
            f"standard input is not UTF-8 (byte {error.start + 1}); convert it first, for example with iconv",
        ) from None
    for end in ("\r\n", "\n"):
        if text.endswith(end):
            return text.removesuffix(end)
    return text


def standard_input(field: str) -> IO[bytes]:
    """Standard input's bytes. InvalidRequest where it cannot be read: some hooks and schedulers close it."""
    problem = "it is closed"
    if sys.stdin is not None:
        try:
            os.read(sys.stdin.fileno(), 0)
        except UnsupportedOperation:  # it is no file
            return sys.stdin.buffer
        except OSError as error:
            problem = error.strerror or type(error).__name__
        else:
            return sys.stdin.buffer
    raise InvalidRequest(
        field, f"- is standard input, which cannot be read ({problem}): give a text or a file instead"
    )


def metadata_of(pairs: list[str] | None) -> dict[str, Any]:
    """`k=v` pairs: v is read as JSON when it is a JSON scalar, else it is text."""
    found: dict[str, Any] = {}
    for key, value in map(_pair, pairs or ()):
        if key in found:
            raise InvalidRequest("--meta", f"says {key!r:.200} twice; a key has one value")
        found[key] = value
    return found


def _pair(pair: str) -> tuple[str, Any]:
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise InvalidRequest("--meta", "must be k=v, for example --meta project=shop")
    import json

    try:
        found = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return key, value
    return key, value if isinstance(found, (dict, list)) else found


def _no_constant(_name: str) -> None:
    raise ValueError("NaN and Infinity are not JSON")


def expiry_of(value: str) -> datetime | timedelta | None:
    """When a memory ends: a span from now (left as one: a retry is to say the same), a time to come, or None for `never`."""
    if value == "never":
        return None
    from keyfold.clock import system_clock

    moment = _moment("--expires", value, +1, "a span such as 30d (s m h d w), `never`")
    if moment <= system_clock():
        raise InvalidRequest(
            "--expires", "is not in the future; keyfold forget removes what is no longer wanted"
        )
    span = _span("--expires", value)
    return moment if span is None else span


def since_of(field: str, value: str | None) -> datetime | None:
    """A bound of time: a span before now, or a time."""
    return None if value is None else _moment(field, value, -1, "a span such as 7d (s m h d w)")


def _moment(field: str, value: str, direction: int, forms: str) -> datetime:
    """The time that was typed, or that a span from now in a direction leads to."""
    span = _span(field, value)
    if span is not None:
        return _shifted(field, span * direction)
    from keyfold.clock import from_text

    try:
        return from_text(value)
    except (ValueError, OverflowError):
        raise InvalidRequest(
            field, f"must be {forms} or a time such as 2026-01-31T12:00:00Z (RFC 3339; an offset is needed)"
        ) from None


def _span(field: str, value: str) -> timedelta | None:
    found = _SPAN.fullmatch(value)
    if found is None:
        return None
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise _too_long(field) from None


def _shifted(field: str, span: timedelta) -> datetime:
    from keyfold.clock import system_clock

    try:
        return system_clock() + span
    except OverflowError:
        raise _too_long(field) from None


def _too_long(field: str) -> InvalidRequest:
    return InvalidRequest(field, "is a span beyond the years 1 to 9999")


def filters_of(args: Namespace) -> dict[str, Any]:
    """The filters of a read, as the calls take them."""
    from keyfold.contract.filters import Filter, conditions

    where = Filter(
        session_id=args.session,
        metadata=conditions({k: {"eq": v} for k, v in metadata_of(args.meta).items()}),
    )
    return {
        "types": args.type,
        "types_exclude": args.exclude_type,
        "tags": {"all": args.tag or [], "any": args.any_tag} if args.any_tag else args.tag,
        "topic_prefix": args.topic_prefix,
        "since": since_of("--since", args.since),
        "until": since_of("--until", args.until),
        "filter": where,
    }
