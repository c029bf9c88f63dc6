"""The grammar of the commands on whole stores: looking after one, and moving what it holds."""

from __future__ import annotations

import argparse
from typing import Final

from keyfold.cli.parser import STORE, Commands, add_shared, command

SOURCES: Final = ("auto", "keyfold", "engram", "markdown", "mcp-memory", "claude-code", "chatgpt")


def caring(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """doctor, backup, check"""
    doctor = command(
        commands,
        shared,
        "doctor",
        "care:doctor",
        "look the store over, and with --repair put it right",
        "Without an option it only looks. The exit code is 1 while something is wrong.",
    )
    add = doctor.add_argument
    add("--quick", action="store_true", help="read a sample of the texts, not all")
    add("--repair", action="store_true", help="make again what can be: indexes, counters, the word index")
    add("--purge", action="store_true", help="remove what has expired, and erase its bytes")
    add("--erase", action="store_true", help="erase the bytes of what was forgotten now")
    backup = command(
        commands,
        shared,
        "backup",
        "care:backup",
        "write a verified copy of the store to a file, while others use it",
        "A backup is a store: give it to --store to look into it, or back it up to where the store should be.",
    )
    backup.add_argument("file", metavar="FILE", help="where to: a new file, or one to replace with --force")
    backup.add_argument("--force", action="store_true", help="replace FILE if it is there")
    check = command(
        commands,
        shared,
        "check",
        "checking:check",
        "try whether a store keeps the contract, in a namespace of its own",
        "It writes, forgets what it wrote, and looks whether that is gone.",
    )
    check.add_argument("url", metavar="URL", help="the store to try")


def moving(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """export, import, copy, tour"""
    export = command(
        commands,
        shared,
        "export",
        "moving:export",
        "write everything as JSON Lines, with history and sessions",
        "Of all users, or with --user of one. KEYFOLD_USER does not narrow an export.",
    )
    export.add_argument(
        "--output",
        metavar="FILE",
        help="write to FILE; an earlier export there is replaced when this one is complete, nothing else is",
    )
    bring = command(
        commands,
        _shared(user="the user it goes to (KEYFOLD_USER); of a keyfold export: take this user's part alone"),
        "import",
        "moving:bring",
        "read an export of Keyfold's, or what another tool keeps",
        "Importing again changes nothing. What cannot be read is reported and skipped; the exit code is then 2, and "
        "the rest is in.",
    )
    bring.add_argument(
        "path", metavar="PATH", help="a file or folder, or - for a keyfold export on standard input"
    )
    bring.add_argument(
        "--from",
        dest="source",
        choices=SOURCES,
        default="auto",
        help="what PATH is, where that is not found out by looking (default auto)",
    )
    bring.add_argument(
        "--namespace-per", choices=("project",), help="Engram: a user for each project, named as the project"
    )
    bring.add_argument("--dry-run", action="store_true", help="only say what would happen")
    _longest(bring)
    copy = command(
        commands,
        _shared(store=argparse.SUPPRESS, user="this user's memory alone, not everybody's"),
        "copy",
        "moving:copy",
        "copy everything from one store to another",
    )
    copy.add_argument("origin", metavar="FROM_URL", help="the store to read: a file or a URL")
    copy.add_argument(
        "target", metavar="TO_URL", help="the store to write to: a file, made where there is none, or a URL"
    )
    copy.add_argument(
        "--resume", action="store_true", help="go on after a copy that was cut short (what is there is kept)"
    )
    _longest(copy)
    own = _shared(store=argparse.SUPPRESS, user=argparse.SUPPRESS)
    command(commands, own, "tour", "tour:tour", "see Keyfold at work in a minute, in a store of its own")


def _shared(*, store: str = STORE, user: str) -> argparse.ArgumentParser:
    """The options of every command, in other words."""
    made = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    add_shared(made, store=store, user=user)
    return made


def _longest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-text-bytes", metavar="N", type=int,
        help="take texts of up to N bytes (default 1048576), as a store with a raised limit has them",
    )  # fmt: skip
