"""Taking an older store forward, one schema version at a time.

Under the write lock, so that of several processes that open a store one carries out a step and the others find
it done. Before the first step the store is copied beside itself: `memory.db.v1-backup`. A step is one
transaction with its version number, checked before it is committed: a crash leaves the old version or the new one.
The copy holds what was since forgotten, too, so it goes when the last step is done (or when a later opening
finds the store at its version).

To change the schema: raise `schema.VERSION`, add a step here, and a sample of the former version to the tests.
A program of the former version may have the store open. So a step after which it would write what is wrong renames
a column that each of its writes names: they fail then, with a word, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

import keyfold.engines.sqlite.schema as schema
from keyfold.engines.sqlite.copying import Counts, copy_pages, counts_of, make_private, sync
from keyfold.engines.sqlite.rows import SESSION_SPACE, Rows
from keyfold.errors import StoreError

Step = Callable[[apsw.Connection], None]


def _to_2(conn: apsw.Connection) -> None:
    conn.execute(schema.MARKS)
    # It was the last sequence number given out. What was not indexed of those before it is noted in `unindexed`.
    conn.execute("ALTER TABLE namespaces RENAME COLUMN next_seq TO indexed")


# Version -> what makes the next one of it, in the caller's transaction and without setting the version.
# A step that touches texts, slots or the table `words` ends with index.rebuild(conn).
STEPS: Final[dict[int, Step]] = {1: _to_2}

_UNINDEXED: Final = (
    "SELECT count(*) FROM namespaces n JOIN records r "
    f"ON r.slot BETWEEN n.num << 32 AND n.num << 32 | n.indexed WHERE r.space < {SESSION_SPACE} "
    "AND NOT EXISTS (SELECT 1 FROM unindexed u WHERE u.slot = r.slot) "
    "AND NOT EXISTS (SELECT 1 FROM words_docsize d WHERE d.id = r.slot)"
)


def forward(conn: apsw.Connection, path: str) -> None:
    """Bring a store to this version, if it is not. StoreError when a step fails: it left the store as it was."""
    while schema.number(conn, "user_version") < schema.VERSION:
        conn.execute("BEGIN IMMEDIATE")
        version = schema.number(conn, "user_version")
        try:
            if version < schema.VERSION:  # another process may have been first
                _take_step(conn, path, version)
            conn.execute("COMMIT")
        except BaseException:
            _remove(path, version)  # the store itself is what it was; a copy of an earlier version stays
            raise
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")
    tidy(path)


def tidy(path: str) -> None:
    """Remove the copies that migrations left, of a store that is at this version."""
    for version in range(1, schema.VERSION):
        _remove(path, version)


def _remove(path: str, version: int) -> None:
    for side in ("", ".partial", "-wal", "-shm"):  # the last two if somebody looked into it
        # it is not there, or it cannot be removed now: the next opening tries again
        with suppress(OSError):
            Path(f"{backup_path(path, version)}{side}").unlink()


def backup_path(path: str, version: int) -> Path:
    """Where the copy of a store of a version is kept while it is taken forward."""
    return Path(f"{path}.v{version}-backup")


def _take_step(conn: apsw.Connection, path: str, version: int) -> None:
    step = STEPS.get(version)
    if step is None:
        raise StoreError(
            f"{path:.300} has schema {version}, which this version of Keyfold (schema {schema.VERSION}) cannot read: "
            "open it with an earlier one, and export. Nothing was changed"
        )
    if not any(backup_path(path, earlier).exists() for earlier in range(1, version + 1)):
        _back_up(path, version)
    before = counts_of(conn)
    step(conn)
    _verify(conn, path, before)
    conn.execute(f"PRAGMA user_version = {version + 1}")


def _back_up(path: str, version: int) -> None:
    """Copy the store, whose write lock is ours, so that the copy is either whole or not there."""
    place = backup_path(path, version)
    partial = Path(f"{place}.partial")
    source = apsw.Connection(path, apsw.SQLITE_OPEN_READWRITE)
    try:
        partial.unlink(missing_ok=True)
        make_private(str(partial))
        copy_pages(source, str(partial))
        sync(partial)
        partial.replace(place)
        sync(place.parent)
    except (OSError, apsw.Error) as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        why = getattr(error, "strerror", None) or type(error).__name__
        raise StoreError(
            f"{path:.300} has an older schema and cannot be copied before it is brought forward ({why}): "
            "free as much space as it takes. Nothing was changed"
        ) from None
    finally:
        source.close()


def _verify(conn: apsw.Connection, path: str, before: Counts) -> None:
    """Check what a step made, in its transaction."""
    problems: Rows = conn.execute("PRAGMA quick_check(1)").fetchall()
    lost: Rows = conn.execute(_UNINDEXED).fetchall()
    if counts_of(conn) == before and problems == [("ok",)] and lost == [(0,)]:
        return
    raise StoreError(
        f"{path:.300} could not be brought forward: what came out is not what went in. Nothing was changed; "
        "run keyfold doctor with the earlier version"
    )
