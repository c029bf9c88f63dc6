"""The embedded engine: one SQLite file, through apsw."""

from keyfold.engines.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
