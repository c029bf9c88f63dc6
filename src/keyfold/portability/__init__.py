"""Export and import: keyfold JSON Lines both ways, and what other tools keep in. See docs/import-export.md."""

from __future__ import annotations

from keyfold.portability.chatgpt import import_chatgpt
from keyfold.portability.claude_code import import_claude_code
from keyfold.portability.detect import SOURCES, Source, detect
from keyfold.portability.engram import import_engram
from keyfold.portability.lines import lines_of
from keyfold.portability.markdown import import_markdown
from keyfold.portability.mcp_memory import import_mcp_memory
from keyfold.portability.reader import import_keyfold
from keyfold.portability.report import Progress, Report, Skipped
from keyfold.portability.sources import copy, import_path
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
    "import_chatgpt",
    "import_claude_code",
    "import_engram",
    "import_keyfold",
    "import_markdown",
    "import_mcp_memory",
    "import_path",
    "lines_of",
]
