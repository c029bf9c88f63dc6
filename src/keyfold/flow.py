"""Plans: what an operation does, written once, and the two small drivers that run it.

A plan is a generator. It yields a request (a call on an engine, a wait, on remote engines an HTTP
exchange) and is sent the answer, or the exception the request ended in is thrown into it. It does no
input or output itself, so the blocking and the async face share it, and a test can step through it by hand.
The shape is that of psycopg 3's generators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

# What is yielded and sent is heterogeneous; the helper functions in `contract` give each exchange its type.
Plan = Generator[Any, Any, T]


def drive(plan: Plan[T], perform: Callable[[Any], Any]) -> T:
    """Run a plan to its result, performing each request it yields, blocking."""
    try:
        request = next(plan)
        while True:
            try:
                answer = perform(request)
            except Exception as error:  # the plan decides what an error means
                request = plan.throw(error)
            else:
                request = plan.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # StopIteration.value is untyped
    finally:
        plan.close()


async def adrive(plan: Plan[T], perform: Callable[[Any], Awaitable[Any]]) -> T:
    """Run a plan to its result, awaiting each request it yields."""
    try:
        request = next(plan)
        while True:
            try:
                answer = await perform(request)
            except Exception as error:  # the plan decides what an error means
                request = plan.throw(error)
            else:
                request = plan.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # StopIteration.value is untyped
    finally:
        plan.close()
