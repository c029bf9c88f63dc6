"""Engines by URL. An engine is a string until it is used: nothing of it is imported before."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

from keyfold.clock import clock_of
from keyfold.contract.protocols import AsyncEngine, Engine
from keyfold.errors import InvalidRequest, StoreError, Unsupported
from keyfold.model import Config

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]{1,}):(//)?")
_LATER: Final = ("postgresql", "postgres")
_SERVICES: Final = ("mem0", "cognee", "supermemory", "cortexdb", "tinyhumans")
_ELSEWHERE: Final = "name another store with --store or KEYFOLD_STORE (in Python: open it by its path)"
_FORMS: Final = "a path such as memory.db, sqlite:///path, :memory: or inmemory:"
_OR_A_SERVICE: Final = f"or a service: {', '.join(_SERVICES)} (docs/services.md)"


def settings_of(config: Any) -> Config:
    """The settings to use: those given, or the usual ones. InvalidRequest when they are none."""
    if config is None:
        return Config()
    if not isinstance(config, Config):
        raise InvalidRequest("config", f"must be a keyfold.Config, not {type(config).__name__}")
    return config


def default_store() -> str:
    """The path of the per-user default store: keyfold/memory.db in the user's data folder, made if missing.

    The folder is that of platformdirs: XDG_DATA_HOME or ~/.local/share, ~/Library/Application Support on
    macOS, LOCALAPPDATA on Windows.
    """
    path = default_path()
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot make the folder of the default store, {folder}: {error.strerror}; {_ELSEWHERE}"
        ) from None
    return str(path)


def default_path() -> Path:
    """Where the per-user default store is, or would be: nothing is made."""
    try:
        return data_folder() / "keyfold" / "memory.db"
    except RuntimeError:
        raise StoreError(f"cannot tell your home folder, where the default store is; {_ELSEWHERE}") from None


def data_folder() -> Path:
    """Where programs of this user keep their data."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    given = os.environ.get("XDG_DATA_HOME", "")
    return Path(given) if given.startswith("/") else Path.home() / ".local" / "share"


def open_engine(url: str | os.PathLike[str] | None = None, *, config: Config | None = None) -> Engine:
    """A blocking engine. None opens the per-user default store.

    Raises InvalidRequest for a URL of no known form, StoreError or Unavailable when it cannot be opened.
    """
    settings = settings_of(config)
    clock = clock_of(settings.clock)
    clock()
    where = default_store() if url is None else _text_of(url)
    scheme = _scheme_of(where)
    if scheme == "inmemory":
        from keyfold.engines.inmemory import InMemoryEngine

        return InMemoryEngine(settings, clock)
    if scheme in ("sqlite", ""):
        from keyfold.engines.sqlite import SqliteEngine

        return SqliteEngine.open(_path_of(where), config=settings, clock=clock)
    if scheme.split("+")[0] in _SERVICES:
        from keyfold.engines.remote import open_remote

        return open_remote(where, scheme, settings, clock)
    if scheme.split("+")[0] in _LATER:
        raise Unsupported(f"this version has no {scheme} engine yet; it opens {_FORMS}, {_OR_A_SERVICE}")
    raise InvalidRequest(
        "store",
        f"{scheme}: is not a known scheme; use {_FORMS}, {_OR_A_SERVICE}",
    )


async def open_async_engine(
    url: str | os.PathLike[str] | None = None, *, config: Config | None = None
) -> AsyncEngine:
    """An async engine: the embedded one is blocking by nature and works on a thread of its own."""
    import asyncio  # here, because it takes longer to import than the rest of Keyfold

    from keyfold.faces import Threaded

    if url is not None and (scheme := _scheme_of(where := _text_of(url))).split("+")[0] in _SERVICES:
        from keyfold.engines.remote import open_async_remote

        settings = settings_of(config)
        return open_async_remote(where, scheme, settings, clock_of(settings.clock))

    return Threaded(await asyncio.to_thread(open_engine, url, config=config))


def _text_of(url: Any) -> str:
    if isinstance(url, (str, os.PathLike)):
        path = os.fspath(url)
        if isinstance(path, str):
            return path
    raise InvalidRequest("store", f"must be text or a path, not {type(url).__name__}; use {_FORMS}")


def embedded_file(url: str | os.PathLike[str] | None = None) -> str | None:
    """The file of an embedded store, whether it is there or not; None for other engines and a store in memory."""
    where = default_store() if url is None else _text_of(url)
    if _scheme_of(where) not in ("sqlite", ""):
        return None
    path = _path_of(where)
    return None if path == ":memory:" else path


def _scheme_of(where: str) -> str:
    if where == ":memory:":
        return ""
    if not where.strip():
        raise InvalidRequest("store", f"is blank; use {_FORMS}")
    found = _SCHEME.match(where)
    if found is None:
        return ""
    scheme = found[1].lower()
    return "" if len(scheme) == 1 else scheme  # C:\memory.db is a path


def _path_of(where: str) -> str:
    if not where.lower().startswith("sqlite:"):
        return where
    rest = where[len("sqlite:") :]
    if rest.startswith("///"):  # sqlite:///relative.db, sqlite:////absolute.db: as SQLAlchemy reads them
        rest = rest[3:]
    elif rest.startswith("//"):
        raise InvalidRequest(
            "store", "sqlite:// names a host; write sqlite:///path, or sqlite:////path for an absolute one"
        )
    if not rest:
        raise InvalidRequest("store", f"names no file; use {_FORMS}")
    if "?" in rest:
        raise InvalidRequest(
            "store",
            "a sqlite: URL takes no options; in Python Config has them (a file with ? in its name opens by its path)",
        )
    return rest
