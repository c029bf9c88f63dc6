"""Memory on a service from several processes, and for an agent: what is the user's goes on in the next one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from keyfold.cli import main
from tests.doubles.mem0_oss import Mem0Oss

Keyfold = Callable[..., str]


@pytest.fixture
def service(running: Callable[[Mem0Oss], Mem0Oss]) -> Mem0Oss:
    return running(Mem0Oss(key="right"))


@pytest.fixture
def keyfold(service: Mem0Oss, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Keyfold:
    """Run a command, each with a memory of its own as a process would have, and return what it printed."""
    monkeypatch.setenv("KEYFOLD_API_KEY", "right")

    def run(*command: str, code: int = 0) -> str:
        url = service.url.replace("http://", "mem0+http://")
        assert main(["--store", url, "--user", "ana", *command]) == code
        told = capsys.readouterr()
        return told.out or told.err

    return run


def test_a_summary_from_another_process_belongs_to_the_session_that_was_started(keyfold: Keyfold) -> None:
    started = json.loads(keyfold("session", "start", "--json"))["session_id"]
    keyfold("session", "summary", "we settled on JWT")
    keyfold("session", "end")
    (session,) = json.loads(keyfold("session", "list", "--json"))["items"]
    assert (session["id"], session["summary"], session["status"]) == (
        started,
        "we settled on JWT",
        "completed",
    )


def test_what_the_service_finds_unlike_in_every_way_is_no_match(keyfold: Keyfold) -> None:
    keyfold("save", "--type", "decision", "--title", "Auth", "--topic", "auth", "JWT, one hour.")
    assert "Auth" in keyfold("search", "hour")
    assert "nothing" in keyfold("search", "xylophone", code=1)


def test_another_program_at_the_address_is_a_store_that_failed(keyfold: Keyfold, service: Mem0Oss) -> None:
    service.faults.add("status", code=404, body={"detail": "Not Found"})
    assert "check the address" in keyfold("get", "--topic", "auth", code=3)
