"""The double of Supermemory answers as the service is documented to: documents and container tags, v3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import SteppedClock
from tests.doubles.supermemory import Supermemory
from tests.doubles.supermemory_client import TAG, Service, reached


@pytest.fixture
def double(running: Callable[[Supermemory], Supermemory], clock: SteppedClock) -> Supermemory:
    double = running(Supermemory(key="sm_k"))
    double.clock = clock
    return double


@pytest.fixture
def service(double: Supermemory) -> Iterator[Service]:
    with reached(double) as service:
        yield service


def add(service: Service, content: str, **fields: Any) -> str:
    tag = {} if "containerTags" in fields else {"containerTag": TAG}
    answer = service.ok("POST", "/v3/documents", content=content, **(tag | fields))
    assert answer["status"] == "queued"
    return str(answer["id"])


def get(service: Service, name: str) -> Any:
    return service.client.get(f"/v3/documents/{name}").json()


def listed(service: Service, **how: Any) -> list[Any]:
    rows: list[Any] = service.ok("POST", "/v3/documents/list", **how)["memories"]
    return rows


def test_a_document_is_found_by_its_id_and_by_its_custom_id(service: Service) -> None:
    id_ = add(service, "text", customId="a.b-c_1", metadata={"k": ["v"]}, taskType="superrag")
    by_id = get(service, id_)
    by_name = get(service, "a.b-c_1")
    assert by_id["id"] == by_name["id"] == id_
    assert (by_id["content"], by_id["containerTags"], by_id["metadata"]) == ("text", [TAG], {"k": ["v"]})
    assert (by_id["customId"], by_id["taskType"], by_id["latestRevision"]) == ("a.b-c_1", "superrag", 1)
    absent = service.client.get("/v3/documents/nobody")
    assert (absent.status_code, absent.json()) == (404, {"error": "Document not found"})


def test_the_same_custom_id_again_appends_instead_of_replacing(service: Service) -> None:
    first = add(service, "old", customId="c")
    assert add(service, "new", customId="c") == first
    assert get(service, "c")["content"] == "old\nnew"
    assert add(service, "old\nnew and more", customId="c") == first
    assert get(service, "c")["content"] == "old\nnew and more"
    assert len(listed(service)) == 1


def test_a_patch_replaces_the_content_and_processes_it_again(service: Service, double: Supermemory) -> None:
    id_ = add(service, "old", customId="c", metadata={"a": 1})
    assert get(service, "c")["status"] == "done"
    double.queued_polls = 1
    assert service.ok("PATCH", "/v3/documents/c", content="new") == {"id": id_, "status": "queued"}
    held = get(service, "c")
    assert (held["status"], held["content"], held["metadata"]) == ("queued", "new", {"a": 1})
    assert get(service, "c")["status"] == "done"


def test_a_patch_of_the_metadata_alone_is_done_in_place(service: Service) -> None:
    id_ = add(service, "text", customId="c")
    get(service, "c")
    assert service.ok("PATCH", f"/v3/documents/{id_}", metadata={"a": 2}) == {"id": id_, "status": "done"}
    assert get(service, "c")["metadata"] == {"a": 2}
    assert service.call("PATCH", "/v3/documents/nobody", metadata={}).status_code == 404


def test_a_document_can_be_moved_and_renamed_but_not_onto_another(service: Service) -> None:
    add(service, "one", customId="c1")
    add(service, "two", customId="c2")
    assert service.call("PATCH", "/v3/documents/c1", customId="c2").status_code == 409
    service.ok("PATCH", "/v3/documents/c1", customId="c3", containerTag="t2")
    assert get(service, "c3")["containerTags"] == ["t2"]
    assert service.client.get("/v3/documents/c1").status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"content": ""},
        {"containerTag": "a/b"},
        {"customId": "a:b"},
        {"customId": "c" * 101},
        {"metadata": {"deep": {}}},
        {"entityContext": "x" * 1_501},
        {"taskType": "other"},
        {"dreaming": "later"},
    ],
)
def test_a_document_outside_the_limits_is_refused(service: Service, fields: dict[str, Any]) -> None:
    answer = service.call("POST", "/v3/documents", **({"content": "x", "containerTag": TAG} | fields))
    assert (answer.status_code, next(iter(fields)) in answer.json()["details"]) == (400, True)
    assert listed(service) == []


def test_a_document_has_no_limit_of_ten_thousand_characters(service: Service) -> None:
    assert get(service, add(service, "x" * 50_000))["content"] == "x" * 50_000


def test_a_document_stays_queued_for_as_many_looks_as_told_and_is_not_found_before(
    service: Service, double: Supermemory
) -> None:
    double.queued_polls = 2
    id_ = add(service, "green tea")

    def chunks() -> list[str]:
        answer = service.ok("POST", "/v4/search", q="green tea", containerTag=TAG, searchMode="documents")
        return [result["chunk"] for result in answer["results"]]

    seen = [(get(service, id_)["status"], chunks()) for _ in range(2)]
    assert seen == [("queued", [])] * 2
    assert get(service, id_)["dreamingStatus"] == "done"
    assert chunks() == ["green tea"]
    assert service.find("green tea") == []  # a search of memories alone
    assert service.ok("POST", "/v4/search", q="tea", containerTag=TAG, searchMode="hybrid")["total"] == 1


def test_looks_at_what_is_being_processed_count_too(service: Service, double: Supermemory) -> None:
    double.queued_polls = 1
    id_ = add(service, "text")
    other = service.client.get("/v3/documents/processing", params={"containerTags": "t2"}).json()
    assert other == {"documents": [], "totalCount": 0}
    busy = service.client.get("/v3/documents/processing").json()
    assert (busy["totalCount"], busy["documents"][0]["id"]) == (1, id_)
    assert service.client.get("/v3/documents/processing").json()["totalCount"] == 0


def test_the_text_of_an_unfinished_document_may_be_held_back(service: Service, double: Supermemory) -> None:
    double.queued_polls = 1
    id_ = add(service, "text")
    assert get(service, id_)["content"] == "text"
    double.content_before_done = False
    service.ok("PATCH", f"/v3/documents/{id_}", content="text 2")
    assert [get(service, id_)["content"] for _ in range(2)] == [None, "text 2"]


def test_a_document_that_fails_is_deleted_after_two_minutes(
    service: Service, double: Supermemory, clock: SteppedClock
) -> None:
    double.documents_fail = True
    id_ = add(service, "bad", customId="c")
    assert get(service, id_)["status"] == "failed"
    clock.forward(seconds=119)
    assert get(service, id_)["status"] == "failed"
    clock.forward(seconds=1)
    assert service.client.get("/v3/documents/c").status_code == 404
    assert listed(service) == []


def test_a_list_calls_documents_memories_and_shows_text_only_when_asked(
    service: Service, clock: SteppedClock
) -> None:
    clock.step = timedelta(seconds=1)
    for i in range(12):
        add(service, f"text {i}", metadata={"i": i}, filepath=f"/f/{i}.md")
    add(service, "elsewhere", containerTag="t2")
    answer = service.ok("POST", "/v3/documents/list", containerTags=[TAG], page="2", limit="5")
    assert answer["pagination"] == {"currentPage": 2, "limit": 5, "totalItems": 12, "totalPages": 3}
    assert [row["metadata"]["i"] for row in answer["memories"]] == [6, 5, 4, 3, 2]
    assert "content" not in answer["memories"][0]
    filters = {"AND": [{"key": "i", "value": "10", "filterType": "numeric", "numericOperator": ">"}]}
    (found,) = listed(service, filters=filters, includeContent=True)
    assert found["content"] == "text 11"
    assert len(listed(service, containerTags=[TAG, "t2"], limit=200)) == 13  # any of the tags
    assert len(listed(service, filepath="/f/", limit=200)) == 12
    assert len(listed(service, filepath="/f/1.md")) == 1
    assert service.call("POST", "/v3/documents/list", limit=201).status_code == 400


def test_pages_of_documents_shift_under_writes(service: Service, double: Supermemory) -> None:
    add(service, "one")
    double.page_shift(rows=2)
    assert [len(listed(service, containerTags=[TAG])) for _ in range(3)] == [1, 3, 3]


def test_a_document_is_deleted_by_either_name_and_then_gone(service: Service) -> None:
    id_ = add(service, "one")
    add(service, "two", customId="c")
    for name in (id_, "c"):
        answer = service.client.delete(f"/v3/documents/{name}")
        assert (answer.status_code, answer.content) == (204, b"")
        assert service.client.delete(f"/v3/documents/{name}").status_code == 404
    assert listed(service) == []


def test_documents_are_deleted_in_bulk_by_id_by_tag_or_by_path(service: Service) -> None:
    one, two = add(service, "one", customId="c1"), add(service, "two")
    add(service, "three", containerTag="t2")
    add(service, "four", filepath="/f/a.md")
    path = "/v3/documents/bulk"
    answer = service.ok("DELETE", path, ids=[one, one, "c1"])
    missing = [{"id": "c1", "error": "Document not found"}]  # a customId is no id here
    assert answer == {"success": False, "deletedCount": 1, "errors": missing}
    assert service.ok("DELETE", path, ids=[two]) == {"success": True, "deletedCount": 1}
    assert service.ok("DELETE", path, containerTags=["t2"])["containerTags"] == ["t2"]
    assert service.ok("DELETE", path, filepath="/f/")["deletedCount"] == 1
    assert listed(service) == []
    refused: list[dict[str, Any]] = [{}, {"ids": []}, {"ids": ["x"] * 101}]
    assert {service.call("DELETE", path, **body).status_code for body in refused} == {400}


def test_a_batch_tells_of_each_document_and_writes_the_good_ones(service: Service) -> None:
    documents = ["one", {"content": "two", "customId": "c"}, {"content": "three", "customId": "/"}]
    answer = service.ok("POST", "/v3/documents/batch", documents=documents, containerTag=TAG)
    assert (answer["success"], answer["failed"]) == (2, 1)
    assert [result["status"] for result in answer["results"]] == ["queued", "queued", "error"]
    assert answer["results"][2]["id"] == ""
    assert {row["containerTags"][0] for row in listed(service)} == {TAG}
    for wrong in ([], ["x"] * 601, "x"):
        assert service.call("POST", "/v3/documents/batch", documents=wrong).status_code == 400


def test_a_finished_document_has_chunks_and_the_older_search_finds_it(service: Service) -> None:
    id_ = add(service, "green tea " * 150, metadata={"k": "v"})
    assert service.client.get(f"/v3/documents/{id_}/chunks").json()["total"] == 0
    get(service, id_)
    chunks = service.client.get(f"/v3/documents/{id_}/chunks").json()["chunks"]
    assert "".join(chunk["content"] for chunk in chunks) == "green tea " * 150
    (found,) = service.ok("POST", "/v3/search", q="green tea", containerTags=[TAG])["results"]
    assert (found["documentId"], found["metadata"], len(found["chunks"])) == (id_, {"k": "v"}, 2)
    assert service.ok("POST", "/v3/search", q="coffee", containerTags=[TAG])["total"] == 0


def test_container_tags_come_to_be_with_the_first_write_and_are_listed(service: Service) -> None:
    assert service.client.get("/v3/container-tags/list").json() == []
    service.add("memory", tag="t1")
    add(service, "document", containerTag="t2")
    add(service, "document", containerTags=["t1", "t3"])
    tags = service.client.get("/v3/container-tags/list").json()
    assert [tag["containerTag"] for tag in tags] == ["t1", "t2", "t3"]
    changed = service.ok("PATCH", "/v3/container-tags/t2", name="Two", entityContext="notes")
    assert (changed["name"], changed["containerTag"]) == ("Two", "t2")
    assert service.client.get("/v3/container-tags/t2").json() == changed
    assert service.call("PATCH", "/v3/container-tags/t2", entityContext="x" * 1_501).status_code == 400
    assert service.client.get("/v3/container-tags/nobody").status_code == 404


def test_deleting_a_tag_deletes_documents_and_only_forgets_memories(service: Service) -> None:
    (old,) = service.add("memory")
    service.patch(old, "memory 2")
    add(service, "document")
    answer = service.client.delete(f"/v3/container-tags/{TAG}")
    counts = {"deletedDocumentsCount": 1, "deletedMemoriesCount": 1}
    assert answer.json() == {"success": True, "containerTag": TAG} | counts
    assert service.client.get("/v3/container-tags/list").json() == []
    assert [row["isForgotten"] for row in service.rows()] == [True, True]
    assert service.client.delete(f"/v3/container-tags/{TAG}").status_code == 404
