"""Names of files that are kept beside a store, under its name, and removed again."""

from __future__ import annotations

import os
import re
from typing import Final

SIDES: Final = ("-wal", "-shm", "-journal")  # SQLite's
_SIDE: Final = re.compile(rf"(?:{'|'.join(SIDES)}|\.v\d+-backup(?:\.partial)?)\Z")  # and those of a migration


def side_of(path: str | os.PathLike[str]) -> str:
    """How a name ends that is that of a file kept for a while beside a store; empty for any other name.

    A store of such a name goes when the store beside it is opened, and that may be made at any later time.
    """
    found = _SIDE.search(os.fspath(path).lower())  # there are file systems on which case tells no names apart
    return found[0] if found is not None else ""
