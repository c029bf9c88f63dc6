"""The grammar of the command line. It holds words only: handlers are named, and imported when they run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from keyfold.cli.output import writing

DESCRIPTION: Final = "Memory for AI agents: keyed, revisioned and safe to repeat."
EPILOG: Final = """\
--store, --user and --json may stand before or after the command. The store is a file (memory.db) or a
URL; without one it is KEYFOLD_STORE, else keyfold/memory.db in your data folder. The user is
KEYFOLD_USER, else `default`.

exit codes: 0 done; 1 not found, nothing matched, or another state than expected; 2 wrong use or bad
input; 3 the store failed"""

_TYPES: Final = (
    "profile, preference, decision, discovery, pattern, bugfix, architecture, config, learning or manual"
)

STORE: Final = "the store: a file or a URL (KEYFOLD_STORE)"
USER: Final = "whose memory (KEYFOLD_USER)"

Commands = Any  # argparse's own class for sub-commands is private


class _Help(argparse.HelpFormatter):
    """Help of a fixed width: argparse makes a formatter an argument, and each would ask the terminal for its own."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        super().__init__(
            prog, max_help_position=28, width=min(int(columns), 120) if columns.isdecimal() else 100
        )


class _Laid(_Help, argparse.RawDescriptionHelpFormatter):
    """The same, for words that are laid out already."""


class Misuse(Exception):
    """The words make no command: what is wrong, and the usage of the command that was meant."""

    def __init__(self, program: str, usage: str, problem: str) -> None:
        super().__init__(problem)
        self.program = program
        self.usage = usage
        self.problem = problem


class _Parser(argparse.ArgumentParser):
    """A parser that raises Misuse, and that itself refuses what it does not know: the usage is then its own."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(self.prog, self.format_usage(), message)

    def _print_message(self, message: str, file: Any = None) -> None:
        with writing():  # argparse would keep quiet about what it cannot write
            (file or sys.stdout).write(message)

    def parse_known_args(self, *given: Any, **more: Any) -> Any:
        known, unknown = super().parse_known_args(*given, **more)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of one command. Misuse when they make none; SystemExit after --help and --version."""
    return build(_command_in(argv)).parse_args(list(argv))


