"""What the importers of other tools' files share: reading without trust, JSON as it is met in the wild, times."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from keyfold.clock import EPOCH, from_micros, from_text
from keyfold.errors import InvalidRequest, NotFound, StoreError
from keyfold.portability.places import has_log
from keyfold.portability.strict_json import LARGEST, BadInput, decoded
from keyfold.text.check import clean as clean
from keyfold.text.redact import redact, redact_count

BOM: Final = b"\xef\xbb\xbf"
# A line longer than this is not read: far above what any tool writes, far below what would fill the memory.
MAX_LINE: Final = 64 << 20
_SALVAGED: Final = 64
_EARLIEST: Final = 1e8  # seconds: a smaller number is a year, a count, anything but a time of these tools
# Files of a device or a pipe would block a reader; a link put in place of a file is not followed.
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
_NOTHING: Final = object()
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: str | Path, *, follow: bool = True) -> BinaryIO:
    """A regular file, open for reading. BadInput when it is something else or cannot be read."""
    handle, _ = _opened(path, follow=follow)
    return os.fdopen(handle, "rb")


def read_regular(path: str, limit: int) -> tuple[bytes, datetime]:
    """The first `limit` bytes of a regular file that is no link, and when it was last written. BadInput."""
    handle, status = _opened(path, follow=False)
    try:
        parts: list[bytes] = []
        left, size = limit, status.st_size
        asked = min(size + 1, left)  # a byte that is not there: so a file at rest takes one read
        while asked > 0 and (part := os.read(handle, asked)):
            parts.append(part)
            left -= len(part)
            if len(part) < asked and limit - left >= size:
                break
            asked = left
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
    return b"".join(parts), _of_nanoseconds(status.st_mtime_ns)


def _opened(path: str | Path, *, follow: bool) -> tuple[int, os.stat_result]:
    """The handle of a regular file and what is known of it. BadInput."""
    try:
        handle = os.open(path, _FLAGS if follow else _FLAGS | _NO_LINK)
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadInput("its name cannot be read") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise BadInput("it is no regular file")
    return handle, status


def check_there(path: Path) -> None:
    """NotFound when there is nothing at the path that an import was asked for, StoreError when nobody can tell."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name with a NUL is no file's
        raise NotFound(f"there is nothing to import at {str(path)!r}") from None
    except OSError as error:
        raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
    if path.is_file() and has_log(path):
        raise InvalidRequest("path", "is a store that is open: keyfold copy takes what is in it")


def open_source(path: Path) -> BinaryIO:
    """The file that an import was asked for. NotFound when there is none, StoreError when it cannot be read."""
    check_there(path)
    try:
        return open_regular(path)
    except BadInput as error:
        raise StoreError(f"cannot import {str(path)!r}: {error}") from None


def modified(file: BinaryIO) -> datetime:
    """When an open file was last written, in UTC."""
    return _of_nanoseconds(os.fstat(file.fileno()).st_mtime_ns)


