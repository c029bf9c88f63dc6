"""What the cases share: the command line on a store of the test's own, beside the memories of tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keyfold import Memory
from tests.cli.conftest import keyfold as keyfold
from tests.cli.conftest import saved as saved


@pytest.fixture
def settle() -> Callable[[Memory], None]:
    """Put what waits for the word index of the embedded engine into it."""

    def all_indexed(memory: Memory) -> None:
        reindex = getattr(memory.engine, "reindex", None)
        if reindex is not None:
            reindex()

    return all_indexed
