"""Records as files on Cognee: which one counts, what survives others' hands, and how races end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import md5
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.contract.intents import Query, Selector
from keyfold.dialects.base import Shelf
from keyfold.dialects.cognee_rows import dataset_name, excerpt, file_of, is_digest_name, shelf_of
from keyfold.errors import StoreError
from keyfold.faces.planned import PlannedEngine
from tests.doubles.cognee import CogneeDouble
from tests.remote.common import COGNEE, COGNEE_UNPAGED, KEY, NAMES, contents, intent, payload, put_cognee, ref

Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]

LONG = "a text that does not ride along " * 100


@pytest.fixture
def double(running: Running) -> CogneeDouble:
    found: CogneeDouble = running(COGNEE.double())
    return found


def rows(double: CogneeDouble, namespace: str = "ana") -> list[Any]:
    return list(double.dataset(dataset_name(Shelf(namespace))).rows.values())


def read(engine: PlannedEngine, key: str = "k", namespace: str = "ana") -> tuple[str, int] | None:
    record = engine.get(ref(namespace, key))
    return (record.content, record.revision_count) if record else None


@given(st.text(min_size=1, max_size=60), st.booleans())
def test_a_datasets_name_gives_the_namespace_back(namespace: str, sessions: bool) -> None:
    shelf = Shelf(namespace.encode("utf-8", "replace").decode(), sessions)
    name = dataset_name(shelf)
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
    assert shelf_of(name) == shelf if len(name) <= 200 and not is_digest_name(name) else is_digest_name(name)


@pytest.mark.parametrize(
    "name", ["kf-", "kf-_4", "kf-_zz", "kf-_41", "kf-_ff", "kf-a.b", "notes", "kf-_C3_A9"]
)
def test_a_name_that_we_would_not_have_written_is_none_of_ours(name: str) -> None:
    assert shelf_of(name) is None


def test_every_name_is_a_record_and_a_namespace_of_its_own(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    for one in NAMES:
        engine.store(intent("all", one, f"of {one}"))
        engine.store(intent(one, "k", f"in {one}"))
    for one in NAMES:
        assert read(engine, one, "all") == (f"of {one}", 1)
        assert read(engine, "k", one) == (f"in {one}", 1)
    assert engine.namespaces() == sorted([*NAMES, "all"])
    assert len(engine.page(Query("all", limit=50)).items) == len(NAMES)
    engine.forget(Selector("case", ref("case", "k")))
    assert (read(engine, "k", "case"), read(engine, "k", "Case")) == (None, ("in Case", 1))


def test_a_file_says_digest_revision_and_sum_and_its_row_what_it_holds(
    double: CogneeDouble, opened: Opened
) -> None:
    opened(COGNEE, double).store(intent("team/a b", "k", "text"))
    [row] = rows(double, "team/a b")
    known = payload("team/a b", "k", "text")
    assert row.name.startswith(f"kf.{known.digest}.1.")
    assert row.label == f"kf {known.digest[:12]} r1"
    assert row.metadata["kf_text"] == "text"
    assert json.loads(row.metadata["kf"])["key"] == "k"
    assert json.loads(row.text) == {"content": "text", "kf": row.metadata["kf"]}
    assert row.md5.startswith(row.name.rsplit(".", 1)[1])
    assert [dataset.name for dataset in double.store.datasets.values()] == ["kf-team_2fa_20b"]


@pytest.mark.parametrize("service", [COGNEE, COGNEE_UNPAGED], ids=lambda service: service.name)
@pytest.mark.parametrize("content", ["short", LONG, "a\r\nb\rc\u2028d\ufeff", ""])
def test_a_row_without_label_and_metadata_is_read_from_its_file(
    running: Running, opened: Opened, service: Any, content: str
) -> None:
    double = running(service.double())
    file = file_of(payload("ana", "k", content))
    double.put(dataset_name(Shelf("ana")), file.part.name, file.part.content)
    engine = opened(service, double)
    assert read(engine) == (content, 1)
    assert contents(engine.page(Query("ana")).items) == [content]
    assert engine.store(intent("ana", "k", "other")).outcome == "updated"
    assert (read(engine), len(rows(double))) == (("other", 2), 1)


def test_contents_that_do_not_ride_along_are_read_a_file_each_and_only_those_of_the_page(
    double: CogneeDouble, opened: Opened
) -> None:
    for number in range(20):
        put_cognee(double, payload("ana", f"key/{number:02}", f"{number} {LONG}"))
    engine = opened(COGNEE, double)
    double.reset_counts()
    page = engine.page(Query("ana", order="key", limit=3))
    assert [record.content.split(" ")[0] for record in page.items] == ["0", "1", "2"]
    assert (double.count, page.total) == (3 + 3, 20)  # datasets, whose they are, the listing
    double.reset_counts()
    assert len(engine.page(Query("ana", texts=False, limit=20)).items) == 20
    assert double.count == 1
    double.reset_counts()
    assert read(engine, "key/07") == (f"7 {LONG}", 1)
    assert double.count == 2
    double.reset_counts()
    assert engine.store(intent("ana", "key/07", f"7 {LONG}")).outcome == "deduped"
    assert double.count == 1  # its hash tells


def test_of_several_rows_the_one_added_last_counts_and_the_next_write_leaves_one(
    double: CogneeDouble, opened: Opened
) -> None:
    for revision in (1, 2, 2):
        put_cognee(double, payload("ana", "k", f"text {revision} {len(rows(double))}", revision=revision))
    engine = opened(COGNEE, double)
    assert read(engine) == ("text 2 2", 2)
    assert contents(engine.page(Query("ana")).items) == ["text 2 2"]
    engine.store(intent("ana", "k", "new"))
    assert (read(engine), len(rows(double))) == (("new", 3), 1)


def test_a_revision_that_came_late_is_not_lost_behind_a_higher_one(
    double: CogneeDouble, opened: Opened
) -> None:
    # A writer read revision 1, was slow, and others had made 2 and 3 before its own 2 was added and acknowledged.
    put_cognee(double, payload("ana", "k", "three", revision=3))
    put_cognee(double, payload("ana", "k", "late", revision=2))
    engine = opened(COGNEE, double)
    assert read(engine) == ("late", 4)
    receipt = engine.store(intent("ana", "k", "next"))
    assert (receipt.revision_count, read(engine), len(rows(double))) == (5, ("next", 5), 1)


def test_two_engines_that_write_in_turn_end_with_one_row_and_the_last_content(
    double: CogneeDouble, opened: Opened
) -> None:
    engines = [opened(COGNEE, double) for _ in range(2)]
    for number in range(10):
        receipt = engines[number % 2].store(intent("ana", "k", f"text {number}"))
        assert receipt.revision_count == number + 1
    assert [read(engine) for engine in engines] == [("text 9", 10)] * 2
    assert len(rows(double)) == 1


def test_a_slow_writer_whose_state_was_passed_meanwhile_is_not_lost(
    double: CogneeDouble, opened: Opened
) -> None:
    slow, quick = opened(COGNEE, double), opened(COGNEE, double)
    quick.store(intent("ana", "k", "one"))

    def pass_by() -> None:
        quick.store(intent("ana", "k", "two"))
        quick.store(intent("ana", "k", "three"))

    double.faults.add("call_before", method="POST", path="/add", run=pass_by)
    slow.store(intent("ana", "k", "slow"))  # acknowledged last
    assert read(quick) == ("slow", 4)
    quick.store(intent("ana", "k", "four"))
    assert (read(slow), len(rows(double))) == (("four", 5), 1)


def test_first_writes_at_once_leave_two_rows_that_the_next_write_makes_one(
    double: CogneeDouble, opened: Opened
) -> None:
    one, other = opened(COGNEE, double), opened(COGNEE, double)
    double.faults.add(
        "call_before", method="POST", path="/add", run=lambda: other.store(intent("ana", "k", "other"))
    )
    assert one.store(intent("ana", "k", "one")).outcome == "created"
    assert (read(one), len(rows(double))) == (("one", 1), 2)
    one.store(intent("ana", "k", "healed"))
    assert (read(other), len(rows(double))) == (("healed", 2), 1)


def test_a_record_deleted_behind_our_back_is_absent_and_can_be_saved_anew(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    assert read(engine)
    double.dataset("kf-ana").rows.clear()
    assert read(engine) is None
    assert engine.forget(Selector("ana", ref("ana", "k"))).deleted == 0
    assert engine.store(intent("ana", "k", "text")).outcome == "created"
    double.store.datasets.clear()
    assert read(engine) is None
    assert engine.namespaces() == []
    assert engine.store(intent("ana", "k", "text")).outcome == "created"
    assert read(engine) == ("text", 1)


def test_a_record_rewritten_between_listing_and_file_is_read_as_it_is_now(
    double: CogneeDouble, opened: Opened
) -> None:
    engine, other = opened(COGNEE, double), opened(COGNEE, double)
    engine.store(intent("ana", "k", LONG))
    for see in (lambda: engine.get(ref("ana", "k")), lambda: engine.page(Query("ana")).items[0]):
        text = f"{len(double.seen)} {LONG}"
        double.faults.add(
            "call_before",
            path="/raw",
            run=lambda: other.store(intent("ana", "k", text)),  # noqa: B023  # called at once
        )
        record = see()
        assert record is not None
        assert record.content == text


def test_forgetting_takes_older_rows_behind_the_first_page_too(double: CogneeDouble, opened: Opened) -> None:
    put_cognee(double, payload("ana", "k", "left over"))
    for number in range(1500):
        put_cognee(double, payload("ana", f"key/{number}", "other"))
    put_cognee(double, payload("ana", "k", "present", revision=2))
    engine = opened(COGNEE, double)
    assert read(engine) == ("present", 2)
    forgotten = engine.forget(Selector("ana", ref("ana", "k")))
    assert forgotten.deleted == 1
    assert "vector store" in str(forgotten.erased)
    assert (read(engine), len(rows(double))) == (None, 1500)


def test_a_file_that_somebody_updated_in_place_is_read_as_it_is_or_left_out(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    [row] = rows(double)
    # As an incremental PATCH leaves it: other bytes, the old name and metadata.
    edited = file_of(payload("ana", "k", "edited")).part.content
    row.text, row.md5, row.size = edited.decode(), md5(edited).hexdigest(), len(edited)
    assert read(engine) == ("edited", 1)
    row.text, row.md5 = "no longer ours", md5(b"no longer ours").hexdigest()
    assert read(engine) is None
    assert engine.page(Query("ana")).items == ()


def test_a_file_under_a_name_of_ours_with_another_record_in_it_is_never_taken_for_it(
    double: CogneeDouble, opened: Opened
) -> None:
    mine, other = file_of(payload("ana", "k", "mine")), file_of(payload("ana", "other", "other's"))
    double.put("kf-ana", mine.part.name, other.part.content, metadata=other.metadata)
    foreign = payload("bob", "k", "bob's")
    double.put("kf-ana", file_of(foreign).part.name, file_of(foreign).part.content)
    double.seed("kf-ana", 3)
    engine = opened(COGNEE, double)
    assert read(engine) is None
    with pytest.raises(StoreError, match="1 memory of other users"):
        engine.page(Query("ana"))
    with pytest.raises(StoreError, match="1 memory of other users"):
        engine.forget(Selector("ana", everything=True))
    assert engine.store(intent("ana", "k", "new")).outcome == "created"
    assert [record.content for record in engine.page(Query("ana")).items] == ["new"]
    assert (read(engine), len(rows(double))) == (("new", 1), 6)


def test_names_too_long_are_digests_and_their_rows_say_whose_they_are(
    double: CogneeDouble, opened: Opened
) -> None:
    names = ["a" * 300, "ü" * 200, "b" * 512]
    engine = opened(COGNEE, double)
    for name in names:
        engine.store(intent(name, "k", LONG))
    put_cognee(double, payload("c" * 400, "k", "bare", metadata={"long": "m" * 20_000}))
    assert all(is_digest_name(dataset.name) for dataset in double.store.datasets.values())
    assert opened(COGNEE, double).namespaces() == sorted([*names, "c" * 400])
    records = opened(COGNEE, double).everything()
    assert sorted(past.record.namespace for past in records if past.record) == sorted([*names, "c" * 400])


def test_a_taken_file_name_is_told_by_a_409_and_another_one_is_used(
    double: CogneeDouble, opened: Opened
) -> None:
    double.conflict_on_json = True
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "one"))

    def take() -> None:  # somebody updates the row under the very name that the next one will have
        upload = double.recent[-1].body
        start = upload.index(b'filename="') + len(b'filename="')
        double.put("kf-ana", upload[start : upload.index(b'"', start)].decode(), b"taken")

    double.faults.add("call_before", method="POST", path="/add", run=take)
    assert engine.store(intent("ana", "k", "two")).outcome == "updated"
    assert read(engine) == ("two", 2)


def test_an_excerpt_has_no_json_around_it() -> None:
    body = file_of(payload("ana", "k", 'say "hi"\nand go')).part.content.decode()
    assert excerpt(body) == 'say "hi"\nand go'
    assert excerpt(body[:24]) == 'say "hi"\n'
    assert excerpt(body[:23]) == 'say \\"hi\\"\\'
    assert excerpt(body[13:40].split('","kf')[0]) == 'ay "hi"\nand go'


def test_what_is_held_says_nothing_of_the_key(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    engine.store(replace(intent("ana", "k", "text"), title="Title"))
    assert KEY not in repr(engine) + repr(engine.plans) + repr(engine.transport)
    assert all(seen.headers["x-api-key"] == KEY for seen in double.seen)
