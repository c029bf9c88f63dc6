"""Thousands of objects at once without the collector of cycles, which would look at each of them several times.

What a batch makes is gone by reference count when it is written, but while it grows the collector takes it for
garbage that piles up: a search of the whole process every thousand records, a twentieth of an import's time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

_off = False


@contextmanager
def unswept() -> Iterator[None]:
    """Leave the collector off for the tenth of a second that a batch takes. Off it stays where it was off before."""
    global _off
    if not gc.isenabled():  # by the program, or by another thread that is here and will turn it on again
        yield
        return
    try:
        _off = True
        gc.disable()
        yield
    finally:
        gc.enable()
        _off = False


def _in_child() -> None:
    """The thread that would turn it on again is not in a forked child."""
    global _off
    if _off:
        gc.enable()
        _off = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
