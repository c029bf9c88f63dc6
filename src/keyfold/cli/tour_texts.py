"""What the tour says when it is not run from a checkout, and how it ends."""

from __future__ import annotations

from typing import Final

# (topic key, title, text): short forms of three of the project's decisions
BUILT_IN: Final = (
    (
        "decisions/sqlite-through-apsw",
        "SQLite through apsw",
        """The embedded engine uses SQLite through apsw, which carries a current SQLite in its wheel.

The standard library's SQLite is often years old, and differs from machine to machine: a user's
operating system would decide whether Keyfold works.
""",
    ),
    (
        "decisions/dedup-on-all-that-is-material",
        "Dedup on all that is material",
        """A save that repeats what is there stores nothing. What counts is all that the caller said: content,
title, type, and metadata and tags where they were passed. Comparing the content alone would drop a
corrected title in silence.
""",
    ),
    (
        "decisions/erasure-by-vacuum",
        "Erasure by VACUUM",
        """Forgetting is logical at once and physical by a named step, since a deleted row leaves its text in
the gaps of a page until the file is written anew.
""",
    ),
)

LATER: Final = (
    "## Looked at again\n\nStill right: the wheel came with a newer SQLite before the distribution did.\n"
)

CLOSING: Final = """
To give an agent this memory:

   In Python, over the same store:

      from keyfold import Memory

      with Memory.open() as memory:
          begun = memory.mem_session_start("you")      # what matters, for the prompt: begun.context
          memory.mem_save("you", "JWT, one hour.", type="decision", title="Auth model",
                          topic_key="architecture/auth")

   From any other program, or a hook of an editor:

      keyfold context --budget 4000                    # what matters, on standard output
      keyfold save --type decision --title "Auth model" --topic architecture/auth "JWT, one hour."

   From Claude Code, Cursor and others that speak MCP (pip install 'keyfold[mcp]'; docs/mcp.md):

      claude mcp add --scope user keyfold -- keyfold mcp

   Add --json for one JSON document a command.
   More: keyfold --help, docs/topic-keys.md, docs/command-line.md
"""
