"""`keyfold mcp` as a process: what it prints, what it survives, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import Memory
from keyfold.mcp_server.pipes import LONGEST_LINE
from mcp import Client, StdioServerParameters
from tests.mcp.common import HELLO, SAVE, Server, Starter, alive, command, environment, said, until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and descriptors are POSIX's")


def stored(tmp_path: Path, user: str = "default") -> list[str]:
    with Memory.open(str(tmp_path / "memory.db")) as memory:
        return [record.content for record in memory.mem_list(user, limit=1_000)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_two_hundred_parallel_saves_in_one_session_land(mode: str, tmp_path: Path) -> None:
    argv = command("--user", "ana")
    server = StdioServerParameters(command=argv[0], args=argv[1:], env=environment(tmp_path))

    async def save_all() -> tuple[set[str], set[str]]:
        async with Client(server, mode=mode) as client:
            begun = await client.call_tool("mem_session_start", {})
            calls = [
                client.call_tool(
                    "mem_save", {**SAVE, "content": f"fact {number}", "topic_key": f"k/{number}"}
                )
                for number in range(200)
            ]
            results = await asyncio.gather(*calls)
            assert not any(result.is_error for result in results), said(results[0])
            data: list[Any] = [result.structured_content for result in results]
            assert {item["outcome"] for item in data} == {"created"}
            assert {item["session_id"] for item in data} == {begun.structured_content["session_id"]}
            return {item["id"] for item in data}, {item["session_id"] for item in data}

    ids, sessions = asyncio.run(save_all())
    assert (len(ids), len(sessions)) == (200, 1)
    assert set(stored(tmp_path, "ana")) == {f"fact {number}" for number in range(200)}


def test_parallel_saves_without_a_session_open_one_between_them(server: Server, tmp_path: Path) -> None:
    for number in range(50):
        server.send("tools/call", {"name": "mem_save", "arguments": {**SAVE, "content": f"{number}"}}, number)
    answers = [server.hear() for _ in range(50)]
    assert {answer["id"] for answer in answers} == set(range(50))
    assert len({answer["result"]["structuredContent"]["session_id"] for answer in answers}) == 1
    assert len(stored(tmp_path)) == 50


CALL = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"mem_save","arguments":%s}}\n'
FIELDS = b'"content":"x","type":"decision","title":"t"'

# a line; the id of the answer; words in it; whether the protocol's own error (else the tool's)
BAD: list[tuple[bytes, int | None, str, bool]] = [
    (b"garbage\n", None, "not JSON", True),
    (b"\xff\xfe\x00\n", None, "not JSON", True),
    (b'{"jsonrpc":"2.0","id":5,\n', None, "not JSON", True),
    (b"[" * 100_000 + b"\n", None, "not JSON", True),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"n":NaN}}\n', None, "NaN", True),
    (
        b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"n":' + b"9" * 5_000 + b"}}\n",
        None,
        "too long",
        True,
    ),
    (b"5\n", None, "one JSON object", True),
    (b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]\n', None, "batches", True),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', None, "id must be", True),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', None, "id must be", True),
    (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n', None, "the id holds a lone surrogate", True),
    (b'{"jsonrpc":"2.0","id":"a\xff","method":"ping"}\n', None, "a byte that is no UTF-8", True),
    (b'{"id":5,"method":"ping"}\n', 5, "jsonrpc", True),
    (b'{"jsonrpc":"2.0","id":5,"method":["ping"]}\n', 5, "a method", True),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":[]}\n', 5, "params must be an object", True),
    (b'{"jsonrpc":"2.0","id":5,"method":"no/such"}\n', 5, "not found", True),
    (b'{"jsonrpc":"2.0","id":5,"method":"\\ud800"}\n', 5, "not found", True),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{}}\n', 5, "Invalid", True),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"\\ud800"}}\n', 5, "no tool", True),
    (CALL % b"[]", 5, "Invalid", True),
    (CALL % (b'{"\\ud800":1,' + FIELDS + b"}"), 5, "there is no argument", False),
    (
        CALL % b'{"content":"a\\ud83d","type":"decision","title":"t"}',
        5,
        "lone surrogate at position 1",
        False,
    ),
    (CALL % b'{"content":"a\xff","type":"decision","title":"t"}', 5, "lone surrogate at position 1", False),
    (CALL % (b'{"metadata":{"\\udfff":[1]},' + FIELDS + b"}"), 5, "lone surrogate", False),
    (CALL % (b'{"metadata":{"n":1e999},' + FIELDS + b"}"), 5, "not finite", False),
    (CALL % (b'{"metadata":{"n":' + b"[" * 300 + b"]" * 300 + b"}," + FIELDS + b"}"), 5, "nested", False),
    (
        CALL % (b'{"content":"' + b"x" * 5_000_000 + b'","type":"decision","title":"t"}'),
        5,
        "5,000,000 bytes",
        False,
    ),
    (CALL % (b'{"' + b"x" * 5_000_000 + b'":1}'), 5, "there is no argument", False),
    (CALL % b"{}", 5, "must be given", False),
    (b" " * LONGEST_LINE + b"x\n", None, "passed over", True),
]


@pytest.fixture(scope="module")
def long_suffering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for every bad line: none of them may harm it."""
    begun = Server(command(), environment(tmp_path_factory.mktemp("bad")))
    try:
        begun.greet()
        yield begun
        begun.close_stdin()
        assert begun.end() == 0
        assert begun.garbage == []
        assert b"Traceback" not in begun.errors
    finally:
        begun.abandon()


