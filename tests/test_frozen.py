"""Quickly made frozen dataclasses are frozen dataclasses all the same."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from keyfold.contract.decide import Decision
from keyfold.contract.intents import Intent, Load, Ref, SessionUse
from keyfold.frozen import quick
from keyfold.model import Entry, Receipt, Record, Revision

QUICK: list[type[Any]] = [Decision, Intent, Load, Receipt, Record, Ref, Revision, SessionUse]


@dataclass(frozen=True, slots=True)
class Plain:
    one: int
    two: tuple[int, ...] = ()


Quick = quick(Plain)


def made(cls: type[Any]) -> Any:
    return cls(*range(len(fields(cls))))


@pytest.mark.parametrize("cls", QUICK)
def test_every_field_holds_what_was_passed_for_it(cls: type[Any]) -> None:
    whole = made(cls)
    assert type(whole) is cls
    assert [getattr(whole, item.name) for item in fields(cls)] == list(range(len(fields(cls))))
    assert cls(**{item.name: getattr(whole, item.name) for item in fields(cls)}) == whole


@pytest.mark.parametrize("cls", QUICK)
def test_no_field_can_be_set_or_deleted_afterwards(cls: type[Any]) -> None:
    whole = made(cls)
    for item in fields(cls):
        with pytest.raises(FrozenInstanceError):
            setattr(whole, item.name, None)
        with pytest.raises(FrozenInstanceError):
            delattr(whole, item.name)
    with pytest.raises((FrozenInstanceError, TypeError)):
        whole.another = 1


@pytest.mark.parametrize("cls", QUICK)
def test_copies_pickles_and_replacements_are_of_the_class(cls: type[Any]) -> None:
    whole = made(cls)
    first = fields(cls)[0].name
    assert pickle.loads(pickle.dumps(whole)) == copy.copy(whole) == copy.deepcopy(whole) == whole
    changed = replace(whole, **{first: "other"})
    assert type(changed) is cls
    assert getattr(changed, first) == "other"


def test_what_is_made_tells_its_defaults_and_what_is_missing() -> None:
    assert Quick(1) == Plain(1, ())
    assert str(inspect.signature(Quick)) == "(one: 'int', two: 'tuple[int, ...]' = ()) -> None"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'one'"):
        Quick()  # type: ignore[call-arg]  # the fault


def test_a_class_derived_from_a_quick_one_is_made_whole() -> None:
    entry = made(Entry)
    assert type(entry) is Entry
    assert [entry.id, entry.is_anchor] == [0, 20]

    class Derived(Record):
        pass

    derived = Derived(*range(19))
    assert type(derived) is Derived
    assert derived.observed_at == 18


def test_a_class_that_does_more_when_it_is_made_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        one: int

        def __post_init__(self) -> None:
            raise AssertionError

    @dataclass(frozen=True, slots=True)
    class Filled:
        one: list[int] = field(default_factory=list)

    for cls in (Checked, Filled):
        with pytest.raises(TypeError, match="does more when it is made"):
            quick(cls)
