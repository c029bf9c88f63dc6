"""What docs/services/errors.md says is printed is what is printed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from keyfold import Config, Memory, Unauthorized
from keyfold.cli import main
from tests.doubles.mem0_oss import Mem0Oss

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "services" / "errors.md").read_text("utf-8")
SAID = [line for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
GET = ("get", "--topic", "architecture/auth")
SAVE = ("save", "--type", "decision", "--title", "Auth", "--topic", "architecture/auth", "JWT, one hour.")

Say = Callable[..., tuple[str, int]]


@pytest.fixture
def service(running: Callable[[Mem0Oss], Mem0Oss]) -> Mem0Oss:
    return running(Mem0Oss(key="right"))


@pytest.fixture
def say(service: Mem0Oss, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command on the service; what it said on stderr, with the host's name as the page has it."""
    monkeypatch.setenv("KEYFOLD_API_KEY", "right")
    monkeypatch.delenv("KEYFOLD_ALLOW_HTTP", raising=False)

    def run(*command: str, url: str = "") -> tuple[str, int]:
        host = service.url.removeprefix("http://")
        code = main(["--store", url or f"mem0+http://{host}", "--user", "ana", *command])
        told = capsys.readouterr()
        return re.sub(r"127\.0\.0\.1:\d+", "mem0.example:8888", told.err).strip(), code

    return run


def on_the_page(said: str) -> bool:
    """Whether the page has a line; `...` on it stands for anything."""
    return any(re.fullmatch(".*".join(map(re.escape, line.split("..."))), said) for line in SAID)


def test_a_wrong_key(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYFOLD_API_KEY", "a-wrong-key")
    said, code = say(*GET)
    assert code == 3
    assert "a-wrong-key" not in said
    assert on_the_page(said), said


def test_no_key_at_all(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEYFOLD_API_KEY", "MEM0_API_KEY", "ADMIN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    said, code = say(*GET)
    assert code == 3
    assert on_the_page(said), said


def test_a_function_that_gives_no_key_is_told_of(service: Mem0Oss) -> None:
    url = service.url.replace("http://", "mem0+http://")
    with (
        Memory.open(url, config=Config(credential=lambda: None)) as memory,
        pytest.raises(Unauthorized, match="the function that gives it gave none"),
    ):
        memory.mem_topics("ana")


def test_a_request_that_the_service_refuses_is_no_wrong_use(service: Mem0Oss, say: Say) -> None:
    for command in (GET, SAVE):
        service.faults.add("status", code=400, body={"detail": "not today"})
        said, code = say(*command)
        assert code == 3
        assert on_the_page(said), said


def test_a_server_that_is_not_there(say: Say) -> None:
    said, code = say(*GET, url="mem0+http://127.0.0.1:1")
    assert code == 3
    assert on_the_page(said), said


def test_a_host_that_does_not_exist(say: Say) -> None:
    said, code = say(*GET, url="mem0://nosuchhost.invalid")
    assert code == 3
    assert on_the_page(said), said


def test_something_else_at_the_address(say: Say, service: Mem0Oss) -> None:
    service.faults.add("content_type")
    said, code = say(*GET)
    assert code == 3
    assert on_the_page(said), said


def test_a_rate_limit(say: Say, service: Mem0Oss) -> None:
    service.faults.add("rate_limit", times=math.inf, after=30)
    said, code = say(*GET)
    assert code == 3
    assert service.count == 1  # so long a wait is told at once
    assert on_the_page(said), said


def test_a_write_whose_answer_never_came_and_its_repetition(say: Say, service: Mem0Oss) -> None:
    service.faults.add("apply_then_status", method="POST", code=503, body={"detail": "down for a moment"})
    said, code = say(*SAVE)
    assert code == 3
    assert on_the_page(said), said
    again, code = say(*SAVE)
    assert (again, code) == ("", 0)
    assert len(service.items()) == 1


@pytest.mark.parametrize("url", ["mem0://ana:secret@mem0.example", "mem0+http://mem0.example:8888"])
def test_an_address_that_gives_something_away(say: Say, service: Mem0Oss, url: str) -> None:
    said, code = say(*GET, url=url)
    assert code == 2
    assert "secret" not in said
    assert service.count == 0
    assert on_the_page(said), said


def test_what_the_service_cannot_do(say: Say) -> None:
    say(*SAVE)
    said, code = say("restore", "--topic", "architecture/auth", "--revision", "1")
    assert code == 2
    assert on_the_page(said), said


def test_the_page_shows_nothing_that_no_test_prints() -> None:
    assert len(SAID) == 11
