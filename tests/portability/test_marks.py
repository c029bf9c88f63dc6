"""What an import left a mark of is not read again, and nothing else is different for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.contract.intents import Intent, Query, Ref, Selector
from keyfold.engines.sqlite import SqliteEngine
from keyfold.model import DOCUMENT, Config, Record
from keyfold.portability import Report, foreign, import_markdown, markdown, marks
from keyfold.portability.drafts import Draft, State
from keyfold.portability.foreign import read_regular
from keyfold.portability.loader import Loader
from keyfold.portability.markdown import READING
from tests.portability.conftest import NOW

SECRET = "SECRET"


class Unmarked(SqliteEngine):
    """The same engine without marks."""

    marks = None  # type: ignore[assignment]


@pytest.fixture
def store(config: Config) -> Iterator[SqliteEngine]:
    engine = SqliteEngine.open(":memory:", config=config)
    yield engine
    engine.close()


def write(root: Path, files: dict[str, str | bytes], at: datetime = NOW) -> Path:
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(place, (at.timestamp(), at.timestamp()))
    return root


def marked(engine: SqliteEngine, *keys: str) -> set[str]:
    return set(engine.marks("default", DOCUMENT, keys))


@pytest.fixture
def drafted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the notes that were read for what they say."""
    seen: list[str] = []
    made = markdown._draft

    def watched(note: Any, *more: Any) -> Any:
        seen.append(note.key)
        return made(note, *more)

    monkeypatch.setattr(markdown, "_draft", watched)
    return seen


def test_a_note_that_says_what_it_said_is_not_read_for_it_again_whatever_its_date(
    store: SqliteEngine, tmp_path: Path, drafted: list[str]
) -> None:
    files: dict[str, str | bytes] = {"a.md": "---\ntags: [x]\n---\none", "b/c.md": "# Two"}
    import_markdown(store, write(tmp_path, files))
    drafted.clear()
    seen: list[int] = []
    for dry in (True, False):
        report = import_markdown(
            store,
            write(tmp_path, files, NOW + timedelta(days=3)),
            dry_run=dry,
            progress=lambda report: seen.append(report.deduped),
        )
        assert (report.deduped, report.kinds, report.changed) == (2, {"document": 2}, False)
    assert (drafted, seen) == ([], [2, 2])
    write(tmp_path, {"a.md": "---\ntags: [y]\n---\none"})
    assert import_markdown(store, tmp_path).updated == 1
    assert drafted == ["a.md"]
    assert import_markdown(store, tmp_path).deduped == 2
    assert drafted == ["a.md"]


def test_a_note_is_read_again_when_its_record_was_changed(
    store: SqliteEngine, tmp_path: Path, drafted: list[str]
) -> None:
    import_markdown(store, write(tmp_path, {"a.md": "one", "b.md": "two", "c.md": "three"}))
    store.store(Intent("default", DOCUMENT, "update", "a.md", content="by hand", normalized_hash="0" * 64))
    store.forget(Selector("default", ref=Ref("default", key="b.md", kind=DOCUMENT)))
    drafted.clear()
    report = import_markdown(store, tmp_path)
    assert (report.created, report.updated, report.deduped) == (1, 1, 1)
    assert drafted == ["a.md", "b.md"]
    record = store.get(Ref("default", key="a.md", kind=DOCUMENT))
    assert record is not None
    assert (record.content, record.revision_count) == ("one", 3)


def test_the_marks_of_one_user_are_not_anothers(store: SqliteEngine, tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "one"})
    assert [import_markdown(store, tmp_path, namespace=name).created for name in "uvu"] == [1, 1, 0]


