"""The Cognee double's rows as they are named, read, listed and deleted, over its socket."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.doubles.cognee import CogneeDouble
from tests.doubles.cognee_client import NOBODY, Make, makers


@pytest.fixture
def make(running: Callable[[CogneeDouble], CogneeDouble]) -> Iterator[Make]:
    with makers(running) as make:
        yield make


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("a.b.c.json", "a.b.c"),
        ("noext", "noext"),
        (".hidden.json", ".hidden"),
        ("trail..json", "trail."),
        ("dot.", "dot."),
        ("a/b/c.json", "c"),
        ("..\\x\\y.json", "y"),
        ("C:foo.json", "foo"),
        ("%20%2F +#?;.json", "%20%2F +#?;"),
        ("é-e\u0301-🙂.json", "é-e\u0301-🙂"),
        ("k1.tinymemory.json", "k1.tinymemory"),
        ('q".json', "q%22"),
    ],
)
def test_a_row_is_named_after_its_file_minus_the_last_extension(make: Make, sent: str, name: str) -> None:
    _, caller = make()
    caller.added((sent, b"1"))
    assert [row["name"] for row in caller.rows()] == [name]


def test_raw_text_has_newlines_alone_and_is_else_untouched(make: Make) -> None:
    _, caller = make()
    content = "\ufeffa\r\nb\rc\nd\u2028e\0f\r\n\r\n".encode()
    (data_id,) = caller.added(("k.json", content))
    answer = caller.http.get(f"{caller.data}/{data_id}/raw")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.content == "\ufeffa\nb\nc\nd\u2028e\0f\n\n".encode()
    absent = caller.http.get(f"{caller.data}/{NOBODY}/raw")
    message = f"Data ({NOBODY}) not found in dataset ({caller.dataset}). [DataNotFoundError]"
    assert (absent.status_code, absent.json()) == (404, {"detail": message})


def test_a_page_has_100_rows_unless_up_to_1000_are_asked_for(make: Make) -> None:
    double, caller = make()
    double.seed("notes", 250)
    assert len(caller.rows()) == 100
    assert len(caller.rows(limit=1000)) == 250
    assert len(caller.rows(limit=100, offset=200)) == 50
    assert len(caller.rows(name="foreign-3", q="x")) == 100
    assert caller.http.get(f"{caller.data}/count").json() == {"count": 250}
    for query, kind in [
        ({"limit": 0}, "greater_than_equal"),
        ({"limit": 1001}, "less_than_equal"),
        ({"limit": "x"}, "int_parsing"),
        ({"offset": 1_000_001}, "less_than_equal"),
    ]:
        answer = caller.http.get(caller.data, params=query)
        assert (answer.status_code, answer.json()["detail"][0]["type"]) == (400, kind)


def test_the_newest_row_comes_first_and_rows_of_one_moment_by_their_ids(make: Make) -> None:
    double, caller = make()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for minute in (1, 2, 0):
        double.clock = lambda at=minute: start + timedelta(minutes=at)
        caller.added((f"m{minute}-a.json", b"a%d" % minute), (f"m{minute}-b.json", b"b%d" % minute))
    rows = caller.rows()
    assert [row["name"][:2] for row in rows] == ["m2", "m2", "m1", "m1", "m0", "m0"]
    assert all(rows[at]["id"] < rows[at + 1]["id"] for at in (0, 2, 4))
    assert rows[-1]["createdAt"] == "2026-01-01T00:00:00"


def test_up_to_1_6_0_the_listing_is_whole_and_by_size_alone(make: Make) -> None:
    double, caller = make("1.6.0")
    double.seed("notes", 250)
    caller.added(("big.json", b"x" * 100))
    rows = caller.rows(limit=2, offset=3)
    assert len(rows) == 251
    assert rows[0]["name"] == "big"
    assert [row["id"] for row in rows] != [row["id"] for row in caller.rows()]
    assert caller.http.get(f"{caller.data}/count").status_code == 405  # as DELETE has that path


@pytest.mark.parametrize(("what", "missed", "twice"), [("add", 0, 1), ("delete", 1, 0)])
def test_offsets_shift_when_rows_come_and_go_between_two_pages(
    make: Make, what: str, missed: int, twice: int
) -> None:
    double, caller = make()
    kept = {row.id for row in double.seed("notes", 20)}
    double.page_shift(what)
    pages = [row["id"] for offset in (0, 10, 20) for row in caller.rows(limit=10, offset=offset)]
    assert len(kept - set(pages)) == missed
    assert len(pages) - len(set(pages)) == twice


def test_rows_are_put_past_every_check(make: Make) -> None:
    double, caller = make()
    for _ in range(2):
        double.put("notes", "k.json", b"same", label="L", metadata={"a": 1})
    rows = caller.rows()
    assert [(row["name"], row["label"], row["externalMetadata"]["a"]) for row in rows] == [("k", "L", 1)] * 2
    assert rows[0]["id"] != rows[1]["id"]


def test_a_delete_proves_nothing_and_content_added_again_has_a_new_id(make: Make) -> None:
    _, caller = make()
    (old,) = caller.added(("k.json", b"1"))
    for data_id in (old, old, NOBODY):
        answer = caller.http.delete(f"{caller.data}/{data_id}")
        assert (answer.status_code, answer.json()) == (200, None)
    forgotten = caller.http.post("/forget", json={"data_id": NOBODY, "dataset_id": caller.dataset})
    assert forgotten.json() == {"data_id": NOBODY, "dataset_id": caller.dataset, "status": "success"}
    assert caller.rows() == []
    assert caller.added(("k.json", b"1")) != [old]


def test_forget_takes_a_row_its_memory_or_the_dataset(make: Make) -> None:
    _, caller = make()
    one, _two = caller.added(("1.json", b"1"), ("2.json", b"2"))
    caller.http.post("/forget", json={"dataId": one, "datasetId": caller.dataset})
    assert [row["name"] for row in caller.rows()] == ["2"]
    memory = caller.http.post("/forget", json={"dataset": "notes", "memoryOnly": True})
    assert memory.json()["data_records_reset"] == 1
    assert caller.http.post("/forget", json={}).status_code == 422
    assert caller.http.post("/forget", json={"dataId": one}).status_code == 422
    assert caller.http.post("/forget", json={"dataset": "nope"}).status_code == 404
    assert caller.http.post("/forget", json={"datasetId": NOBODY}).status_code == 403
    caller.http.post("/forget", json={"datasetId": caller.dataset})
    assert caller.http.get(caller.data).status_code == 403


def test_5000_rows_are_seeded_and_listed_in_well_under_a_second_each(make: Make) -> None:
    double, caller = make()
    started = time.perf_counter()
    double.seed("notes", 5_000)
    seeded = time.perf_counter()
    assert sum(len(caller.rows(limit=1000, offset=at)) for at in range(0, 5_000, 1_000)) == 5_000
    listed = time.perf_counter()
    assert seeded - started < 1
    assert listed - seeded < 2  # five pages; half of it is the client's reading of them
