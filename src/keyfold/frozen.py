"""Frozen dataclasses that are made as quickly as ordinary ones.

A frozen dataclass sets each field through `object.__setattr__`, which for the 19 fields of a record takes 1.3
microseconds where plain assignments take 0.2. A save makes five such objects and an import three a line, a
search one for each row it looks at.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Where threads run without a lock of Python's, changing an object's class stops them all.
_WORTH: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()


def quick(cls: type[T]) -> type[T]:
    """Give a frozen, slotted dataclass an `__init__` that sets its fields by assignment.

    While it runs, the new object (which nobody else has seen) is of a twin class with the same slots that is not
    frozen. The class stays as frozen as it was. Only plain defaults and no `__post_init__`.
    """
    if any(item.default_factory is not MISSING or not item.init for item in fields(cls)) or hasattr(  # type: ignore[arg-type]  # it is one
        cls, "__post_init__"
    ):
        raise TypeError(f"{cls.__name__} does more when it is made than to take its fields")
    return _quickened(cls) if _WORTH else cls


def _quickened(cls: type[T]) -> type[T]:
    slow: Any = cls.__init__
    names = [item.name for item in fields(cls)]  # type: ignore[arg-type]  # as above
    thawed = type(cls.__name__, cls.__bases__, {"__slots__": cls.__dict__["__slots__"]})
    lines = [
        f"def __init__(self, {', '.join(names)}):",
        "    if self.__class__ is not frozen:",  # of a subclass, whose slots may be others
        f"        return slow(self, {', '.join(names)})",
        "    become(self, '__class__', thawed)",
        *[f"    self.{name} = {name}" for name in names],
        "    self.__class__ = frozen",
    ]
    scope: dict[str, Any] = {
        "become": object.__setattr__, "frozen": cls, "slow": slow, "thawed": thawed,
    }  # fmt: skip
    exec("\n".join(lines), scope)  # noqa: S102  # of field names alone, as dataclasses do it
    made = scope["__init__"]
    for name in ("__annotations__", "__defaults__", "__module__", "__qualname__"):
        setattr(made, name, getattr(slow, name))
    type.__setattr__(cls, "__init__", made)
    return cls