def _of_nanoseconds(number: int) -> datetime:
    try:
        return from_micros(number // 1_000)
    except OverflowError:
        return EPOCH


def time_from(value: Any) -> datetime | None:
    """A time as other tools write it: ISO text (without an offset: UTC) or seconds or milliseconds since 1970."""
    if isinstance(value, str):
        text = value.strip()
        if text[:9].isdecimal() and re.fullmatch(r"\d{9,16}(\.\d+)?", text):
            return time_from(float(text))
        try:
            return from_text(text, naive=True)
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    seconds = value / 1e6 if abs(value) >= 1e14 else value / 1e3 if abs(value) >= 1e11 else value
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > _EARLIEST else None
    except (ValueError, OverflowError, OSError):
        return None


REPAIRED: Final = "NUL or lone surrogates in it became U+FFFD"


def cleaned(value: Any, depth: int = 12) -> Any:
    """A JSON value with its texts cleaned; what is nested too deeply for metadata, and names that are empty, as text.

    Names that are one then are numbered, so that nothing under them is lost.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        if depth == 0:
            return clean(as_text(value))
        found: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for key, item in value.items():
            name = clean(key) or "(empty)"
            if name is not key and name != key:
                name = _apart(name, numbers, value, found)
            found[name] = cleaned(item, depth - 1)
        return found
    if isinstance(value, list):
        if depth == 0:
            return clean(as_text(value))
        return [cleaned(item, depth - 1) for item in value]
    return value


def as_text(value: Any) -> str:
    """A value as JSON text, however deeply it is nested: what could just be read may be too deep to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    waiting: list[tuple[str, Any]] = [("", value)]  # what stands before a value, and the value
    while waiting:
        before, item = waiting.pop()
        yield before
        if isinstance(item, dict):
            named = [f"{json.dumps(key, ensure_ascii=False)}: " for key in item]
            inner, marks = list(zip(named, item.values(), strict=True)), "{}"
        elif isinstance(item, list):
            inner, marks = [("", one) for one in item], "[]"
        else:
            yield "" if item is _NOTHING else json.dumps(item, ensure_ascii=False)
            continue
        yield marks[0]
        waiting.append((marks[1], _NOTHING))
        waiting += [(f"{', ' if at else ''}{name}", one) for at, (name, one) in enumerate(inner)][::-1]


def _apart(name: str, numbers: dict[str, int], *taken: dict[str, Any]) -> str:
    """A name that none of these objects has. `numbers` remembers how far the counting is."""
    free, number = name, numbers.get(name, 1)
    while any(free in names for names in taken):
        number += 1
        free = f"{name} ({number})"
    numbers[name] = number
    return free


def is_repaired(value: Any, depth: int = 12) -> bool:
    """Whether `cleaned` puts U+FFFD into a JSON value, or joins surrogates in it."""
    if isinstance(value, str):
        return clean(value) != value
    if isinstance(value, (dict, list)) and depth == 0:
        return is_repaired(as_text(value))
    if isinstance(value, dict):
        return any(is_repaired(key) or is_repaired(item, depth - 1) for key, item in value.items())
    return isinstance(value, list) and any(is_repaired(item, depth - 1) for item in value)


def redact_json(value: Any) -> tuple[Any, int]:
    """A JSON value without private text, in names too, and how many regions went.

    For what is put together with what a store holds, which is redacted. Names that are one then are numbered.
    """
    if isinstance(value, str):
        return redact_count(value)
    total = 0
    if isinstance(value, list):
        items: list[Any] = []
        for item in value:
            safe, regions = redact_json(item)
            items.append(safe)
            total += regions
        return items, total
    if not isinstance(value, dict):
        return value, 0
    found: dict[str, Any] = {}
    for key, item in value.items():
        name, hidden = redact_count(key)
        number = 1
        while name in found or (hidden and name in value):
            number += 1
            name = f"{redact(key)} ({number})"
        found[name], regions = redact_json(item)
        total += hidden + regions
    return found, total


ODD_NUMBERS: Final = "numbers in it that JSON or 64 bits do not hold (NaN, Infinity) are kept as text"


class Lenient(json.JSONDecoder):
    """Takes what another tool wrote as far as it can be: NaN, Infinity and numbers beyond 64 bits as text.

    `odd` counts these. A decoder is of one reader.
    """

    def __init__(self) -> None:
        self.odd = 0
        super().__init__(
            strict=False, parse_constant=self._text, parse_int=self._whole, parse_float=self._real
        )

    def _text(self, name: str) -> str:
        self.odd += 1
        return name[:400]

    def _whole(self, digits: str) -> Any:
        if len(digits) > 20 or not -LARGEST - 1 <= (number := int(digits)) <= LARGEST:
            return self._text(digits)
        return number

    def _real(self, digits: str) -> Any:
        number = float(digits)
        return number if math.isfinite(number) else self._text(digits)


def lenient(data: bytes, decoder: Lenient | None = None) -> Any:
    """Parse one JSON document of another tool's. BadInput with a reason."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8 (byte {error.start + 1})") from None
    return decoded(text, decoder or Lenient())


class Line(NamedTuple):
    """One value on a line, or what is wrong with the line (then `value` is None).

    `odd`: it holds numbers that are kept as text. `words`: the line without its end, where this value is all that
    it holds and nothing is odd about it.
    """

    number: int
    value: Any
    problem: str | None = None
    odd: bool = False
    words: bytes | None = None


def json_lines(file: BinaryIO, salvage: re.Pattern[str] | None = None) -> Iterator[Line]:
    """The values of a JSON Lines file, however many stand on a line; what is wrong is told by line.

    `salvage` finds where a value can begin after one that was cut off on the same line.
    """
    number = 0
    decoder = Lenient()
    while True:
        try:
            line = file.readline(MAX_LINE + 1)
        except OSError as error:
            raise StoreError(f"cannot read the file to import: {error.strerror or 'it is broken'}") from None
        if not line:
            return
        number += 1
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            yield Line(number, None, f"the line is longer than {MAX_LINE:,} bytes")
            continue
        if number == 1:
            line = line.removeprefix(BOM)
        odd = decoder.odd
        try:  # as nearly all lines are
            text = line.decode().strip()
            value, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            yield from _values(line, number, salvage, decoder)
            continue
        if end == len(text) and decoder.odd == odd:
            yield Line(number, value, None, False, line.strip())
        else:
            yield from _values(line, number, salvage, decoder)


def _values(line: bytes, number: int, salvage: re.Pattern[str] | None, decoder: Lenient) -> Iterator[Line]:
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as error:
        yield Line(number, None, f"not UTF-8 (byte {error.start + 1})")
        return
    position = 0
    while position < len(text):
        before = decoder.odd
        try:
            value, end = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            yield Line(number, None, "nested too deeply" if deep else "not JSON, or cut off")
            following = _salvaged(text, position + 1, salvage, decoder)
            if following is None:
                return
            position = following
            continue
        yield Line(number, value, odd=decoder.odd > before)
        position = end
        while position < len(text) and text[position] in " \t\r,":
            position += 1


def _salvaged(text: str, position: int, salvage: re.Pattern[str] | None, decoder: Lenient) -> int | None:
    """Where a whole value begins after a broken one."""
    if salvage is None:
        return None
    for attempt, found in enumerate(salvage.finditer(text, position)):
        if attempt == _SALVAGED:
            return None
        try:
            decoder.raw_decode(text, found.start())
        except (json.JSONDecodeError, RecursionError):
            continue
        return found.start()
    return None
