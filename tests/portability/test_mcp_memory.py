"""The reference memory server's graph comes in as observations that an agent can find and read."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold import Memory
from keyfold.contract.intents import Ref
from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import NotFound
from keyfold.model import Record
from keyfold.portability import detect, import_mcp_memory, import_path

WRITTEN = datetime(2026, 4, 1, 8, tzinfo=UTC)


def entity(name: str, *observations: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "entity",
        "name": name,
        "entityType": "person",
        "observations": list(observations),
        **more,
    }


def relation(source: str, kind: str, target: str, **more: Any) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": kind, **more}


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    """Write a memory.jsonl of the lines given, last written on the first of April."""

    def make(*lines: Any, name: str = "memory.jsonl") -> Path:
        path = tmp_path / name
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        path.write_text(text, "utf-8", errors="surrogatepass")
        os.utime(path, (WRITTEN.timestamp(), WRITTEN.timestamp()))
        return path

    return make


def observation(engine: InMemoryEngine, name: str) -> Record:
    record = engine.get(Ref("default", key=f"entity/{name}"))
    assert record is not None
    return record


def test_an_entity_is_an_observation_with_its_relations_of_both_directions(
    engine: InMemoryEngine, graph: Any
) -> None:
    path = graph(
        entity("Ann", "likes tea", "lives in Oslo", createdAt="2025-01-02T03:04:05Z", version=3),
        {"name": "Acme", "entityType": "decision", "observations": ["makes anvils"], "createdAt": 1735786800},
        relation("Ann", "works_at", "Acme", validFrom="2024"),
    )
    report = import_path(engine, path)
    assert (report.format, report.created, report.skipped, report.notes) == ("mcp-memory", 2, [], [])
    ann, acme = observation(engine, "Ann"), observation(engine, "Acme")
    assert ann.content == "likes tea\nlives in Oslo\nAnn works_at Acme"
    assert (ann.title, ann.type, ann.taint, ann.minted) == ("Ann", "discovery", "external", False)
    assert ann.created_at == datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
    told = {"from": "Ann", "relationType": "works_at", "to": "Acme", "validFrom": "2024"}
    assert ann.metadata == {"entityType": "person", "version": 3, "relations": [told]}
    assert (acme.type, acme.content) == ("decision", "makes anvils\nAnn works_at Acme")
    assert acme.metadata["relations"] == [told]
    assert acme.created_at == datetime(2025, 1, 2, 3, tzinfo=UTC)


def test_copies_of_an_entity_are_put_together(engine: InMemoryEngine, graph: Any) -> None:
    path = graph(entity("Ann", "a", "b"), entity("Ann", "b", "c"), entity("Ann", "a", "b"))
    report = import_mcp_memory(engine, path)
    assert observation(engine, "Ann").content == "a\nb\nc"
    assert (report.created, report.left_out) == (1, {"copies of an entity on other lines, put together": 2})


def test_again_writes_nothing_and_a_longer_file_is_a_revision(engine: InMemoryEngine, graph: Any) -> None:
    lines = [entity("Ann", "a\nb", "c"), entity("Bo"), relation("Ann", "knows", "Bo")]
    import_mcp_memory(engine, graph(*lines))
    for _ in range(2):
        report = import_mcp_memory(engine, graph(*lines))
        assert (report.deduped, report.changed) == (2, False)
    report = import_mcp_memory(engine, graph(*lines, entity("Ann", "d")))
    assert (report.updated, report.deduped) == (1, 1)
    ann = observation(engine, "Ann")
    assert (ann.content, ann.revision_count) == ("a\n  b\nc\nAnn knows Bo\nd", 2)


def test_two_files_about_one_entity_come_to_rest(engine: InMemoryEngine, graph: Any) -> None:
    one, two = graph(entity("user", "a", "b")), graph(entity("user", "c"), name="other.jsonl")
    assert [import_mcp_memory(engine, path).changed for path in (one, two, one, two, one)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert observation(engine, "user").content == "a\nb\nc"
    assert "they stay" in import_mcp_memory(engine, two).notes[0].reason


def test_an_unknown_entity_in_a_relation_is_made_and_reported(engine: InMemoryEngine, graph: Any) -> None:
    report = import_mcp_memory(engine, graph(relation("Ann", "knows", "Bo"), entity("Ann", "a")))
    assert [item.where for item in report.notes] == ["entity/Bo"]
    assert observation(engine, "Bo").content == "Ann knows Bo"
    assert observation(engine, "Ann").content == "a\nAnn knows Bo"


def test_an_entity_without_a_word_says_its_name(engine: InMemoryEngine, graph: Any) -> None:
    import_mcp_memory(engine, graph(entity("Ann")))
    assert observation(engine, "Ann").content == "Ann"
    import_mcp_memory(engine, graph(entity("Ann", "a")))
    assert observation(engine, "Ann").content == "a"


def test_broken_lines_are_reported_and_the_rest_goes_in(engine: InMemoryEngine, graph: Any) -> None:
    whole = json.dumps(entity("Bo", "b"))
    path = graph(
        entity("Ann", "a"),
        whole + json.dumps(relation("Ann", "knows", "Bo")),
        '{"type":"entity","name":"cut","observ' + json.dumps(entity("Cy", "c")),
        "[1, 2]",
        "nonsense",
        {"type": "entity", "name": " "},
        {"type": "relation", "from": "Ann"},
        {"type": "entity", "name": "Di", "observations": 5},
        "",
        json.dumps(entity("Ed", "e"))[:-3],
    )
    report = import_mcp_memory(engine, path)
    assert {item.line for item in report.skipped} == {3, 4, 5, 6, 7, 8, 10}
    assert [observation(engine, name).content.split("\n")[0] for name in ("Ann", "Bo", "Cy")] == [
        "a",
        "b",
        "c",
    ]
    assert report.created == 3


@pytest.mark.parametrize("line", ["[]", "null", "5", '"text"', "[[]]"])
def test_a_line_that_holds_no_object_is_reported_by_its_number(
    engine: InMemoryEngine, graph: Any, line: str
) -> None:
    report = import_mcp_memory(engine, graph(entity("Ann", "a"), line, entity("Bo", "b")))
    assert [(item.line, item.reason) for item in report.skipped] == [(2, "not an object")]
    assert report.created == 2


def test_numbers_that_json_does_not_know_are_kept_as_text_and_noted(
    engine: InMemoryEngine, graph: Any
) -> None:
    facts = '"score":NaN,"bound":[-Infinity,1e999],"count":123456789012345678901,"plain":0.5'
    path = graph(entity("Bo", "b"), '{"type":"entity","name":"Ann","observations":["a"],' + facts + "}")
    report = import_mcp_memory(engine, path)
    assert [(item.line, "kept as text" in item.reason) for item in report.notes] == [(2, True)]
    assert observation(engine, "Ann").metadata == {
        "score": "NaN", "bound": ["-Infinity", "1e999"], "count": "123456789012345678901", "plain": 0.5,
    }  # fmt: skip
    assert import_mcp_memory(engine, path).changed is False


def test_an_observation_that_is_no_text_is_kept_as_json(engine: InMemoryEngine, graph: Any) -> None:
    dated = {"content": "likes tea", "timestamp": "2026-01-01T00:00:00Z"}
    path = graph(entity("Ann", {"fact": "it's é", "sure": True}, [1, None], 5, False, None, dated))
    report = import_mcp_memory(engine, path)
    assert observation(engine, "Ann").content.split("\n") == [
        '{"fact": "it\'s é", "sure": true}', "[1, null]", "5", "false", "likes tea",
    ]  # fmt: skip
    assert report.left_out == {
        "observations that are null": 1,
        "what is said of an observation beside its text (dates and the like)": 1,
    }


def test_names_are_kept_as_they_are_and_bad_characters_are_repaired(
    engine: InMemoryEngine, graph: Any
) -> None:
    names = ["a b: c/d", "日本", "Ünï", "../../outside", "."]
    path = graph(
        *(entity(name, "x") for name in names),
        '{"name":"p\\ud83d\\ude00q\\ud800","observations":["a\\u0000b"]}',
    )
    report = import_mcp_memory(engine, path)
    assert [item.line for item in report.notes] == [len(names) + 1]
    assert [observation(engine, name).title for name in names] == names
    assert observation(engine, "p\U0001f600q\ufffd").content == "a\ufffdb"


def test_private_text_goes_from_each_observation_alone(engine: InMemoryEngine, graph: Any) -> None:
    path = graph(
        entity("Ann", "<private>SECRET", "open", "x <private>SECRET</private> y"),
        entity("<private>SECRET</private>", "z"),
        relation("Ann", "knows", "<private>SECRET</private>"),
    )
    report = import_mcp_memory(engine, path)
    assert observation(engine, "Ann").content == "[REDACTED]\nopen\nx [REDACTED] y\nAnn knows [REDACTED]"
    assert report.redacted >= 2
    assert report.skipped_count == 1
    assert "SECRET" not in repr(engine.page(engine_query()).items) + repr(report)
    assert import_mcp_memory(engine, path).changed is False


def engine_query() -> Any:
    from keyfold.contract.intents import Query

    return Query("default", limit=100)


def test_what_people_changed_in_the_store_stays(graph: Any) -> None:
    with Memory.open("inmemory:") as memory:
        path = graph(entity("Ann", "a"))
        import_mcp_memory(memory.engine, path, namespace="u")
        memory.mem_update(
            "u", topic_key="entity/Ann", type="profile", title="Ann A.", tags=["t"], pinned=True
        )
        assert import_mcp_memory(memory.engine, path, namespace="u").changed is False
        import_mcp_memory(memory.engine, graph(entity("Ann", "a", "b")), namespace="u")
        (ann,) = memory.mem_list("u")
        assert (ann.content, ann.type, ann.title, ann.tags, ann.pinned) == (
            "a\nb",
            "profile",
            "Ann A.",
            ("t",),
            True,
        )


def test_an_entity_with_thousands_of_relations_keeps_them_in_its_text(
    engine: InMemoryEngine, graph: Any
) -> None:
    names = [f"part number {number}" for number in range(2000)]
    report = import_mcp_memory(
        engine, graph(entity("Hub", "h"), *(relation("Hub", "has", name) for name in names))
    )
    hub = observation(engine, "Hub")
    assert report.skipped_count == 0
    assert all(f"Hub has {name}" in hub.content for name in names)
    assert hub.metadata["relations"] == "2000 relations: they stand in the text"


def test_what_can_be_searched_is_found(graph: Any) -> None:
    with Memory.open(":memory:") as memory:
        import_mcp_memory(
            memory.engine, graph(entity("Ann", "a"), relation("Ann", "works_at", "Acme")), namespace="u"
        )
        assert {hit.topic_key for hit in memory.mem_search("u", "works at Acme")} >= {
            "entity/Ann",
            "entity/Acme",
        }


def test_a_dry_run_writes_nothing(engine: InMemoryEngine, graph: Any) -> None:
    report = import_mcp_memory(engine, graph(entity("Ann", "a")), dry_run=True)
    assert (report.created, engine.namespaces()) == (1, [])
    with pytest.raises(NotFound):
        import_mcp_memory(engine, "absent.jsonl")


def test_it_is_recognised(graph: Any) -> None:
    assert detect(graph('{"type":"entity","na' + json.dumps(entity("Ann")), entity("Bo"))) == "mcp-memory"
    assert detect(graph({"entityType": "x", "observations": [], "name": "Ann"})) == "mcp-memory"
    assert detect(graph(relation("a", "b", "c"))) == "mcp-memory"


@settings(max_examples=150)
@given(data=st.data())
def test_a_damaged_file_is_no_crash_and_still_comes_to_rest(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = [
        entity("Ann", "a\nb", {"x": 1}),
        relation("Ann", "knows", "Bo"),
        entity("Bo", "c", extra={"d": [1, None]}),
    ]
    raw = bytearray("\n".join(map(json.dumps, lines)).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[at] = data.draw(st.integers(0, 255))
        else:
            del raw[at : at + data.draw(st.integers(1, 9))]
    path = tmp_path_factory.mktemp("graph") / "memory.jsonl"
    path.write_bytes(bytes(raw))
    engine = InMemoryEngine()
    first = import_mcp_memory(engine, path)
    again = import_mcp_memory(engine, path)
    assert again.changed is False
    assert again.deduped == first.created


TAGS = st.lists(
    st.sampled_from(["<private>", "</private>", "< private>", "</ private >", "<private", "< private and", ">", "\n",
                     "one", "two", " "]),
    max_size=6,
).map("".join)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(TAGS, max_size=4), st.dictionaries(TAGS, TAGS, max_size=3), TAGS)
def test_private_tags_in_any_place_come_to_rest_at_once(
    tmp_path_factory: pytest.TempPathFactory, told: list[str], more: dict[str, str], target: str
) -> None:
    path = tmp_path_factory.mktemp("graph") / "memory.jsonl"
    lines = [entity("B", *told, **more), relation("B", "knows", f"C{target}", **more)]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    engine = InMemoryEngine()
    first = import_mcp_memory(engine, path)
    before = observation(engine, "B")
    again = import_mcp_memory(engine, path)
    assert not again.changed
    assert [item.where for item in again.skipped] == [item.where for item in first.skipped]
    assert observation(engine, "B") == before


def test_names_of_fields_that_are_private_come_to_rest_and_none_is_lost(
    engine: InMemoryEngine, graph: Any
) -> None:
    fields = {
        "<private>k</private>": 1,
        "<private>l</private>": 2,
        "deep": {"<private>m</private>": ["<private>n"]},
    }
    path = graph(entity("B", "b", **fields))
    report = import_mcp_memory(engine, path)
    assert (report.skipped, report.redacted) == ([], 4)
    told = observation(engine, "B").metadata
    assert told == {
        "entityType": "person", "[REDACTED]": 1, "[REDACTED] (2)": 2, "deep": {"[REDACTED]": ["[REDACTED]"]},
    }  # fmt: skip
    again = import_mcp_memory(engine, path)
    assert (again.skipped, again.changed) == ([], False)


def test_halves_of_a_tag_in_two_observations_hide_what_is_between_them(
    engine: InMemoryEngine, graph: Any
) -> None:
    path = graph(entity("B", "a < private>SECRET", "SECRET</private> b", "public < private in prose"))
    import_mcp_memory(engine, path)
    told = "a [REDACTED]\n[REDACTED] b\npublic < private in prose"
    assert observation(engine, "B").content == told
    assert not import_mcp_memory(engine, path).changed
    assert observation(engine, "B").content == told


@pytest.mark.parametrize("own", ["text", ["a"], [{"from": "x"}], {"a": 1}, 7, []])
def test_a_field_of_an_entitys_own_called_relations_stays_beside_those_of_the_graph(
    engine: InMemoryEngine, graph: Any, own: Any
) -> None:
    path = graph(entity("Ann", "tea", relations=own), entity("Acme"), relation("Ann", "works at", "Acme"))
    import_mcp_memory(engine, path)
    before = observation(engine, "Ann")
    assert before.metadata["relations (its own)"] == own
    assert [form["to"] for form in before.metadata["relations"]] == ["Acme"]
    for _ in range(2):
        assert not import_mcp_memory(engine, path).changed
    assert observation(engine, "Ann") == before