@pytest.mark.parametrize(
    ("line", "id", "words", "protocol"),
    BAD,
    ids=[line[:60].decode("ascii", "replace").strip() for line, *_ in BAD],
)
def test_a_bad_line_gets_an_error_and_the_next_call_works(
    line: bytes, id: int | None, words: str, protocol: bool, long_suffering: Server
) -> None:
    server = long_suffering
    server.raw(line)
    answer = server.hear()
    assert answer["id"] == id
    if protocol:
        assert answer["error"]["code"] in (-32700, -32600, -32601, -32602)
        text = answer["error"]["message"]
    else:
        assert answer["result"]["isError"] is True
        text = answer["result"]["content"][0]["text"]
    assert words in text
    assert len(text) < 2_000
    fact = {**SAVE, "content": f"saved after {words} {len(line)} {len(server.heard)}"}
    assert server.call("mem_save", fact)["structuredContent"]["outcome"] == "created"


def test_bad_lines_before_the_greeting_are_answered_too(start: Starter) -> None:
    server = start()
    for _ in range(20):
        server.raw(b"garbage\n")
        assert server.hear()["error"]["code"] == -32700
    server.raw(b"\n  \n\xef\xbb\xbf")  # blank lines, and what some shells put before a pipe's first line
    assert server.greet()["result"]["serverInfo"]["name"] == "keyfold"


def test_answers_to_questions_that_were_never_asked_are_passed_over(server: Server) -> None:
    server.raw(b'{"jsonrpc":"2.0","id":9,"result":{}}\n{"result":5}\n{"jsonrpc":"2.0","id":9,"error":{}}\n')
    assert server.ask("ping", id="p") == {"jsonrpc": "2.0", "id": "p", "result": {}}


NOISY = """
import os, subprocess, sys, warnings
from keyfold.cli import main
from keyfold.memory import AsyncMemory
save = AsyncMemory.mem_save
async def noisy(self, *args, **kwargs):
    print("printed \\U0001f642")
    os.write(1, b"written\\n")
    subprocess.run(["echo", "from a child"], check=True)
    assert sys.stdin.read() == ""
    warnings.warn("warned")
    import logging
    logging.getLogger("library").warning("logged")
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("library").exception("failed")
    return await save(self, *args, **kwargs)
AsyncMemory.mem_save = noisy
sys.exit(main(["mcp"]))
"""


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-16", "utf-8"])
def test_stdout_carries_the_protocol_only_and_in_utf_8(encoding: str, start: Starter, tmp_path: Path) -> None:
    server = start(argv=[sys.executable, "-c", NOISY], PYTHONIOENCODING=encoding, LC_ALL="C", PYTHONUTF8="0")
    server.greet()
    server.ask("tools/list")
    for number in range(3):
        assert not server.call(
            "mem_save", {**SAVE, "content": f"日本 🙂 {number}", "title": "ñ\u2028\u0085"}
        )["isError"]
    found = server.call("mem_search", {"query": "日本"})
    assert "🙂" in found["content"][0]["text"]
    server.close_stdin()
    assert server.end() == 0
    assert server.garbage == []
    assert len(server.heard) == 6
    told = (
        server.errors.decode(encoding, "replace")
        if encoding == "utf-16"
        else server.errors.decode("utf-8", "replace")
    )
    assert b"written" in server.errors
    assert b"from a child" in server.errors
    assert "Traceback" not in told
    assert "日本" not in told
    if encoding != "utf-16":
        for words in ("printed", "warned", "library: logged", "library: failed", "(ZeroDivisionError)"):
            assert words in told
    assert stored(tmp_path)[0] == "日本 🙂 2"


