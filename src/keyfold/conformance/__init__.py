"""What every engine must do, as clauses that can be run on any of them. See docs/conformance.md.

`run` takes a blocking engine, `arun` an async one; neither needs a test framework. The checks are plans,
written once for both.
"""

from keyfold.conformance import checks
from keyfold.conformance.manifest import CLAUSES
from keyfold.conformance.registry import CHECKS, Check, Clause, faults
from keyfold.conformance.runner import Outcome, arun, run
from keyfold.conformance.world import SteppedClock

__all__ = [
    "CHECKS",
    "CLAUSES",
    "Check",
    "Clause",
    "Outcome",
    "SteppedClock",
    "arun",
    "checks",
    "faults",
    "run",
]
