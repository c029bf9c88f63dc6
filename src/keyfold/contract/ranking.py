"""Scores: how well a record answers a query, and how much it matters when work begins. Pure.

A search score is relevance first. Records that hold every word lie in [0.5, 1], those that hold some in
[0, 0.5), so a gentle multiplier (recency, revisions; at most a tenth) never lifts a worse kind of match over
a better one. Relevance is BM25 (Robertson and Zaragoza, 2009; k1 0.9, b 0.4 as in Anserini) as a share of
the most that the query could get. A context score is another scale and never meets this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log
from typing import Final

from keyfold.model import Record

K1: Final = 0.9
B: Final = 0.4
HALF_LIFE: Final = 30 * 86_400.0  # seconds
REVISION_CAP: Final = 10
RECENCY_SHARE: Final = 0.07
REVISION_SHARE: Final = 0.03
TYPE_PRIORITY: Final = {"profile": 1.0, "preference": 0.9, "decision": 0.7, "pattern": 0.6, "discovery": 0.5}
OTHER_PRIORITY: Final = 0.4


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 needs to know of a namespace: how many records are indexed and their mean length in tokens."""

    size: int
    mean_length: float


def idf(size: int, holders: int) -> float:
    """Inverse document frequency, never negative (the form with 1 + inside the logarithm, as in Lucene)."""
    return log(1 + (max(size, holders) - holders + 0.5) / (holders + 0.5))


def relevance(frequencies: Sequence[int], length: int, weights: Sequence[float], corpus: Corpus) -> float:
    """BM25 of one record as a share, in [0, 1], of what the query could get at most.

    `frequencies` counts each query word in the record, `weights` holds their idf, `length` is the record's
    number of tokens.
    """
    most = sum(weights) * (K1 + 1)
    if most <= 0:
        return 0.0
    norm = K1 * (1 - B + B * length / (corpus.mean_length or 1.0))
    return sum(w * f * (K1 + 1) / (f + norm) for f, w in zip(frequencies, weights, strict=True) if f) / most


def recency(then: datetime, now: datetime) -> float:
    """1.0 for now, half of it every 30 days; a time in the future counts as now."""
    age: float = max(0.0, (now - then).total_seconds())
    return float(0.5 ** (age / HALF_LIFE))


def search_score(
    share: float, every_word: bool, record: Record, now: datetime
) -> tuple[float, dict[str, float]]:
    """A record's search score in [0, 1] and the parts it is made of."""
    fresh = recency(record.updated_at, now)
    revisions = min(record.revision_count, REVISION_CAP) / REVISION_CAP
    gentle = 1 - RECENCY_SHARE * (1 - fresh) - REVISION_SHARE * (1 - revisions)
    base = 0.5 if every_word else 0.0
    score = base + 0.5 * share * gentle if every_word else min(0.5 * share * gentle, 0.4999)
    return score, {
        "relevance": share,
        "every_word": float(every_word),
        "recency": fresh,
        "revisions": revisions,
        "multiplier": gentle,
    }


def context_score(record: Record, now: datetime) -> float:
    """How much a record matters when work begins: 0.5 recency + 0.3 revisions + 0.2 type, in [0, 1]."""
    revisions = min(record.revision_count, REVISION_CAP) / REVISION_CAP
    kind = TYPE_PRIORITY.get(record.type, OTHER_PRIORITY)
    return 0.5 * recency(record.updated_at, now) + 0.3 * revisions + 0.2 * kind
