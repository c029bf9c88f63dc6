"""The calls of one connection count in the order in which they came."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from keyfold import AsyncMemory
from keyfold.mcp_server.turns import Turns
from mcp import Client
from tests.mcp.common import SAVE, Server, talk


def lines(calls: list[tuple[str, dict[str, Any]]]) -> bytes:
    """Calls as a client sends them that waits for no answer."""
    return b"".join(
        json.dumps(
            {
                "jsonrpc": "2.0",
                "id": number,
                "method": "tools/call",
                "params": {"name": name, "arguments": given},
            }
        ).encode()
        + b"\n"
        for number, (name, given) in enumerate(calls)
    )


def test_of_two_saves_sent_at_once_the_later_is_what_counts(server: Server) -> None:
    calls: list[tuple[str, dict[str, Any]]] = []
    for number in range(10):
        named = {**SAVE, "topic_key": f"k/{number}"}
        calls += [
            ("mem_save", {**named, "content": "older " * 5_000}),  # which opens the session on its way
            ("mem_get_observation", {"topic_key": f"k/{number}"}),
            ("mem_save", {**named, "content": "newer", "session_id": "mine"}),
            ("mem_get_observation", {"topic_key": f"k/{number}"}),
        ]
    server.raw(lines(calls))
    heard = [server.hear() for _ in calls]
    answers = {answer["id"]: answer["result"]["structuredContent"] for answer in heard}
    for first in range(0, 40, 4):
        saved, read, rewritten, again = (answers[first + step] for step in range(4))
        assert (saved["outcome"], rewritten["outcome"]) == ("created", "updated")
        assert (read["content"][:6], again["content"]) == ("older ", "newer")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_calls_that_are_slow_to_begin_keep_their_order(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = AsyncMemory.mem_save

    async def slow(self: AsyncMemory, user: str, content: str, **given: Any) -> Any:
        for _ in range(50 * (20 - int(content))):  # the earlier, the longer
            await asyncio.sleep(0)
        return await real(self, user, content, **given)

    monkeypatch.setattr(AsyncMemory, "mem_save", slow)

    async def work(client: Client, memory: AsyncMemory) -> list[str]:
        calls = [
            client.call_tool("mem_save", {**SAVE, "topic_key": "k", "content": f"{number}"})
            for number in range(20)
        ]
        assert not any(result.is_error for result in await asyncio.gather(*calls))
        return [state.content for state in await memory.mem_history("ana", topic_key="k")]

    assert talk(work, mode=mode) == [f"{number}" for number in reversed(range(20))]


class Run:
    """Calls that each wait to be let go, and what has begun and ended so far."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.told: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.gates: dict[str, asyncio.Event] = {}

    async def call(self, name: str) -> None:
        """A call: a read when its name begins so."""
        self.gates[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._work(name))
        await self.settled()

    async def _work(self, name: str) -> None:
        async with self.turns.turn(reads=name.startswith("r")):
            self.told.append(name)
            await self.gates[name].wait()

    async def done(self, name: str) -> None:
        self.gates[name].set()
        await self.settled()

    async def off(self, name: str) -> None:
        self.tasks[name].cancel()
        await self.settled()

    async def settled(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


def test_reads_run_together_and_wait_for_the_writes_before_them() -> None:
    async def play() -> None:
        run = Run()
        for name in ("r1", "r2", "w1", "r3", "r4", "w2", "w3"):
            await run.call(name)
        assert run.told == ["r1", "r2"]
        await run.done("r2")
        assert run.told == ["r1", "r2"]
        await run.done("r1")
        assert run.told[2:] == ["w1"]
        await run.done("w1")
        assert run.told[3:] == ["r3", "r4"]
        await run.done("r3")
        await run.done("r4")
        assert run.told[5:] == ["w2"]
        await run.done("w2")
        assert run.told[6:] == ["w3"]
        await run.done("w3")

    asyncio.run(play())


def test_a_call_that_is_called_off_lets_nobody_overtake_and_keeps_nobody_waiting() -> None:
    async def play() -> None:
        run = Run()
        for name in ("w1", "w2", "w3", "r1"):
            await run.call(name)
        await run.off("w2")  # while it waits: w3 waits for w1 still
        assert run.told == ["w1"]
        await run.off("w1")  # while it is carried out
        assert run.told == ["w1", "w3"]
        await run.done("w3")
        assert run.told == ["w1", "w3", "r1"]
        await run.call("w4")
        await run.call("r2")
        await run.off("w4")  # r2 waited for it alone
        assert run.told[3:] == ["r2"]
        run.gates["r1"].set()
        await run.done("r2")
        await run.call("w5")
        await run.call("w6")
        run.gates["w5"].set()
        await asyncio.sleep(0)
        run.tasks["w6"].cancel()  # when its turn has come, before it has noticed
        await run.call("w7")
        assert run.told[4:] == ["w5", "w7"]
        await run.done("w7")

    asyncio.run(play())
