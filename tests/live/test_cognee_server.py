"""What the Cognee dialect is built on, held against the real server: each of these is a fact, not a wish."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.live import cognee_server
from tests.live.processes import installed


@pytest.fixture
def cognee(live_cognee_url: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=live_cognee_url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def dataset(cognee: httpx2.Client) -> Iterator[str]:
    """A dataset of the test's own."""
    made = cognee.post("/api/v1/datasets", json={"name": f"test-{uuid4().hex}"})
    assert made.status_code == 200
    yield made.json()["id"]
    cognee.delete(f"/api/v1/datasets/{made.json()['id']}")


def add(client: httpx2.Client, dataset: str, *files: tuple[str, str], **fields: Any) -> httpx2.Response:
    data = {"datasetId": dataset, **{name: json.dumps(value) for name, value in fields.items()}}
    parts = [("data", (name, text.encode(), "application/json")) for name, text in files]
    return client.post("/api/v1/add", data=data, files=parts)


def rows(client: httpx2.Client, dataset: str, **params: int) -> list[dict[str, Any]]:
    answer = client.get(f"/api/v1/datasets/{dataset}/data", params=params)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()
    return found


def ingested(answer: httpx2.Response) -> list[tuple[str, str]]:
    """Status and row of each file of an add, in the order of the files."""
    assert answer.status_code == 200, answer.text
    return [(info["run_info"]["status"], info["data_id"]) for info in answer.json()["data_ingestion_info"]]


def test_it_is_the_version_that_was_installed(cognee: httpx2.Client) -> None:
    version = installed(cognee_server.venv(), "cognee")
    assert cognee.get("/health").json() == {"status": "ready", "health": "healthy", "version": version}


def test_making_a_dataset_that_exists_finds_it(cognee: httpx2.Client, dataset: str) -> None:
    name = next(d["name"] for d in cognee.get("/api/v1/datasets").json() if d["id"] == dataset)
    again = cognee.post("/api/v1/datasets", json={"name": name})
    assert (again.status_code, again.json()["id"]) == (200, dataset)


def test_the_same_bytes_under_another_name_answer_with_the_old_row(
    cognee: httpx2.Client, dataset: str
) -> None:
    [(status, first)] = ingested(add(cognee, dataset, ("one.json", '{"n":1}'), labels=["L"]))
    assert status == "PipelineRunCompleted"
    other = add(cognee, dataset, ("two.json", '{"n":1}'), labels=["M"])
    assert ingested(other) == [("PipelineRunAlreadyCompleted", first)]
    assert [(row["id"], row["name"], row["label"]) for row in rows(cognee, dataset)] == [(first, "one", "L")]


def test_changed_bytes_under_the_same_name_make_a_second_row(cognee: httpx2.Client, dataset: str) -> None:
    ids = [ingested(add(cognee, dataset, ("k.json", f'{{"n":{n}}}')))[0][1] for n in (1, 2)]
    assert sorted(row["id"] for row in rows(cognee, dataset)) == sorted(ids)


def test_changed_bytes_of_a_text_file_are_refused_with_409(cognee: httpx2.Client, dataset: str) -> None:
    [(_, first)] = ingested(add(cognee, dataset, ("k.txt", "one")))
    refused = add(cognee, dataset, ("k.txt", "two"))
    assert refused.status_code == 409
    assert first in refused.json()["detail"]


def test_the_listing_is_paged_newest_first(cognee: httpx2.Client, dataset: str) -> None:
    files = [(f"k{n}.json", f'{{"n":{n}}}') for n in range(101)]
    ids = {data_id for _, data_id in ingested(add(cognee, dataset, *files))}
    assert len(ids) == 101
    [(_, newest)] = ingested(add(cognee, dataset, ("last.json", '{"n":"last"}')))
    first = rows(cognee, dataset)
    assert len(first) == 100
    assert first[0]["id"] == newest
    rest = rows(cognee, dataset, limit=100, offset=100)
    assert {row["id"] for row in [*first, *rest]} == ids | {newest}
    assert len(rows(cognee, dataset, limit=1000)) == 102
    assert cognee.get(f"/api/v1/datasets/{dataset}/data/count").json() == {"count": 102}
    too_many = cognee.get(f"/api/v1/datasets/{dataset}/data", params={"limit": 1001})
    assert too_many.status_code == 400


def test_labels_and_metadata_come_back_in_the_listing(cognee: httpx2.Client, dataset: str) -> None:
    given = {"labels": ["a label"], "external_metadata": [{"tm": {"key": "é/1"}}]}
    ingested(add(cognee, dataset, ("k.json", "{}"), **given))
    [row] = rows(cognee, dataset)
    assert (row["label"], row["externalMetadata"]["tm"]) == ("a label", {"key": "é/1"})
    mismatch = add(cognee, dataset, ("l.json", "{ }"), labels=["one", "two"])
    assert mismatch.status_code == 400


def test_the_raw_text_comes_back_with_its_line_ends_changed(cognee: httpx2.Client, dataset: str) -> None:
    [(_, row)] = ingested(add(cognee, dataset, ("k.json", "a\r\nb\rc\u2028d\x00")))
    raw = cognee.get(f"/api/v1/datasets/{dataset}/data/{row}/raw")
    assert raw.content.decode() == "a\nb\nc\u2028d\x00"
    absent = cognee.get(f"/api/v1/datasets/{dataset}/data/{uuid4()}/raw")
    assert absent.status_code == 404
    assert "[DataNotFoundError]" in absent.json()["detail"]


