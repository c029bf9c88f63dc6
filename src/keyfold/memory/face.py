"""Memory and AsyncMemory: the agent-facing calls, blocking and awaited, from one set of plans."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import wraps
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from keyfold.contract.calls import Call, aperformer, performer
from keyfold.contract.protocols import AsyncEngine, Engine
from keyfold.flow import Plan, adrive, drive
from keyfold.memory import context, finding, forgetting, logs, reads, sessions, writes
from keyfold.memory.core import Core
from keyfold.model import Config
from keyfold.registry import open_async_engine, open_engine, settings_of

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])


def blocking(plan: Callable[Concatenate[Core, P], Plan[T]]) -> Callable[Concatenate[Memory, P], T]:
    """A method of Memory from a plan, with its signature and its words."""

    @wraps(plan)
    def call(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return drive(plan(self.core, *args, **kwargs), self.perform)

    return shown_as_method(call, plan)


def awaited(
    plan: Callable[Concatenate[Core, P], Plan[T]],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    """A method of AsyncMemory from a plan, with its signature and its words."""

    @wraps(plan)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await adrive(plan(self.core, *args, **kwargs), self.perform)

    return shown_as_method(call, plan)


def shown_as_method(call: C, plan: Callable[..., Plan[Any]]) -> C:
    """Let help() and editors show a method for what it is: `self` first, and what it returns, not the plan.

    inspect takes the signature from `__wrapped__`; a twin of the plan stands there, which is never run.
    """
    assert isinstance(plan, FunctionType)
    code = plan.__code__
    told = {name: form for name, form in plan.__annotations__.items() if name != "core"}
    told["return"] = told["return"].removeprefix("Plan[").removesuffix("]")
    names = ("self", *code.co_varnames[1:])
    twin = FunctionType(code.replace(co_varnames=names), plan.__globals__, plan.__name__, plan.__defaults__)
    twin.__kwdefaults__ = plan.__kwdefaults__
    twin.__annotations__ = told
    call.__wrapped__ = twin  # type: ignore[attr-defined]  # what functools.wraps set
    call.__annotations__ = told
    call.__module__ = __name__
    return call


class Memory:
    """Memory for agents. Safe to use from several threads; close it, or use it in a `with` block.

    `Memory.open()` opens the per-user default store, `Memory.open("memory.db")` a file, and a URL any
    engine (see keyfold.registry). `Memory(engine)` takes an engine of yours.
    """

    def __init__(self, engine: Engine, *, config: Config | None = None) -> None:
        self.engine = engine
        self.core = Core(settings_of(config), engine.capabilities)
        self.perform: Callable[[Call], Any] = performer(engine)

    @classmethod
    def open(cls, url: str | os.PathLike[str] | None = None, *, config: Config | None = None) -> Self:
        """Open a store by URL or path. Raises InvalidRequest, StoreError, Unavailable, ImportError (naming the extra)."""
        settings = settings_of(config)
        return cls(open_engine(url, config=settings), config=settings)

    def close(self) -> None:
        """Close the store; later calls raise Unavailable."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<keyfold.Memory on {self.core.capabilities.engine}>"

    mem_save = blocking(writes.mem_save)
    mem_save_many = blocking(writes.mem_save_many)
    mem_update = blocking(writes.mem_update)
    mem_restore = blocking(writes.mem_restore)
    mem_log_turn = blocking(logs.mem_log_turn)
    mem_add_document = blocking(logs.mem_add_document)
    mem_delete = blocking(forgetting.mem_delete)
    mem_search = blocking(finding.mem_search)
    mem_suggest_topic_key = blocking(finding.mem_suggest_topic_key)
    mem_list = blocking(reads.mem_list)
    mem_get_observation = blocking(reads.mem_get_observation)
    mem_timeline = blocking(reads.mem_timeline)
    mem_history = blocking(reads.mem_history)
    mem_revision = blocking(reads.mem_revision)
    mem_topics = blocking(reads.mem_topics)
    mem_stats = blocking(reads.mem_stats)
    mem_recall = blocking(reads.mem_recall)
    mem_context = blocking(context.mem_context)
    mem_session_start = blocking(sessions.mem_session_start)
    mem_session_summary = blocking(sessions.mem_session_summary)
    mem_session_end = blocking(sessions.mem_session_end)
    mem_session_list = blocking(sessions.mem_session_list)


class AsyncMemory:
    """The same calls, awaited. `async with AsyncMemory.open(...) as memory`, or `await AsyncMemory.open(...)`."""

    def __init__(self, engine: AsyncEngine, *, config: Config | None = None) -> None:
        self.engine = engine
        self.core = Core(settings_of(config), engine.capabilities)
        self.perform: Callable[[Call], Awaitable[Any]] = aperformer(engine)

    @classmethod
    def open(
        cls, url: str | os.PathLike[str] | None = None, *, config: Config | None = None
    ) -> Opening[Self]:
        """Open a store by URL or path; await the answer or enter it."""
        settings = settings_of(config)

        async def opened() -> Self:
            return cls(await open_async_engine(url, config=settings), config=settings)

        return Opening(opened)

    async def close(self) -> None:
        """Close the store; later calls raise Unavailable."""
        await self.engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<keyfold.AsyncMemory on {self.core.capabilities.engine}>"

    mem_save = awaited(writes.mem_save)
    mem_save_many = awaited(writes.mem_save_many)
    mem_update = awaited(writes.mem_update)
    mem_restore = awaited(writes.mem_restore)
    mem_log_turn = awaited(logs.mem_log_turn)
    mem_add_document = awaited(logs.mem_add_document)
    mem_delete = awaited(forgetting.mem_delete)
    mem_search = awaited(finding.mem_search)
    mem_suggest_topic_key = awaited(finding.mem_suggest_topic_key)
    mem_list = awaited(reads.mem_list)
    mem_get_observation = awaited(reads.mem_get_observation)
    mem_timeline = awaited(reads.mem_timeline)
    mem_history = awaited(reads.mem_history)
    mem_revision = awaited(reads.mem_revision)
    mem_topics = awaited(reads.mem_topics)
    mem_stats = awaited(reads.mem_stats)
    mem_recall = awaited(reads.mem_recall)
    mem_context = awaited(context.mem_context)
    mem_session_start = awaited(sessions.mem_session_start)
    mem_session_summary = awaited(sessions.mem_session_summary)
    mem_session_end = awaited(sessions.mem_session_end)
    mem_session_list = awaited(sessions.mem_session_list)


M = TypeVar("M", bound=AsyncMemory)


class Opening(Awaitable[M]):
    """What AsyncMemory.open gives: await it for the memory, or use it in `async with`, which also closes it."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, M]]) -> None:
        self._opened = opened
        self._memory: M | None = None

    def __await__(self) -> Generator[Any, None, M]:
        return self._opened().__await__()

    if not TYPE_CHECKING:  # a type checker tells of it by itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"AsyncMemory.open is to be awaited: memory = await AsyncMemory.open(...), then memory.{name}"
            )

    async def __aenter__(self) -> M:
        self._memory = await self._opened()
        return self._memory

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._memory is not None:
            await self._memory.close()
