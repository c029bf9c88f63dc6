"""How records are laid out on Supermemory: names that read back, texts in parts that join to what they were."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from keyfold.dialects.base import Shelf
from keyfold.dialects.supermemory_rows import (
    LONGEST_TAG,
    MOST_UNITS,
    assembled,
    entry_of,
    laid_out,
    pieces,
    shelf_of,
    tag_of,
    units,
)
from tests.doubles.supermemory_rules import TAG, length, metadata_of
from tests.remote.common import NAMES, payload

texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts.filter(bool), st.booleans())
def test_a_namespace_is_read_back_from_its_tag_or_the_tag_is_a_digest(name: str, sessions: bool) -> None:
    tag = tag_of(Shelf(name, sessions))
    assert TAG.fullmatch(tag)
    assert shelf_of(tag) == (None if tag.startswith("kf-h") else Shelf(name, sessions))


def test_no_two_names_have_one_tag() -> None:
    shelves = [
        Shelf(name, sessions) for name in (*NAMES, "a_2fb", "a/b", "h:x", "s:x") for sessions in (False, True)
    ]
    assert len({tag_of(shelf) for shelf in shelves}) == len(set(shelves))


def test_a_name_that_fits_is_not_hashed_and_one_that_does_not_is() -> None:
    fitting = "n" * (LONGEST_TAG - len("kf:"))
    assert shelf_of(tag_of(Shelf(fitting))) == Shelf(fitting)
    assert tag_of(Shelf(fitting + "n")).startswith("kf-h:")


def test_tags_of_others_are_none_of_ours() -> None:
    for tag in ("default", "kf", "kf:", "kf:a_2", "kf:A_2F", "kf:a_ff", "kf:a b", "tinymemory:0f", "kf-x:a"):
        assert shelf_of(tag) is None


@given(
    st.lists(st.sampled_from(["a" * 4999, "😀" * 2500, "word ", "\n", "é", "x" * 9999]), max_size=12).map(
        "".join
    )
)
@example("😀" * 10_000)
@example(" " * 30_000)
@example("a" * MOST_UNITS + "😀")
def test_pieces_join_to_the_text_and_each_fits(text: str) -> None:
    found = pieces(text)
    assert "".join(found) == text
    assert all(0 < length(piece) <= MOST_UNITS for piece in found)
    assert units(text) == length(text)


def items(content: str, *, revision: int = 1, key: str = "key") -> list[dict[str, Any]]:
    """A record as a list returns it."""
    layout = laid_out(payload("user", key, content, revision=revision))
    return [
        {
            "id": f"{key}-{revision}-{number}",
            "memory": item["content"],
            "metadata": metadata_of(item["metadata"]),
            "createdAt": f"2026-01-01T00:00:00.{number:03d}Z",
            "isLatest": True,
            "isForgotten": False,
        }
        for number, item in enumerate((*layout.parts, layout.item))
    ]


def rows(*listed: dict[str, Any]) -> tuple[list[str], int]:
    """The contents that memories make up, and how many records are damaged."""
    entries = [entry for entry in map(entry_of, listed) if entry is not None]
    whole, damaged = assembled(entries)
    return [row.record.content for row in whole], len(damaged)


LONG = "first half " * 1000 + "second half " * 1000


@given(st.permutations(items(LONG) + items("short", key="other")))
def test_the_order_of_a_list_does_not_matter(listed: list[dict[str, Any]]) -> None:
    contents, damaged = rows(*listed)
    assert sorted(contents) == [LONG, "short"]
    assert damaged == 0


def test_a_record_without_one_of_its_parts_is_damaged_and_not_shown() -> None:
    whole = items(LONG)
    assert len(whole) == 3
    for missing in whole[:-1]:
        assert rows(*[item for item in whole if item is not missing]) == ([], 1)
    assert rows(*whole[:-1]) == ([], 0)  # without a head there is no record yet


def test_a_part_with_another_text_is_damage() -> None:
    first, *rest = items(LONG)
    assert rows({**first, "memory": first["memory"][:-1]}, *rest) == ([], 1)


def test_where_one_state_is_damaged_and_another_whole_the_whole_one_counts() -> None:
    assert rows(*items(LONG)[1:], *items("short", revision=2)) == (["short"], 0)


def test_parts_of_two_contents_are_not_mixed() -> None:
    other = LONG.replace("first", "FIRST")
    first, second = items(LONG), items(other, revision=2)
    assert rows(*second, *first)[0] == [LONG, other]
    mixed = [*first[:1], *second[1:2], first[-1]]
    assert rows(*mixed) == ([], 1)


def test_what_others_keep_there_is_left_alone() -> None:
    foreign: list[Any] = [
        None,
        "text",
        {"id": "1", "memory": "theirs"},
        {"id": "2", "metadata": {"kf": "{}"}},
    ]
    [mine] = items("mine")
    newer = {**mine, "id": "3", "metadata": {**mine["metadata"], "kf": '{"v":2}'}}
    assert rows(*foreign, mine, newer) == (["mine"], 0)


def test_numbers_that_come_back_as_floats_or_texts_are_read() -> None:
    listed = items(LONG)
    for item in listed:
        item["metadata"] = {
            name: float(value) if isinstance(value, int) else value
            for name, value in item["metadata"].items()
        }
    listed[0]["metadata"]["kf_part"] = "1"
    assert rows(*listed) == ([LONG], 0)


def test_a_head_whose_header_is_of_another_record_is_not_shown() -> None:
    [mine], [other] = items("mine"), items("other", key="other")
    assert rows({**mine, "metadata": {**mine["metadata"], "kf": other["metadata"]["kf"]}}) == ([], 0)
