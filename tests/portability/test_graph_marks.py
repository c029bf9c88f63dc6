"""An entity of a memory.jsonl that an import left a mark of is left alone, and nothing else is different for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.contract.intents import Intent, Query, Ref, Selector
from keyfold.engines.sqlite import SqliteEngine
from keyfold.model import OBSERVATION, Config, Record
from keyfold.portability import Report, import_mcp_memory, marks, mcp_memory
from keyfold.portability.mcp_words import READING
from tests.portability.conftest import NOW
from tests.portability.test_mcp_memory import entity, relation

SECRET = "SECRET"


class Unmarked(SqliteEngine):
    """The same engine without marks."""

    marks = None  # type: ignore[assignment]


@pytest.fixture
def store(config: Config) -> Iterator[SqliteEngine]:
    engine = SqliteEngine.open(":memory:", config=config)
    yield engine
    engine.close()


@pytest.fixture
def graph(tmp_path: Path) -> Callable[..., Path]:
    return lambda *lines, name="memory.jsonl": write(tmp_path / name, lines)


def write(path: Path, lines: Any) -> Path:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text(text, "utf-8", errors="surrogatepass")
    return path


def marked(engine: SqliteEngine, *names: str) -> set[str]:
    held = engine.marks("default", OBSERVATION, [f"entity/{name}" for name in names])
    return {key.removeprefix("entity/") for key in held}


def records(engine: SqliteEngine) -> list[Record]:
    return list(engine.page(Query("default", order="key", limit=1000)).items)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the entities that were put together and compared with what is held."""
    seen: list[str] = []
    made = mcp_memory._text

    def watched(entity: Any, *more: Any) -> str:
        seen.append(entity.name)
        return made(entity, *more)

    monkeypatch.setattr(mcp_memory, "_text", watched)
    return seen


FILE = [
    entity("Ann", "likes tea", "a < b"),
    entity("Bo", "b\nc", "é"),
    entity("Cy"),
    relation("Ann", "knows", "Bo"),
    entity("Ann", "has a cat"),
]


def test_entities_of_which_the_file_says_what_it_said_are_left_alone(
    store: SqliteEngine, graph: Any, compared: list[str]
) -> None:
    first = import_mcp_memory(store, graph(*FILE))
    assert marked(store, "Ann", "Bo", "Cy") == {"Ann", "Bo", "Cy"}
    compared.clear()
    for dry in (True, False):
        again = import_mcp_memory(store, graph(*FILE), dry_run=dry)
        assert (again.deduped, again.kinds, again.changed) == (3, {"observation": 3}, False)
        assert again.left_out == first.left_out == {"copies of an entity on other lines, put together": 1}
    assert compared == []


def test_a_file_that_grew_is_compared_where_it_did_and_its_new_marks_hold(
    store: SqliteEngine, graph: Any, compared: list[str]
) -> None:
    people = [entity(f"P{number}", "x") for number in range(20)]
    import_mcp_memory(store, graph(*FILE, *people))
    compared.clear()
    grown = [*FILE, *people, relation("Bo", "knows", "Cy"), entity("Di", "new")]
    report = import_mcp_memory(store, graph(*grown))
    assert (report.created, report.updated, report.deduped) == (1, 2, 21)
    assert set(compared) == {"Bo", "Cy", "Di"}
    compared.clear()
    assert import_mcp_memory(store, graph(*grown)).deduped == 24
    assert compared == []


def test_a_record_that_was_changed_is_compared_again(
    store: SqliteEngine, graph: Any, compared: list[str]
) -> None:
    import_mcp_memory(store, graph(*FILE))
    store.store(
        Intent("default", OBSERVATION, "update", "entity/Ann", content="my own", normalized_hash="0" * 64)
    )
    store.forget(Selector("default", ref=Ref("default", key="entity/Cy")))
    compared.clear()
    report = import_mcp_memory(store, graph(*FILE))
    assert (report.created, report.updated, report.deduped) == (1, 1, 1)
    assert set(compared) == {"Ann", "Cy"}
    assert "it stays" in report.notes[0].reason
    ann = store.get(Ref("default", key="entity/Ann"))
    assert ann is not None
    assert ann.content.startswith("my own\nlikes tea")


