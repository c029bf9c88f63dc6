"""Each fault that doctor knows is made on purpose, found, put right where that can be, and told where it cannot."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from keyfold.contract.intents import Query, Ref, SearchQuery, Selector
from keyfold.engines.sqlite import SqliteEngine, forget
from keyfold.engines.sqlite.doctor import Diagnosis, examine
from keyfold.engines.sqlite.doctor_pages import REMADE
from keyfold.engines.sqlite.repair import STEPS, treat
from keyfold.engines.sqlite.schema import VERSION
from keyfold.errors import NotFound, StoreError
from keyfold.text.tokens import TOKENIZER_VERSION
from tests.engines.common import USER, check_agreement, note, opened, session, sql

OTHER = "bob"


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Two users, 60 records, some rewritten, some with tags and keys; most of them indexed, a few only noted."""
    engine = opened(tmp_path)
    for number in range(40):
        engine.store(
            note(
                f"key {number}",
                f"alpha beta word{number}",
                tags=("t", f"tag{number}"),
                metadata={"n": number},
            )
        )
    for number in range(20):
        engine.store(note(f"key {number}", f"gamma delta{number}", namespace=OTHER, session=session()))
    for number in range(12):
        engine.store(note(f"key {number}", f"alpha beta again{number}"))
    engine.close()
    return str(tmp_path / "store.db")


def problems(found: Diagnosis) -> str:
    return "\n".join(str(finding) for finding in found.findings if finding.fault)


def remedies(found: Diagnosis) -> set[str]:
    return {finding.remedy for finding in found.findings if finding.remedy}


def test_a_healthy_store_has_no_findings_and_looking_changes_no_byte(store: str) -> None:
    before = {path.name: path.read_bytes() for path in Path(store).parent.iterdir()}
    for quick in (False, True):
        found = examine(store, quick=quick)
        assert found.ok
        assert found.findings == ()
        assert (found.facts["records"], found.facts["sessions"], found.facts["users"]) == (60, 1, 2)
        assert (found.facts["revisions"], found.facts["schema"]) == (12, VERSION)
    after = {path.name: path.read_bytes() for path in Path(store).parent.iterdir() if path.suffix == ".db"}
    assert after == before


def test_looking_goes_on_beside_a_writer_and_sees_one_state(store: str) -> None:
    engine = SqliteEngine.open(store)
    engine.store(note("key 1", "the log is not empty now"))
    log = Path(f"{store}-wal").read_bytes()
    assert examine(store).ok
    assert Path(f"{store}-wal").read_bytes() == log
    engine.close()


@dataclass(frozen=True, slots=True)
class Damage:
    sql: str
    area: str
    word: str
    repaired: bool = True
    quick: bool = True  # whether --quick finds it, too

    def __str__(self) -> str:
        return f"{self.area}: {self.word}"


