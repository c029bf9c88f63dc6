"""The command line as a process: encodings, pipes, signals and start-up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"


def environment(tmp_path: Path, **changes: str) -> dict[str, str]:
    paths = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": paths, "KEYFOLD_STORE": str(tmp_path / "memory.db"), **changes}


def run(
    tmp_path: Path, *arguments: str, stdin: bytes = b"", **changes: str
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "keyfold", *arguments]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        env=environment(tmp_path, **changes),
        timeout=60,
        check=False,
    )


def save(tmp_path: Path, text: str) -> None:
    words = ("save", "--type", "decision", "--title", "日本 🙂", "--topic", "k", "-")
    done = run(tmp_path, *words, stdin=text.encode())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["<&-", "0>/dev/null"])
def test_a_standard_input_that_cannot_be_read_is_told_in_a_word(how: str, tmp_path: Path) -> None:
    for field, *words in (
        ("CONTENT", "save", "--type", "decision", "--title", "t", "-"),
        ("TEXT", "session", "summary", "-"),
        ("PATH", "import", "-"),
    ):
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {how}', "sh", sys.executable, "-m", "keyfold", *words],
            capture_output=True,
            env=environment(tmp_path),
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"keyfold: {field}: ".encode())
        assert b"standard input" in done.stderr
        assert done.stderr.count(b"\n") == 1
        assert done.stdout == b""


@pytest.mark.parametrize(
    "changes",
    [{"PYTHONIOENCODING": "cp1252"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_any_text_can_be_shown_in_any_encoding(changes: dict[str, str], tmp_path: Path) -> None:
    save(tmp_path, "日本 🙂 ñ")
    for words in (
        ("get", "--topic", "k"),
        ("search", "日本"),
        ("topics",),
        ("history", "--topic", "k"),
        ("context",),
    ):
        shown = run(tmp_path, *words, **changes)
        assert (shown.returncode, shown.stderr) == (0, b""), words
        assert b"\\U0001f642" in shown.stdout
    told = run(tmp_path, "get", "--topic", "k", "--json", **changes)
    assert told.stdout.isascii()
    assert json.loads(told.stdout)["content"] == "日本 🙂 ñ"
    exported = run(tmp_path, "export", **changes)
    assert "日本 🙂 ñ" in exported.stdout.decode("utf-8")
    assert b"\r" not in exported.stdout


def test_escape_sequences_in_a_memory_do_not_reach_the_terminal(tmp_path: Path) -> None:
    save(tmp_path, "red \x1b[31m bell \x07")
    shown = run(tmp_path, "get", "--topic", "k").stdout
    assert b"\x1b" not in shown
    assert b"red \\x1b[31m bell \\x07" in shown


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    save(tmp_path, "word " * 100_000)
    command = [sys.executable, "-m", "keyfold", "get", "--topic", "k"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path)
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of this kind are of POSIX")
def test_an_interrupt_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "keyfold", "save", "--type", "decision", "--title", "t", "-"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(
            b"x" * (1 << 17)
        )  # more than a pipe holds: once it is through, the command is reading
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        process.stdin.close()  # it may have been between two reads, where a signal waits for the next answer
        told = process.stderr.read()
        assert (process.wait(60), told) == (130, b"")


def test_an_internal_error_is_told_without_a_traceback(tmp_path: Path) -> None:
    broken = (
        "import keyfold.cli.reading as r, sys\ndef fail(*_): raise RuntimeError('SECRET')\nr.stats = fail\n"
    )
    broken += "from keyfold.cli import main\nsys.exit(main(['stats']))"
    done = subprocess.run(
        [sys.executable, "-c", broken],
        capture_output=True,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert b"an internal error (RuntimeError)" in done.stderr
    assert b"SECRET" not in done.stderr


def test_building_the_grammar_imports_no_engine_and_no_json(tmp_path: Path) -> None:
    look = "import sys; from keyfold.cli import main; main(['--version']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, env=environment(tmp_path), timeout=60, check=False
    )
    loaded = set(eval(done.stdout.decode().splitlines()[1]))
    assert "argparse" in loaded
    assert not loaded & {
        "apsw",
        "json",
        "asyncio",
        "keyfold.memory",
        "keyfold.registry",
        "keyfold.portability",
        "difflib",
    }


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def into(tmp_path: Path, redirection: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command with its standard output redirected by a shell."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "keyfold", *arguments],
        capture_output=True,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )


@FULL
@pytest.mark.parametrize(
    "words",
    [
        ("get", "--topic", "k"),
        ("get", "--topic", "k", "--json"),
        ("export",),
        ("list",),
        ("stats",),
        ("--help",),
        ("--version",),
    ],
)
def test_a_standard_output_that_is_full_is_told_and_ends_with_3(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    save(tmp_path, "word " * 50_000)
    done = into(tmp_path, ">/dev/full", *words)
    assert done.returncode == 3
    told = b"cannot write to standard output: No space left on device"
    if "--json" in words:
        assert json.loads(done.stderr)["error"]["message"].encode() == told
    else:
        assert done.stderr == b"keyfold: " + told + b"\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_a_standard_output_that_is_closed_is_told_and_ends_with_3(tmp_path: Path) -> None:
    save(tmp_path, "word")
    for words in (("get", "--topic", "k"), ("topics",), ("export",), ("context", "--json")):
        done = into(tmp_path, ">&-", *words)
        assert done.returncode == 3, words
        assert b"cannot write to standard output: it is closed" in done.stderr
        assert b"Traceback" not in done.stderr
    done = into(tmp_path, ">&-", "export", "--output", str(tmp_path / "a.jsonl"))
    assert done.returncode == 0
    assert into(tmp_path, "2>&-", "get", "9").returncode == 1


@FULL
def test_a_change_that_could_not_be_told_is_said_to_be_made(tmp_path: Path) -> None:
    words = ("save", "--type", "decision", "--title", "t", "--topic", "new", "x")
    made = b"; the change to the store was made\n"
    assert into(tmp_path, ">/dev/full", *words).stderr.endswith(made)
    assert run(tmp_path, "get", "--topic", "new").returncode == 0
    assert not into(tmp_path, ">/dev/full", *words).stderr.endswith(made)  # it was there already
    for words in (("session", "start"), ("session", "end"), ("forget", "--topic", "new", "--yes")):
        assert into(tmp_path, ">/dev/full", *words).stderr.endswith(made), words