def asks_for_json(argv: Sequence[str]) -> bool:
    """Whether --json is among the options, even of a command that cannot be understood."""
    words = list(argv)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _command_in(argv: Sequence[str]) -> str | None:
    """The word that names the command, when it is plain to see."""
    words = iter(argv)
    for word in words:
        if word in ("--store", "--user"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def build(only: str | None = None) -> argparse.ArgumentParser:
    """The whole grammar, or as much of it as the command `only` needs: the whole takes some milliseconds to make."""
    shared = argparse.ArgumentParser(
        add_help=False, argument_default=argparse.SUPPRESS, formatter_class=_Help
    )
    add_shared(shared)
    parser = _Parser(
        "keyfold",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=_Laid,
        allow_abbrev=False,
    )
    parser.set_defaults(store=None, user=None, json=False)
    add_shared(parser)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", prog="keyfold", metavar="COMMAND", required=True)
    groups = [names for names in GROUPS if only in names] or list(GROUPS)
    for names in groups:
        GROUPS[names](commands, shared)
    return parser


class _Version(argparse.Action):
    """Says the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        from keyfold import __version__

        parser._print_message(f"keyfold {__version__}\n")
        parser.exit()


def add_shared(
    parser: argparse.ArgumentParser, *, prints: bool = True, store: str = STORE, user: str = USER
) -> None:
    """The options of every command. `store` and `user` are their help: SUPPRESS where a command refuses one."""
    add = parser.add_argument
    add("--store", metavar="URL", default=argparse.SUPPRESS, help=store)
    add("--user", metavar="ID", default=argparse.SUPPRESS, help=user)
    if prints:
        add("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document")


def command(
    commands: Commands,
    shared: argparse.ArgumentParser,
    name: str,
    handler: str,
    words: str,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        parents=[shared],
        help=words,
        description=words[0].upper() + words[1:] + ".",
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=_Help,
    )
    made.set_defaults(handler=handler)
    return made


def _add_record(parser: argparse.ArgumentParser) -> None:
    """(ID | --topic K)"""
    parser.add_argument("id", metavar="ID", nargs="?", help="the record's id")
    parser.add_argument("--topic", metavar="K", help="its topic key")


def _add_reach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reach",
        choices=("exact", "inherit", "subtree"),
        default="exact",
        help="look at this user alone, also at those above it, or below it (default exact)",
    )


def _add_filters(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--type", metavar="T", action="append", help="of this type; several: of any of them")
    add("--exclude-type", metavar="T", action="append", help="of another type than this (may be repeated)")
    add("--tag", metavar="t", action="append", help="with this tag; several: with all of them")
    add("--any-tag", metavar="t", action="append", help="with this tag; several: with any of them")
    add("--topic-prefix", metavar="P", help="whose topic key begins with P")
    add("--meta", metavar="k=v", action="append", help="whose metadata says so; a.b steps into an object")
    add("--since", metavar="T", help="changed since: RFC 3339 with an offset, or a span such as 7d")
    add("--until", metavar="T", help="changed before")
    add("--session", metavar="ID", help="last changed in this session")


def _writing(commands: Commands, shared: argparse.ArgumentParser) -> None:
    save = command(
        commands,
        shared,
        "save",
        "writing:save",
        "save a memory; under a topic key, rewrite it in place",
        "CONTENT that begins with a dash goes after `--`. From standard input, UTF-8 is read and one line end at "
        "the very end is left off. v in k=v is read as JSON when it is a number, true, false, null or a quoted "
        "string; else it is text.",
    )
    add = save.add_argument
    add("content", metavar="CONTENT", help="the text, or - for standard input")
    add("--type", metavar="T", required=True, help=f"what it is: {_TYPES}")
    add("--title", metavar="X", required=True, help="a line that says what it is about")
    add("--topic", metavar="K", help="its stable name: saving to it again rewrites it")
    add("--tag", metavar="t", action="append", help="a tag (may be repeated)")
    add("--meta", metavar="k=v", action="append", help="a fact about it (may be repeated)")
    add("--expires", metavar="T", help="when it ends: a span such as 30d (s m h d w), a time, or never")
    add(
        "--pin",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="pin it, so that it comes first in a context, or unpin it",
    )
    add("--if-revision", metavar="N", type=int, help="only if the record is at revision N (0: absent)")
    add("--idempotency-key", metavar="K", help="the same call again gives the first answer")
    add("--session", metavar="ID", help="the session it belongs to")
    restore = command(
        commands, shared, "restore", "writing:restore", "make an earlier revision current again, as a new one"
    )
    _add_record(restore)
    restore.add_argument(
        "--revision", metavar="N", type=int, required=True, help="the revision to go back to"
    )


def _finding(commands: Commands, shared: argparse.ArgumentParser) -> None:
    search = command(commands, shared, "search", "finding:search", "find memories by plain words")
    search.add_argument("query", metavar="QUERY", nargs="+", help="words; any punctuation is fine")
    search.add_argument("--limit", metavar="N", type=int, default=10, help="at most N (default 10)")
    search.add_argument("--explain", action="store_true", help="show what each score is made of")
    _add_filters(search)
    _add_reach(search)
    listing = command(commands, shared, "list", "finding:listing", "list memories, newest first")
    listing.add_argument("--limit", metavar="N", type=int, default=50, help="at most N (default 50)")
    listing.add_argument("--cursor", metavar="C", help="go on where a listing ended (its next_cursor)")
    _add_filters(listing)
    _add_reach(listing)


def _reading(commands: Commands, shared: argparse.ArgumentParser) -> None:
    get = command(commands, shared, "get", "reading:get", "show one memory in full")
    _add_record(get)
    get.add_argument("--revision", metavar="N", type=int, help="as it was at revision N")
    _add_reach(get)
    topics = command(commands, shared, "topics", "reading:topics", "list the topic keys")
    topics.add_argument("prefix", metavar="PREFIX", nargs="?", default="", help="those that begin with it")
    _add_reach(topics)
    history = command(
        commands, shared, "history", "reading:history", "list the revisions of a memory, newest first"
    )
    _add_record(history)
    history.add_argument("--diff", action="store_true", help="show what each revision changed")
    _add_reach(history)
    timeline = command(
        commands, shared, "timeline", "reading:timeline", "show what was written around a memory"
    )
    _add_record(timeline)
    timeline.add_argument(
        "--before", metavar="N", type=int, default=5, help="up to N written before it (default 5)"
    )
    timeline.add_argument(
        "--after", metavar="N", type=int, default=5, help="up to N written after it (default 5)"
    )
    _add_reach(timeline)
    context = command(
        commands, shared, "context", "reading:context", "print the memories that matter, for a prompt"
    )
    _add_budget(context)
    context.add_argument("--query", metavar="Q", help="those that answer Q best")
    _add_reach(context)
    _add_reach(command(commands, shared, "stats", "reading:stats", "say how much there is"))


def _add_budget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--budget", metavar="CHARACTERS", type=int, default=8000, help="at most so many (default 8000)"
    )


def _forgetting(commands: Commands, shared: argparse.ArgumentParser) -> None:
    forget = command(
        commands,
        shared,
        "forget",
        "forgetting:forget",
        "forget memories with their history",
        "Give one of ID, --topic, --all and filters. It asks first; where nobody can answer, --yes is needed.",
    )
    _add_record(forget)
    forget.add_argument("--all", action="store_true", help="everything of this user")
    _add_filters(forget)
    forget.add_argument("--dry-run", action="store_true", help="only say how many")
    forget.add_argument("--yes", action="store_true", help="do not ask")


def _sessions(commands: Commands, shared: argparse.ArgumentParser) -> None:
    session = commands.add_parser(
        "session",
        parents=[shared],
        help="start, sum up, end or list sessions",
        description="Sessions: stretches of work.",
        allow_abbrev=False,
        formatter_class=_Help,
    )
    inner = session.add_subparsers(prog="keyfold session", metavar="ACTION", required=True)
    start = command(
        inner, shared, "start", "sessions:start", "begin or go on with work, and get what matters"
    )
    _add_budget(start)
    summary = command(inner, shared, "summary", "sessions:summary", "say what the session was about")
    summary.add_argument("text", metavar="TEXT", help="the summary, or - for standard input")
    end = command(inner, shared, "end", "sessions:end", "end the session, with a last summary if given")
    end.add_argument("text", metavar="TEXT", nargs="?", help="the summary, or - for standard input")
    for action in (start, summary, end):
        action.add_argument("--session", metavar="ID", help="this session rather than the current one")
    listing = command(inner, shared, "list", "sessions:listing", "list the sessions, newest activity first")
    listing.add_argument("--limit", metavar="N", type=int, default=20, help="at most N (default 20)")


def _serving(commands: Commands, _: argparse.ArgumentParser) -> None:
    served = argparse.ArgumentParser(
        add_help=False, argument_default=argparse.SUPPRESS, formatter_class=_Help
    )
    add_shared(served, prints=False)
    command(
        commands,
        served,
        "mcp",
        "serving:mcp",
        "serve one user's memory to an agent, as an MCP server on stdin and stdout",
        "A client such as Claude Code or Cursor starts it. Needs the extra: pip install 'keyfold[mcp]'.",
    )


def _whole_stores(commands: Commands, shared: argparse.ArgumentParser) -> None:
    """The commands on whole stores: no hook calls them, so a module of their own is read when one is meant."""
    from keyfold.cli.parser_moving import caring, moving

    caring(commands, shared)
    moving(commands, shared)


GROUPS: Final = {
    ("save", "restore"): _writing,
    ("search", "list"): _finding,
    ("get", "topics", "history", "timeline", "context", "stats"): _reading,
    ("forget",): _forgetting,
    ("session",): _sessions,
    ("doctor", "backup", "check", "export", "import", "copy", "tour"): _whole_stores,
    ("mcp",): _serving,
}