INDEXED = "(SELECT max(id) FROM words_docsize WHERE id < 2 << 32 AND id NOT IN (SELECT slot FROM unindexed))"
DAMAGES = [
    Damage("DROP INDEX records_time", "tables", "index records_time is missing"),
    Damage("DROP TABLE unindexed", "tables", "table unindexed is missing"),
    Damage("DROP TABLE idempotency", "tables", "table idempotency is missing"),
    Damage("ALTER TABLE records ADD COLUMN extra ANY", "tables", "records is not as this version makes it", False),
    Damage("UPDATE records SET ns = 2, key = 'x' WHERE id = 3", "rows", "another user's number (id 3)", False),
    Damage("UPDATE records SET space = 10 WHERE id = 3", "rows", "no known kind (id 3)", False),
    Damage("DELETE FROM namespaces WHERE num = 2", "rows", "21 whose user is unknown", False),
    Damage("UPDATE records SET metadata = '{' WHERE id = 3", "rows", "cannot be read (id 3)", False),
    Damage("UPDATE records SET tags = '5' WHERE id = 3", "rows", "cannot be read (id 3)", False),
    Damage("UPDATE records SET updated_at = 1 << 62 WHERE id = 3", "rows", "cannot be read (id 3)", False),
    Damage("UPDATE records SET folded = 7 WHERE id = 3", "rows", "not found by its like (id 3)"),
    Damage("INSERT INTO revisions SELECT 77, revision, 1, 1, 0, hash, 'a', 'b', 'c', NULL, NULL, 'd' FROM revisions LIMIT 1", "history", "1 past state of a record that is not there"),
    Damage("UPDATE records SET revision = 1 WHERE id = 3", "history", "not above those of its past (id 3)"),
    Damage("UPDATE records SET revision = 0 WHERE id = 30", "history", "not above those of its past (id 30)"),
    Damage("UPDATE revisions SET metadata = '{' WHERE slot = (SELECT slot FROM records WHERE id = 3)", "history", "past states of 1 record cannot be read (id 3)", False, False),
    Damage("DELETE FROM meta WHERE name = 'last_id'", "counters", "last_id is missing"),
    Damage("DELETE FROM meta WHERE name = 'forgets'", "counters", "forgets is missing"),
    Damage("UPDATE meta SET value = 'x' WHERE name = 'erased'", "counters", "erased is missing or no number"),
    Damage("UPDATE namespaces SET indexed = 5 WHERE num = 1", "index", "words of 27 records that it takes for new"),
    Damage("UPDATE namespaces SET indexed = 4294967295 WHERE num = 1", "counters", "nothing new can be saved"),
    Damage("UPDATE namespaces SET indexed = -5 WHERE num = 1", "counters", "nothing new can be saved"),
    Damage("UPDATE namespaces SET indexed = indexed + (5 << 32)", "counters", "nothing new can be saved"),
    Damage("UPDATE namespaces SET indexed = indexed + 3 WHERE num = 1", "index", "3 records that no search finds"),
    Damage("UPDATE namespaces SET docs = docs + 1 WHERE num = 1", "counters", "scores are off"),
    Damage("UPDATE namespaces SET tokens = tokens - 1 WHERE num = 2", "counters", "scores are off"),
    Damage("UPDATE sqlite_sequence SET seq = 1", "counters", "given out twice"),
    Damage("DELETE FROM sqlite_sequence", "counters", "given out twice"),
    Damage("INSERT INTO idempotency VALUES (1, 'save', x'00', x'00', 77, '{}', 1)", "keys", "1 idempotency key of"),
    Damage("INSERT INTO idempotency VALUES (9, 'save', x'00', x'00', NULL, '{}', 1)", "keys", "1 idempotency key of"),
    Damage("INSERT INTO marks VALUES (77, x'00')", "marks", "1 mark of imports on records that are not there"),
    Damage("DROP TABLE marks", "tables", "table marks is missing"),
    Damage("INSERT INTO unindexed VALUES (77, 0)", "notes", "1 note of records that are not there"),
    Damage("INSERT INTO unindexed SELECT slot, 0 FROM records WHERE space = 8", "notes", "1 note of records"),
    Damage("INSERT INTO unindexed SELECT max(slot), 0 FROM records WHERE ns = 1", "notes", "1 note of records"),
    Damage(f"INSERT INTO unindexed VALUES ({INDEXED}, 0)", "notes", "not say truly"),
    Damage("UPDATE unindexed SET stale = 1 - stale", "notes", "not say truly"),
    Damage(f"DELETE FROM words WHERE rowid = {INDEXED}", "index", "1 record that no search finds"),
    Damage("INSERT INTO words (rowid, text) VALUES (77, 'ghost')", "index", "words of 1 record that is not there"),
    Damage(f"UPDATE records SET content = content || ' more' WHERE slot = {INDEXED}", "index", "not those of the text"),
    Damage(f"UPDATE records SET content = replace(content, 'alpha', 'omega') WHERE slot = {INDEXED}", "index", "not those of the text"),
    Damage(f"UPDATE records SET length = 1 WHERE slot = {INDEXED}", "index", "number of words is wrong"),
    Damage(f"UPDATE words_docsize SET sz = x'01' WHERE id = {INDEXED}", "index", "number of words is wrong"),
    Damage(f"DELETE FROM words_docsize WHERE id = {INDEXED}", "index", "1 record that no search finds"),
    Damage("INSERT INTO words (rowid, text) VALUES (77, 'ghost'); DELETE FROM words_docsize WHERE id = 77", "index", "words of 1 row that it does not list", True, False),
    Damage("DELETE FROM words_data WHERE id > 10", "file", "fts5"),
    Damage("DELETE FROM words_data WHERE id = 10", "file", "fts5"),
    Damage("UPDATE words_data SET block = zeroblob(length(block)) WHERE id > 10", "file", "fts5"),
    Damage("DROP TABLE words_data", "tables", "table words_data is missing"),
]  # fmt: skip