def test_what_the_report_has_a_word_about_has_no_mark(store: SqliteEngine, graph: Any) -> None:
    path = graph(
        entity("null", None, "a"),
        entity("dated", {"content": "a", "timestamp": "2026-01-01"}),
        entity("repaired", "a\0"),
        '{"type": "entity", "name": "odd", "observations": ["a"], "x": NaN}',
        json.dumps(entity("two", "a")) + json.dumps(entity("one", "a")),
        "[" + json.dumps(entity("listed", "a")) + "]",
        '{"type": "entity", "na' + json.dumps(entity("cut", "a")),
        entity("twice", "a"),
        entity("wrong", "a"),
        {"type": "entity", "name": "wrong", "observations": 5},
        relation("twice", "is", "unknown"),
        relation("twice", "is", "unknown"),
        entity("plain", "a"),
    )
    first = import_mcp_memory(store, path)
    for dry in (True, False):
        again = import_mcp_memory(store, path, dry_run=dry)
        assert (again.notes, again.skipped, again.left_out) == (first.notes, first.skipped, first.left_out)
        assert again.deduped == first.created == 12
    names = [record.key.removeprefix("entity/") for record in records(store)]
    assert len(names) == 12
    assert marked(store, *names) == {"plain"}


def test_private_text_is_in_no_digest_that_is_made_or_kept(
    tmp_path: Path, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[bytes] = []
    monkeypatch.setattr(
        marks, "blake2b", lambda words, **more: hashed.append(words) or blake2b(words, **more)
    )
    escaped = json.dumps(entity("escaped", "a", "TAG")).replace("TAG", f"\\u003cprivate>{SECRET}</private>")
    letter = json.dumps(entity("letter", "a", "TAG")).replace("TAG", f"<pri\\u0076ate>{SECRET}")
    lines = [
        entity("plain", f"<private>{SECRET}</private>"),
        entity("open", f"<PRIVATE x {SECRET}"),
        escaped,
        letter,
        entity("extra", "a", **{f"<private>{SECRET}": 1}),
        entity("copies", f"< private>{SECRET}"),
        entity("copies", "b </private>"),
        entity("halves", "x <", f"private> {SECRET} </", "private> z"),
        entity("related", "a"),
        relation("related", f"<private>{SECRET}</private>", "other"),
        entity("public", "List<T> is a < b", "\\u003c", "é \u2028"),
        entity("word", "a private repository"),
    ]
    names = ["plain", "open", "escaped", "letter", "extra", "copies", "halves", "related", "public", "word"]
    engine = SqliteEngine.open(str(tmp_path / "m.db"))
    import_mcp_memory(engine, graph(*(entity(name, "said before") for name in names)))
    assert marked(engine, *names) == set(names)
    for _ in range(2):
        assert import_mcp_memory(engine, graph(*lines)).redacted >= 6
    assert marked(engine, *names) == set()  # what was said before stays, and that is told
    engine.forget(Selector("default", everything=True))
    import_mcp_memory(engine, graph(*lines))
    assert marked(engine, *names) == {"public", "word"}
    assert [words for words in hashed if SECRET.encode() in words] == []
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("m.db*"))
    assert marks.mark_of(READING, json.dumps(lines[-1]).encode()) in kept
    for line in lines[:-2]:
        words = (line if isinstance(line, str) else json.dumps(line)).encode()
        assert marks.mark_of(READING, words) not in kept
    engine.close()


def test_relations_that_become_too_many_for_the_metadata_come_to_rest_as_they_do_without_marks(
    store: SqliteEngine, graph: Any
) -> None:
    one = [relation("Hub", "has", f"part number {number}") for number in range(200)]
    other = [relation("Hub", "has", f"other part {number}") for number in range(200)]
    with_none = Unmarked.open(":memory:", config=Config(clock=lambda: NOW))
    first, second = graph(entity("Hub", "x"), *one), graph(entity("Hub", "x"), *other, name="other.jsonl")
    for engine in (store, with_none):
        import_mcp_memory(engine, first)
        engine.store(
            Intent("default", OBSERVATION, "update", "entity/Hub", content="x", normalized_hash="0" * 64)
        )
    for updated in (1, 1, 0):
        reports = [import_mcp_memory(engine, second) for engine in (store, with_none)]
        assert reports[0] == reports[1]
        assert reports[0].updated == updated
        assert (
            records(store) == records(with_none)
        ) is True  # a difference of hundreds of records takes long to show
    with_none.close()


