"""What is sent to Cognee and what its answers mean: access, other people's datasets, searching, faults."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.errors import (
    Conflict,
    KeyfoldError,
    OutcomeUnknown,
    Unauthorized,
    Unavailable,
)
from keyfold.faces.planned import PlannedEngine
from tests.doubles.cognee import CogneeDouble
from tests.remote.common import COGNEE, KEY, intent, payload, put_cognee, ref

Running = Callable[[Any], Any]
Opened = Callable[..., PlannedEngine]

LONG = "a text that does not ride along " * 100


@pytest.fixture
def double(running: Running) -> CogneeDouble:
    found: CogneeDouble = running(COGNEE.double())
    return found


def held(double: CogneeDouble, dataset: str = "kf-ana") -> int:
    return len(double.dataset(dataset).rows)


def sent(double: CogneeDouble) -> list[tuple[str, str]]:
    """Method and path of the recent requests, ids left out."""
    return [(seen.method, re.sub(r"[0-9a-f-]{36}", "ID", seen.path)) for seen in double.recent]


def found(engine: PlannedEngine, text: str, namespace: str = "ana") -> list[str]:
    return [hit.record.key for hit in engine.search(SearchQuery(namespace, text)).items]


def test_a_rewrite_adds_the_new_file_and_then_deletes_the_old_one(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "one"))
    assert sent(double) == [("GET", "/api/v1/datasets"), ("POST", "/api/v1/add")]
    form = double.recent[-1].body.decode()
    assert 'name="datasetName"\r\n\r\nkf-ana\r\n' in form
    assert 'Content-Type: application/json\r\n\r\n{"content":"one","kf":"{' in form
    double.reset_counts()
    engine.store(intent("ana", "k", "two"))
    listing, row = "/api/v1/datasets/ID/data", "/api/v1/datasets/ID/data/ID"
    assert sent(double) == [("GET", listing), ("POST", "/api/v1/add"), ("DELETE", row)]
    assert double.recent[0].query == "limit=1000"


def test_a_dataset_that_another_process_is_making_takes_the_save_a_moment_later(
    double: CogneeDouble, opened: Opened
) -> None:
    body = {"detail": "Request owner does not have necessary permission: [write] [PermissionDeniedError]"}
    double.faults.add("status", path="/add", code=403, body=body, times=2)
    assert opened(COGNEE, double).store(intent("ana", "k", "text")).outcome == "created"
    double.faults.add("status", path="/add", code=403, body=body, times=3)
    with pytest.raises(Unauthorized):
        opened(COGNEE, double).store(intent("ana", "k", "another"))


def test_a_hundred_files_go_in_one_request(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    engine.store_many([intent("ana", f"key/{number}", f"text {number}") for number in range(250)])
    adds = [seen for seen in double.recent if seen.method == "POST"]
    assert [seen.body.count(b"filename=") for seen in adds] == [100, 100, 50]
    assert held(double) == 250
    double.reset_counts()
    engine.store_many([intent("ana", f"big/{number}", "x" * 1_000_000) for number in range(20)])
    assert len([seen for seen in double.recent if seen.method == "POST"]) == 2  # by size, too


def test_reading_what_is_not_there_makes_no_dataset(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    assert engine.get(ref("ana", "k")) is None
    assert engine.page(Query("ana")).items == ()
    assert engine.count("ana").total == 0
    assert found(engine, "text") == []
    assert engine.forget(Selector("ana", everything=True)).deleted == 0
    assert {seen.method for seen in double.seen} == {"GET"}
    assert not double.store.datasets


def test_a_wrong_key_is_told_by_every_call(double: CogneeDouble, opened: Opened) -> None:
    opened(COGNEE, double).store(intent("ana", "k", "text"))
    engine = opened(COGNEE, double, credential=lambda: "another-key")
    for call in (
        lambda: engine.get(ref("ana", "k")),
        lambda: engine.store(intent("ana", "k", "text")),
        lambda: engine.namespaces(),
        lambda: engine.health(),
        lambda: engine.search(SearchQuery("ana", "text")),
    ):
        with pytest.raises(Unauthorized, match="KEYFOLD_API_KEY") as caught:
            call()
        assert "another-key" not in str(caught.value)


def test_a_key_that_is_taken_back_is_told_by_an_engine_that_knows_the_dataset(
    double: CogneeDouble, opened: Opened
) -> None:
    given = [KEY]
    engine = opened(COGNEE, double, credential=lambda: given[0])
    engine.store(intent("ana", "k", "text"))
    given[0] = "taken-back"
    for call in (lambda: engine.get(ref("ana", "k")), lambda: engine.store(intent("ana", "k", "new"))):
        with pytest.raises(Unauthorized):
            call()
    given[0] = KEY
    assert engine.get(ref("ana", "k")) is not None


def test_two_users_of_one_server_do_not_see_each_other(double: CogneeDouble, opened: Opened) -> None:
    double.user("bob@example.com", "bobs-key")
    ana, bob = opened(COGNEE, double), opened(COGNEE, double, credential=lambda: "bobs-key")
    ana.store(intent("team", "k", "ana's"))
    bob.store(intent("team", "k", "bob's"))
    assert [engine.get(ref("team", "k")).content for engine in (ana, bob)] == ["ana's", "bob's"]  # type: ignore[union-attr]


def test_a_dataset_that_somebody_shared_is_not_taken_for_ones_own(
    double: CogneeDouble, opened: Opened
) -> None:
    bob = double.user("bob@example.com", "bobs-key")
    engine = opened(COGNEE, double, credential=lambda: "bobs-key")
    engine.store(intent("notes", "k", "bob's"))
    put_cognee(double, payload("team", "k", "smuggled in"))
    double.dataset("kf-team").shared_with.add(bob.id)
    for reader in (engine, opened(COGNEE, double, credential=lambda: "bobs-key")):
        assert reader.get(ref("team", "k")) is None
        assert reader.namespaces() == ["notes"]
    engine.store(intent("team", "k", "bob's own"))
    fresh = opened(COGNEE, double, credential=lambda: "bobs-key")
    assert fresh.page(Query("team")).items[0].content == "bob's own"
    assert held(double, "kf-team") == 1  # ana's, untouched


def test_one_who_has_no_dataset_yet_does_not_see_what_others_share(
    double: CogneeDouble, opened: Opened
) -> None:
    bob = double.user("bob@example.com", "bobs-key")
    put_cognee(double, payload("team", "k", "ana's"))
    double.dataset("kf-team").shared_with.add(bob.id)
    reader = opened(COGNEE, double, credential=lambda: "bobs-key")
    assert reader.get(ref("team", "k")) is None
    for call in (
        lambda engine: engine.page(Query("team")).items,
        lambda engine: engine.namespaces(),
        lambda engine: engine.search(SearchQuery("team", "ana")).items,
    ):
        assert not call(opened(COGNEE, double, credential=lambda: "bobs-key"))
    reader.store(intent("team", "k", "bob's"))
    assert reader.get(ref("team", "k")).content == "bob's"  # type: ignore[union-attr]
    assert opened(COGNEE, double).get(ref("team", "k")).content == "ana's"  # type: ignore[union-attr]


def test_who_one_is_is_asked_once_and_not_where_a_write_told_it(double: CogneeDouble, opened: Opened) -> None:
    def asked() -> int:
        return sum((each.method, each.path) == ("POST", "/api/v1/datasets") for each in double.seen)

    writer = opened(COGNEE, double)
    writer.store(intent("ana", "k", "text"))
    writer.store(intent("other", "k", "text"))
    assert writer.namespaces() == ["ana", "other"]
    assert asked() == 0
    reader = opened(COGNEE, double)
    assert reader.get(ref("nowhere", "k")) is None
    assert asked() == 0
    assert reader.get(ref("ana", "k")) is not None
    assert reader.namespaces() == ["ana", "other"]
    assert asked() == 1


def test_a_remembered_dataset_that_is_gone_is_looked_up_again(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    record = engine.get(ref("ana", "k"))
    assert record is not None
    double.faults.add("call_before", method="DELETE", run=double.store.datasets.clear)
    assert engine.forget(Selector("ana", ref("ana", "k"))).deleted == 1  # 401: with its dataset
    assert engine.get(ref("ana", "k")) is None
    engine.store(intent("ana", "k", LONG))
    double.faults.add("call_before", path="/raw", run=double.store.datasets.clear)
    assert engine.get(ref("ana", "k")) is None


def test_a_dataset_that_may_be_read_and_not_deleted_from_is_said_to_be(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    body = {"detail": "Dataset x not accessible. [UnauthorizedDataAccessError]"}
    double.faults.add("status", method="DELETE", code=401, body=body)
    with pytest.raises(Unauthorized, match="namespace 'ana'"):
        engine.forget(Selector("ana", ref("ana", "k")))
    assert held(double) == 1


# Searching.


def test_what_was_not_cognified_is_found_by_its_words_and_then_by_the_server(
    double: CogneeDouble, opened: Opened
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "pets/cat", "The cat sat on the mat."))
    engine.store(intent("ana", "pets/dog", f"The dog barked. {LONG}"))
    assert found(engine, "cats") == ["pets/cat"]
    assert found(engine, "pets dog") == ["pets/dog", "pets/cat"]  # by their keys
    assert found(engine, "barked") == []  # in a text that does not ride along
    double.store.cognify(double.dataset("kf-ana"))
    engine.store(intent("ana", "pets/cow", "The cow mooed."))
    assert found(engine, "barked")[0] == "pets/dog"
    assert set(found(engine, "the")) == {"pets/cat", "pets/dog", "pets/cow"}
    hits = engine.search(SearchQuery("ana", "barked")).items
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert "kf" not in hits[0].record.content
    assert hits[0].record.content.startswith("The dog barked.")


@pytest.mark.parametrize("version", ["1.5.2", "1.6.5"])
def test_chunks_of_others_in_a_shared_store_are_never_hits(
    running: Running, opened: Opened, version: str
) -> None:
    double = running(CogneeDouble(version, key=KEY))
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "a cat of ana's"))
    engine.store(intent("bob", "k", "a cat of bob's"))
    engine.store(intent("bob", "l", "nothing of the kind"))
    for dataset in double.store.datasets.values():
        double.store.cognify(dataset)
    hits = engine.search(SearchQuery("ana", "cat")).items
    assert [hit.record.content for hit in hits] == ["a cat of ana's"]
    assert found(engine, "cat", "nobody") == []


def test_a_server_without_a_model_still_finds_by_words(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "a cat"))
    body = {"detail": "Failed to index: no embeddings [EmbeddingException]"}
    double.faults.add("status", path="/recall", code=422, body=body)
    assert found(engine, "cat") == ["k"]
    double.faults.add("status", path="/recall", code=500, body={"error": "x"}, times=math.inf)
    with pytest.raises(Unavailable):
        found(engine, "cat")


# Faults.


@pytest.mark.parametrize(
    "kind", ["apply_then_status", "apply_then_drop", "apply_then_stall", "status", "drop"]
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_write_whose_answer_is_lost_is_sent_again_and_is_one_row(
    double: CogneeDouble, opened: Opened, kind: str, method: str
) -> None:
    engine = opened(COGNEE, double, timeout=0.3)
    engine.store(intent("ana", "k", "one"))
    fault = double.faults.add(kind, method=method)
    receipt = engine.store(intent("ana", "k", "two"))
    assert (receipt.outcome, receipt.revision_count) == ("updated", 2)
    assert (fault.struck, held(double)) == (1, 1)
    record = engine.get(ref("ana", "k"))
    assert record is not None
    assert record.content == "two"


@pytest.mark.parametrize("kind", ["apply_then_status", "apply_then_drop"])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_write_that_never_gets_an_answer_is_unknown_and_the_callers_retry_finds_it(
    double: CogneeDouble, opened: Opened, kind: str, method: str
) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "one"))
    double.faults.add(kind, method=method, times=3)
    with pytest.raises(OutcomeUnknown, match="make the same call again"):
        engine.store(intent("ana", "k", "two"))
    receipt = engine.store(intent("ana", "k", "two"))
    assert (receipt.outcome, receipt.revision_count, receipt.replayed) == ("deduped", 2, True)
    assert [record.content for record in engine.page(Query("ana")).items] == ["two"]
    engine.store(intent("ana", "k", "three"))
    assert held(double) == 1


def test_a_batch_whose_answer_is_lost_is_stored_once(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    double.faults.add("apply_then_status", path="/add")
    engine.store_many([intent("ana", f"key/{number}", f"text {number}") for number in range(120)])
    assert held(double) == 120


def test_a_rate_limit_is_waited_for_and_one_that_stays_is_told(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    double.faults.add("rate_limit", method="POST", after=0)
    double.faults.add("rate_limit", method="GET", after=0)
    engine.store(intent("ana", "k", "text"))
    assert held(double) == 1
    double.faults.add("rate_limit", after=30, times=math.inf)
    for call in (lambda: engine.get(ref("ana", "k")), lambda: engine.store(intent("ana", "k", "new"))):
        with pytest.raises(Unavailable, match=r"429.*30 s"):
            call()


@pytest.mark.parametrize("kind", ["truncate", "content_type", "huge", "drop"])
@pytest.mark.parametrize("path", ["/api/v1/datasets", "/data", "/raw", "/add", "/recall"])
def test_whatever_comes_instead_of_an_answer_is_a_truthful_error(
    double: CogneeDouble, opened: Opened, kind: str, path: str
) -> None:
    if kind == "huge" and path != "/data":
        return  # one reading of 64 MiB is enough
    opened(COGNEE, double).store(intent("ana", "k", LONG))
    double.store.cognify(double.dataset("kf-ana"))
    engine = opened(COGNEE, double)
    calls: dict[str, Callable[[], object]] = {
        "/add": lambda: engine.store(intent("ana", "k", "new")),
        "/recall": lambda: engine.search(SearchQuery("ana", "text")),
    }
    double.faults.add(kind, path=path, times=3)
    with pytest.raises(KeyfoldError) as caught:
        calls.get(path, lambda: engine.get(ref("ana", "k")))()
    assert not isinstance(caught.value, (Conflict, Unauthorized))
    assert KEY not in str(caught.value)
    double.faults.clear()
    record = opened(COGNEE, double).get(ref("ana", "k"))
    assert record is not None
    assert record.content in (LONG, "new")


def test_nothing_of_a_rows_metadata_but_our_own_is_believed(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    engine.store(intent("ana", "k", "text"))
    [row] = double.dataset("kf-ana").rows.values()
    said = json.loads(row.metadata["kf"])
    for metadata in ({}, {"kf": 1}, {"kf": "{"}, {"kf": json.dumps(said | {"ns": "bob"})}, {"kf": {"v": 1}}):
        row.metadata = metadata
        record = engine.get(ref("ana", "k"))
        assert record is not None
        assert (record.namespace, record.content) == ("ana", "text")
    row.metadata = {"kf": json.dumps(said), "kf_text": "another text"}
    assert engine.page(Query("ana")).items[0].content == "text"


def test_a_read_below_a_namespace_looks_at_no_others(double: CogneeDouble, opened: Opened) -> None:
    engine = opened(COGNEE, double)
    for name in ("team", "team/ana", "other/1", "other/2", "other/3", "team/" + "a" * 300):
        engine.store(intent(name, "k", f"of {name}"))
    double.reset_counts()
    assert engine.namespaces("team") == ["team", "team/" + "a" * 300, "team/ana"]
    assert double.count == 1 + 3
    assert len(engine.page(Query("team", reach="subtree")).items) == 3
