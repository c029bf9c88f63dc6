"""What no file of a store may hold: private text ever, forgotten text once it is erased."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw
import pytest

from keyfold import Filter, InvalidRequest, Memory

SECRET = "xyzzy-s3cret-marker"
PRIVATE = f"<private>{SECRET}</private>"


def holds(folder: Path, *needles: str) -> list[str]:
    """Those of the texts that any file below a folder holds, as UTF-8."""
    found = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return [needle for needle in needles if any(needle.encode() in data for data in found)]


def test_private_text_reaches_no_file_whichever_field_holds_it(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "memory.db")) as memory:
        note: dict[str, Any] = {"type": "discovery", "title": f"Title {PRIVATE}"}
        memory.mem_save("ana", f"text {PRIVATE} tail", **note, topic_key="k", idempotency_key="i")
        memory.mem_save(
            "ana",
            "other",
            **note,
            tags=["tag", PRIVATE],
            metadata={"a": PRIVATE, "b": [PRIVATE, {PRIVATE: PRIVATE}]},
        )
        memory.mem_update("ana", topic_key="k", content=f"unclosed <private>{SECRET}")
        memory.mem_update("ana", topic_key="k", metadata={"c": PRIVATE})
        memory.mem_log_turn(
            "ana", thread_id="t", index=0, role="user", text=PRIVATE, tool_calls=[{"a": PRIVATE}]
        )
        memory.mem_add_document("ana", source=f"a/{PRIVATE}.md", text=PRIVATE, title=PRIVATE, mime=PRIVATE)
        memory.mem_session_summary("ana", f"summary {PRIVATE}")
        memory.mem_session_end("ana", summary=f"end {PRIVATE}")
        memory.mem_search("ana", PRIVATE)
        with pytest.raises(InvalidRequest) as caught:
            memory.mem_save("ana", "text", **note, topic_key=PRIVATE)
        assert SECRET not in str(caught.value)
        assert holds(tmp_path, SECRET) == []
        assert holds(tmp_path, "REDACTED") == ["REDACTED"]
    assert holds(tmp_path, SECRET) == []


def fill(memory: Memory) -> tuple[list[str], list[str]]:
    """3,000 records in mixed order, 40 % rewritten; (words of the 300 to forget, words of the rest)."""
    source = random.Random(4)
    order = source.sample(range(3_000), 3_000)
    filler = [f"filler{number}" for number in range(500)]

    def item(number: int, word: str) -> dict[str, Any]:
        text = f"{word} {' '.join(source.choices(filler, k=30))}"
        tags = ["doomed"] if number % 10 == 0 else ["kept"]
        return {
            "content": text,
            "type": "discovery",
            "title": f"t{word}",
            "topic_key": f"k{number}",
            "tags": tags,
            "metadata": {"m": word},
        }

    doomed: list[str] = []
    kept: list[str] = []
    for start in range(0, 3_000, 100):
        memory.mem_save_many(
            "ana", [item(number, f"first{number:05}x") for number in order[start : start + 100]]
        )
    rewritten = source.sample(order, 1_200)
    for start in range(0, 1_200, 100):
        memory.mem_save_many(
            "ana", [item(number, f"again{number:05}x") for number in rewritten[start : start + 100]]
        )
    for number in range(3_000):
        words = [f"first{number:05}x", *([f"again{number:05}x"] if number in set(rewritten) else [])]
        (doomed if number % 10 == 0 else kept).extend(words)
    return doomed, kept


def test_of_300_forgotten_among_3000_no_byte_is_left(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "memory.db")) as memory:
        doomed, kept = fill(memory)
        assert holds(tmp_path, *doomed) == doomed
        for number in range(0, 50, 10):
            assert memory.mem_delete("ana", topic_key=f"k{number}").erased is True
        result = memory.mem_delete("ana", filter=Filter(tags=("doomed",)))
        assert (result.deleted, result.erased) == (295, True)
        assert holds(tmp_path, *doomed) == []
        assert holds(tmp_path, *kept) == kept
        memory.mem_save("bob", "no trace", type="discovery", title="t")
        assert not [
            hit for hit in memory.mem_search("ana", doomed[-1], limit=1000) if doomed[-1] in hit.snippet
        ]
    assert holds(tmp_path, *doomed) == []


def test_with_a_reader_open_erasure_says_so_and_is_done_later(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(str(path)) as memory:
        memory.mem_save("ana", "doomedword stays a while", type="discovery", title="t", topic_key="k")
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM records").fetchall()
        result = memory.mem_delete("ana", topic_key="k")
        assert result.deleted == 1
        assert isinstance(result.erased, str)
        assert "reader" in result.erased
        assert memory.mem_search("ana", "doomedword").total == 0
        reader.execute("COMMIT")
        reader.close()
        assert memory.engine.erase() is True  # type: ignore[attr-defined]  # the embedded engine's own step
        assert holds(tmp_path, "doomedword") == []


def test_with_a_reader_open_no_forget_rewrites_the_store_into_the_log(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    note: dict[str, Any] = {"type": "discovery", "title": "t"}
    with Memory.open(str(path)) as memory:
        memory.mem_save_many("ana", [{"content": f"{number} {'x' * 4000}", **note} for number in range(300)])
        memory.mem_save_many("ana", [{"content": "gone", "topic_key": f"k{n}", **note} for n in range(4)])
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM records").fetchall()
        size = memory.engine.health().facts["bytes"]
        log = Path(f"{path}-wal")
        first = memory.mem_delete("ana", topic_key="k0")
        before = log.stat().st_size
        later = [memory.mem_delete("ana", topic_key=f"k{number}") for number in (1, 2, 3)]
        assert all("reader" in str(result.erased) for result in (first, *later))
        assert log.stat().st_size - before < size / 4
        reader.execute("COMMIT")
        reader.close()
        assert memory.engine.erase() is True  # type: ignore[attr-defined]  # the embedded engine's own step
    assert holds(tmp_path, "gone") == []


def test_what_waits_for_erasure_is_erased_on_close(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    memory = Memory.open(str(path))
    memory.mem_save("ana", "doomedword", type="discovery", title="t", topic_key="k")
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM records").fetchall()
    memory.mem_delete("ana", topic_key="k")
    reader.execute("COMMIT")
    reader.close()
    memory.close()
    assert holds(tmp_path, "doomedword") == []


def test_forgetting_a_user_takes_the_name_and_the_sessions_too(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "memory.db")) as memory:
        memory.mem_session_start("user-quetzal", session_id="session-axolotl")
        memory.mem_save("user-quetzal", "text", type="discovery", title="t", idempotency_key="i")
        memory.mem_session_summary("user-quetzal", "summary-ocelot")
        memory.mem_save("ana", "text", type="discovery", title="t")
        assert memory.mem_delete("user-quetzal", all=True).erased is True
        assert holds(tmp_path, "quetzal", "axolotl", "ocelot") == []


def test_a_dedup_writes_nothing_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Memory.open(str(path)) as memory:
        save: dict[str, Any] = {
            "type": "decision",
            "title": "Autenticación",
            "topic_key": "architecture/auth",
        }
        memory.mem_save("ana", "JWT de una hora.", **save)
        unkeyed = memory.mem_save("ana", "Una vez.", type="discovery", title="Suelto")
        second = apsw.Connection(str(path))

        def state() -> tuple[Any, int]:
            version = second.execute("PRAGMA data_version").fetchall()[0][0]
            return version, Path(f"{path}-wal").stat().st_size

        before = state()
        assert memory.mem_save("ana", "JWT de una hora.", **save).outcome == "deduped"
        again = memory.mem_save("ana", "Una vez.", type="discovery", title="Suelto")
        assert again.id == unkeyed.id
        assert state() == before
        memory.mem_save("ana", "JWT de dos horas.", **save)
        assert state() != before
        second.close()