def test_an_earlier_reading_is_read_again(
    store: SqliteEngine, graph: Any, compared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import_mcp_memory(store, graph(*FILE))
    monkeypatch.setattr("keyfold.portability.mcp_words.READING", b"mcp later")
    compared.clear()
    assert import_mcp_memory(store, graph(*FILE)).deduped == 3
    assert len(compared) == 3


def test_a_reading_that_changes_has_another_name(store: SqliteEngine, graph: Any) -> None:
    """When this fails because entities are read otherwise than before, READING has to be another name, and this digest."""
    dated = entity(
        "Di", {"content": "e"}, ["f", 1], createdAt="2025-01-02", updatedAt=1_750_000_000, version=3
    )
    import_mcp_memory(
        store, graph(*FILE, dated, relation("Di", "is\n", "Cy", since=2), entity("Ed", " a\n b "))
    )
    told = [
        (held.key, held.type, held.title, held.content, held.metadata, held.tags) for held in records(store)
    ]
    assert (READING, blake2b(repr(told).encode(), digest_size=8).hexdigest()) == (
        b"mcp-memory 1",
        "abdd4a53eec2d63e",
    )


NAMES = ["A", "B", "C", "a\0", "a\ufffd", "<private>x", "é"]
SAID = st.one_of(
    st.sampled_from(["a", "b", "c\nd", " e ", "<private>x</private>", "< private>", "</private>", "x <", "private> y",
                     "List<T>", "é", "\0", "\ud83d\ude00", "\ud800", "", "A"]),
    st.sampled_from([None, 5, {"content": "f", "at": 1}, {"x": 1}, [1]]),
)  # fmt: skip
NAME = st.sampled_from(NAMES)
EXTRA = st.sampled_from(
    [{}, {}, {"v": 1}, {"v": "<private>y"}, {"relations": 1}, {"createdAt": "2025-01-01"}, {"updatedAt": "soon"}]
)  # fmt: skip
ENTITY = st.builds(
    lambda name, said, kind, extra: {"type": "entity", "name": name, "entityType": kind, "observations": said, **extra},
    NAME, st.lists(SAID, max_size=3), st.sampled_from(["person", "decision", ""]), EXTRA,
)  # fmt: skip
RELATION = st.builds(
    lambda one, kind, other, extra: {"type": "relation", "from": one, "relationType": kind, "to": other, **extra},
    NAME, st.sampled_from(["r", "s", " ", "<private>z</private>"]), NAME, EXTRA,
)  # fmt: skip
VALUE = st.one_of(ENTITY, RELATION)


def told(values: list[Any], form: str, ascii_only: bool) -> str:
    """A line of a file, or two values on one."""
    texts = [json.dumps(value, ensure_ascii=ascii_only) for value in values]
    return {
        "plain": texts[0],
        "both": "".join(texts),
        "list": f"[{','.join(texts)}]",
        "cut": texts[0][:-9] + texts[-1],
        "odd": texts[0][:-1] + ', "n": NaN}',
        "escaped": texts[0].replace("<", "\\u003c").replace("v", "\\u0076"),
        "blank": "",
        "wrong": '{"type": "entity", "name": "A", "observations": 5}',
    }[form]


FORMS = st.sampled_from(["plain"] * 12 + ["both", "list", "cut", "odd", "escaped", "blank", "wrong"])
LINE = st.builds(told, st.lists(VALUE, min_size=1, max_size=2), FORMS, st.booleans())
FILES = st.lists(LINE, min_size=1, max_size=8)
HANDS = st.lists(
    st.tuples(st.sampled_from(["pin", "expire", "retag", "rewrite", "forget"]), st.sampled_from(NAMES)), max_size=2
)  # fmt: skip


def by_hand(engine: SqliteEngine, what: str, name: str) -> None:
    """What people do to a record between two imports."""
    key = f"entity/{name}"
    if engine.get(Ref("default", key=key)) is None:
        return
    if what == "forget":
        engine.forget(Selector("default", ref=Ref("default", key=key)))
        return
    changes: dict[str, Any] = {
        "pin": {"pinned": True},
        "expire": {"expires_at": NOW + timedelta(days=1)},
        "retag": {"tags": ("b", "a")},
        "rewrite": {"content": "b\nby hand\n", "normalized_hash": "0" * 64},
    }[what]
    engine.store(Intent("default", OBSERVATION, "update", key, **changes))


@settings(max_examples=300, deadline=None)
@given(
    files=st.lists(FILES, min_size=1, max_size=3),
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.lists(LINE, max_size=2), HANDS, st.sampled_from([12, 1 << 20])),
        min_size=2, max_size=5,
    ),
)  # fmt: skip
def test_imports_of_graphs_in_any_order_end_as_they_do_without_marks(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[str]],
    steps: list[tuple[int, list[str], list[tuple[str, str]], int]],
) -> None:
    path = tmp_path_factory.mktemp("graph") / "memory.jsonl"
    clock: Callable[[], datetime] = lambda: NOW  # noqa: E731  # one and the same for both
    one, other = (kind.open(":memory:", config=Config(clock=clock)) for kind in (SqliteEngine, Unmarked))
    for which, more, hands, limit in steps:
        file = files[which % len(files)]
        file += more
        write(path, file)
        config = Config(clock=clock, max_text_bytes=limit)
        reports: list[list[Report]] = []
        for engine in (one, other):
            runs = [
                import_mcp_memory(engine, path, config=config, dry_run=dry) for dry in (True, False, False)
            ]
            reports.append(runs)
        assert reports[0] == reports[1]
        assert records(one) == records(other)
        for what, name in hands:
            by_hand(one, what, name)
            by_hand(other, what, name)
        assert records(one) == records(other)
    one.close()
    other.close()