def hurt(store: str, statements: str) -> None:
    conn = apsw.Connection(store)
    conn.execute(statements).fetchall()
    conn.close()


def everything(store: str) -> dict[str, list[tuple[str, int]]]:
    engine = SqliteEngine.open(store)
    found = {
        user: [(record.content, record.revision_count) for record in engine.page(Query(user, limit=100, order="key")).items]
        for user in (USER, OTHER)
    }  # fmt: skip
    engine.close()
    return found


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_fault_is_found_and_put_right_where_it_can_be(store: str, damage: Damage) -> None:
    hurt(store, damage.sql)
    found = examine(store)
    assert not found.ok
    assert any(
        finding.area == damage.area and damage.word in finding.problem for finding in found.findings
    ), problems(found)
    assert (not examine(store, quick=True).ok) == damage.quick
    treatment = treat(store, remedies=remedies(found))
    after = examine(store)
    if not damage.repaired:
        assert damage.word in problems(after)
        return
    assert problems(after) == ""
    assert treatment.repaired
    assert treatment.failed == ()
    check_agreement(Path(store).parent)
    engine = SqliteEngine.open(store)
    assert engine.store(note("new", "alpha anew")).outcome == "created"
    assert engine.store(note("key 2", "alpha rewritten")).outcome == "updated"
    assert engine.search(SearchQuery(USER, "alpha", limit=100)).total >= 40
    assert engine.forget(Selector(USER, ref=Ref(USER, key="key 30"))).deleted == 1
    engine.close()
    assert examine(store).ok


def test_each_remedy_that_a_finding_names_exists_and_each_is_needed(store: str) -> None:
    named: set[str] = set()
    for damage in DAMAGES:
        conn = apsw.Connection(store)
        conn.close()
        copy = f"{store}.copy"
        Path(copy).write_bytes(Path(store).read_bytes())
        hurt(copy, damage.sql)
        named |= remedies(examine(copy))
        Path(copy).unlink()
    assert named <= set(STEPS)
    assert set(STEPS) - named == {"reindex", "pages"}, (
        "damaged pages are hurt below and in test_doctor_pages.py"
    )


