"""A keyfold export is read by the line, in bounded memory, whatever the input is."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from keyfold.engines.inmemory import InMemoryEngine
from keyfold.errors import InvalidRequest, KeyfoldError, NotFound, StoreError
from keyfold.model import Config
from keyfold.portability import SOURCES, copy, export, import_keyfold, import_path, lines, lines_of
from keyfold.portability.strict_json import BadInput

MIB = 1 << 20


class Zeros(io.RawIOBase):
    """A device that gives zeros without end."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        into[:] = bytes(len(into))
        return len(into)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ceiling that a test can afford to pass."""
    monkeypatch.setattr(lines, "MAX_LINE", 4 * MIB)
    monkeypatch.setattr("keyfold.portability.writer.MAX_LINE", 4 * MIB)
    monkeypatch.setattr(lines, "STATES", 4)
    monkeypatch.setattr(lines, "_FURTHER", 4)


def _bytes(given: list[str]) -> bytes:
    return "".join(given).encode()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_over_the_ceiling_is_reported_by_number_and_the_rest_goes_in(
    packed: bool, engine: InMemoryEngine, file_of: Any, record: Any, tmp_path: Path
) -> None:
    past = {"type": "t", "title": "t", "content": "x" * 900_000, "written_at": "2025-01-01T00:00:00Z"}
    under, over = ([{**past, "revision": n} for n in range(1, 1 + count)] for count in (4, 5))
    text = _bytes(
        file_of(
            record(key="a"),
            record(key="b", history=over, revision=9),
            record(key="c", history=under, revision=9),
        )
    )
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(text, 1) if packed else text)
    report = import_path(engine, path)
    assert [(item.line, item.reason) for item in report.skipped] == [(3, "it is longer than 4,194,304 bytes")]
    assert report.created == 2
    raised = Config(max_text_bytes=(1 << 20) + 200_000)
    assert import_path(InMemoryEngine(), path, config=raised).skipped == []
    given = import_keyfold(InMemoryEngine(), text.splitlines())  # lines that are in memory already
    assert (given.created, given.skipped) == (3, [])


@pytest.mark.usefixtures("small")
def test_an_export_names_what_an_import_of_it_would_leave_out_and_a_copy_takes_it(
    engine: InMemoryEngine, other: InMemoryEngine, file_of: Any, record: Any
) -> None:
    past = {"type": "t", "title": "t", "content": "é" * 500_000, "written_at": "2025-01-01T00:00:00Z"}
    history = [{**past, "revision": number} for number in range(1, 6)]
    import_keyfold(engine, file_of(record(key="a"), record(key="b", history=history, revision=9)))
    beyond: list[str] = []
    assert len(list(export(engine, beyond=beyond))) == 4
    assert beyond == ["observation 'b' of 'alice'"]
    assert copy(engine, other).created == 2
    assert list(export(other)) == list(export(engine))


@pytest.mark.usefixtures("small")
def test_a_line_without_end_is_given_up_in_bounded_memory(file_of: Any, record: Any) -> None:
    def bomb(tail: bytes) -> io.BytesIO:
        with gzip.GzipFile(fileobj=(packed := io.BytesIO()), mode="wb", compresslevel=1) as file:
            for _ in range(12):
                file.write(b"x" * MIB)
            file.write(tail)
        return io.BytesIO(packed.getvalue())

    passed, given_up = "longer than 4,194,304 bytes", "no end within reach: from here on nothing is read"
    for file, reason, created in (
        (io.BufferedReader(Zeros()), given_up, 0),
        (gzip.GzipFile(fileobj=bomb(b"x" * 5 * MIB + b"\n")), given_up, 0),
        (gzip.GzipFile(fileobj=bomb(b"\n" + _bytes(file_of(record())))), passed, 1),
        (io.BytesIO(b"[" * 5 * MIB), passed, 0),
    ):
        tracemalloc.start()
        report = import_keyfold(InMemoryEngine(), lines_of(file))  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [(item.line, reason in item.reason) for item in report.skipped[:1]] == [(1, True)]
        assert report.created == created
        assert peak < 16 * MIB  # a bytearray may move as it grows


def test_a_long_line_that_is_whole_is_taken_as_any_other(
    engine: InMemoryEngine, file_of: Any, record: Any
) -> None:
    past = {"type": "t", "title": "t", "content": "é\\\n" * 200_000, "written_at": "2025-01-01T00:00:00Z"}
    history = [{**past, "revision": number} for number in range(1, 4)]
    text = _bytes(file_of(record(history=history, revision=9)))
    assert import_keyfold(engine, lines_of(io.BytesIO(text))).skipped == []
    assert list(lines_of(io.BytesIO(text)))[1] == text.decode().splitlines(keepends=True)[1]
    bad = list(lines_of(io.BytesIO(text.replace("é".encode(), b"\xff", 1))))[1]
    assert isinstance(bad, BadInput)
    assert str(bad).startswith("not UTF-8 (byte ")


def test_of_a_gzipped_export_the_whole_lines_are_taken_and_the_rest_is_told(
    file_of: Any, record: Any, tmp_path: Path
) -> None:
    records = [record(key=f"k{number}", content=os.urandom(500).hex()) for number in range(300)]
    text = _bytes(file_of(*records))
    good = gzip.compress(text)
    path = tmp_path / "a.jsonl.gz"

    def taken(data: bytes, source: Any = "keyfold") -> tuple[int, list[tuple[int | None, str]]]:
        path.write_bytes(data)
        report = import_path(InMemoryEngine(), path, source=source)
        return report.created, [(item.line, item.reason) for item in report.skipped]

    assert taken(good) == (300, [])
    assert taken(good + bytes(100)) == (300, [])  # padding, as tapes and some tools leave it
    assert taken(gzip.compress(text[:9000]) + gzip.compress(text[9000:])) == (300, [])
    behind = "what stands behind the gzipped export is not gzipped: it is not read"
    assert taken(good + b"SECRET") == (300, [(303, behind)])
    for source in ("auto", "keyfold"):
        assert taken(gzip.compress(_bytes(file_of(record()))) + b"SECRET", source) == (1, [(4, behind)])
    damaged = (
        "the gzipped file does not match its check sum: it is damaged, and what was read of it may be too"
    )
    assert taken(good[:-8] + bytes(8)) == (300, [(303, damaged)])
    for cut in (len(good) // 2, len(good) - 4, len(good) - 900):
        whole = zlib.decompressobj(31).decompress(good[:cut]).count(b"\n")
        created, skipped = taken(good[:cut])
        assert created == min(300, max(0, whole - 1))
        assert [(line, "ends in the middle" in reason) for line, reason in skipped] == [(whole + 1, True)]


@pytest.mark.parametrize("packed", [False, True])
def test_an_export_may_come_through_a_pipe_that_is_named_as_one(
    packed: bool, engine: InMemoryEngine, file_of: Any, record: Any, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = _bytes(file_of(record()))
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(text) if packed else text,))
    writer.start()
    assert import_path(engine, pipe, source="keyfold").created == 1
    writer.join()


def test_a_pipe_or_device_of_another_kind_is_refused_with_the_reason(
    engine: InMemoryEngine, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path(os.devnull)):
        with pytest.raises(InvalidRequest, match="no regular file, so what is in it cannot be found out"):
            import_path(engine, path)
        for source in SOURCES[2:]:
            with pytest.raises((InvalidRequest, StoreError), match="no regular file"):
                import_path(engine, path, source=source)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "a" * 300, "a/../b"])
def test_nothing_is_at_a_path_that_no_file_can_have(source: Any, name: str, engine: InMemoryEngine) -> None:
    with pytest.raises(KeyfoldError) as caught:
        import_path(engine, name, source=source)
    assert isinstance(caught.value, NotFound if len(name) < 9 else (NotFound, StoreError))
    assert json.dumps(str(caught.value), ensure_ascii=False).encode()
