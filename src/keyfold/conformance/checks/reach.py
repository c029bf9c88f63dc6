"""Checks of reach, and of namespaces whose names are much alike."""

from __future__ import annotations

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, same
from keyfold.contract import calls
from keyfold.contract.intents import Selector
from keyfold.flow import Plan

TREE = ("top", "top/mid", "top/mid/low", "top/side", "topmost", "top/middle")


def _tree(t: World) -> Plan[None]:
    for name in TREE:
        yield from t.save(f"shared {name}", "key", of=name)


def _read(t: World, of: str, reach: str) -> Plan[list[str]]:
    """What a listing reads with a reach; a search and a count must agree."""
    listed = sorted((yield from t.listed(of=of, reach=reach)))
    if t.capabilities.search:
        same(sorted((yield from t.found("shared", of=of, reach=reach))), listed, "what a search finds")
    counted = yield from calls.count(t.space(of), reach)  # type: ignore[arg-type]  # one of the three, below
    same(counted.total, len(listed), "the count")
    return [content.removeprefix("shared ") for content in listed]


@check("R-01")
def exact(t: World) -> Plan[None]:
    yield from _tree(t)
    same((yield from _read(t, "top/mid", "exact")), ["top/mid"], "what is read exactly")


@check("R-02")
def inherit(t: World) -> Plan[None]:
    yield from _tree(t)
    same(
        (yield from _read(t, "top/mid/low", "inherit")), ["top", "top/mid", "top/mid/low"], "itself and above"
    )
    same(
        (yield from _read(t, "top/middle", "inherit")),
        ["top", "top/middle"],
        "itself and above, not a near name",
    )


@check("R-03")
def subtree(t: World) -> Plan[None]:
    yield from _tree(t)
    below = ["top", "top/mid", "top/mid/low", "top/middle", "top/side"]
    same((yield from _read(t, "top", "subtree")), below, "itself and below, not a name that starts alike")
    same((yield from _read(t, "top/mid", "subtree")), ["top/mid", "top/mid/low"], "as above, further down")


@check("R-04")
def a_forget_is_exact(t: World) -> Plan[None]:
    yield from _tree(t)
    yield from calls.forget(Selector(t.space("top/mid"), everything=True))
    same(
        (yield from _read(t, "top", "subtree")),
        ["top", "top/mid/low", "top/middle", "top/side"],
        "what is left",
    )


@check("R-05")
def a_forget_of_a_subtree(t: World) -> Plan[None]:
    yield from _tree(t)
    result = yield from calls.forget(Selector(t.space("top/mid"), everything=True, reach="subtree"))
    same(result.deleted, 2, "how many were forgotten")
    same((yield from _read(t, "top", "subtree")), ["top", "top/middle", "top/side"], "what is left")


@check("R-06")
def pages_across_namespaces(t: World) -> Plan[None]:
    yield from _tree(t)
    whole = yield from t.paged(of="top", reach="subtree", order="key", limit=2)
    expected = ["shared top", "shared top/mid", "shared top/mid/low", "shared top/middle", "shared top/side"]
    same(whole, expected, "the pages by key, namespace after namespace")


@check("R-07")
def names(t: World) -> Plan[None]:
    yield from _tree(t)
    root = t.space("top")
    expected = [root + tail for tail in ("", "/mid", "/mid/low", "/middle", "/side")]
    same((yield from calls.namespaces(root)), expected, "the names below one, itself included")
    yield from calls.forget(Selector(t.space("top/side"), everything=True))
    same((yield from calls.namespaces(root)), expected[:-1], "the names after one was forgotten")


def _apart(t: World, names: tuple[str, ...]) -> Plan[None]:
    """Namespaces see nothing of each other, and forgetting one leaves the rest."""
    for name in names:
        receipt = yield from t.save(f"shared {name}", "key", of=name)
        same(receipt.outcome, "created", "the outcome of the same key in another namespace")
    for name in names:
        same((yield from _read(t, name, "exact")), [name], "what is read exactly")
        same((yield from _read(t, name, "subtree")), [name], "what is read with all below")
    result = yield from calls.forget(Selector(t.space(names[0]), everything=True))
    same(result.deleted, 1, "how many were forgotten")
    for name in names[1:]:
        same((yield from t.listed(of=name)), [f"shared {name}"], "what is left of another")


@check("N-01")
def names_that_differ_in_case(t: World) -> Plan[None]:
    yield from _apart(t, ("name", "Name", "NAME"))


@check("N-02")
def names_that_start_alike(t: World) -> Plan[None]:
    yield from _apart(t, ("foo", "foobar", "foo bar", "foo-", "foo0", "foo.bar"))


@check("N-03")
def names_with_wildcards(t: World) -> Plan[None]:
    yield from _apart(t, ("%", "_", "a", "a%", "a_", "ab", "*", "a*", "a?", "[a]"))


@check("N-04")
def names_that_look_alike(t: World) -> Plan[None]:
    yield from _apart(t, ("caf\u00e9", "cafe\u0301", "cafe", "근평", "비계", "a ", "a", "\U0001f600"))
