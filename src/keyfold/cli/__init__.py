"""The command line. `main` is the program: it takes arguments and returns an exit code.

Start-up counts, since editors and agents run a command on every event: nothing here imports an engine, the
facade or json before a command needs it.
"""

from __future__ import annotations

from keyfold.cli.program import main

__all__ = ["main"]
