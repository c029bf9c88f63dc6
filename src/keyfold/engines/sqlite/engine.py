"""The embedded engine: one locked writer, a few readers, one SQLite file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import apsw

import keyfold.engines.sqlite.bulk as bulk
import keyfold.engines.sqlite.connect as connect
import keyfold.engines.sqlite.forget as forget
import keyfold.engines.sqlite.forks as forks
import keyfold.engines.sqlite.idempotency as idempotency
import keyfold.engines.sqlite.index as index
import keyfold.engines.sqlite.read as read
import keyfold.engines.sqlite.readonly as readonly
import keyfold.engines.sqlite.schema as schema
import keyfold.engines.sqlite.search as search
from keyfold.clock import Clock, clock_of, to_micros
from keyfold.contract.intents import (
    Capabilities,
    Counts,
    FoundPage,
    Health,
    Intent,
    Page,
    Past,
    Query,
    Ref,
    SearchQuery,
    Selector,
)
from keyfold.engines.sqlite.pool import CLOSED, Pool, Readers, Shared
from keyfold.engines.sqlite.write import store_one
from keyfold.errors import InvalidRequest, KeyfoldError, StoreError, Unavailable
from keyfold.model import Config, DeleteResult, Reach, Receipt, Record

if TYPE_CHECKING:
    from keyfold.engines.sqlite.backup import Backup

LOOK_AGAIN: Final = 0.01  # seconds in which reads do not look anew whether the file is still there

_CAPABILITIES: Final = Capabilities("sqlite")


class SqliteEngine:
    """A store in one file (or in memory): see `keyfold.contract.protocols.Engine` for what each call means."""

    def __init__(self, path: str, config: Config, clock: Clock) -> None:
        self._name = path  # as it was given: for messages
        self._path = connect.absolute(path)
        self._file: tuple[int, int] | None = None  # what was opened first
        self._looked = 0.0
        self._config = config
        self._clock = clock
        self._keep = config.keep_revisions
        self._hits: WeakKeyDictionary[apsw.Connection, search.Hits] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._quiet: list[bool] = []
        self._writer: apsw.Connection | None = None
        self._readers: Readers = Pool(self._new_reader)
        self._closed = False
        self._refusal = ""  # of every write, where the store can only be read
        forks.watch(self)
        with self._lock:  # also here: a fork waits for it
            self._connect()

    @classmethod
    def open(cls, path: str, *, config: Config | None = None, clock: Clock | None = None) -> SqliteEngine:
        """Open a store, made when it is missing. StoreError says what is wrong with the path or the file.

        One that cannot be written is opened for reading: every write is then refused with StoreError.
        """
        settings = config or Config()
        return cls(os.fspath(path), settings, clock or clock_of(settings.clock))

    def _connect(self) -> apsw.Connection | None:
        """The writer; None where the store can only be read."""
        try:
            writer = connect.open_writer(self._path, self._config.durability, self._name)
        except connect.NotWritable as refusal:
            self._only_read(str(refusal))
            return None
        try:
            if self._path == connect.MEMORY:
                self._hits[writer] = search.equip(writer)
                self._readers = Shared(writer, self._lock)
            else:
                self._file = self._file or connect.identity(self._path)
                self._check_place()
            if not index.is_current(writer):  # a search must not answer from tokens of another tokenizer
                self._in_transaction(writer, index.rebuild)
        except connect.FAULTS as error:
            writer.close()
            raise self._translated(error) from None
        self._writer = writer
        return writer

    def _only_read(self, refusal: str) -> None:
        self._file = self._file or connect.identity(self._path)
        self._refusal = refusal
        self._readers = readonly.Watched(self._path, connect.shown(self._name), self._equip)
        self._read(lambda *_: None)  # opens it, and so sees what it is

    def _new_reader(self) -> apsw.Connection:
        conn = connect.open_reader(self._path)
        self._equip(conn)
        return conn

    def _equip(self, conn: apsw.Connection) -> None:
        self._check_place()  # after the opening: from here on it is known which file was opened
        self._hits[conn] = search.equip(conn)

    def _check_place(self) -> None:
        """StoreError unless the path still leads to the file that was opened."""
        if self._path != connect.MEMORY and connect.identity(self._path) != self._file:
            self._looked = 0.0
            raise connect.moved(self._name)
        self._looked = time.monotonic()

    @property
    def capabilities(self) -> Capabilities:
        """All that the contract knows."""
        return _CAPABILITIES

    def store(self, intent: Intent) -> Receipt:
        """Carry out one write."""
        prepared = index.prepare(intent)
        try:
            with self._lock:
                conn = self._writer or self._reopened()
                if conn.in_transaction:  # an interrupt struck between two statements
                    conn.execute("ROLLBACK")
                try:
                    conn.execute("BEGIN IMMEDIATE")
                    self._check_place()
                    receipt = store_one(conn, intent, self._clock(), self._keep, prepared)
                    conn.execute("COMMIT")
                    return receipt
                finally:
                    if conn.in_transaction:
                        conn.execute("ROLLBACK")
        except connect.FAULTS as error:
            raise self._translated(error) from None

    def store_many(self, intents: Sequence[Intent]) -> list[Receipt]:
        """Carry out writes in order, all or none."""
        prepared = bulk.prepare(intents)

        def work(conn: apsw.Connection) -> list[Receipt]:
            return bulk.store_all(conn, intents, prepared, self._clock, self._keep)

        return self._write(work)  # type: ignore[no-any-return]  # what work returns

    def get(self, ref: Ref) -> Record | None:
        """One record, or None when it is absent, expired or another namespace's."""
        return self._look(read.get, ref)  # type: ignore[no-any-return]  # what get returns

    def page(self, query: Query) -> Page:
        """List records in a total order."""
        if read.plain(query):
            return self._look(read.plain_page, query)  # type: ignore[no-any-return]  # what plain_page returns
        return self._read(read.page, query)  # type: ignore[no-any-return]  # what page returns

    def search(self, query: SearchQuery) -> FoundPage:
        """The records that match the words best."""

        def work(conn: apsw.Connection, clock: Clock) -> FoundPage:
            index.check(conn, connect.shown(self._name), readonly=bool(self._refusal))
            return search.search(conn, self._hits[conn], query, clock)

        return self._read(work)  # type: ignore[no-any-return]  # what search returns

    def count(self, namespace: str, reach: Reach = "exact") -> Counts:
        """How much is there."""
        return self._read(read.count, namespace, reach)  # type: ignore[no-any-return]  # what count returns

    def namespaces(self, prefix: str = "") -> list[str]:
        """The names that hold any live record, sorted."""
        return self._read(read.names, prefix)  # type: ignore[no-any-return]  # what names returns

    def history(self, ref: Ref) -> Past:
        """The states of one record, newest first."""
        return self._read(read.history, ref)  # type: ignore[no-any-return]  # what history returns

    def forget(self, selector: Selector) -> DeleteResult:
        """Remove records with their history, words and idempotency keys; then erase their bytes if the store is small."""

        gone: list[Any] = []

        def work(conn: apsw.Connection) -> DeleteResult:
            now = self._clock()
            keyed = selector.idempotency is not None and not selector.dry_run
            if keyed:
                first = idempotency.first_forget(conn, selector, to_micros(now))
                if first is not None:
                    return first
            chosen = forget.select(conn, selector, now)
            gone[:] = chosen.live + chosen.dead
            result = DeleteResult(len(chosen.ids), chosen.ids, dry_run=selector.dry_run)
            if not selector.dry_run:
                forget.forgotten(conn, chosen.live + chosen.dead)
                forget.remove_namespaces(conn, chosen.numbers)
                if keyed:
                    idempotency.remember_forget(conn, selector, result, to_micros(now))
            return result

        if selector.dry_run:
            return self._read(lambda conn, _: work(conn))  # type: ignore[no-any-return]  # what work returns
        result: DeleteResult = self._write(work)
        erased = self._erase_inline()
        return DeleteResult(
            result.deleted, result.ids, bool(gone or result.deleted) and erased, False, result.replayed
        )

    def _erase_inline(self) -> bool | str:
        """Erase what was just forgotten. What is forgotten stays so, whatever becomes of the erasure."""
        try:
            if self._path != connect.MEMORY and forget.size(self._path) > forget.INLINE:
                return forget.TOO_LARGE
            return self._erase()
        except (*connect.FAULTS, KeyfoldError, OSError) as error:
            return forget.why_not(error)

    def erase(self) -> bool | str:
        """Take the bytes of what was forgotten out of the store's files: True, or a word on what that waits for."""
        try:
            return self._erase()
        except (*connect.FAULTS, OSError) as error:
            raise self._translated(error) from None

    def _erase(self) -> bool | str:
        with self._lock:
            conn = self._writer or self._reopened()
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            self._check_place()
            return forget.erase(conn, self._path)

    def reindex(self) -> None:
        """Make the word index anew from the records."""
        self._write(index.rebuild)

    def backup(self, path: str | os.PathLike[str], *, force: bool = False) -> Backup:
        """Write a verified copy to a file while others go on; with `force` in place of one that is there.

        The copy is a store of its own, with the same ids, and holds no forgotten text.
        """
        from keyfold.engines.sqlite.backup import write

        target = os.fspath(path)
        return self._read(lambda conn, _: write(conn, self._path, target, force=force))  # type: ignore[no-any-return]  # what write returns

    def marks(self, namespace: str, kind: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The marks that imports left, of records that are as they left them."""
        return self._read(read.marks, namespace, kind, keys)  # type: ignore[no-any-return]  # what marks returns

    def health(self) -> Health:
        """Whether the store can be read, and its versions and sizes."""

        def work(conn: apsw.Connection, _: Clock) -> Health:
            facts = {
                "schema": schema.number(conn, "user_version"),
                "sqlite": apsw.sqlite_lib_version(),
                "bytes": schema.number(conn, "page_count") * schema.number(conn, "page_size"),
                "durability": self._config.durability,
                "erase_pending": forget.pending(conn),
                "read_only": bool(self._refusal),
            }
            return Health(True, "sqlite", facts)

        return self._read(work)  # type: ignore[no-any-return]  # what work returns

    def close(self) -> None:
        """Erase what waits for it, and close the file. Later calls raise Unavailable."""
        with self._lock:
            conn, self._writer, self._closed = self._writer, None, True
            self._readers.close()
            if conn is None:
                return
            try:
                if self._path != connect.MEMORY and forget.pending(conn):
                    self._check_place()
                    forget.erase(conn, self._path)
            except (*connect.FAULTS, KeyfoldError, OSError):
                pass  # still pending: the next close, or doctor, tries again
            finally:
                conn.close()

    def _write(self, work: Any) -> Any:
        """Run work in one write transaction."""
        try:
            with self._lock:
                return self._in_transaction(self._writer or self._reopened(), work)
        except connect.FAULTS as error:
            raise self._translated(error) from None

    def _in_transaction(self, conn: apsw.Connection, work: Any) -> Any:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        try:
            conn.execute("BEGIN IMMEDIATE")
            self._check_place()
            result = work(conn)
            conn.execute("COMMIT")
            return result
        finally:
            if conn.in_transaction:
                conn.execute("ROLLBACK")

    def _look(self, work: Any, argument: Any) -> Any:
        """Run work that is one statement, which sees one state of the store by itself."""
        try:
            if time.monotonic() - self._looked > LOOK_AGAIN:
                self._check_place()
            return self._readers.run(work, argument, self._clock)
        except connect.FAULTS as error:
            raise self._translated(error) from None

    def _read(self, work: Any, *arguments: Any) -> Any:
        """Run work in one read transaction: it sees one state of the store."""

        def within(conn: apsw.Connection) -> Any:
            conn.execute("BEGIN")
            result = work(conn, *arguments, self._clock)
            conn.execute("COMMIT")
            return result

        try:
            if time.monotonic() - self._looked > LOOK_AGAIN:
                self._check_place()
            return self._readers.run(within)
        except connect.FAULTS as error:
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, UnicodeEncodeError):
            return InvalidRequest("text", "it holds a lone surrogate, which is no character: remove it")
        if not isinstance(error, (apsw.Error, KeyfoldError)):
            if self._path == connect.MEMORY:  # no file, no damage
                return error
            try:
                to_micros(self._clock())
            except Exception:  # noqa: BLE001  # a clock that the caller gave, and that fails: nothing is damaged
                return error
        return connect.translated(error, self._path, self._name)

    def _reopened(self) -> apsw.Connection:
        """The writer, opened again in a forked child. The lock is held. StoreError where there is none to be had."""
        if self._closed:
            raise Unavailable(CLOSED)
        writer = None if self._refusal else self._connect()
        if writer is None:
            raise StoreError(self._refusal)
        return writer

    def before_fork(self, until: float) -> None:
        """Wait until no thread is at work in this store, or the time has come; let none begin."""
        forks.take(self._lock, until, self._quiet)
        self._readers.hold(until)

    def after_fork(self) -> None:
        """In the parent: go on."""
        self._readers.release()
        forks.give_back(self._lock, self._quiet)

    def in_child(self) -> None:
        """In the child: leave the inherited connections alone, and open others when they are needed."""
        forks.keep_for_ever([*([self._writer] if self._writer else []), *self._readers.handles()])
        self._lock = threading.Lock()
        self._quiet = []
        self._hits = WeakKeyDictionary()
        self._writer = None
        if self._path == connect.MEMORY:
            self._closed = True
        self._readers = (
            readonly.Watched(self._path, connect.shown(self._name), self._equip)
            if self._refusal
            else Pool(self._new_reader)
        )
        if self._closed:
            self._readers.close()
