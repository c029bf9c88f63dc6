"""What CortexDB is asked by meaning: searches, answers with citations, and packs that die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from keyfold import AsyncMemory, Memory, Unsupported
from keyfold.errors import StoreError, Unauthorized, Unavailable
from tests.conftest import SteppedClock
from tests.doubles.cortexdb import Cortex
from tests.remote.answers import changed, inner
from tests.remote.common import CORTEXDB, TINYHUMANS, Service, configured, payload, put_cortexdb
from tests.remote.cortexdb_service import hasty, late

AUTH = {"type": "decision", "title": "Auth model", "topic_key": "architecture/auth"}
WIRES = pytest.mark.parametrize("service", [CORTEXDB, TINYHUMANS], ids=lambda service: service.name)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def make(running: Callable[[Any], Any], remembering: Callable[..., Memory], clock: SteppedClock) -> Any:
    """`make(service, options="")`: a double that finds late, and a memory on it whose waits take no time."""

    def one(service: Service, options: str = "") -> tuple[Any, Memory]:
        double = running(late(service.double()))
        double.clock = clock
        memory = remembering(service.with_options(options), double, clock=clock)
        hasty(memory.engine)  # type: ignore[arg-type]
        memory.engine.health()
        double.reset_counts()
        return double, memory

    return one


@WIRES
def test_a_question_is_answered_with_citations(make: Any, service: Service) -> None:
    double, memory = make(service)
    told = memory.mem_save("ana", "Tokens live one hour.", **AUTH)
    memory.mem_save("ana", "The garden is green.", type="discovery", title="Garden")
    memory.mem_save("ben", "Tokens live two hours.", **AUTH)
    answer = memory.mem_recall("ana", "How long do tokens live?")
    assert "Tokens live one hour." in answer.text
    first = answer.citations[0]
    assert (first.id, first.topic_key, first.title) == (told.id, "architecture/auth", "Auth model")
    assert (first.revision, first.is_current) == (1, True)
    assert not any("two hours" in citation.snippet for citation in answer.citations)
    [body] = double.bodies("answer")
    assert body["use_pack_id"].startswith("pack_")
    assert body["cite_sources"] is True
    assert answer.to_dict()["citations"][0]["id"] == told.id
    double.reset_counts()
    assert memory.mem_recall("ana", "How long do tokens live?") == answer
    assert [seen.path.rpartition("/")[2] for seen in double.recent] == ["recall", "answer", "events"]


def test_a_question_is_answered_when_awaited(make: Any, clock: SteppedClock) -> None:
    double, memory = make(CORTEXDB)
    memory.mem_save("ana", "Tokens live one hour.", **AUTH)
    double.settle()

    async def ask() -> Any:
        async with AsyncMemory.open(CORTEXDB.url(double), config=configured(clock=clock)) as asked:
            return await asked.mem_recall("ana", "How long do tokens live?")

    assert asyncio.run(ask()).text == memory.mem_recall("ana", "How long do tokens live?").text


def test_a_citation_of_what_was_rewritten_says_so(make: Any) -> None:
    _, memory = make(CORTEXDB)
    memory.mem_save("ana", "Tokens live one hour.", **AUTH)
    memory.mem_save("ana", "Sessions end at midnight.", **AUTH)
    answer = memory.mem_recall("ana", "tokens live hour")
    assert {(citation.revision, citation.is_current) for citation in answer.citations} >= {(1, False)}


def test_nothing_that_is_known_gives_an_empty_answer(make: Any) -> None:
    _, memory = make(CORTEXDB)
    answer = memory.mem_recall("ana", "who?")
    assert (answer.text, answer.citations) == ("", ())


@WIRES
def test_a_pack_that_died_is_made_again(make: Any, service: Service) -> None:
    double, memory = make(service)
    memory.mem_save("ana", "Tokens live one hour.", **AUTH)
    double.settle()
    double.knobs.expire_packs = 2
    assert "one hour" in memory.mem_recall("ana", "tokens live").text
    assert len(double.bodies("answer")) == 3
    double.knobs.expire_packs = 3
    with pytest.raises(Unavailable, match="ask again"):
        memory.mem_recall("ana", "tokens live")


@WIRES
def test_a_forget_in_an_unrelated_scope_during_a_recall_is_survived(
    make: Any, service: Service, remembering: Callable[..., Memory]
) -> None:
    double, memory = make(service)
    memory.mem_save("ana", "Tokens live one hour.", **AUTH)
    other = remembering(service, double)
    gone = other.mem_save("ben", "a note", type="decision", title="Title")
    double.settle()
    double.faults.add("call_before", path="answer", run=lambda: other.mem_delete("ben", gone.id))
    answer = memory.mem_recall("ana", "tokens live")
    assert "one hour" in answer.text
    assert len(double.bodies("answer")) == 2


def test_a_service_without_a_model_names_what_to_use(make: Any) -> None:
    double, memory = make(CORTEXDB)
    memory.mem_save("ana", "Tokens live one hour.", **AUTH)
    double.knobs.no_answer_model = True
    with pytest.raises(Unsupported, match="mem_context"):
        memory.mem_recall("ana", "tokens live")
    assert len(double.bodies("answer")) == 1


def test_an_answer_reaches_the_namespaces_below(make: Any) -> None:
    _, memory = make(CORTEXDB)
    memory.mem_save("team/a", "Tokens live one hour.", **AUTH)
    memory.mem_save("team/b", "The garden is green.", **AUTH)
    assert "one hour" in memory.mem_recall("team", "tokens live", reach="subtree").text
    assert memory.mem_recall("team", "tokens live").text == ""


def test_a_search_asks_for_this_scope_alone_and_with_room_for_whole_texts(make: Any) -> None:
    double, memory = make(CORTEXDB)
    memory.mem_save("ana", "word " * 8_000, **AUTH)
    memory.mem_search("ana", "word")
    body = double.bodies("recall")[-1]
    assert (body["view"], body["include"]) == ("granular", ["events"])
    assert body["budgets"]["max_tokens"] == min(
        8_388_608, body["budgets"]["per_layer_limits"]["events"] * 786_432
    )


@WIRES
def test_a_search_waits_for_what_this_process_wrote_last(make: Any, service: Service) -> None:
    double, memory = make(service)
    memory.mem_save("ana", "zebra one", **AUTH)
    assert [hit.snippet for hit in memory.mem_search("ana", "zebra")] == ["zebra one"]
    double.reset_counts()
    memory.mem_search("ana", "zebra")
    assert double.count == 2


@pytest.mark.parametrize("options", ["", "history=none"])
def test_a_document_in_pieces_is_one_hit_and_comes_whole(make: Any, options: str) -> None:
    _, memory = make(CORTEXDB, options)
    text = "".join(f"## Part {number}\n\n{'word ' * 8_000}\n\n" for number in range(20))
    told = memory.mem_add_document("ana", source="a.md", text=text)
    [hit] = memory.mem_search("ana", "word")
    assert hit.id == told.id


def test_an_excerpt_is_never_taken_for_the_text(make: Any) -> None:
    double, memory = make(CORTEXDB, "history=none")
    memory.mem_save("ana", "zebra " * 3_000, **AUTH)
    memory.mem_search("ana", "zebra")
    recall = double.service().recalls
    fitted = recall._fitted  # a service that heeds no budget
    recall._fitted = lambda events, room: fitted(events, 500)
    hit = memory.mem_search("ana", "zebra")[0]
    read = memory.mem_get_observation("ana", hit.id)
    assert read is not None
    assert read.content == "zebra " * 3_000


def test_older_servers_put_a_role_before_texts(make: Any) -> None:
    double, memory = make(CORTEXDB)
    told = memory.mem_save("ana", "zebra one", **AUTH)
    turn = memory.mem_log_turn(
        "ana", thread_id="t", index=0, role="assistant", text="zebra two", wait="settled"
    )
    double.knobs.role_prefix = double.knobs.role_prefix_listed = True
    read = [memory.mem_get_observation("ana", receipt.id) for receipt in (told, turn)]
    assert [record and record.content for record in read] == ["zebra one", "zebra two"]
    assert sorted(hit.snippet for hit in memory.mem_search("ana", "zebra")) == ["zebra one", "zebra two"]


def test_events_as_the_documents_show_them_are_read(make: Any) -> None:
    double, memory = make(CORTEXDB)
    told = memory.mem_save("ana", "zebra one", **AUTH)
    double.knobs.flat_events = True
    read = memory.mem_get_observation("ana", told.id)
    assert read is not None
    assert read.content == "zebra one"
    assert [hit.snippet for hit in memory.mem_search("ana", "zebra")] == ["zebra one"]


@WIRES
def test_a_cursor_that_does_not_advance_is_an_error_not_a_short_list(make: Any, service: Service) -> None:
    double, memory = make(service)
    for number in range(150):
        put_cortexdb(double, payload("ana", f"k{number}", f"text {number}"))
    double.settle()
    assert memory.mem_list("ana", limit=1).total == 150
    double.knobs.stuck_cursor = 2
    with pytest.raises(StoreError, match="does not advance"):
        memory.mem_list("ana")
    double.knobs.stuck_cursor = 0
    assert memory.mem_list("ana", limit=1).total == 150


@pytest.mark.parametrize(
    "said",
    [
        {"next_cursor": None},
        {"next_cursor": 7},
        {"next_cursor": ""},
        {"has_more": 1},
        {"has_more": "true"},
        {"has_more": None},
        {"has_more": None, "next_cursor": None},
    ],
    ids=str,
)
@WIRES
def test_a_page_that_says_neither_where_the_next_begins_nor_that_it_is_the_last_is_an_error(
    make: Any, service: Service, said: dict[str, Any]
) -> None:
    double, memory = make(service)
    for number in range(150):
        put_cortexdb(double, payload("ana", f"k{number}", f"text {number}"))
    double.settle()

    def odd(answer: Any) -> Any:
        if inner(answer).get("has_more"):
            inner(answer).update(said)
        return answer

    def bare(answer: Any) -> Any:
        if not inner(answer)["has_more"]:
            del inner(answer)["has_more"], inner(answer)["next_cursor"]
        return answer

    with changed(double, "/events", odd):
        for call in (memory.mem_list, memory.mem_stats, lambda user: memory.mem_delete(user, all=True)):
            with pytest.raises(StoreError, match="read in part"):
                call("ana")
        assert memory.mem_get_observation("ana", payload("ana", "k7", "").digest).content == "text 7"
    with changed(double, "/events", bare):  # a short page that says nothing is the last
        assert memory.mem_list("ana", limit=1).total == 150


@WIRES
def test_a_list_of_scopes_that_may_be_cut_is_an_error(make: Any, service: Service) -> None:
    double, memory = make(service)
    memory.mem_save("ana", "zebra one", **AUTH)
    assert memory.engine.namespaces() == ["ana"]
    double.knobs.padding_scopes = 998
    assert memory.engine.namespaces() == ["ana"]
    double.knobs.padding_scopes = 1_200
    with pytest.raises(StoreError, match="namespaces cannot be listed"):
        memory.engine.namespaces()
    assert memory.mem_list("ana").total == 1


@pytest.mark.parametrize("shape", ["strings", "paths", "items"])
def test_scopes_are_read_in_every_shape_a_backend_gives_them(make: Any, shape: str) -> None:
    double, memory = make(TINYHUMANS)
    memory.mem_save("ana", "zebra one", **AUTH)
    double.knobs.scopes_shape = shape
    assert memory.engine.namespaces() == ["ana"]


def test_what_others_wrote_into_a_scope_is_ignored(make: Any) -> None:
    double, memory = make(CORTEXDB)
    memory.mem_save("ana", "zebra one", **AUTH)
    scope = double.events[0].scope
    double.seed(
        [{"scope": scope, "modality": "observation", "content": {"kind": "text", "text": "a foreign zebra"}}]
    )
    assert [record.content for record in memory.mem_list("ana")] == ["zebra one"]
    assert [hit.snippet for hit in memory.mem_search("ana", "zebra")] == ["zebra one"]
    assert memory.mem_delete("ana", topic_key=AUTH["topic_key"]).deleted == 1
    assert [event.text for event in double.events] == ["a foreign zebra"]


def test_a_page_that_is_too_large_is_read_in_smaller_ones(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    double, memory = make(CORTEXDB)
    for number in range(30):
        put_cortexdb(double, payload("ana", f"k{number}", f"{number} " * 2_000))
    double.settle()
    monkeypatch.setattr("keyfold.engines.remote.transport.LARGEST", 150_000)
    assert memory.mem_list("ana", limit=1).total == 30
    asked = [seen.query for seen in double.recent if "/events" in seen.path]
    assert any("limit=200" in query for query in asked)
    assert any("limit=25" in query for query in asked)


def test_who_acts_is_asked_once_and_said_with_every_request(
    running: Callable[[Any], Any], remembering: Callable[..., Memory]
) -> None:
    double: Cortex = running(CORTEXDB.double())
    double.accept_token(double.key, "user:ana")
    memory = remembering(CORTEXDB, double)
    for _ in range(2):
        memory.mem_save("ana", "one", **AUTH)
    assert [seen.path for seen in double.seen].count("/v1/auth/whoami") == 1
    assert {seen.headers.get("x-cortex-actor") for seen in double.seen[1:]} == {"user:ana"}
    double.accept_token(double.key, "user:ben")  # the same token stands for another now
    with pytest.raises(Unauthorized, match="may not use this scope"):
        memory.mem_list("ana")
    assert memory.mem_save("ben", "one", **AUTH).outcome == "created"
    assert double.seen[-1].headers["x-cortex-actor"] == "user:ben"


def test_a_server_that_does_not_know_who_acts_is_told_nothing(
    running: Callable[[Any], Any], remembering: Callable[..., Memory]
) -> None:
    double: Cortex = running(CORTEXDB.double())
    double.knobs.whoami_missing = True
    memory = remembering(CORTEXDB, double)
    for _ in range(2):
        memory.mem_save("ana", "one", **AUTH)
    assert [seen.path for seen in double.seen].count("/v1/auth/whoami") == 1
    assert not any("x-cortex-actor" in seen.headers for seen in double.seen)
