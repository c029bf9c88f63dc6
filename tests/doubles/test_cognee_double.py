"""The Cognee double's datasets and adds, each awkward fact once, over its socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import httpx2
import pytest

from tests.doubles.cognee import CogneeDouble
from tests.doubles.cognee_client import NOBODY, Make, makers

VERSIONS = ["1.4.2", "1.5.2", "1.6.0", "1.6.1", "1.6.5"]


@pytest.fixture
def make(running: Callable[[CogneeDouble], CogneeDouble]) -> Iterator[Make]:
    with makers(running) as make:
        yield make


@pytest.mark.parametrize("version", VERSIONS)
def test_the_version_is_told_by_health_and_hidden_by_openapi(make: Make, version: str) -> None:
    double, _ = make(version)
    health = httpx2.get(f"{double.url}/health").json()
    assert health == {"status": "ready", "health": "healthy", "version": version}
    assert httpx2.get(f"{double.url}/openapi.json").json()["info"]["version"] == "1.0.0"


@pytest.mark.parametrize(
    ("version", "labels", "paged", "updates"),
    [
        ("1.4.2", False, False, False),
        ("1.5.2", True, False, False),
        ("1.6.0", True, False, True),
        ("1.6.1", True, True, True),
    ],
)
def test_features_are_read_off_openapi(
    make: Make, version: str, labels: bool, paged: bool, updates: bool
) -> None:
    double, _ = make(version)
    api = httpx2.get(f"{double.url}/openapi.json").json()
    schemas, paths = api["components"]["schemas"], api["paths"]
    listing = paths["/api/v1/datasets/{dataset_id}/data"]["get"]["parameters"]
    patch = paths["/api/v1/update"]["patch"]["parameters"]
    assert ("labels" in schemas["Body_add_api_v1_add_post"]["properties"]) is labels
    assert ("limit" in [each["name"] for each in listing]) is paged
    assert ("/api/v1/datasets/{dataset_id}/data/count" in paths) is paged
    assert ("chunk_level_diff" in [each["name"] for each in patch]) is updates
    assert ("UpdateResult" in schemas) is updates


def test_a_dataset_has_one_id_for_good_and_its_first_answer_alone_says_z(make: Make) -> None:
    _, caller = make()
    first = caller.http.post("/datasets", json={"name": "a b.c"}).json()
    again = caller.http.post("/datasets", json={"name": "a b.c"}).json()
    assert first["createdAt"] == again["createdAt"] + "Z"
    assert (again["id"], again["updatedAt"]) == (first["id"], None)
    assert caller.http.delete(f"/datasets/{first['id']}").json() is None
    assert caller.http.get(f"/datasets/{first['id']}/data").status_code == 403
    assert caller.http.post("/datasets", json={"name": "a b.c"}).json()["id"] == first["id"]
    assert [d["name"] for d in caller.http.get("/datasets").json()] == ["notes", "a b.c"]


def test_what_is_not_there_is_refused_as_the_service_does(make: Make) -> None:
    _, caller = make()
    assert caller.http.get("/nothing").json() == {"detail": "Not Found"}
    answer = caller.http.get(f"/datasets/{caller.dataset}")
    assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"})
    assert caller.http.get("/datasets/").status_code == 307
    assert caller.http.head(f"{caller.data}/{NOBODY}/raw").status_code == 405
    bad = caller.http.get("/datasets/zz/data")
    assert bad.status_code == 400
    assert bad.json()["detail"][0]["loc"] == ["path", "dataset_id"]
    assert caller.http.post("/datasets", json={"nam": "x"}).json()["detail"][0]["type"] == "missing"
    assert caller.http.post("/datasets", content=b"{").json()["detail"][0]["type"] == "json_invalid"


def test_several_files_are_answered_in_their_order_and_listed_in_none(make: Make) -> None:
    _, caller = make()
    names = [f"k{i}" for i in range(8)]
    answered = caller.added(*[(f"{name}.json", name.encode()) for name in names])
    by_id = {row["id"]: row["name"] for row in caller.rows()}
    assert [by_id[data_id] for data_id in answered] == names
    assert list(by_id.values()) != names[::-1]


def test_labels_and_metadata_are_one_json_list_each_and_come_back_with_an_addition(make: Make) -> None:
    _, caller = make()
    caller.add(("k1.json", b"1"), ("k2.json", b"2"), labels=["L", ""], external_metadata=[{"a": 1}, None])
    rows = {row["name"]: row for row in caller.rows()}
    assert (rows["k1"]["label"], rows["k2"]["label"]) == ("L", None)
    assert rows["k1"]["externalMetadata"]["a"] == 1
    assert set(rows["k1"]["externalMetadata"]) == {"a", "_cognee"}
    assert list(rows["k2"]["externalMetadata"]) == ["_cognee"]
    caller.add(("k3.json", b"3"), labels="bare")
    assert next(row for row in caller.rows() if row["name"] == "k3")["label"] == "bare"


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"labels": ["a", "b"]}, "[LabelCountMismatchError]"),
        ({"labels": [1]}, "[InvalidLabelsError]"),
        ({"external_metadata": [{"a": 1}, {"b": 1}]}, "[ExternalMetadataCountMismatchError]"),
        ({"external_metadata": {}}, "[InvalidExternalMetadataError]"),
        ({"external_metadata": "{"}, "[InvalidExternalMetadataError]"),
        ({"external_metadata": [{"node_set": 1}]}, "[InvalidExternalMetadataError]"),
    ],
)
def test_labels_and_metadata_that_do_not_fit_are_400(make: Make, form: dict[str, object], error: str) -> None:
    _, caller = make()
    answer = caller.add(("k.json", b"1"), **form)
    assert answer.status_code == 400
    assert answer.json()["detail"].endswith(error)
    assert caller.rows() == []


@pytest.mark.parametrize(
    ("version", "keys"),
    [("1.4.2", None), ("1.5.2", {"a"}), ("1.5.4", {"a", "_cognee"}), ("1.6.5", {"a", "_cognee"})],
)
def test_what_a_row_tells_depends_on_the_version(make: Make, version: str, keys: set[str] | None) -> None:
    _, caller = make(version)
    caller.add(("k.json", b"12\r\n4"), labels=["L"], external_metadata=[{"a": 1}])
    (row,) = caller.rows()
    assert (row["extension"], row["mimeType"], row["datasetId"]) == ("txt", "text/plain", caller.dataset)
    assert row.get("label") == (None if keys is None else "L")
    assert (set(row["externalMetadata"]) if "externalMetadata" in row else None) == keys
    assert row.get("dataSize") == (5 if version == "1.6.5" else None)
    assert not row["createdAt"].endswith("Z")


def test_known_bytes_under_another_name_are_answered_with_the_old_row_and_not_written(make: Make) -> None:
    _, caller = make()
    (old,) = caller.added(("k1.json", b"same"), labels=["one"])
    answer = caller.add(("k2.json", b"same"), labels=["two"]).json()
    (entry,) = answer["data_ingestion_info"]
    assert (answer["status"], entry["run_info"]["status"]) == (
        "PipelineRunCompleted",
        "PipelineRunAlreadyCompleted",
    )
    assert entry["data_id"] == old
    assert [(row["name"], row["label"]) for row in caller.rows()] == [("k1", "one")]


@pytest.mark.parametrize(("version", "shared"), [("1.4.2", True), ("1.5.2", False), ("1.6.5", False)])
def test_the_same_bytes_in_another_dataset_are_a_row_of_their_own(
    make: Make, version: str, shared: bool
) -> None:
    _, caller = make(version)
    other = caller.beside("other")
    (here,), (there,) = caller.added(("k.json", b"same")), other.added(("k.json", b"same"))
    assert (here == there) is shared
    caller.http.delete(f"{caller.data}/{here}")
    assert other.raw(there) == b"same"


def test_twins_in_one_request_are_two_rows_and_one_of_them_is_named_twice(make: Make) -> None:
    _, caller = make()
    first, second = caller.added(("t1.json", b"twin"), ("t2.json", b"twin"))
    assert first == second
    assert {row["name"] for row in caller.rows()} == {"t1", "t2"}


@pytest.mark.parametrize("version", VERSIONS)
def test_changed_bytes_under_the_same_name_are_a_second_row_for_json(make: Make, version: str) -> None:
    _, caller = make(version)
    old, new = caller.added(("k.json", b"old")) + caller.added(("k.json", b"new"))
    assert {row["id"] for row in caller.rows() if row["name"] == "k"} == {old, new}


@pytest.mark.parametrize(
    ("version", "status"), [("1.5.2", 200), ("1.5.4", 200), ("1.6.0", 409), ("1.6.5", 409)]
)
def test_changed_bytes_under_the_same_name_are_409_for_txt_from_1_6(
    make: Make, version: str, status: int
) -> None:
    double, caller = make(version)
    (old,) = caller.added(("a.txt", b"old"))
    answer = caller.add(("a.txt", b"new"), ("b.txt", b"b"))
    assert answer.status_code == status
    assert len(caller.rows()) == (1 if status == 409 else 3)
    if status == 409:
        detail = answer.json()["detail"]
        assert f"'a.txt' (data_id {old}) already exists in dataset {caller.dataset}" in detail
        assert f"PATCH /api/v1/update?data_id={old}&dataset_id={caller.dataset}" in detail
        double.conflict_on_json = True
        caller.added(("k.json", b"older"))
        assert caller.add(("k.json", b"newer")).status_code == 409
        assert caller.add(("k.json", b"older")).status_code == 200


@pytest.mark.parametrize(("same", "rows"), [(False, 4), (True, 1)])
def test_adds_that_race_past_the_check_of_names_all_write(make: Make, same: bool, rows: int) -> None:
    double, caller = make()
    double.racing_adds = 4
    files = [("a.txt", b"same" if same else b"text %d" % i) for i in range(4)]
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda file=file: answers.append(caller.add(file).status_code))
        for file in files
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 4
    assert len(caller.rows()) == rows


def test_an_add_in_the_background_tells_no_id(make: Make) -> None:
    _, caller = make()
    answer = caller.add(("k.json", b"1"), run_in_background="true").json()
    assert (answer["status"], answer["payload"], answer["data_ingestion_info"]) == (
        "PipelineRunStarted",
        [],
        None,
    )
    assert len(caller.rows()) == 1


def test_an_add_without_a_file_a_dataset_or_text_is_refused(make: Make) -> None:
    _, caller = make()
    assert caller.add().json()["error"].startswith("Provide at least one file")
    for form, status in [
        ({"datasetId": ""}, 400),
        ({"datasetId": "nope"}, 400),
        ({"datasetId": NOBODY}, 403),
    ]:
        assert caller.add(("k.json", b"1"), **form).status_code == status
    spaced = caller.add(("k.json", b"1"), datasetId="", datasetName="a b")
    assert (spaced.status_code, spaced.json()["detail"]) == (
        500,
        "Dataset name cannot contain spaces or dots.",
    )
    assert caller.add(("..", b"1")).status_code == 500
    assert caller.added(("k.json", b"1"), datasetId="", datasetName="fresh")
    assert caller.rows() == []


@pytest.mark.parametrize(
    ("version", "status", "word"),
    [("1.6.0", 500, "codec can't decode byte"), ("1.6.5", 415, "[UnreadableFileContentError]")],
)
def test_bytes_that_are_no_text_are_refused(make: Make, version: str, status: int, word: str) -> None:
    _, caller = make(version)
    answer = caller.add(("k.json", b"\xff\xfe"))
    assert (answer.status_code, word in answer.json()["detail"]) == (status, True)
    assert caller.rows() == []


@pytest.mark.parametrize("version", ["1.4.2", "1.5.2", "1.5.4"])
def test_unknown_datasets_are_500_up_to_1_5_4_where_something_is_written(make: Make, version: str) -> None:
    _, caller = make(version)
    for answer in (
        caller.add(("k.json", b"1"), datasetId=NOBODY),
        caller.http.post("/cognify", json={"datasetIds": [NOBODY]}),
    ):
        assert answer.status_code == 500
        assert "(Status code: 403)" in answer.json()["detail"]
    forgotten = caller.http.post("/forget", json={"datasetId": NOBODY})
    assert (forgotten.status_code, forgotten.json()) == (500, {"error": "An error occurred during deletion."})
    assert caller.http.get(f"/datasets/{NOBODY}/data").status_code == 403
    assert caller.add().status_code == (400 if version == "1.5.4" else 500)
