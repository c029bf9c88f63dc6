"""The memories that matter, rendered as text for a prompt within a hard budget of characters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Found, Query, SearchQuery
from keyfold.contract.ranking import context_score
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.memory.core import Core
from keyfold.model import OBSERVATION, SUMMARY, ContextText, Reach, Record
from keyfold.text.line import one_line

DEFAULT_BUDGET: Final = 8_000
GOOD_ENOUGH: Final = 50  # matches for which a service is not asked again
CANDIDATES: Final = 300  # how many of the newest are weighed
PINNED: Final = 50
LONGEST_SHARE: Final = 4  # no memory takes more than a quarter of the budget
SHORTEST_CUT: Final = 40  # below this a cut text says nothing


def mem_context(
    core: Core,
    user_id: str,
    *,
    query: str | None = None,
    budget: int = DEFAULT_BUDGET,
    reach: Reach = "exact",
) -> Plan[ContextText]:
    """The memories that matter most, or that answer `query` best, as text of at most `budget` characters.

    Pinned ones come first, then by context score (0.5 recency, 0.3 revisions, 0.2 type) or by search
    score. What did not fit is marked in the text, and `truncated` is True. `budget` is at most 1,000,000.
    """
    user = checks.name("user_id", user_id)
    characters = checks.whole("budget", budget, 1, checks.MAX_BUDGET)
    words = None
    if query is not None:
        words = checks.text("query", query, checks.MAX_QUERY_BYTES)
    return (yield from render_context(core, user, words, characters, core.reach(reach)))


def _marked(item: Found) -> Record:
    """A record that was found; one of which only a piece came along says so."""
    if not item.excerpt:
        return item.record
    return replace(item.record, content=f"[...] {item.record.content} [...]")


def render_context(
    core: Core, user: str, words: str | None, budget: int, reach: Reach, *, told: Collection[str] = ()
) -> Plan[ContextText]:
    """mem_context, validated. `told`: the sessions whose summaries the caller is given anyway."""
    if words is not None:
        core.needs("search", "leave the query out")
        found = yield from calls.search(SearchQuery(user, words, reach, limit=CANDIDATES, enough=GOOD_ENOUGH))
        text = render([_marked(item) for item in found.items], found.total, budget)
        return ContextText(text, truncated=text.truncated or found.more)
    kinds = (OBSERVATION, SUMMARY)
    newest = yield from calls.page(Query(user, reach, kinds, limit=CANDIDATES))
    pinned = yield from calls.page(
        Query(user, reach, kinds, Filter(pinned=True), limit=PINNED, want_total=False)
    )
    now = core.now()
    weighed = sorted(newest.items, key=lambda record: context_score(record, now), reverse=True)
    ordered = {record.id: record for record in (*pinned.items, *weighed)}
    wanted = [
        record
        for record in ordered.values()
        if record.kind != SUMMARY or (record.session_id or record.key) not in told
    ]
    return render(wanted, newest.total - (len(ordered) - len(wanted)), budget)


def render(records: list[Record], total: int, budget: int) -> ContextText:
    """Records as text, in order, within a budget; the last line says what was left out."""
    blocks: list[str] = []
    used, cut = 0, False
    longest = max(budget // LONGEST_SHARE, 200)
    reserve = len(_left_out(total))
    for place, record in enumerate(records):
        block, shortened = block_of(record, longest)
        room = budget - used - (reserve if place + 1 < total or shortened or cut else 0)
        if len(block) > room:
            block, shortened = block_of(record, room)
            if not block:
                break
        if not block:
            cut = True  # it is one of those that the mark counts
            continue
        blocks.append(block)
        used += len(block)
        cut = cut or shortened
    missing = max(total - len(blocks), 0)
    text = "".join(blocks)
    if missing or cut:
        room = budget - len(text)
        marks = (_left_out(missing), "[cut]", "…")
        text += next((mark for mark in marks if len(mark) <= room), "")
    return ContextText(text.rstrip("\n")[:budget], truncated=bool(missing or cut))


def _left_out(missing: int) -> str:
    return f"[cut to the budget: {missing} more]" if missing else "[cut to the budget]"


def block_of(record: Record, room: int) -> tuple[str, bool]:
    """One memory as text of at most `room` characters, and whether it was cut; empty when it cannot fit.

    Where it is too long, its title takes at most half of the room with what stands beside it.
    """
    name = f", {record.topic_key}" if record.topic_key is not None else ""
    title = one_line(" ".join(record.title.split()))
    facts = _facts(record, name)
    whole = f"## {title}{facts}{record.content}\n\n"
    if len(whole) <= room:
        return whole, False
    if len(facts) > room // 3:  # a key that is cut would be another key; the id still names the record
        facts = _facts(record, ", …" if name else "")
    longest = max(room // 2 - len(facts), SHORTEST_CUT)
    if len(title) > longest:  # a title may be longer than the share of a memory: its text is to be seen too
        title = f"{title[: longest - 1].rstrip()}…"
    head = f"## {title}{facts}"
    if len(head) + len(record.content) + 2 <= room:
        return f"{head}{record.content}\n\n", True
    tail = " …[cut]\n\n"
    left = room - len(head) - len(tail)
    if left < SHORTEST_CUT:
        return "", True
    return f"{head}{record.content[:left].rstrip()}{tail}", True


def _facts(record: Record, name: str) -> str:
    return one_line(f" [{record.type}{name}] {record.updated_at:%Y-%m-%d} #{record.id}") + "\n"