def test_a_quiet_session_says_nothing_on_stderr(server: Server) -> None:
    server.call("mem_save", SAVE)
    server.close_stdin()
    assert server.end() == 0
    assert server.errors == b""


def test_calls_that_came_before_the_end_of_stdin_are_answered(start: Starter, tmp_path: Path) -> None:
    server = start()
    server.send("initialize", HELLO, "hello")
    for number in range(20):
        server.send("tools/call", {"name": "mem_save", "arguments": {**SAVE, "content": f"{number}"}}, number)
    server.close_stdin()
    heard = [server.hear()["id"] for _ in range(21)]
    assert server.end() == 0
    assert set(heard) == {"hello", *range(20)}
    assert len(stored(tmp_path)) == 20


def test_the_end_of_stdin_ends_it_in_time_even_with_a_call_that_hangs(server: Server, tmp_path: Path) -> None:
    server.call("mem_save", SAVE)
    holder = apsw.Connection(str(tmp_path / "memory.db"))
    holder.execute("BEGIN IMMEDIATE")  # whoever wants to write now waits
    server.send("tools/call", {"name": "mem_save", "arguments": {**SAVE, "content": "never"}}, 8)
    server.ask("ping", id="p")
    started = time.monotonic()
    server.close_stdin()
    assert server.end(10) == 0
    assert time.monotonic() - started < 3.0
    holder.execute("ROLLBACK")
    holder.close()
    assert stored(tmp_path) == ["JWT, one hour."]


def test_a_client_that_does_not_read_cannot_keep_it() -> None:
    deaf = subprocess.Popen(
        [sys.executable, "-c", DEAF, *command()], stdout=subprocess.PIPE, env=dict(os.environ), text=True
    )
    assert deaf.stdout is not None
    took = float(deaf.stdout.readline())
    assert deaf.wait(10) == 0
    deaf.stdout.close()
    assert took < 3.0


DEAF = """
import json, subprocess, sys, time
server = subprocess.Popen([*sys.argv[1:], "--store", ":memory:"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(method, params, id):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\\n")
    server.stdin.flush()
send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}, 0)
server.stdout.readline()
for number in range(40):
    send("tools/list", {}, number)  # more than a pipe holds
time.sleep(0.5)
start = time.monotonic()
server.stdin.close()
server.wait(20)
print(time.monotonic() - start, flush=True)
server.stdout.close()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_quietly(number: signal.Signals, server: Server, tmp_path: Path) -> None:
    server.call("mem_save", SAVE)
    server.process.send_signal(number)
    assert server.end(10) == 128 + number
    assert server.errors == b""
    assert stored(tmp_path) == ["JWT, one hour."]
    assert not (tmp_path / "memory.db-wal").exists()  # the store was closed


def test_a_signal_ends_it_in_two_seconds_whatever_is_still_to_be_done(server: Server) -> None:
    call = {"name": "mem_save", "arguments": SAVE}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}).encode() + b"\n"
        for number in range(20_000)
    ]

    def flood() -> None:
        with contextlib.suppress(OSError):  # the server ends meanwhile
            server.raw(b"".join(lines))

    flooding = threading.Thread(target=flood)
    flooding.start()
    for _ in range(20):
        server.hear()
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 128 + signal.SIGTERM
    took = time.monotonic() - started
    flooding.join()
    assert took < 2.5  # a second and a half, and a busy machine


def test_stdout_that_nobody_reads_ends_it() -> None:
    quiet = subprocess.Popen(
        command("--store", ":memory:"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert quiet.stdout is not None
    assert quiet.stdin is not None
    assert quiet.stderr is not None
    quiet.stdout.close()
    quiet.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode() + b"\n"
    )
    quiet.stdin.flush()
    assert quiet.wait(10) == 0
    assert quiet.stderr.read() == b""
    quiet.stderr.close()
    quiet.stdin.close()


CLIENT = """
import asyncio, sys
from mcp import Client, StdioServerParameters
async def main():
    wrapped = 'echo $$ > "$0"; exec "$@"'
    server = StdioServerParameters(command="/bin/sh", args=["-c", wrapped, *sys.argv[1:]], env=dict(__import__("os").environ))
    async with Client(server) as client:
        done = await client.call_tool("mem_save", {"content": "x", "type": "decision", "title": "t"})
        print("saved" if not done.is_error else done, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def test_when_the_client_is_killed_the_server_is_gone_within_five_seconds(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(note), *command()],
        stdout=subprocess.PIPE,
        env=environment(tmp_path),
        text=True,
    )
    assert client.stdout is not None
    assert client.stdout.readline() == "saved\n"
    pid = int(note.read_text())
    assert alive(pid)
    client.kill()
    client.wait(10)
    client.stdout.close()
    assert until(lambda: not alive(pid), 5.0) < 5.0
    assert stored(tmp_path) == ["x"]


