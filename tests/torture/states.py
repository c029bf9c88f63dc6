"""The state machine of tests/memory, for long."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.memory.test_state_machine import Interleaving
from tests.torture.common import Run

EXAMPLES = 80
STEPS = 50


def long_run(run: Run) -> None:
    examples = run.times(EXAMPLES, 10)
    calls = 0
    write = Interleaving.write

    def counted(machine: Interleaving, call: object) -> object:
        nonlocal calls
        calls += 1
        return write(machine, call)  # type: ignore[arg-type]

    Interleaving.write = counted  # type: ignore[method-assign]
    run_state_machine_as_test(
        seed(run.seed)(Interleaving),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    run.counts.update(examples=examples, writes=calls)
