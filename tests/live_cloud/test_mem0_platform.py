"""The claims about Mem0's platform that docs/unverified.md lists: each is settled here, in a scope of the test's own.

What Keyfold rests on is asserted. What it only avoids is reported (`pytest -rA` shows it), whichever way it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from keyfold import Config
from keyfold.contract.intents import Query, SearchQuery, Selector
from keyfold.registry import open_engine
from tests.remote.common import contents, intent, ref

AGENT = "keyfold"


class Scope:
    """A user that nobody else has, and what is done in its name."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client
        self.user = f"kf:keyfold-live/{uuid4().hex}"

    def add(self, text: str, run: str, **metadata: Any) -> list[dict[str, Any]]:
        ids = {"user_id": self.user, "agent_id": AGENT, "run_id": run}
        said = [{"role": "user", "content": text}]
        body = {"messages": said, **ids, "metadata": metadata, "infer": False}
        results: list[dict[str, Any]] = self.told("POST", "/v3/memories/add/", body)["results"]
        return results

    def listed(self, *more: dict[str, Any], page: int = 1, size: int = 200) -> dict[str, Any]:
        clauses = [{"user_id": self.user}, {"agent_id": AGENT}, *more]
        body = {"filters": {"AND": clauses}, "show_expired": True}
        answer: dict[str, Any] = self.told("POST", f"/v3/memories/?page={page}&page_size={size}", body)
        return answer

    def told(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def scope(mem0_cloud: httpx2.Client) -> Iterator[Scope]:
    one = Scope(mem0_cloud)
    yield one
    for item in one.listed({"run_id": "*"})["results"]:
        one.client.delete(f"/v1/memories/{item['id']}/")


def test_an_add_without_inference_is_there_at_once_and_word_for_word(scope: Scope) -> None:
    text = "  Two  spaces, a tab\tand an é 🗝: kept as they are.  "
    [result] = scope.add(text, "a", kf='{"v":1}')
    [item] = scope.listed({"run_id": "a"})["results"]
    assert item["id"] == result["id"]
    assert (item["memory"], item["metadata"]) == (text, {"kf": '{"v":1}'})
    assert (item["user_id"], item["agent_id"], item["session_id"]) == (scope.user, AGENT, "a")


def test_the_count_of_a_list_is_that_of_its_scope_and_pages_lead_on(scope: Scope) -> None:
    for number in range(3):
        scope.add(f"text {number}", f"run{number}")
    first, second = (scope.listed({"run_id": "*"}, page=page, size=2) for page in (1, 2))
    assert (first["count"], second["count"]) == (3, 3)
    assert first["next"] is not None
    assert second["next"] is None
    assert len({item["id"] for page in (first, second) for item in page["results"]}) == 3


def test_one_run_is_found_among_many_and_only_that(scope: Scope) -> None:
    for number in range(3):
        scope.add(f"text {number}", f"run{number}")
    page = scope.listed({"run_id": "run1"})
    assert [item["memory"] for item in page["results"]] == ["text 1"]
    assert page["count"] == 1


def test_an_id_that_no_filter_names(scope: Scope, record_property: Any) -> None:
    """Keyfold names all three, so it does not matter which it is."""
    scope.add("text", "a")
    found = len(scope.listed()["results"])
    record_property("an id that is not named", "is any" if found else "is null")
    assert len(scope.listed({"run_id": "*"})["results"]) == 1


def test_the_same_text_in_two_runs_is_two_memories(scope: Scope, record_property: Any) -> None:
    """Keyfold has a run for each record. In one run, a repeat may be dropped or not: it is looked for first."""
    assert len(scope.add("the very same", "a")) == len(scope.add("the very same", "b")) == 1
    again = scope.add("the very same", "a")
    record_property("an exact repeat in one scope", "is kept" if again else "is dropped")
    assert scope.listed({"run_id": "b"})["count"] == 1


def test_an_update_replaces_text_and_the_field_that_it_names(scope: Scope, record_property: Any) -> None:
    """Keyfold keeps everything in one field, so it does not matter whether others are kept."""
    [result] = scope.add("old", "a", kf="old", other="kept?")
    scope.told("PUT", f"/v1/memories/{result['id']}/", {"text": "new", "metadata": {"kf": "new"}})
    [item] = scope.listed({"run_id": "a"})["results"]
    assert (item["memory"], item["metadata"]["kf"]) == ("new", "new")
    record_property("metadata on an update", "is merged" if "other" in item["metadata"] else "is replaced")


def test_a_metadata_clause(scope: Scope, record_property: Any) -> None:
    """Keyfold filters by ids alone; others' adapters do it this way."""
    scope.add("text", "a", key="k")
    for form in ({"key": "k"}, {"key": {"eq": "k"}}, {"key": {"in": ["k"]}}):
        body = {"filters": {"AND": [{"user_id": scope.user}, {"run_id": "*"}, {"metadata": form}]}}
        answer = scope.client.post("/v3/memories/", json=body)
        found = len(answer.json().get("results", [])) if answer.status_code == 200 else answer.status_code
        record_property(f"metadata clause {form}", found)
        assert answer.status_code in (200, 400)


def test_what_was_deleted_is_absent_at_once(scope: Scope) -> None:
    [result] = scope.add("text", "a")
    path = f"/v1/memories/{result['id']}/"
    scope.told("DELETE", path)
    assert scope.client.get(path).status_code == 404
    assert scope.client.delete(path).status_code == 404
    assert scope.listed({"run_id": "a"})["count"] == 0


def test_a_page_larger_than_200(scope: Scope, record_property: Any) -> None:
    """Keyfold asks for 200 and follows the count, so another cap only costs requests."""
    scope.add("text", "a")
    answer = scope.client.post(
        "/v3/memories/?page=1&page_size=1000", json={"filters": {"AND": [{"user_id": scope.user}]}}
    )
    record_property("page_size=1000", answer.status_code)
    assert answer.status_code in (200, 400)


def test_a_record_lives_through_an_engine_in_the_requests_it_may_cost(scope: Scope) -> None:
    url = str(scope.client.base_url).rstrip("/").replace("https://", "mem0://").replace("http://", "mem0://")
    key = scope.client.headers["authorization"].removeprefix("Token ")
    engine = open_engine(url, config=Config(credential=lambda: key))
    namespace = scope.user.removeprefix("kf:")
    try:
        assert engine.store(intent(namespace, "k", "JWT, one hour.")).outcome == "created"
        assert engine.store(intent(namespace, "k", "JWT, one hour.")).outcome == "deduped"
        assert engine.store(intent(namespace, "k", "JWT, two hours.")).revision_count == 2
        assert engine.store(intent(namespace, "other", "JWT, two hours.")).outcome == "created"
        record = engine.get(ref(namespace, "k"))
        assert record is not None
        assert record.content == "JWT, two hours."
        assert contents(engine.page(Query(namespace)).items) == ["JWT, two hours."] * 2
        assert engine.count(namespace).total == 2
        assert engine.search(SearchQuery(namespace, "JWT hours")).total == 2
        assert engine.forget(Selector(namespace, everything=True)).deleted == 2
        assert engine.count(namespace).total == 0
    finally:
        engine.close()