def test_an_earlier_reading_is_read_again(
    store: SqliteEngine, tmp_path: Path, drafted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_markdown(store, write(tmp_path, {"a.md": "one"}))
    monkeypatch.setattr(markdown, "READING", b"markdown later")
    drafted.clear()
    assert import_markdown(store, tmp_path).deduped == 1
    assert drafted == ["a.md"]


def test_a_limit_that_is_lower_than_it_was_is_kept(store: SqliteEngine, tmp_path: Path) -> None:
    import_markdown(store, write(tmp_path, {"a.md": "x" * 2000}), config=Config(max_text_bytes=2000))
    report = import_markdown(store, tmp_path, config=Config(max_text_bytes=1999))
    assert (report.records, report.skipped_count) == (0, 1)


def test_what_the_report_has_a_word_about_is_told_each_time(store: SqliteEngine, tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"a.md": "---\na: {b: c}\n---\none", "b.md": "two", "c.md": "three\0"}
    first = import_markdown(store, write(tmp_path, files))
    for dry in (True, False):
        again = import_markdown(store, tmp_path, dry_run=dry)
        assert (again.notes, again.skipped) == (first.notes, first.skipped)
    assert [item.where for item in first.notes] == ["a.md"]
    assert marked(store, *files) == {"b.md"}


HIDDEN = {
    "plain.md": f"text <private>{SECRET}</private>",
    "open.md": f"# T\n<private {SECRET}",
    "front.md": f"---\na: <private>{SECRET}</private>\n---\ntext",
    "escaped.md": f'---\ntitle: "\\x3cprivate>{SECRET}</private>"\n---\ntext',
    "halves.md": f"---\ntags: [<pri, b]\na: [< # b\n  private>{SECRET}</private>]\n---\ntext",
    "letter.md": f'---\na: "<pri\\u0076ate>{SECRET}"\n---\ntext',
    "tail.md": '---\na: "\\u003CPRIVATE>' + SECRET + '\\x3c/private>"\n---\ntext',
}


def test_private_text_is_in_no_digest_that_is_made_or_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[bytes] = []
    monkeypatch.setattr(
        marks, "blake2b", lambda words, **more: hashed.append(words) or blake2b(words, **more)
    )
    path = tmp_path / "m.db"
    engine = SqliteEngine.open(str(path))
    vault = write(tmp_path / "vault", {**HIDDEN, "public.md": "a < b, <privateer>, C:\\x3c"})
    for _ in range(2):
        assert import_markdown(engine, vault).redacted >= 5
    assert marked(engine, *HIDDEN, "public.md") == {"public.md"}
    assert [words for words in hashed if SECRET.encode() in words] == []
    assert hashed
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("m.db*"))
    assert marks.mark_of(READING, (vault / "public.md").read_bytes()) in kept
    assert SECRET.encode() not in kept
    for name in HIDDEN:
        words = (vault / name).read_bytes()
        assert marks.mark_of(READING, words) not in kept
        assert blake2b(words, digest_size=16).digest() not in kept
        assert sha256(words).digest() not in kept
    engine.close()


def test_a_draft_that_turns_out_to_hold_private_text_leaves_no_mark(store: SqliteEngine) -> None:
    loader = Loader(store, Report(), Config())
    for key, more in (("a", {}), ("b", {"x": f"<private>{SECRET}"}), ("c", {f"<private>{SECRET}": 1})):
        state = State(1, DOCUMENT, "t", "c", NOW, more)
        loader.add(Draft(key, None, "default", DOCUMENT, key, False, state, NOW, current=NOW, mark=b"m"))
    loader.finish()
    assert marked(store, "a", "b", "c") == {"a"}


def test_a_reading_that_changes_has_another_name(store: SqliteEngine, tmp_path: Path) -> None:
    """When this fails because notes are read otherwise than before, READING has to be another name, and this digest."""
    files: dict[str, str | bytes] = {
        "a.md": "---\ntitle: T\ntags: [x, '#y']\ncreated: 2024-02-03\nupdated: 2024-02-04T05:06Z\nstars: 4\n"
        "mime: z\nlong: |\n  b\n  c\nwords: >\n  d\n  e\nyes: true\n---\n# H #\n\ntext\r\n",
        "b/c d.md": "```\n# no\n```\n# A heading\ntext",
        "d.md": "---\nsource: x\nkeywords: a, b\n---\n",
        "e.md": "\ufeffno heading",
    }
    import_markdown(store, write(tmp_path, files))
    told = [
        (
            held.key,
            held.type,
            held.title,
            held.content,
            held.metadata,
            held.tags,
            held.created_at,
            held.updated_at,
        )
        for held in records(store)
    ]
    assert (READING, sha256(repr(told).encode()).hexdigest()[:16]) == (b"markdown 1", "a47312a6904d2510")


def records(engine: SqliteEngine) -> list[Record]:
    page = engine.page(Query("default", kinds=(DOCUMENT, "observation"), order="key", limit=1000))
    return list(page.items)