def test_a_delete_answers_null_whether_or_not_there_was_a_row(cognee: httpx2.Client, dataset: str) -> None:
    [(_, row)] = ingested(add(cognee, dataset, ("k.json", "{}")))
    for _ in range(2):
        gone = cognee.delete(f"/api/v1/datasets/{dataset}/data/{row}")
        assert (gone.status_code, gone.json()) == (200, None)
    assert rows(cognee, dataset) == []
    [(_, again)] = ingested(add(cognee, dataset, ("k.json", "{}")))
    assert again != row


def test_an_unknown_dataset_is_forbidden_and_never_not_found(cognee: httpx2.Client) -> None:
    unknown = uuid4()
    listing = cognee.get(f"/api/v1/datasets/{unknown}/data")
    assert (listing.status_code, "[PermissionDeniedError]" in listing.text) == (403, True)
    assert add(cognee, str(unknown), ("k.json", "{}")).status_code == 403
    deleting = cognee.delete(f"/api/v1/datasets/{unknown}/data/{uuid4()}")
    assert (deleting.status_code, "[UnauthorizedDataAccessError]" in deleting.text) == (401, True)


def test_an_update_keeps_the_row_and_loses_its_metadata(cognee: httpx2.Client, dataset: str) -> None:
    given = {"labels": ["L"], "external_metadata": [{"key": "k"}]}
    [(_, row)] = ingested(add(cognee, dataset, ("k.json", '{"text":"a first one"}'), **given))
    changed = cognee.patch(
        "/api/v1/update",
        params={"data_id": row, "dataset_id": dataset},
        files=[("data", ("k.json", b"something else altogether", "application/json"))],
    )
    assert (changed.status_code, changed.json()["data_id"]) == (200, row)
    [held] = rows(cognee, dataset)
    assert (held["id"], held["label"]) == (row, "L")
    assert "key" not in held["externalMetadata"]
    assert cognee.get(f"/api/v1/datasets/{dataset}/data/{row}/raw").text == "something else altogether"


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_a_file_is_listed_with_its_own_md5_after_an_update_too(
    cognee: httpx2.Client, dataset: str, ends: str
) -> None:
    """What is served has LF for every line end; the MD5 is that of what was sent."""
    sent = f"a first one{ends}".encode()
    data = {"datasetId": dataset}
    [(_, row)] = ingested(
        cognee.post("/api/v1/add", data=data, files=[("data", ("k.json", sent, "application/json"))])
    )
    for text in (sent, f"another{ends}one{ends}".encode()):
        if text is not sent:
            changed = cognee.patch(
                "/api/v1/update",
                params={"data_id": row, "dataset_id": dataset},
                files=[("data", ("k.json", text, "application/json"))],
            )
            assert changed.status_code == 200
        [held] = rows(cognee, dataset)
        served = cognee.get(f"/api/v1/datasets/{dataset}/data/{row}/raw").content
        assert served == text.replace(ends.encode(), b"\n")
        assert hashlib.md5(text).hexdigest() in held["rawDataLocation"]


def test_what_was_added_is_found_after_cognify_and_in_every_dataset(
    cognee: httpx2.Client, dataset: str
) -> None:
    word = f"w{uuid4().hex}"
    [(_, row)] = ingested(add(cognee, dataset, ("k.json", f"the cat {word} sat on the mat")))
    other = cognee.post("/api/v1/datasets", json={"name": f"test-{uuid4().hex}"}).json()["id"]

    def found(where: str) -> list[str]:
        query = {"searchType": "CHUNKS", "query": word, "datasetIds": [where], "topK": 50}
        answer = cognee.post("/api/v1/recall", json=query)
        hits = answer.json() if answer.status_code == 200 else []
        return [hit["metadata"]["data_id"] for hit in hits if hit.get("kind") == "chunk"]

    assert row not in found(dataset)
    ran = cognee.post("/api/v1/cognify", json={"datasetIds": [dataset]})
    assert ran.status_code == 200
    assert found(dataset)[0] == row
    # One store of vectors for all: without access control the dataset that was asked for does not filter.
    ingested(add(cognee, other, ("k.json", "about something else")))
    assert row in found(other)
    cognee.delete(f"/api/v1/datasets/{other}")


def test_with_access_control_it_wants_a_login_and_a_key_does(live_cognee_tenants_url: str) -> None:
    with httpx2.Client(base_url=live_cognee_tenants_url, timeout=60, trust_env=False) as client:
        nobody = client.get("/api/v1/datasets")
        assert (nobody.status_code, "WWW-Authenticate" in nobody.headers) == (401, False)
        assert client.get("/health").status_code == 200
        form = {"username": cognee_server.USER, "password": "wrong"}
        assert client.post("/api/v1/auth/login", data=form).status_code == 400
        form["password"] = cognee_server.PASSWORD
        token = client.post("/api/v1/auth/login", data=form).json()["access_token"]
        client.cookies.clear()  # the login leaves one behind, and it would be sent along
        bearer = {"Authorization": f"Bearer {token}"}
        key = client.post("/api/v1/auth/api-keys", json={"name": "tests"}, headers=bearer).json()["key"]
        assert client.get("/api/v1/datasets", headers={"X-Api-Key": key}).status_code == 200
