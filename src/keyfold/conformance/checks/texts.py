"""Checks of texts that other stores have cut, changed or choked on."""

from __future__ import annotations

from typing import Any

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, digest, same
from keyfold.contract import calls
from keyfold.flow import Plan


def _kept(t: World, *texts: str) -> Plan[None]:
    """A text comes back as it went in, as content, title and tag, and in metadata as key and value."""
    for number, text in enumerate(texts):
        fields: dict[str, Any] = {"title": text, "tags": (text,), "metadata": {text: text}}
        yield from t.save(text, f"key {number}", **fields)
        record = yield from t.read(f"key {number}")
        same((record.content, record.normalized_hash), (text, digest(text)), "content and hash")
        same(
            (record.title, record.tags, record.metadata),
            (text, (text,), {text: text}),
            "title, tags, metadata",
        )
        if t.capabilities.history:
            past = yield from calls.history(t.ref(f"key {number}"))
            same([state.content for state in past.revisions], [text], "the content in the history")


@check("T-01")
def emoji(t: World) -> Plan[None]:
    yield from _kept(t, "👩‍👩‍👧‍👦", "e\u0301 \u00e9", "🇩🇪", "\U0010ffff", "\u202eright to left", "ﬁ")


@check("T-02")
def a_mebibyte(t: World) -> Plan[None]:
    text = "word " * 209_714 + "zebra!"
    yield from t.save(text, "key")
    record = yield from t.read("key")
    same(
        (len(record.content), record.content == text),
        (1_048_576, True),
        "the length, and whether it is the text",
    )
    if t.capabilities.search and t.capabilities.word_search:
        hits = yield from t.hits("zebra")
        same([hit.record.key for hit in hits.items], ["key"], "what its last word finds")


@check("T-03")
def white_space(t: World) -> Plan[None]:
    yield from _kept(t, "\n", "a\r\nb\n\n c\t\n", "  a  ", "\u2028\u2029\u0085", "\x0b\x0c\x1f", "\ufeffa")


@check("T-04")
def signs(t: World) -> Plan[None]:
    yield from _kept(
        t,
        "'; DROP TABLE records; --",
        '"',
        "\\",
        "\\u0000",
        "%s {} $1 ?",
        "<a href='x'>&amp;</a>",
        "\x01\x7f",
    )


@check("T-05")
def metadata(t: World) -> Plan[None]:
    given: dict[str, Any] = {
        "": "",
        "a.b": {"c": [[], {}, [None]]},
        "big": 2**63,
        "small": -(2**53) - 1,
        "float": 0.1,
        "tiny": 5e-324,
        "bool": [True, False],
        "\U0001f600": "\U0001f600",
        "order": {"z": 1, "a": 2},
    }
    yield from t.save("text", "key", metadata=given)
    record = yield from t.read("key")
    same(record.metadata, given, "the metadata")
    kinds = [type(record.metadata[name]) for name in ("big", "float")] + [type(record.metadata["bool"][0])]
    same(kinds, [int, float, bool], "the types of its values")
    same(list(record.metadata["order"]), ["z", "a"], "the order of an object's keys")


@check("T-06")
def many_tags(t: World) -> Plan[None]:
    tags = ("b", "a", "c d", "a,b", "#", "É", "e\u0301", '"', "z" * 200)
    yield from t.save("text", "key", tags=tags)
    same((yield from t.read("key")).tags, tags, "the tags, in their order")