def test_an_index_that_reads_well_from_end_to_end_and_finds_nothing_is_a_fault(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.store_many([note(f"k{n}", " ".join(f"w{n}x{m}" for m in range(60))) for n in range(320)])
    engine.close()
    store = str(tmp_path / "store.db")
    hurt(store, "DELETE FROM words_idx")
    for quick in (True, False):
        assert "not those of the text" in problems(examine(store, quick=quick))
    treat(store, remedies=remedies(examine(store)))
    assert examine(store).findings == ()


def test_repair_keeps_every_text_and_revision(store: str) -> None:
    before = everything(store)
    hurt(store, "DELETE FROM words_data WHERE id > 10; UPDATE namespaces SET docs = 0; DELETE FROM unindexed")
    treat(store, remedies=remedies(examine(store)))
    assert everything(store) == before


def test_one_broken_row_does_not_keep_the_rest_of_the_index_from_being_made_again(store: str) -> None:
    hurt(store, "UPDATE records SET metadata = '{' WHERE id = 3; DELETE FROM words_data WHERE id > 10")
    treatment = treat(store, remedies=remedies(examine(store)))
    assert "left 1 record out of it that cannot be read" in treatment.repaired
    after = examine(store)
    assert "cannot be read (id 3)" in problems(after)
    assert "fts5" not in problems(after)
    engine = SqliteEngine.open(store)
    assert engine.search(SearchQuery(USER, "alpha", limit=100)).total == 39
    engine.close()


def page_of(store: str, name: str) -> tuple[int, int]:
    """The offset of an index's or a table's first page in the file, and the page size."""
    conn = apsw.Connection(store)
    ((root,),) = conn.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
    ((size,),) = conn.execute("PRAGMA page_size").fetchall()
    conn.close()
    assert isinstance(root, int)
    assert isinstance(size, int)
    return (root - 1) * size, size


def overwrite(store: str, offset: int, data: bytes) -> None:
    with Path(store).open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_an_index_that_disagrees_with_its_table_is_made_again(store: str) -> None:
    hurt(
        store,
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '(ns)', '(ns + 1)') "
        "WHERE name = 'records_active'; UPDATE sqlite_schema SET sql = replace(sql, 'space < 8', 'space < 2') "
        "WHERE name = 'records_summaries'",
    )
    hurt(store, "REINDEX")
    hurt(
        store,
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '(ns + 1)', '(ns)') "
        "WHERE name = 'records_active'; UPDATE sqlite_schema SET sql = replace(sql, 'space < 2', 'space < 8') "
        "WHERE name = 'records_summaries'",
    )
    found = examine(store)
    assert "SQLite says: row" in problems(found)
    assert "reindex" in remedies(found)
    treatment = treat(store, remedies=remedies(found))
    assert "made all indexes again from their tables" in treatment.repaired
    assert examine(store).findings == ()


@pytest.mark.parametrize("name", ["records", "revisions", "words_data", "namespaces", "meta", "records_time"])
def test_a_page_of_noise_is_a_report_and_never_another_error(store: str, name: str) -> None:
    offset, size = page_of(store, name)
    overwrite(store, offset, random.Random(1).randbytes(size))
    found = examine(store)
    assert not found.ok
    assert problems(found)
    try:
        treat(store, remedies=remedies(found))
    except StoreError as error:
        assert "damaged" in str(error)  # noqa: PT017  # that it is raised is not a must
    examine(store)


def test_noise_anywhere_is_a_report_or_a_word_that_the_file_is_no_store(store: str, tmp_path: Path) -> None:
    whole = Path(store).read_bytes()
    source = random.Random(2)
    target = tmp_path / "hurt.db"
    faults = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(data))
            data[at : at + 64] = source.randbytes(min(64, len(data) - at))
        target.write_bytes(data)
        for quick in (True, False):
            try:
                found = examine(str(target), quick=quick)
            except StoreError:
                continue
            faults += not found.ok
        for side in ("-wal", "-shm"):
            Path(f"{target}{side}").unlink(missing_ok=True)
    assert faults > 20


@pytest.mark.parametrize("length", [0, 50, 100, 2048, 5000, 20_000])
def test_a_file_that_is_cut_short_is_a_report(store: str, length: int) -> None:
    Path(store).write_bytes(Path(store).read_bytes()[:length])
    if length == 0:
        with pytest.raises(StoreError, match="is empty"):
            examine(store)
        return
    assert not examine(store).ok


def test_what_is_no_store_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no store at"):
        examine(str(tmp_path / "absent.db"))
    assert not (tmp_path / "absent.db").exists()
    with pytest.raises(StoreError, match="no file"):
        examine(str(tmp_path))
    other = apsw.Connection(str(tmp_path / "other.db"))
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    with pytest.raises(StoreError, match="another program"):
        examine(str(tmp_path / "other.db"))


