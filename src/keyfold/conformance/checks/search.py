"""Checks of search: plain words just work."""

from __future__ import annotations

from keyfold.conformance.registry import check
from keyfold.conformance.world import World, same, true
from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Selector
from keyfold.flow import Plan

ODD = (
    'foo"bar', '"', '""', "'", "state-of-the-art", "Downloads/transcripts", "Vol. 2", "grammar::fa", "a-b",
    "what did we decide?", "NEAR(a b)", "a AND", "OR", "NOT x", "a*", "^a", "(", ")", "{a b}:", "col:val", "-x", "+",
    "%", "_", "\\", ";--", "x') OR 1=1 --", "\t\n", "!!!", "...", "\u200b", "\ufffd", "👩‍👩‍👧", "a" * 5000, "word " * 400,
    "\u0301", "$1", "?", "#", "@", "~", "<b>", "&amp;", "\x07",
)  # fmt: skip


@check("Q-01")
def a_word(t: World) -> Plan[None]:
    yield from t.save("the cat sat on the mat", "one")
    yield from t.save("a dog barked", "two")
    same((yield from t.found("cat")), ["the cat sat on the mat"], "what a word finds")
    same((yield from t.found("horse")), [], "what a word finds that is nowhere")


@check("Q-02")
def where_words_are_found(t: World) -> Plan[None]:
    yield from t.save("one", "k1", title="zebra")
    yield from t.save("two", "animals/zebra")
    yield from t.save("three", "k3", tags=("zebra",))
    yield from t.save("four zebra", "k4")
    same(
        sorted((yield from t.found("zebra"))),
        ["four zebra", "one", "three", "two"],
        "title, key, tags and content",
    )


@check("Q-03")
def all_words_first(t: World) -> Plan[None]:
    yield from t.save("budget budget budget budget", "some")
    yield from t.save("meeting meeting meeting", "more")
    yield from t.save("a long note about many other things, one of them the budget, one a meeting", "all")
    found = yield from t.found("budget meeting")
    same(
        ([text[:6] for text in found[:1]], len(found)),
        (["a long"], 3),
        "the first hit and how many there are",
    )


@check("Q-04")
def any_words(t: World) -> Plan[None]:
    yield from t.save("budget meeting", "key")
    same(
        (yield from t.found("meeting budget review")),
        ["budget meeting"],
        "what is found by two words of three",
    )


@check("Q-05")
def a_question(t: World) -> Plan[None]:
    yield from t.save("we settled on postgres for the store", "one")
    yield from t.save("what did you do with it, and how was it", "two")
    found = yield from t.found("What did we decide to do with postgres?")
    same(
        found,
        ["we settled on postgres for the store"],
        "what a question finds: its stop words count for nothing",
    )


@check("Q-06")
def only_stop_words(t: World) -> Plan[None]:
    yield from t.save("to be or not to be", "one")
    yield from t.save("to do or not", "two")
    yield from t.save("something else", "three")
    same(
        (yield from t.found("be or not to be")),
        ["to be or not to be", "to do or not"],
        "what stop words find",
    )


@check("Q-07")
def scripts_without_spaces(t: World) -> Plan[None]:
    yield from t.save("東京都に住んでいます", "one")
    yield from t.save("大阪に住んでいます", "two")
    yield from t.save("근평 회의", "three")
    same((yield from t.found("東京")), ["東京都に住んでいます"], "what a word of two characters finds")
    same((yield from t.found("근평")), ["근평 회의"], "as above, in Hangul")


@check("Q-08")
def accents_and_case(t: World) -> Plan[None]:
    yield from t.save("Café MÜNCHEN", "one")
    for text in ("cafe", "CAFÉ", "cafe\u0301", "munchen", "München"):
        same((yield from t.found(text)), ["Café MÜNCHEN"], f"what {text!a} finds")
    yield from t.save("cafe\u0301 two", "two")
    same(len((yield from t.found("caf\u00e9"))), 2, "composed and decomposed, found by the composed form")


@check("Q-09")
def compatible_forms(t: World) -> Plan[None]:
    yield from t.save("ｆｕｌｌｗｉｄｔｈ ﬁnance", "one")
    same(len((yield from t.found("fullwidth"))), 1, "full-width letters, found by plain ones")
    same(len((yield from t.found("finance"))), 1, "a ligature, found by its letters")
    yield from t.save("한글", "two")
    same(
        (yield from t.found("\u1112\u1161\u11ab\u1100\u1173\u11af")), ["한글"], "Hangul, found by its letters"
    )


@check("Q-10")
def odd_queries(t: World) -> Plan[None]:
    yield from t.save("text with budget", "key")
    for text in ODD:
        page = yield from t.hits(text)
        true(page.total <= 1, f"the query {text!a:.40} finds no more than there is")
    same((yield from t.found('"budget" OR (')), ["text with budget"], "what a word among signs finds")


@check("Q-11")
def signs_within_words(t: World) -> Plan[None]:
    for text in (
        "state-of-the-art",
        "Downloads/transcripts",
        "Vol. 2",
        "grammar::fa",
        "user_name",
        "v1.14.0",
    ):
        yield from t.save(f"see {text} here", text)
        found = yield from t.found(text)
        same(found[:1], [f"see {text} here"], f"the first that {text!r} finds")


