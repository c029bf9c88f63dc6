"""Without the extra `remote` each way to a service says which extra to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

WORD = "engines on memory services need httpx2, which is not installed: pip install 'keyfold[remote]'"
# None in the place of a module is how Python itself says that there is none.
WITHOUT = "import sys; sys.modules['httpx2'] = None\n"
OPENED = """
from keyfold import Memory
try:
    Memory.open("{}://127.0.0.1:9")
except ImportError as error:
    print(error)
"""
AWAITED = """
import asyncio
from keyfold import AsyncMemory
async def main():
    try:
        await AsyncMemory.open("{}://127.0.0.1:9")
    except ImportError as error:
        print(error)
asyncio.run(main())
"""
COMMAND = """
from keyfold.cli import main
sys.argv = ["keyfold", "--store", "{}://127.0.0.1:9", "topics"]
sys.exit(main())
"""


def run(script: str, scheme: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + script.format(scheme)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "scheme", ["mem0", "mem0+http", "cognee+http", "supermemory+http", "cortexdb", "tinyhumans"]
)
def test_opening_a_service_names_the_extra(scheme: str) -> None:
    assert run(OPENED, scheme).stdout == f"{WORD}\n"


def test_opening_one_to_be_awaited_names_the_extra() -> None:
    assert run(AWAITED, "mem0").stdout == f"{WORD}\n"


def test_the_command_line_names_the_extra() -> None:
    done = run(COMMAND, "mem0+http")
    assert (done.returncode, done.stderr) == (3, f"keyfold: {WORD}\n")
