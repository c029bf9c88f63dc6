"""A double to try a service on, without an account: `python -m tests.doubles mem0`, or `make double ARGS=mem0`.

It prints what to export, and serves until it is interrupted. What was saved there is gone then.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from typing import Final

from tests.doubles.serving import served
from tests.remote.common import (
    COGNEE,
    CORTEXDB,
    KEY,
    MEM0_OSS,
    MEM0_PLATFORM,
    SUPERMEMORY,
    TINYHUMANS,
    Service,
)

DOUBLES: Final[dict[str, Service]] = {
    "mem0": MEM0_OSS,
    "mem0-platform": MEM0_PLATFORM,
    "cognee": COGNEE,
    "supermemory": SUPERMEMORY,
    "cortexdb": CORTEXDB,
    "tinyhumans": TINYHUMANS,
}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m tests.doubles", description="Serve a double of a service.")
    parser.add_argument("service", choices=DOUBLES)
    parser.add_argument("--port", type=int, default=0, help="its port (any that is free)")
    args = parser.parse_args(argv)
    service = DOUBLES[args.service]
    double = service.double()
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # in the double's thread too: it is ended below
    with served(double, args.port):
        print(f"export KEYFOLD_API_KEY={KEY}")
        print(f"export KEYFOLD_STORE={service.url(double)}", flush=True)
        print(
            f"A double of {service.name} is served until Ctrl-C; it forgets everything then.", file=sys.stderr
        )
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
