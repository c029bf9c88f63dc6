"""What is written to CortexDB reads back as it was, whichever version; and what a body's key says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyfold.dialects.base import Shelf
from keyfold.dialects.cortexdb_chunks import CAP, TARGET, escaped, pieces
from keyfold.dialects.cortexdb_envelope import body_key, encode, item_label, piece_of
from keyfold.dialects.cortexdb_names import LONGEST, scope_of, shelf_of
from keyfold.dialects.cortexdb_rows import rows_of
from keyfold.dialects.payload import KeptCall, Payload, with_id
from keyfold.model import KINDS, TURN, Record
from tests.doubles.cortexdb_checks import experience

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NAME = TEXT.filter(lambda text: bool(text.strip()))
TIME = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))  # noqa: DTZ001  # it is made aware
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def items(draw: st.DrawFn, content: st.SearchStrategy[str] = TEXT) -> Payload:
    text, created = draw(content), draw(TIME)
    calls = st.builds(
        KeptCall,
        *(TEXT, TEXT, TEXT, TIME, st.sampled_from(["created", "updated", "deduped"])),
        *(st.integers(1, 9), TEXT, st.none() | TEXT),
    )
    record = Record(
        id="",
        namespace=draw(NAME),
        kind=draw(st.sampled_from(KINDS)),
        key=draw(NAME),
        minted=draw(st.booleans()),
        type=draw(NAME),
        title=draw(NAME),
        content=text,
        metadata=draw(st.dictionaries(TEXT, JSON, max_size=4)),
        tags=tuple(draw(st.lists(TEXT, max_size=3))),
        session_id=draw(st.none() | NAME),
        revision_count=draw(st.integers(1, 2**62)),
        normalized_hash=sha256(text.encode()).hexdigest(),
        created_at=created,
        updated_at=created + timedelta(seconds=draw(st.integers(0, 999))),
        expires_at=draw(st.none() | TIME),
        pinned=draw(st.booleans()),
        taint=draw(st.sampled_from(["internal", "external"])),
        observed_at=draw(st.none() | TIME),
    )
    return Payload(with_id(record), tuple(draw(st.lists(calls, max_size=2))))


def listed(bodies: list[dict[str, Any]], *, role: bool = False, flat: bool = False) -> list[dict[str, Any]]:
    """Bodies as a listing shows them, newest first."""
    shown = []
    for number, body in reversed(list(enumerate(bodies))):
        content, event = dict(body["content"]), {"id": f"evt_{number}"}
        if role:
            content["text"] = f"[{content['role']}] {content['text']}"
        if flat:
            shown.append({"event_id": event["id"], "content": content, **body["context"]})
        else:
            shown.append({**event, "content": content, "context": body["context"]})
    return json.loads(json.dumps(shown))  # type: ignore[no-any-return]


def read_back(bodies: list[dict[str, Any]], **how: bool) -> Payload:
    [row] = rows_of(listed(bodies, **how))
    assert row.missing == ()
    return replace(row.payload, bare=False)


@given(items(), st.sampled_from([2, 3]), st.booleans(), st.booleans())
@settings(deadline=None)
def test_any_item_reads_back_as_it_was_through_either_version(
    item: Payload, version: int, role: bool, flat: bool
) -> None:
    bodies = encode(item, "app:keyfold/user:a", version=version)
    for body in bodies:
        experience(json.loads(json.dumps(body)))  # what the service would refuse
    assert read_back(bodies, role=role, flat=flat) == item


@given(items(st.sampled_from(["word " * 60_000, '"\n' * 90_000, "\f# Page\n\n" + "é☃" * 90_000])))
@settings(max_examples=15, deadline=None)
def test_a_long_item_reads_back_as_it_was(item: Payload) -> None:
    bodies = encode(item, "app:keyfold/user:a")
    assert len(bodies) > 1
    for body in bodies:
        experience(json.loads(json.dumps(body)))
    assert read_back(bodies) == item


@given(
    st.lists(
        st.sampled_from(["a", "é", "☃", "\n", "\n\n", "\f", "# T\n", '"', "\x01", " "]), max_size=400
    ).map("".join),
    st.integers(0, 60),
)
@settings(max_examples=200, deadline=None)
def test_pieces_joined_are_the_text(text: str, overhead: int) -> None:
    cuts = pieces(text, overhead, target=overhead + 900, cap=overhead + 2_000)
    assert cuts is not None
    assert "".join(cut.text for cut in cuts) == text
    assert [cut.index for cut in cuts] == list(range(len(cuts)))
    assert {cut.count for cut in cuts} == {len(cuts)}
    if len(cuts) > 1:
        assert all(cut.text.strip() for cut in cuts[:-1]) or not text.strip()


@given(
    st.lists(st.sampled_from(["a", "é", "\n", "\n\n", "\f", "\x01" * 90]), min_size=20, max_size=60).map(
        "".join
    )
)
@settings(max_examples=10, deadline=None)
def test_each_piece_stays_within_its_budget(text: str) -> None:
    cuts = pieces(text * 150, 300)
    assert cuts is not None
    assert all(300 + escaped(cut.text) < TARGET for cut in cuts)
    assert all(escaped(cut.text) < CAP for cut in cuts)


def test_a_text_is_cut_where_pages_and_sections_begin() -> None:
    page = "word " * 20_000
    text = f"# One #\n{page}\n\n## Two\n{page}\f# Three\n{page}"
    cuts = pieces(text, 300)
    assert cuts is not None
    assert [(cut.section, cut.pages) for cut in cuts] == [("One", (1, 1)), ("Three", (2, 2))]
    assert [cut.text.startswith(start) for cut, start in zip(cuts, ("# One", "\f# Three"), strict=True)] == [
        True,
        True,
    ]


def test_what_no_cutting_can_fit_is_refused() -> None:
    assert pieces("text", CAP) is None
    assert pieces("x" * 300_000, TARGET - 800) is not None  # more room is taken before it is refused


@given(items())
@settings(max_examples=25, deadline=None)
def test_a_body_key_is_short_and_the_same_for_equal_bodies_in_any_order(item: Payload) -> None:
    for body in encode(item, "app:keyfold/user:a"):
        key = body["idempotency_key"]
        assert key.startswith("kf3:")
        assert len(key) == 60
        backwards = dict(reversed(list(body.items())))
        backwards["context"] = dict(reversed(list(body["context"].items())))
        assert body_key(backwards) == key
        changed = {**body, "context": {**body["context"], "observed_at": "2026-01-01T00:00:00+00:00"}}
        assert body_key(changed) != key


def test_a_body_key_is_the_same_in_another_process() -> None:
    body = {
        "scope": "app:a",
        "content": {"text": "é ☃", "kind": "message"},
        "context": {"labels": ["b", "a"]},
    }
    code = f"from keyfold.dialects.cortexdb_envelope import body_key; print(body_key({body!r}))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert told.stdout.strip() == body_key(body)


def test_events_of_others_and_redacted_ones_are_ignored(item: Payload) -> None:
    [event] = listed(encode(item, "app:keyfold/user:a"))
    assert piece_of(event) is not None
    foreign = [
        {**event, "content": {**event["content"], "text": ""}},
        {**event, "context": {"labels": ["tm:e:00:{}"]}},
        {**event, "context": {"labels": []}},
        {
            **event,
            "context": {
                "labels": [label.replace("tm:e:00", "tm:e:07") for label in event["context"]["labels"]]
            },
        },
        {**event, "content": "text"},
        {**event, "id": 7},
        "text",
        None,
    ]
    assert [piece_of(other) for other in foreign] == [None] * len(foreign)


def test_a_header_that_stands_for_another_record_is_ignored(item: Payload) -> None:
    [event] = listed(encode(item, "app:keyfold/user:a"))
    event["context"]["labels"] = [
        label.replace('"key":"k"', '"key":"j"') for label in event["context"]["labels"]
    ]
    assert rows_of([event]) == []


def test_the_label_to_look_up_by_comes_first_and_none_tells_a_path(item: Payload) -> None:
    document = with_id(replace(item.record, kind="document", key="/home/ana/notes/plan.md"))
    [body] = encode(Payload(document), "app:keyfold/user:a")
    labels = body["context"]["labels"]
    assert labels[0] == item_label(document.id)
    assert "file:plan.md" in labels
    readable = [label for label in labels if not label.startswith("tm:e:")]
    assert not any("/home" in label or "notes" in label for label in readable)


def test_two_calls_of_one_turn_are_one_body_whatever_the_clock(item: Payload) -> None:
    turn = replace(item.record, kind=TURN, metadata={"thread_id": "t", "index": 0, "role": "user"})
    later = replace(
        turn, created_at=turn.created_at + timedelta(days=1), updated_at=turn.updated_at + timedelta(days=1)
    )
    once, again = (encode(Payload(with_id(one), bare=True), "app:keyfold/user:a") for one in (turn, later))
    assert once == again


@pytest.fixture
def item() -> Payload:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    text = "the text"
    digest = sha256(text.encode()).hexdigest()
    return Payload(
        with_id(
            Record(
                *("", "ana", "observation", "k", False, "decision", "Title", text, {}, (), None, 1, digest),
                *(moment, moment, None, False, "internal", None),
            )
        )
    )


@given(NAME, st.booleans())
@settings(deadline=None)
def test_a_namespace_reads_back_from_its_scope(namespace: str, sessions: bool) -> None:
    shelf = Shelf(namespace, sessions)
    scope = scope_of(shelf)
    assert shelf_of(scope) == shelf
    assert shelf_of(f"org:tenant-1/{scope}") == shelf
    assert all(0 < len(part.partition(":")[2]) <= LONGEST for part in scope.split("/"))


def test_the_longest_namespace_fits_and_no_scope_lies_within_anothers() -> None:
    names = ["é" * 256, "é" * 255, "a" * 119, "a" * 120, "a" * 121, "a" * 240, "a" * 241, "A" * 120]
    scopes = [scope_of(Shelf(name, sessions)) for name in names for sessions in (False, True)]
    assert len(set(scopes)) == len(scopes)
    assert not any(one != other and other.startswith(one + "/") for one in scopes for other in scopes)
    assert max(scope.count("/") for scope in scopes) < 30


@pytest.mark.parametrize(
    "scope",
    ["app:other/user:a", "app:keyfold", "app:keyfold/ws:a", "app:keyfold/user:_zz", "app:keyfold/user:_ff"],
)
def test_scopes_of_others_name_no_namespace(scope: str) -> None:
    assert shelf_of(scope) is None