def test_what_waits_is_a_note_and_no_fault(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurt(store, "UPDATE meta SET value = value + 1 WHERE name = 'forgets'")
    hurt(store, f"UPDATE meta SET value = {TOKENIZER_VERSION - 1} WHERE name = 'tokenizer'")
    hurt(store, "DELETE FROM revisions WHERE slot = (SELECT slot FROM records WHERE id = 3)")
    hurt(store, "UPDATE records SET expires_at = 5 WHERE id = 4")
    monkeypatch.setattr("keyfold.engines.sqlite.doctor.LOG_LIMIT", -1)
    Path(f"{store}-wal").touch()
    found = examine(store)
    assert found.ok
    told = "\n".join(str(finding) for finding in found.findings)
    for word in (
        "wait to be erased",
        "another version",
        "1 record whose past",
        "1 expired",
        "write-ahead log",
    ):
        assert word in told
    monkeypatch.setattr("keyfold.engines.sqlite.schema.VERSION", VERSION + 1)
    assert "brings it forward" in str(examine(store).findings[0])


def test_a_purge_removes_what_expired_with_all_that_hangs_on_it_and_its_bytes(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    now = datetime.now(UTC)
    gone, later = now - timedelta(seconds=1), now + timedelta(days=1)
    for number in range(30):
        engine.store(note(f"k{number}", f"doomedword{number} first"))
        engine.store(note(f"k{number}", f"doomedword{number} second", expires_at=gone))
    engine.store(note("stays", "keptword", expires_at=later))
    engine.close()
    path = str(tmp_path / "store.db")
    assert treat(path, purges=True).purged == 30
    assert treat(path, purges=True).purged == 0
    assert sql(tmp_path, "SELECT key FROM records") == [("stays",)]
    assert sql(tmp_path, "SELECT count(*) FROM revisions") == [(0,)]
    data = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"doomedword" not in data
    assert b"keptword" in data
    check_agreement(tmp_path)
    assert examine(path).findings == ()


def test_repair_and_erasure_take_the_bytes_of_orphans_along(store: str) -> None:
    hurt(
        store,
        "INSERT INTO revisions SELECT 77, 1, 1, 1, 0, hash, 'a', 'b', 'c', NULL, NULL, 'orphanedtext' "
        "FROM revisions LIMIT 1",
    )
    assert b"orphanedtext" in Path(store).read_bytes()
    treatment = treat(store, remedies=remedies(examine(store)))
    assert treatment.erased is True
    assert b"orphanedtext" not in Path(store).read_bytes()


def test_no_finding_shows_a_text_a_key_or_a_name(store: str) -> None:
    for damage in DAMAGES:
        copy = f"{store}.copy"
        Path(copy).write_bytes(Path(store).read_bytes())
        hurt(copy, damage.sql)
        told = problems(examine(copy))
        assert not [word for word in ("alpha", "gamma", "key 3", USER, OTHER, "tag3") if word in told]
        Path(copy).unlink()


def test_a_desynchronised_index_never_blocks_a_delete_or_a_save(store: str) -> None:
    hurt(store, "DELETE FROM words WHERE rowid IN (SELECT slot FROM records); DELETE FROM unindexed")
    engine = SqliteEngine.open(store)
    assert engine.forget(Selector(USER, ref=Ref(USER, key="key 3"))).deleted == 1
    assert engine.store(note("key 4", "rewritten")).outcome == "updated"
    assert engine.forget(Selector(USER, everything=True)).deleted == 39
    engine.close()


def test_an_interrupted_repair_changes_nothing(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurt(store, "DELETE FROM unindexed; UPDATE namespaces SET indexed = indexed + 3 WHERE num = 1")
    before = examine(store)

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("keyfold.engines.sqlite.index.rebuild", fails)
    with pytest.raises(KeyboardInterrupt):
        treat(store, remedies=remedies(before))
    assert examine(store) == before


def test_what_is_made_again_holds_nothing_that_only_the_store_knows() -> None:
    assert not {"records", "revisions", "namespaces", "meta"} & {
        name for name in ("records", "revisions", "namespaces", "meta") if name.startswith(REMADE)
    }


def test_a_purge_without_room_to_erase_is_done_and_says_what_waits(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise apsw.FullError

    monkeypatch.setattr(forget, "erase", full)
    later = datetime(2100, 1, 1, tzinfo=UTC)
    engine = SqliteEngine.open(store)
    engine.store(note("brief", "text", expires_at=later - timedelta(days=1)))
    engine.close()
    treatment = treat(store, purges=True, clock=lambda: later)
    assert (treatment.purged, treatment.erased) == (1, forget.FULL)
