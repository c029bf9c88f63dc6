"""The Cognee double's updates, searches and sign-in, over its socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx2
import pytest

from tests.doubles.cognee import CogneeDouble
from tests.doubles.cognee_client import NOBODY, Make, makers


@pytest.fixture
def make(running: Callable[[CogneeDouble], CogneeDouble]) -> Iterator[Make]:
    with makers(running) as make:
        yield make


def patched(version: str, make: Make) -> tuple[str, dict[str, object]]:
    """A labelled row whose bytes were changed by PATCH: its id before, the row after."""
    _, caller = make(version)
    (old,) = caller.added(("k.json", b"one"), labels=["L"], external_metadata=[{"a": 1}])
    before = caller.rows()[0]["createdAt"]
    assert caller.patch(old, ("k2.json", b"two")).status_code == 200
    (row,) = caller.rows()
    assert caller.raw(row["id"]) == b"two"
    return old, row | {"created kept": row["createdAt"] == before}


@pytest.mark.parametrize(
    ("version", "same_id", "created_kept", "label", "keys"),
    [
        ("1.4.2", False, False, None, None),
        ("1.5.2", True, False, None, {"node_set"}),
        ("1.6.0", True, True, "L", {"_cognee"}),
        ("1.6.5", True, True, "L", {"_cognee"}),
    ],
)
def test_a_patch_loses_more_or_less_of_the_row(
    make: Make, version: str, same_id: bool, created_kept: bool, label: str | None, keys: set[str] | None
) -> None:
    old, row = patched(version, make)
    metadata = row.get("externalMetadata")
    assert ((row["id"] == old), row["created kept"], row.get("label")) == (same_id, created_kept, label)
    assert (set(metadata) if isinstance(metadata, dict) else None) == keys
    assert row["name"] == "k2"


def test_a_patch_answers_runs_up_to_1_5_and_a_result_from_1_6(make: Make) -> None:
    for version, keys in [("1.5.2", None), ("1.6.5", {"status", "fallback", "error", "total_chunks"})]:
        _, caller = make(version)
        (data_id,) = caller.added(("k.json", b"one"))
        body = caller.patch(data_id, ("k.json", b"two")).json()
        assert keys <= set(body) if keys else list(body) == [caller.dataset]


def test_a_patch_of_a_cognified_row_keeps_its_metadata_unless_it_rebuilds(make: Make) -> None:
    double, caller = make()
    (data_id,) = caller.added(("k.json", b"one"), external_metadata=[{"a": 1}])
    caller.cognify()
    for content, name, status, named, keys in [
        (b"one", "same.json", "unchanged", "k", {"a", "_cognee"}),
        (b"two", "two.json", "incremental", "two", {"a", "_cognee"}),
        (b"three", "three.json", "full_rebuild", "three", {"_cognee"}),
    ]:
        double.rebuilds = status == "full_rebuild"
        assert caller.patch(data_id, (name, content)).json()["status"] == status
        (row,) = caller.rows()
        assert (row["name"], set(row["externalMetadata"])) == (named, keys)


def test_the_time_of_an_update_is_not_that_of_a_change(make: Make) -> None:
    _, caller = make()
    caller.added(("k.json", b"one"))
    (row,) = caller.rows()
    assert row["updatedAt"] > row["createdAt"]
    caller.cognify()
    assert caller.rows()[0]["updatedAt"] > row["updatedAt"]


def test_a_patch_cognifies_the_whole_dataset(make: Make) -> None:
    double, caller = make()
    double.seed("notes", 5)
    (data_id,) = caller.added(("k.json", b"one"))
    before = {row["id"]: row["updatedAt"] for row in caller.rows()}
    caller.patch(data_id, ("k.json", b"two"))
    assert double.store.cognify_runs == [(caller.dataset, 6)]
    assert all(row["updatedAt"] > before[row["id"]] for row in caller.rows())


@pytest.mark.parametrize(("knob", "status"), [("applies then 422", 422), ("applies then 500", 500)])
@pytest.mark.parametrize("version", ["1.5.2", "1.6.5"])
def test_a_patch_that_failed_may_have_written(make: Make, version: str, knob: str, status: int) -> None:
    double, caller = make(version)
    (data_id,) = caller.added(("k.json", b"one"))
    double.update = knob
    answer = caller.patch(data_id, ("k.json", b"two"))
    assert answer.status_code == status
    assert caller.raw(data_id) == b"two"


@pytest.mark.parametrize(("knob", "status"), [("absent", 404), ("not allowed", 405)])
def test_a_server_may_have_no_patch(make: Make, knob: str, status: int) -> None:
    double, caller = make()
    (data_id,) = caller.added(("k.json", b"one"))
    double.update = knob
    assert caller.patch(data_id, ("k.json", b"two")).status_code == status
    assert caller.raw(data_id) == b"one"
    assert "/api/v1/update" not in httpx2.get(f"{double.url}/openapi.json").json()["paths"]


def test_a_patch_takes_one_file_and_a_row_that_is_there(make: Make) -> None:
    _, caller = make()
    (data_id,) = caller.added(("k.json", b"one"))
    two = caller.patch(data_id, ("k.json", b"2"), ("l.json", b"3"))
    assert (two.status_code, two.json()["detail"][-16:]) == (415, "[IngestionError]")
    assert caller.patch(data_id).status_code == 400
    for gone in (
        caller.patch(NOBODY, ("k.json", b"2")),
        caller.patch(data_id, ("k.json", b"2"), dataset=NOBODY),
    ):
        assert gone.status_code == 404
        assert gone.json()["detail"].endswith("[UpdateTargetNotFoundError]")
    assert make("1.4.2")[1].patch(NOBODY, ("k.json", b"2")).status_code == 200


def test_a_row_deleted_during_a_patch_is_written_again(make: Make) -> None:
    double, caller = make()
    (data_id,) = caller.added(("k.json", b"one"))
    deleted: list[int] = []
    double.during_update = lambda: deleted.append(caller.http.delete(f"{caller.data}/{data_id}").status_code)
    assert caller.patch(data_id, ("k.json", b"two")).status_code == 200
    assert deleted == [200]
    assert [row["id"] for row in caller.rows()] == [data_id]


def test_nothing_is_found_before_cognify(make: Make) -> None:
    for how in (False, True):
        _, caller = make(multi_tenant=how)
        (marker,) = caller.ask("recall").json()
        assert (marker["source"], marker["status"]) == ("system", "memory_warming_up")
        assert caller.ask("search").status_code == 404
        caller.added(("k.json", b"feline"))
        for where in ("search", "recall"):
            answer = caller.ask(where)
            assert answer.status_code == 404
            assert answer.json()["detail"].endswith("[NoDataError]")
        caller.cognify()
        assert len(caller.ask("recall").json()) == 1


def test_in_single_user_mode_a_search_ignores_the_dataset_and_recall_labels_it_wrongly(make: Make) -> None:
    _, caller = make()
    other = caller.beside("other")
    (theirs,) = other.added(("theirs.json", b"feline"))
    other.cognify()
    caller.added(("mine.json", b"a feline that sleeps"))
    (chunk,) = caller.ask("search", topK=1).json()
    assert (chunk["document_id"], chunk["document_name"]) == (theirs, "theirs")
    (entry,) = caller.ask("recall", topK=1).json()
    assert (entry["metadata"]["data_id"], entry["dataset_id"]) == (theirs, caller.dataset)
    both = caller.ask("recall", datasetIds=[caller.dataset, other.dataset]).json()
    assert [entry["dataset_id"] for entry in both] == [None]


def test_with_tenants_a_search_stays_in_its_datasets_and_tells_which_were_not_searched(make: Make) -> None:
    _, caller = make(multi_tenant=True)
    other = caller.beside("other", **{"X-Api-Key": "secret"})
    other.added(("theirs.json", b"feline"))
    other.cognify()
    assert caller.ask("search").status_code == 404
    both = caller.ask("search", datasetIds=[caller.dataset, other.dataset]).json()
    by_name = {entry["dataset_name"]: entry for entry in both}
    assert by_name["notes"]["search_result"] == []
    assert by_name["notes"]["error"].startswith("no data has been added")
    assert [chunk["document_name"] for chunk in by_name["other"]["search_result"]] == ["theirs"]
    assert "error" not in by_name["other"]
    caller.added(("mine.json", b"feline"))
    caller.cognify()
    assert [entry["dataset_id"] for entry in caller.ask("recall").json()] == [caller.dataset]
    caller.http.delete(f"{caller.data}/{caller.rows()[0]['id']}")
    assert caller.ask("recall").json() == []


def test_up_to_1_5_recall_warms_nothing_up_and_names_no_dataset(make: Make) -> None:
    _, caller = make("1.5.2")
    for where in ("search", "recall"):
        answer = caller.ask(where)
        message = "No data found in the system, please add data first. [NoDataError]"
        assert (answer.status_code, answer.json()) == (404, {"detail": message})
    other = caller.beside("other")
    other.added(("theirs.json", b"feline"))
    other.cognify()
    assert [entry["dataset_id"] for entry in caller.ask("recall").json()] == [caller.dataset]
    unknown = caller.ask("recall", datasetIds=None, datasets=["nope"])
    assert unknown.json() == {"detail": "No datasets found. [DatasetNotFoundError]"}


@pytest.mark.parametrize(("version", "scored"), [("1.4.2", False), ("1.5.2", False), ("1.6.5", True)])
def test_a_score_is_a_distance_and_came_with_1_6(make: Make, version: str, scored: bool) -> None:
    _, caller = make(version)
    near, far = caller.added(("n.json", b"feline resting"), ("f.json", b"tax return"))
    caller.cognify()
    found = {entry["metadata"]["data_id"]: entry for entry in caller.ask("recall").json()}
    assert list(found) == [near, far]
    assert ("score" in caller.ask("search").json()[0]) is scored
    scores = [entry["score"] for entry in found.values()]
    assert 0 < scores[0] < scores[1] == 1 if scored else scores == [None, None]


def test_a_long_document_is_found_in_pieces_none_of_which_is_the_whole(make: Make) -> None:
    _, caller = make()
    (data_id,) = caller.added(("k.json", b'{"text": "' + b"feline " * 400 + b'"}'))
    caller.cognify()
    chunks = caller.ask("search").json()
    assert {chunk["document_id"] for chunk in chunks} == {data_id}
    assert sorted(chunk["chunk_index"] for chunk in chunks) == [0, 1, 2]
    assert all(len(chunk["text"]) <= 1_000 for chunk in chunks)


def test_a_search_that_cannot_be_is_refused_in_the_services_words(make: Make) -> None:
    _, caller = make()
    caller.added(("k.json", b"feline"))
    caller.cognify()
    for more, status, word in [
        ({"topK": 0}, 422, "[QueryValidationError]"),
        ({"searchType": "X"}, 400, "'TRIPLET_COMPLETION'"),
        ({"datasetIds": [NOBODY]}, 403, "[PermissionDeniedError]"),
        ({"datasetIds": None, "datasets": ["nope"]}, 404, "[DatasetNotFoundError]"),
        ({"searchType": "HYBRID_COMPLETION"}, 422, "[LLMAPIKeyNotSetError]"),
    ]:
        for where in ("search", "recall"):
            answer = caller.ask(where, **more)
            assert (answer.status_code, word in answer.text) == (status, True), answer.text
    assert caller.ask("search", query="").json()["detail"] == "query_vector can not be None"
    assert caller.ask("recall", query="").status_code == 422
    snake = {"search_type": "CHUNKS_LEXICAL", "query": "feline", "dataset_ids": [caller.dataset], "top_k": 1}
    (chunk,) = caller.http.post("/search", json=snake).json()
    assert "score" not in chunk


def test_with_tenants_everything_but_health_and_openapi_wants_credentials(make: Make) -> None:
    double, _ = make(multi_tenant=True)
    for path in ("/", "/health", "/openapi.json"):
        assert httpx2.get(double.url + path).status_code == 200
    for headers in ({}, {"X-Api-Key": "wrong"}, {"Authorization": "Bearer secret"}):
        answer = httpx2.get(f"{double.url}/api/v1/datasets/not-an-id/data", headers=headers)
        assert answer.status_code == 401
        assert answer.json()["detail"].startswith("Authentication required (auth posture: ")
        assert "www-authenticate" not in answer.headers
    assert httpx2.get(f"{double.url}/api/v1/nothing").status_code == 404
    old, _ = make("1.6.1", multi_tenant=True)
    assert httpx2.get(f"{old.url}/api/v1/datasets").json() == {"detail": "Unauthorized"}


def test_a_key_a_token_and_a_cookie_all_sign_in(make: Make) -> None:
    double, _ = make(multi_tenant=True)
    login, datasets = f"{double.url}/api/v1/auth/login", f"{double.url}/api/v1/datasets"
    wrong = httpx2.post(login, data={"username": double.owner.name, "password": "no"})
    assert (wrong.status_code, wrong.json()) == (400, {"detail": "LOGIN_BAD_CREDENTIALS"})
    with httpx2.Client() as client:
        form = {"username": double.owner.name, "password": double.owner.password}
        token = client.post(login, data=form).json()["access_token"]
        assert client.get(datasets).status_code == 200  # by the cookie, which stays with the client
    for headers in ({"X-Api-Key": "secret"}, {"Authorization": f"Bearer {token}"}):
        assert httpx2.get(datasets, headers=headers).status_code == 200


def test_401_also_means_not_your_dataset(make: Make) -> None:
    double, caller = make(multi_tenant=True)
    double.user("second", "k2")
    (data_id,) = caller.added(("k.json", b"one"))
    second = caller.beside("notes", **{"X-Api-Key": "k2"})
    assert second.dataset != caller.dataset
    for dataset in (caller.dataset, NOBODY):
        data = f"/datasets/{dataset}/data"
        refused = second.http.delete(f"{data}/{data_id}")
        assert refused.status_code == 401
        assert refused.json() == {
            "detail": f"Dataset {dataset} not accessible. [UnauthorizedDataAccessError]"
        }
        for answer in (
            second.http.get(data),
            second.http.get(f"{data}/count"),
            second.http.get(f"{data}/{data_id}/raw"),
            second.add(("k.json", b"1"), datasetId=dataset),
            second.http.delete(f"/datasets/{dataset}"),
            second.http.post("/forget", json={"datasetId": dataset, "dataId": data_id}),
            second.http.post("/cognify", json={"datasetIds": [dataset]}),
            second.ask("search", datasetIds=[dataset]),
        ):
            assert answer.status_code == 403
            assert answer.json()["detail"].endswith("[PermissionDeniedError]")
    assert second.patch(data_id, ("k.json", b"2"), dataset=caller.dataset).status_code == 401
    assert caller.raw(data_id) == b"one"


def test_a_shared_dataset_is_listed_beside_ones_own_of_the_same_name(make: Make) -> None:
    double, caller = make(multi_tenant=True)
    second = caller.beside("notes", **{"X-Api-Key": double.user("second", "k2").key})
    double.dataset("notes").shared_with.add(double.users[1].id)
    shown = second.http.get("/datasets").json()
    assert [(each["name"], each["ownerId"]) for each in shown] == [
        ("notes", double.owner.id),
        ("notes", double.users[1].id),
    ]
    caller.added(("k.json", b"one"))
    assert len(second.http.get(caller.data).json()) == 1
