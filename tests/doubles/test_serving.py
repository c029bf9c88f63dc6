"""The harness of the doubles: what it records, and each way it can go wrong on purpose."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.doubles.faults import KINDS
from tests.doubles.serving import MIB, Double, served


class Echo(Double):
    """Keeps what it is sent, which tells what was carried out."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def routes(self) -> list[Route]:
        return [Route("/echo/{name:path}", self.echo, methods=["GET", "POST"])]

    async def echo(self, request: Request) -> Response:
        if request.path_params["name"] == "fault-of-its-own":
            raise RuntimeError("the double is wrong")
        self.kept.append((await request.body()).decode())
        return JSONResponse({"kept": self.kept})


@pytest.fixture
def echo(running: Callable[[Echo], Echo]) -> Echo:
    return running(Echo())


@pytest.fixture
def client(echo: Echo) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=echo.url, timeout=10, verify=False) as client:
        yield client


def test_a_request_is_recorded_as_it_came(echo: Echo, client: httpx2.Client) -> None:
    client.post("/echo/a%2Fb%20c?x=%2A&y", json={"a": 1}, headers={"X-Claim": "Seven"})
    (seen,) = echo.seen
    assert (seen.method, seen.path, seen.query) == ("POST", "/echo/a%2Fb%20c", "x=%2A&y")
    assert seen.headers["x-claim"] == "Seven"
    assert seen.json() == {"a": 1}


def test_requests_are_counted_from_the_last_reset(echo: Echo, client: httpx2.Client) -> None:
    client.get("/echo/one")
    echo.reset_counts()
    assert echo.count == 0
    client.get("/echo/two")
    client.get("/nowhere")
    assert echo.count == 2
    assert [seen.path for seen in echo.recent] == ["/echo/two", "/nowhere"]


def test_an_unknown_path_and_a_trailing_slash_are_not_redirected(client: httpx2.Client) -> None:
    assert client.get("/echo").status_code == 404
    assert client.delete("/echo/x").status_code == 405


def test_a_big_body_arrives_whole(echo: Echo, client: httpx2.Client) -> None:
    client.post("/echo/x", content=b"x" * (3 * MIB))
    assert len(echo.kept[0]) == 3 * MIB


def test_a_fault_strikes_as_often_as_told_and_only_what_it_waits_for(
    echo: Echo, client: httpx2.Client
) -> None:
    fault = echo.faults.add(
        "status", method="POST", path="/echo/b", times=2, skip=1, code=418, body={"no": 1}
    )
    codes = [client.request(method, path).status_code for method, path in [
        ("GET", "/echo/b"), ("POST", "/echo/a"), ("POST", "/echo/b"),
        ("POST", "/echo/b"), ("POST", "/echo/b"), ("POST", "/echo/b"),
    ]]  # fmt: skip
    assert codes == [200, 200, 200, 418, 418, 200]
    assert fault.struck == 2
    assert echo.faults.waiting == []


def test_a_fault_without_end_is_ended_by_clear(echo: Echo, client: httpx2.Client) -> None:
    echo.faults.add("status", times=math.inf)
    assert [client.get("/echo/x").status_code for _ in range(3)] == [503] * 3
    echo.faults.clear()
    assert client.get("/echo/x").status_code == 200


def test_an_unknown_fault_is_refused_with_the_list(echo: Echo) -> None:
    with pytest.raises(ValueError, match="apply_then_stall"):
        echo.faults.add("explode")


@pytest.mark.parametrize(
    ("kind", "kept"), [("status", []), ("rate_limit", []), ("content_type", []), ("apply_then_status", ["t"])]
)
def test_an_answer_can_differ_from_what_was_done(
    echo: Echo, client: httpx2.Client, kind: str, kept: list[str]
) -> None:
    echo.faults.add(kind, after=7)
    answer = client.post("/echo/x", content="t")
    assert echo.kept == kept
    if kind == "rate_limit":
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    elif kind == "content_type":
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    else:
        assert (answer.status_code, answer.json()) == (503, {"detail": "Service Unavailable"})


@pytest.mark.parametrize(("kind", "kept"), [("stall", []), ("apply_then_stall", ["t"])])
def test_a_stalled_request_is_never_answered(
    echo: Echo, client: httpx2.Client, kind: str, kept: list[str]
) -> None:
    echo.faults.add(kind)
    with pytest.raises(httpx2.ReadTimeout):
        client.post("/echo/x", content="t", timeout=0.1)
    assert echo.kept == kept
    assert client.post("/echo/x", content="u").json() == {"kept": [*kept, "u"]}


@pytest.mark.parametrize(("kind", "kept"), [("drop", []), ("apply_then_drop", ["t"])])
def test_a_connection_can_be_cut(echo: Echo, client: httpx2.Client, kind: str, kept: list[str]) -> None:
    echo.faults.add(kind)
    with pytest.raises(httpx2.TransportError):
        client.post("/echo/x", content="t")
    assert echo.kept == kept


def test_a_truncated_answer_is_complete_http_and_half_the_json(echo: Echo, client: httpx2.Client) -> None:
    echo.faults.add("truncate")
    answer = client.post("/echo/x", content="t")
    assert answer.content == b'{"kept"'
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert echo.kept == ["t"]


def test_a_huge_answer_says_nothing_of_its_size_and_can_be_left_early(
    echo: Echo, client: httpx2.Client
) -> None:
    echo.faults.add("huge", times=2)
    with client.stream("GET", "/echo/x") as answer:
        assert "content-length" not in answer.headers
        assert next(answer.iter_bytes(9)) == b'["memory"'
    with client.stream("GET", "/echo/x") as answer:
        assert sum(len(chunk) for chunk in answer.iter_bytes()) >= 65 * MIB
    assert echo.kept == []


def test_another_writer_can_come_just_before_or_just_after(echo: Echo, client: httpx2.Client) -> None:
    for kind, order in [("call_before", ["other", "mine"]), ("call_after", ["mine", "other"])]:
        echo.kept.clear()
        echo.faults.add(kind, run=lambda: httpx2.post(f"{echo.url}/echo/x", content="other"))
        client.post("/echo/x", content="mine")
        assert echo.kept == order


def test_closing_a_double_lets_a_stalled_client_go() -> None:
    double, ended = Echo(), []

    def wait(url: str) -> None:
        try:
            httpx2.post(f"{url}/echo/x", content="t", timeout=30)
        except httpx2.TransportError as error:
            ended.append(error)

    with served(double) as url:
        arrived = threading.Event()
        double.faults.add("apply_then_stall", run=arrived.set)
        client = threading.Thread(target=wait, args=(url,))
        client.start()
        assert arrived.wait(10)
    client.join(10)
    assert len(ended) == 1


def test_a_closed_double_can_come_back_on_its_port() -> None:
    double = Echo()
    with served(double) as url:
        assert httpx2.post(f"{url}/echo/x", content="a").status_code == 200
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/echo/x")
    with served(double, port=int(url.rpartition(":")[2])) as again:
        assert again == url
        assert httpx2.post(f"{url}/echo/x", content="b").json() == {"kept": ["a", "b"]}


def test_a_fault_in_the_double_itself_fails_the_test() -> None:
    with pytest.raises(RuntimeError, match="the double is wrong"), served(Echo()) as url:
        assert httpx2.get(f"{url}/echo/fault-of-its-own").status_code == 500


def test_every_kind_of_fault_is_tried_above() -> None:
    tried = "status apply_then_status rate_limit stall apply_then_stall drop apply_then_drop truncate"
    assert set(KINDS) == {*tried.split(), "content_type", "huge", "call_before", "call_after"}