BETWEEN = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=0, stdout=1)
print(server.pid, file=sys.stderr, flush=True)
time.sleep(600)
"""


def test_when_the_parent_is_killed_an_open_pipe_does_not_keep_the_server(start: Starter) -> None:
    between = start(argv=[sys.executable, "-c", BETWEEN, *command()])
    between.greet()
    pid = next(
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdecimal() and parent_of(path) == between.process.pid
    )
    between.process.kill()
    assert between.process.stdin is not None
    assert not between.process.stdin.closed  # this process holds the server's stdin open
    assert until(lambda: not alive(pid), 5.0) < 5.0


def parent_of(path: Path) -> int:
    try:
        return int((path / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_store_that_cannot_be_opened_is_told_before_the_protocol_begins(
    start: Starter, tmp_path: Path
) -> None:
    (tmp_path / "foreign.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    stores = (tmp_path, tmp_path / "foreign.db", tmp_path / "no" / "such" / "folder.db")
    for server in [start("--store", str(store)) for store in stores]:
        assert server.end() == 3
        assert server.errors.startswith(b"keyfold: ")
        assert b"Traceback" not in server.errors
        assert (server.heard, server.garbage) == ([], [])


def test_a_user_or_a_url_that_is_wrong_is_wrong_use(start: Starter) -> None:
    for server in [start("--user", " "), start("--store", "gopher://x")]:
        assert server.end() == 2
        assert server.errors.startswith(b"keyfold: ")


WITHOUT = "import sys; sys.modules['mcp'] = None; from keyfold.cli import main; sys.exit(main(['mcp']))"


def test_without_the_extra_it_says_what_to_install(start: Starter) -> None:
    server = start(argv=[sys.executable, "-c", WITHOUT])
    assert server.end() == 2
    assert b"pip install 'keyfold[mcp]'" in server.errors
    assert server.garbage == []


def test_closed_standard_streams_are_told(tmp_path: Path) -> None:
    for closing in ("<&-", ">&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", *command()],
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            check=False,
            timeout=30,
        )
        assert done.returncode == 3, done.stderr
        assert b"is closed" in done.stderr


def test_the_user_and_the_store_come_from_the_environment(start: Starter, tmp_path: Path) -> None:
    server = start(KEYFOLD_USER="eve", KEYFOLD_STORE=str(tmp_path / "memory.db"))
    server.greet()
    server.call("mem_save", SAVE)
    server.close_stdin()
    assert server.end() == 0
    assert stored(tmp_path, "eve") == ["JWT, one hour."]
    assert stored(tmp_path) == []


def test_a_call_that_the_client_calls_off_is_not_answered_and_the_next_one_is(
    server: Server, tmp_path: Path
) -> None:
    server.call("mem_save", SAVE)
    holder = apsw.Connection(str(tmp_path / "memory.db"))
    holder.execute("BEGIN IMMEDIATE")
    server.send("tools/call", {"name": "mem_save", "arguments": {**SAVE, "content": "late"}}, 8)
    server.send("notifications/cancelled", {"requestId": 8})
    assert server.ask("ping", id="p")["id"] == "p"
    holder.execute("ROLLBACK")
    holder.close()
    assert (
        server.call("mem_save", {**SAVE, "content": "next"}, 9)["structuredContent"]["outcome"] == "created"
    )
    assert [message["id"] for message in server.heard] == ["hello", 7, "p", 9]
