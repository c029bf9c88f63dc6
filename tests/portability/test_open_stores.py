"""A store that is open is never looked into as a file: that would cost this process its locks on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyfold import Memory
from keyfold.errors import InvalidRequest
from keyfold.portability import SOURCES, export_file, import_path


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened by Python, not by SQLite."""
    names: list[str] = []
    real = Path.open

    def seen(self: Path, *args: Any, **kwargs: Any) -> Any:
        names.append(self.name)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", seen)
    return names


def test_an_export_over_it_is_refused_unread(tmp_path: Path, opened_files: list[str]) -> None:
    with Memory.open(tmp_path / "s.db") as memory:
        memory.mem_save("ana", "text", type="decision", title="t")
        with pytest.raises(InvalidRequest, match="is a store"):
            export_file(memory.engine, tmp_path / "s.db")
    assert "s.db" not in opened_files


@pytest.mark.parametrize("source", [None, *SOURCES])
def test_an_import_of_it_is_refused_unread(tmp_path: Path, opened_files: list[str], source: Any) -> None:
    with Memory.open(tmp_path / "s.db") as memory:
        memory.mem_save("ana", "text", type="decision", title="t")
        given = {} if source is None else {"source": source}
        with pytest.raises(InvalidRequest) as refused:
            import_path(memory.engine, tmp_path / "s.db", **given)
        if source not in ("markdown", "engram"):
            assert "keyfold copy" in str(refused.value)
        assert "s.db" not in opened_files
