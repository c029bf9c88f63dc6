"""Running one command: errors become words and exit codes, and no traceback reaches a user."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from keyfold.cli.output import CannotWrite, Output
from keyfold.errors import (
    SENT,
    Conflict,
    InvalidRequest,
    KeyfoldError,
    NotFound,
    Unsupported,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from keyfold.cli.parser import Misuse

DONE: Final = 0
NOTHING: Final = 1
WRONG_USE: Final = 2
FAILED: Final = 3
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 nothing found, 2 wrong use, 3 the store failed."""
    from keyfold.cli.parser import Misuse, asks_for_json, parse

    output = Output()
    try:
        try:
            words = [argument(word) for word in sys.argv[1:]] if argv is None else argv
            output.json = asks_for_json(words)
            args = parse(words)
        except SystemExit as asked:  # --help and --version
            code = asked.code if isinstance(asked.code, int) else WRONG_USE
        except Misuse as wrong:
            _explain(wrong, output)
            code = WRONG_USE
        else:
            output.json = args.json
            code = _run(args, output)
        output.flush()
    except BrokenPipeError:
        output.abandon()
        return DONE
    except CannotWrite as error:
        output.abandon()
        made = "; the change to the store was made" if output.changed else ""
        output.error("CannotWrite", f"cannot write to standard output: {error}{made}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _explain(wrong: Misuse, output: Output) -> None:
    """A mistake in the words of the command line, and how they should be."""
    if output.json:
        output.error("InvalidRequest", wrong.problem, usage=" ".join(wrong.usage.split()))
    else:
        for line in [*wrong.usage.splitlines(), f"{wrong.program}: error: {wrong.problem}"]:
            output.note(line)


def argument(word: str) -> str:
    """A word of the command line, read as UTF-8 where the locale (such as C) could not read it."""
    if word.isascii():
        return word
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeError:
        return word


def _run(args: Namespace, output: Output) -> int:
    """Carry out a parsed command; Keyfold's errors are told on stderr."""
    module, _, function = args.handler.partition(":")
    try:
        handler = getattr(import_module(f"keyfold.cli.{module}"), function)
        code: int = handler(args, output)
        return code
    except KeyfoldError as error:
        from keyfold.cli.wording import words_of

        output.error(type(error).__name__, words_of(error, function))
        return code_of(error)
    except ImportError as error:
        output.error("ImportError", str(error))
        return FAILED
    except (BrokenPipeError, CannotWrite, KeyboardInterrupt):
        raise
    except Exception as error:
        if os.environ.get("KEYFOLD_DEBUG"):
            raise
        # its message may hold text of a memory, so only its kind is shown
        output.error(
            type(error).__name__,
            f"an internal error ({type(error).__name__}); please report it. KEYFOLD_DEBUG=1 shows where it happened",
        )
        return FAILED


def code_of(error: KeyfoldError) -> int:
    """The exit code of an error."""
    if isinstance(error, InvalidRequest) and error.field == SENT:
        return FAILED  # a service refused what was made of a command that was in order
    if isinstance(error, (InvalidRequest, Unsupported)):
        return WRONG_USE
    # a conflict: no record is in the state that the command asked for
    if isinstance(error, (NotFound, Conflict)):
        return NOTHING
    return FAILED
