"""Every case's test fails on the build that is broken for it; at a small scale, a sample of them."""

from __future__ import annotations

from tests.cases.broken import BREAKS
from tests.cases.seen_failing import verdicts
from tests.torture.common import Run


def all_cases(run: Run) -> None:
    cases = sorted(run.random.sample(list(BREAKS), min(len(BREAKS), run.times(len(BREAKS), 5))))
    wrong = [f"{case}: {word}" for case, word in verdicts(cases) if word]
    run.counts.update(cases=len(cases), of=len(BREAKS))
    assert not wrong, "\n".join(wrong)
