"""Reading a keyfold export from a file or a pipe: by the line, unpacked, and never more than a line's ceiling at once."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

from keyfold.errors import StoreError
from keyfold.portability.foreign import check_there
from keyfold.portability.strict_json import BadInput

# A record with its whole history is one line, and a history has no end. This is room for so many states of the
# longest text, and by default can be parsed in the memory of a small machine.
STATES: Final = 128
MAX_LINE: Final = STATES << 20
# A line that is longer is passed over, and the next one is read; but not without end (a device, a bomb).
_FURTHER: Final = 8
_PIECE: Final = 1 << 20


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file or pipe for reading bytes, unpacked when it is gzipped. NotFound, or StoreError."""
    check_there(path)
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(path.open("rb"))
            packed = raw.peek(2)[:2] == b"\x1f\x8b"
        except OSError as error:
            raise StoreError(f"cannot read {str(path)!r}: {error.strerror}") from None
        # unpacked from the open file: a pipe cannot be opened again
        yield cast("BinaryIO", stack.enter_context(gzip.open(raw)) if packed else raw)


def lines_of(file: IO[bytes], max_text_bytes: int = 0) -> Iterator[str | bytes | BadInput]:
    """The lines of a file; instead of one that cannot be had, what is wrong with it. StoreError when reading fails.

    A line may take `MAX_LINE` bytes; where `max_text_bytes` is above its default, more in proportion.
    """
    longest = max(MAX_LINE, STATES * max_text_bytes)
    try:
        while line := file.readline(_PIECE):
            whole = len(line) < _PIECE or line.endswith(b"\n")
            yield line if whole else _long(file, line, longest)
    except (EOFError, zlib.error):
        yield BadInput("not JSON: it ends in the middle, because the gzipped file is cut or damaged")
    except gzip.BadGzipFile as error:
        yield BadInput(_damage(error))
    except OSError as error:
        raise StoreError(f"cannot read the file to import: {error.strerror or 'it is broken'}") from None
    except _EndlessError as error:
        yield BadInput(str(error))


class _EndlessError(Exception):
    """A line that does not end."""


def _long(file: IO[bytes], begun: bytes, longest: int) -> str | BadInput:
    """The rest of a line that is longer than a piece."""
    line = bytearray(begun)
    while not line.endswith(b"\n") and (more := file.readline(_PIECE)):
        line += more
        if len(line) > longest:
            left = 0 if line.endswith(b"\n") else _FURTHER * longest - len(line)
            del line
            if left:
                _pass_over(file, left)
            return BadInput(f"it is longer than {longest:,} bytes")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        return BadInput(f"not UTF-8 (byte {error.start + 1})")


def _pass_over(file: IO[bytes], left: int) -> None:
    """Read to the end of a line, which comes within so many bytes."""
    while more := file.readline(_PIECE):
        left -= len(more)
        if more.endswith(b"\n"):
            return
        if left < 0:
            raise _EndlessError("it has no end within reach: from here on nothing is read")


def _damage(error: gzip.BadGzipFile) -> str:
    """What is wrong with a gzipped file; the error itself quotes bytes of it."""
    if str(error).startswith("Not a gzipped file"):
        return "what stands behind the gzipped export is not gzipped: it is not read"
    return "the gzipped file does not match its check sum: it is damaged, and what was read of it may be too"
