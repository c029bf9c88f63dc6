"""Export and import: keyfold JSON Lines both ways, and Engram's memory in. See docs/import-export.md."""

from __future__ import annotations

from keyfold.portability.engram import import_engram
from keyfold.portability.reader import import_keyfold
from keyfold.portability.report import Progress, Report, Skipped
from keyfold.portability.sources import SOURCES, Source, copy, detect, import_path
from keyfold.portability.writer import export, export_file

__all__ = [
    "SOURCES",
    "Progress",
    "Report",
    "Skipped",
    "Source",
    "copy",
    "detect",
    "export",
    "export_file",
    "import_engram",
    "import_keyfold",
    "import_path",
]