@check("Q-12")
def other_namespaces(t: World) -> Plan[None]:
    yield from t.save("shared mine", "key")
    yield from t.save("shared theirs", "key", of="b")
    page = yield from t.hits("shared")
    same(([hit.record.content for hit in page.items], page.total), (["shared mine"], 1), "hits and total")


@check("Q-13")
def others_words_do_not_count(t: World) -> Plan[None]:
    yield from t.save("apple", "one")
    yield from t.save("pear", "two")
    before = [hit.score for hit in (yield from t.hits("apple pear")).items]
    for number in range(5):
        yield from t.save(f"apple and more {number}", of="b")
    after = [hit.score for hit in (yield from t.hits("apple pear")).items]
    same((len(before), len(after)), (2, 2), "the number of hits before and after others wrote")
    moved = max(abs(one - other) for one, other in zip(before, after, strict=True))
    true(moved < 1e-6, "scores stay when others write")


@check("Q-14")
def filters_come_before_limits(t: World) -> Plan[None]:
    better = [t.intent("apple apple apple", f"many {number}") for number in range(60)]
    yield from calls.store_many(better)  # more than a service is asked for at first
    yield from t.save("one apple among a good many other words", "rare", type="profile")
    page = yield from t.hits("apple", where=Filter(types=("profile",)), limit=2)
    same(
        ([hit.record.key for hit in page.items], page.total, page.more),
        (["rare"], 1, False),
        "hits and total with a filter, and whether there may be more",
    )


@check("Q-15")
def totals_and_limits(t: World) -> Plan[None]:
    for number in range(7):
        yield from t.save(f"apple {number}", f"key {number}")
    page = yield from t.hits("apple", limit=3)
    same((len(page.items), page.total), (3, 7), "the number of hits and the total")


@check("Q-16")
def scores(t: World) -> Plan[None]:
    texts = [
        "apple",
        "apple pear",
        "pear apple and a number of other words",
        "pear",
        "pear pear plum",
        "plum",
    ]
    yield from t.save_each(texts)
    page = yield from t.hits("apple pear")
    found = [hit.score for hit in page.items]
    same((len(found), found), (5, sorted(found, reverse=True)), "how many, and the scores, descending")
    true(all(0 <= score <= 1 for score in found), "scores lie in [0, 1]")
    true(len(set(found)) >= 4, "matches of different quality have different scores")
    every = {hit.record.content: hit.score >= 0.5 for hit in page.items}
    both = {text for text, high in every.items() if high}
    same(
        both,
        {"apple pear", "pear apple and a number of other words"},
        "scores from a half on: those with every word",
    )


@check("Q-17")
def ties(t: World) -> Plan[None]:
    for number in range(11):
        yield from t.save("apple", f"key {number}")
    first = [hit.record.key for hit in (yield from t.hits("apple")).items]
    again = [hit.record.key for hit in (yield from t.hits("apple", limit=4)).items]
    same(again, first[:4], "the first hits of equal ones, whatever the limit")


@check("Q-18")
def a_rewritten_text(t: World) -> Plan[None]:
    yield from t.save("old walnut", "key", tags=("fig",))
    yield from t.save("new almond", "key", tags=())
    same((yield from t.found("almond")), ["new almond"], "what the new word finds")
    same((yield from t.found("walnut")), [], "what the old word finds")
    same((yield from t.found("fig")), [], "what the old tag finds")


@check("Q-19")
def no_words(t: World) -> Plan[None]:
    yield from t.save("text ... !!!", "key")
    for text in ("...", "!?", "- -", '"'):
        page = yield from t.hits(text)
        same((page.items, page.total), ((), 0), f"what {text!r} finds")


@check("Q-20")
def parts_on_request(t: World) -> Plan[None]:
    yield from t.save("apple", "key")
    plain = yield from t.hits("apple")
    same([hit.parts for hit in plain.items], [None], "the parts, not asked for")
    explained = yield from t.hits("apple", explain=True)
    true(explained.items[0].parts, "a hit that is explained has parts")


@check("Q-21")
def forms_of_a_word(t: World) -> Plan[None]:
    yield from t.save("we are running tests on AI", "one")
    for text in ("run", "test", "ai"):
        same(len((yield from t.found(text))), 1, f"the number that {text!r} finds")


@check("Q-22")
def all_readable_kinds(t: World) -> Plan[None]:
    for kind in ("observation", "document", "turn", "summary"):
        yield from t.save(f"apple {kind}", "key", kind=kind, type="any")
    same(len((yield from t.found("apple"))), 4, "the number of hits of all kinds")
    same((yield from t.found("apple", kinds=("turn",))), ["apple turn"], "the hits of one kind")


@check("Q-23")
def forgotten_words(t: World) -> Plan[None]:
    yield from t.save("apple one", "one")
    yield from t.save("apple two", "two")
    yield from calls.forget(Selector(t.space(), ref=t.ref("one")))
    same((yield from t.found("apple")), ["apple two"], "what is found after a forget")
