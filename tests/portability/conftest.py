"""Stores and data for the tests of export and import."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keyfold.engines.inmemory import InMemoryEngine
from keyfold.model import Config

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def config() -> Config:
    return Config(clock=lambda: NOW)


@pytest.fixture
def engine(config: Config) -> InMemoryEngine:
    return InMemoryEngine(config)


@pytest.fixture
def other(config: Config) -> InMemoryEngine:
    return InMemoryEngine(config)


@pytest.fixture
def engram_data() -> Path:
    """A real memory of Engram's, kept outside this repository; tests that need it are skipped without it."""
    shared = Path(os.environ.get("KEYFOLD_SHARED", ROOT.parent / "shared"))
    folder = shared / "data" / "engram-export"
    if not folder.is_dir():
        pytest.skip(
            "engram-export is not there: set KEYFOLD_SHARED to the folder that holds data/engram-export"
        )
    return folder


@pytest.fixture
def record() -> Callable[..., dict[str, Any]]:
    """A line of an export as an object, with what a test changes."""

    def make(**changes: Any) -> dict[str, Any]:
        fields = {
            "namespace": "alice",
            "kind": "observation",
            "key": "architecture/auth",
            "minted": False,
            "type": "decision",
            "title": "Auth model",
            "content": "JWT, one hour.",
            "metadata": {"project": "shop"},
            "tags": ["auth"],
            "session_id": "s1",
            "revision": 1,
            "created_at": "2026-01-01T10:00:00.000000Z",
            "updated_at": "2026-01-01T10:00:00.000000Z",
            "expires_at": None,
            "observed_at": None,
            "pinned": False,
            "taint": "internal",
            "history": [],
        }
        return {**fields, **changes}

    return make


@pytest.fixture
def file_of() -> Callable[..., list[str]]:
    """The lines of an export around the lines given (objects, or text taken as it is)."""

    def make(*lines: Any) -> list[str]:
        body = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        header, closing = {"format": "keyfold", "version": 1}, {"end": "keyfold", "records": len(lines)}
        return [json.dumps(header) + "\n", *(line + "\n" for line in body), json.dumps(closing) + "\n"]

    return make
