"""What goes out comes in again, byte for byte, and twice is once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.contract.intents import Intent, Query, Ref, Selector
from keyfold.contract.prepare import prepare
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import StoreError
from keyfold.model import KINDS, Config
from keyfold.portability import copy, export, export_file, import_keyfold

START = datetime(2026, 5, 1, tzinfo=UTC)


class Ticking:
    """A clock that moves a second a look."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def write(engine: InMemoryEngine, namespace: str, key: str | None, content: str, **fields: Any) -> None:
    text, digest = prepare(content)
    fields = {"type": "decision", "title": "A title", "kind": "observation", **fields}
    engine.store(Intent(namespace, key=key, content=text, normalized_hash=digest, **fields))


def everything(engine: InMemoryEngine) -> str:
    return "".join(export(engine))


texts = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0<"), min_size=1, max_size=30
).filter(lambda text: not text.isspace())
numbers = st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
writes = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["alice", "alice/deep", "ünïcode", "𝕏"]),
        "key": st.none() | st.sampled_from(["k", "K", "a/b", "日本", "\ue000", "𝒜"]) | texts,
        "content": texts,
        "title": texts,
        "kind": st.sampled_from(KINDS),
        "metadata": st.dictionaries(texts, values, max_size=3),
        "tags": st.lists(texts, max_size=3, unique=True).map(tuple),
        "pinned": st.booleans(),
        "expires_at": st.none() | st.just(START + timedelta(days=30)),
        "observed_at": st.none() | st.just(datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        "taint": st.sampled_from(["internal", "external"]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(writes, max_size=12))
def test_a_store_made_from_an_export_exports_the_same_bytes(found: list[dict[str, Any]]) -> None:
    config = Config(clock=Ticking())
    first, second = InMemoryEngine(config), InMemoryEngine(config)
    for fields in found:
        write(first, fields["namespace"], fields["key"], fields["content"], **_rest(fields))
    told = everything(first)
    lines = [line + b"\n" for line in told.encode().split(b"\n")[:-1]]
    report = import_keyfold(second, lines, config=config)
    assert report.skipped == []
    assert everything(second) == told
    again = import_keyfold(second, lines, config=config)
    assert (again.created, again.updated, again.deduped) == (0, 0, report.created)
    assert everything(second) == told


def _rest(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in ("namespace", "key", "content")}


def test_lines_are_in_the_order_of_namespace_kind_and_key(engine: InMemoryEngine) -> None:
    write(engine, "b", "1", "text")
    write(engine, "a", "0", "text", kind="session")
    write(engine, "a", "2", "text")
    write(engine, "a", "1", "text", kind="turn")
    lines = [json.loads(line) for line in export(engine)]
    found = [(line["namespace"], line["kind"], line["key"]) for line in lines[1:-1]]
    assert found == [
        ("a", "observation", "2"),
        ("a", "turn", "1"),
        ("a", "session", "0"),
        ("b", "observation", "1"),
    ]


def test_an_export_holds_no_clock_and_no_local_id(other: InMemoryEngine) -> None:
    for empty in (other, InMemoryEngine(Config(clock=Ticking()))):
        assert list(export(empty)) == [
            '{"format":"keyfold","version":1}\n',
            '{"end":"keyfold","records":0}\n',
        ]
    write(other, "alice", "k", "text")
    line = json.loads(list(export(other))[1])
    assert {"id", "normalized_hash", "exported_at"} & set(line) == set()


def test_history_travels_with_its_times(engine: InMemoryEngine) -> None:
    source = InMemoryEngine(Config(clock=Ticking()))
    for text in ("one", "two", "three"):
        write(source, "alice", "k", text, tags=(text,))
    copy(source, engine)
    held = engine.history(Ref("alice", key="k")).revisions
    assert [(state.revision, state.content, state.tags) for state in held] == [
        (3, "three", ("three",)),
        (2, "two", ("two",)),
        (1, "one", ("one",)),
    ]
    told = source.history(Ref("alice", key="k")).revisions
    assert [state.written_at for state in held] == [state.written_at for state in told]


def test_a_namespace_alone_can_be_exported_and_imported(
    engine: InMemoryEngine, other: InMemoryEngine
) -> None:
    for name in ("alice", "bob", "alice/deep"):
        write(engine, name, "k", name)
    lines = [json.loads(line) for line in export(engine, namespace="alice")]
    assert [line["namespace"] for line in lines[1:-1]] == ["alice"]
    report = import_keyfold(other, export(engine), namespace="bob")
    assert other.namespaces() == ["bob"]
    assert report.left_out == {"of another user": 2}


def test_an_integer_stays_one_and_a_float_stays_one(
    engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    metadata = {"one": 1, "float": 1.0, "least": 5e-324, "zero": -0.0, "most": 2**63 - 1}
    import_keyfold(engine, file_of(record(metadata=metadata)))
    line = json.loads(list(export(engine))[1])
    assert json.dumps(line["metadata"], sort_keys=True) == json.dumps(metadata, sort_keys=True)


def test_a_record_forgotten_while_an_export_runs_is_not_in_it() -> None:
    class Racing(InMemoryEngine):
        def history(self, ref: Ref) -> Any:
            self.forget(Selector("alice", ref=ref))
            return super().history(ref)

    engine = Racing(Config(clock=Ticking()))
    for text in ("one", "two"):
        write(engine, "alice", "k", text)
    assert list(export(engine))[1:] == ['{"end":"keyfold","records":0}\n']


def test_a_file_is_replaced_only_when_the_export_is_complete(engine: InMemoryEngine, tmp_path: Path) -> None:
    class Failing(InMemoryEngine):
        def page(self, query: Query) -> Any:
            raise StoreError("the disk is gone")

    target = tmp_path / "memory.jsonl"
    failing = Failing()
    for store in (engine, failing):
        write(store, "alice", "k", "text")
    assert export_file(engine, target) == 1
    before = target.read_bytes()
    assert before == everything(engine).encode()
    with pytest.raises(StoreError, match="disk is gone"):
        export_file(failing, target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["memory.jsonl"]
    with pytest.raises(StoreError, match="cannot write an export"):
        export_file(engine, tmp_path / "absent" / "memory.jsonl")
