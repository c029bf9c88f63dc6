"""Checks of filters, each on a listing and on a search at once (`World.passing`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from keyfold.conformance.registry import check
from keyfold.conformance.world import LONG_AGO, World, same
from keyfold.contract.filters import Filter, conditions
from keyfold.contract.intents import SessionUse
from keyfold.flow import Plan

NUMBERS: dict[str, Any] = {"nine": 9, "ten": 10, "hundred": 100, "text": "10", "true": True, "null": None}


def _with_scores(t: World, scores: dict[str, Any]) -> Plan[None]:
    """A record for each score, titled by its name, and one without."""
    for title, score in scores.items():
        yield from t.save("shared", title, title=title, metadata={"score": score})
    yield from t.save("shared", "missing", title="missing")


def _scores(t: World, **where: Any) -> Plan[str]:
    return (yield from t.passing(Filter(metadata=conditions({"score": where}))))


@check("F-01")
def types(t: World) -> Plan[None]:
    for name in ("decision", "profile", "pattern"):
        yield from t.save("shared", name, title=name, type=name)
    same((yield from t.passing(Filter(types=("profile", "pattern")))), "pattern profile", "these types")
    same((yield from t.passing(Filter(types_exclude=("profile",)))), "decision pattern", "all but a type")


@check("F-02")
def all_tags(t: World) -> Plan[None]:
    yield from _tagged(t)
    same((yield from t.passing(Filter(tags=("a", "b")))), "ab", "all of two tags")
    same((yield from t.passing(Filter(tags=("a",)))), "a ab", "one tag")


@check("F-03")
def any_tags(t: World) -> Plan[None]:
    yield from _tagged(t)
    same((yield from t.passing(Filter(tags_any=("b", "aa")))), "aa ab b", "any of two tags")


def _tagged(t: World) -> Plan[None]:
    for title, tags in {"a": ("a",), "b": ("b",), "ab": ("a", "b"), "aa": ("aa",), "none": ()}.items():
        yield from t.save("shared", title, title=title, tags=tags)


@check("F-04")
def a_session(t: World) -> Plan[None]:
    for name in ("s", "S", "other"):
        yield from t.save("shared", name, title=name, session=SessionUse(name, explicit=True))
    yield from t.save("shared", "none", title="none")
    same((yield from t.passing(Filter(session_id="s"))), "s", "the records of a session")


@check("F-05")
def pins(t: World) -> Plan[None]:
    yield from t.save("shared", "pinned", title="pinned", pinned=True)
    yield from t.save("shared", "loose", title="loose")
    same((yield from t.passing(Filter(pinned=True))), "pinned", "the pinned ones")
    same((yield from t.passing(Filter(pinned=False))), "loose", "the others")


@check("F-06")
def a_prefix(t: World) -> Plan[None]:
    for title in ("auth/a", "auth/b", "Auth/c", "auth", "other"):
        yield from t.save("shared", title, title=title)
    yield from t.save("shared", title="unkeyed")
    same((yield from t.passing(Filter(topic_prefix="auth/"))), "auth/a auth/b", "the keys that start so")
    every = "Auth/c auth auth/a auth/b other"
    same((yield from t.passing(Filter(topic_prefix=""))), every, "all keys, but not what has none")


@check("F-07")
def a_prefix_is_literal(t: World) -> Plan[None]:
    for title in ("a%b", "a_b", "axb", "a[b", "a*b", "a\\b", "éa", "\U0010ffff"):
        yield from t.save("shared", title, title=title)
    for title in ("a%", "a_", "a[", "a*", "a\\"):
        same(
            (yield from t.passing(Filter(topic_prefix=title))),
            title + "b",
            f"the keys that start with {title}",
        )
    same((yield from t.passing(Filter(topic_prefix="\U0010ffff"))), "\U0010ffff", "the last prefix there is")


@check("F-08")
def changed_in_a_range(t: World) -> Plan[None]:
    second = timedelta(seconds=1)
    for title, at in {"early": -second, "start": 0 * second, "late": second}.items():
        yield from t.load("shared", title, LONG_AGO + at, created=LONG_AGO - second, title=title)
    same((yield from t.passing(Filter(updated_since=LONG_AGO))), "late start", "since, inclusive")
    same((yield from t.passing(Filter(updated_until=LONG_AGO))), "early", "until, exclusive")
    instant = Filter(updated_since=LONG_AGO, updated_until=LONG_AGO + timedelta(microseconds=1))
    same((yield from t.passing(instant)), "start", "a range of one microsecond")


@check("F-09")
def created_in_a_range(t: World) -> Plan[None]:
    second = timedelta(seconds=1)
    for title, at in {"early": -second, "start": 0 * second, "late": second}.items():
        yield from t.load("shared", title, LONG_AGO + 2 * second, created=LONG_AGO + at, title=title)
    same((yield from t.passing(Filter(created_since=LONG_AGO))), "late start", "since, inclusive")
    same((yield from t.passing(Filter(created_until=LONG_AGO))), "early", "until, exclusive")


@check("F-10")
def equal(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    same((yield from _scores(t, eq=10)), "ten", "equal to a number")
    same((yield from _scores(t, eq=10.0)), "ten", "equal to a number with a fraction of zero")
    same((yield from _scores(t, eq="10")), "text", "equal to a string")
    same((yield from _scores(t, eq=None)), "null", "equal to null, which missing is not")


@check("F-11")
def unequal(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    expected = "hundred missing nine null text true"
    same((yield from _scores(t, ne=10)), expected, "unequal to a number, the missing included")


@check("F-12")
def greater(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    same((yield from _scores(t, gt=9)), "hundred ten", "greater than a number; strings and true are none")


@check("F-13")
def greater_or_equal(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    same((yield from _scores(t, gte=10)), "hundred ten", "greater than or equal to a number")
    same((yield from _scores(t, gte=0.5)), "hundred nine ten", "as above, with a fraction")


@check("F-14")
def less(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    same((yield from _scores(t, lt=10)), "nine", "less than a number; true, null and missing are none")


@check("F-15")
def less_or_equal(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    same((yield from _scores(t, lte=10)), "nine ten", "less than or equal to a number")
    same((yield from _scores(t, gt=9, lte=10)), "ten", "two conditions on one value")


@check("F-16")
def among(t: World) -> Plan[None]:
    yield from _with_scores(t, NUMBERS)
    same(
        (yield from t.passing(Filter(metadata=conditions({"score": {"in": [9, "10"]}})))),
        "nine text",
        "in a list",
    )
    same((yield from t.passing(Filter(metadata=conditions({"score": {"in": []}})))), "", "in an empty list")
    same(
        (yield from t.passing(Filter(metadata=conditions({"score": {"in": [None]}})))),
        "null",
        "in a list of null",
    )


@check("F-17")
def true_is_not_one(t: World) -> Plan[None]:
    wanted = {"true": True, "one": 1, "false": False, "zero": 0, "string": "true"}
    yield from _with_scores(t, wanted)
    for title, value in wanted.items():
        same((yield from _scores(t, eq=value)), title, f"equal to {value!r}")


@check("F-18")
def strings_in_order(t: World) -> Plan[None]:
    yield from _with_scores(
        t, {"Z": "Z", "a": "a", "b": "b", "é": "é", "emoji": "\U0001f600", "wide": "\uff5e", "n": 5}
    )
    same((yield from _scores(t, gt="a")), "b emoji wide é", "greater than a string, by code points")
    same((yield from _scores(t, lt="b")), "Z a", "less than a string")
    same((yield from _scores(t, gt="\uff5e")), "emoji", "greater than one beyond surrogates in UTF-16")


@check("F-19")
def a_nested_value(t: World) -> Plan[None]:
    for title, metadata in {
        "nested": {"a": {"b": 1}},
        "dotted": {"a.b": 1},
        "both": {"a.b": 2, "a": {"b": 1}},
        "list": {"a": [{"b": 1}]},
        "text": {"a": '{"b": 1}'},
    }.items():
        yield from t.save("shared", title, title=title, metadata=metadata)
    nested = yield from t.passing(Filter(metadata=conditions({"a.b": 1})))
    same(nested, "dotted nested", "a dotted path: a key as it stands first, then a step into an object")


@check("F-20")
def an_object_or_list(t: World) -> Plan[None]:
    yield from _with_scores(
        t, {"object": {"b": 1, "c": 2}, "more": {"b": 1, "c": 2, "d": 3}, "list": [1, 2], "turned": [2, 1]}
    )
    same((yield from _scores(t, eq={"c": 2, "b": 1})), "object", "equal to an object, whatever its order")
    same((yield from _scores(t, eq=[1, 2])), "list", "equal to a list, in its order")


@check("F-21")
def odd_names(t: World) -> Plan[None]:
    names = ["x') OR 1=1 --", '"', "'", "$", "a b", "ключ", "[0]", "$.a", "a\\b", "\U0001f511"]
    for name in names:
        yield from t.save("shared", name, title=name, metadata={name: "here"})
    for name in names:
        same(
            (yield from t.passing(Filter(metadata=conditions({name: "here"})))),
            name,
            "a metadata key, literally",
        )
        same(
            (yield from t.passing(Filter(metadata=conditions({name: name})))), "", "a value that is not there"
        )


@check("F-22")
def everything_must_hold(t: World) -> Plan[None]:
    for title, kind, tags, score in (
        ("yes", "decision", ("x",), 1),
        ("type", "profile", ("x",), 1),
        ("tags", "decision", ("y",), 1),
        ("score", "decision", ("x",), 2),
    ):
        yield from t.save(
            "shared", title, title=title, type=kind, tags=tags, metadata={"score": score, "k": 1}
        )
    where = Filter(types=("decision",), tags=("x",), metadata=conditions({"score": 1, "k": 1}))
    same((yield from t.passing(where)), "yes", "what passes all parts of a filter")


@check("F-23")
def large_numbers(t: World) -> Plan[None]:
    big = 2**53
    yield from _with_scores(t, {"even": big, "odd": big + 1, "huge": 2**70, "tiny": 0.1})
    same((yield from _scores(t, eq=big + 1)), "odd", "equal to a number that no float holds")
    same((yield from _scores(t, gt=big)), "huge odd", "greater than a number near it")
    same((yield from _scores(t, eq=0.1)), "tiny", "equal to a fraction")