FRONT = st.lists(
    st.sampled_from(
        ["title: T", "title: U", "tags: [a, b]", "tags: [b, a, a]", "tags: a", "rank: 4", "created: 2024-01-02",
         "updated: 2025-01-02", "x: {not: read}", "x: '<private>", "y: \"\\x3cprivate>z\"", "y: \"<\\/private>\"",
         "z: [< # a", "  private>b</private>]", "mime: text", f"long: {'x' * 300}", "date: 2024-03-04", "- item"]
    ),
    max_size=4,
).map(lambda lines: "---\n" + "\n".join(lines) + "\n---\n")  # fmt: skip  # one line each says less
BODY = st.lists(
    st.sampled_from(["# H", "## I", "text", "<private>", "</private>", "< private>", "a < b", "\\x3c", "", " ", "é", "\0"]),
    min_size=1, max_size=4,
).map("\n".join)  # fmt: skip
NOTE = st.one_of(BODY, st.tuples(FRONT, BODY).map("".join))
NAMES = ["a.md", "b.md", "c/d.md", "<private>.md", "é.md"]
VAULTS = st.dictionaries(st.sampled_from(NAMES), NOTE, max_size=5)


def by_hand(engine: SqliteEngine, what: str, key: str) -> None:
    """What people do to a record between two imports."""
    if engine.get(Ref("default", key=key, kind=DOCUMENT)) is None:
        return
    if what == "forget":
        engine.forget(Selector("default", ref=Ref("default", key=key, kind=DOCUMENT)))
        return
    changes: dict[str, Any] = {
        "pin": {"pinned": True},
        "expire": {"expires_at": NOW + timedelta(days=1)},
        "retitle": {"title": "by hand"},
        "retag": {"tags": ("b", "a")},
        "rewrite": {"content": "by hand", "normalized_hash": "0" * 64},
    }[what]
    engine.store(Intent("default", DOCUMENT, "update", key, **changes))


HANDS = st.lists(
    st.tuples(st.sampled_from(["pin", "expire", "retitle", "retag", "rewrite", "forget"]), st.sampled_from(NAMES)),
    max_size=2,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.tuples(VAULTS, HANDS, st.sampled_from([40, 350, 1 << 20]), st.booleans()), min_size=2, max_size=4),
    again=st.booleans(),
)  # fmt: skip
def test_imports_of_notes_end_as_they_do_without_marks(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[dict[str, str], list[tuple[str, str]], int, bool]],
    again: bool,
) -> None:
    root = tmp_path_factory.mktemp("vault")
    clock: Callable[[], datetime] = lambda: NOW  # noqa: E731  # one and the same for both
    one, other = (kind.open(":memory:", config=Config(clock=clock)) for kind in (SqliteEngine, Unmarked))
    for number, (files, hands, limit, dry) in enumerate(steps):
        at = NOW - timedelta(days=number % 3)
        for name in NAMES:
            (root / name).unlink(missing_ok=True)
            if number and again and name in steps[0][0] and name not in files:
                files = {**files, name: steps[0][0][name]}
        write(root, dict(files), at)
        config = Config(clock=clock, max_text_bytes=limit)
        reports: list[Report] = []
        for engine in (one, other):
            if dry:
                reports.append(import_markdown(engine, root, config=config, dry_run=True))
            reports.append(import_markdown(engine, root, config=config))
            reports.append(import_markdown(engine, root, config=config))
        assert reports[: len(reports) // 2] == reports[len(reports) // 2 :]
        assert records(one) == records(other)
        for what, key in hands:
            by_hand(one, what, key)
            by_hand(other, what, key)
        assert records(one) == records(other)
    one.close()
    other.close()


@pytest.mark.parametrize("most", [1, 3, 100])
@pytest.mark.parametrize("limit", [0, 4, 9, 10, 11, 50])
def test_a_file_is_read_whole_however_little_is_given_at_a_time_and_though_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, limit: int
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    read = os.read
    monkeypatch.setattr(foreign.os, "read", lambda handle, asked: read(handle, min(asked, most)))
    assert read_regular(str(path), limit)[0] == b"0123456789"[:limit]
    status = os.fstat

    def grown(handle: int) -> os.stat_result:
        found = status(handle)
        with path.open("ab") as file:
            file.write(b"ab")
        return found

    monkeypatch.setattr(foreign.os, "fstat", grown)
    data, changed = read_regular(str(path), limit)
    assert data == b"0123456789ab"[: limit if most == 100 else len(data)]
    assert len(data) >= min(10, limit)
    assert changed.tzinfo is UTC
