"""Two processes that rewrite one key at once, and what must hold when they are done. Shared by the services' tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from keyfold import Conflict, Memory

KEY = "shared/topic"
USER = "rewriters"


def rewrite(url: str, who: str, times: int) -> None:
    """Rewrite the key again and again; say what was acknowledged last, and when, and how many were refused."""
    import time

    refused, last = 0, ""
    with Memory.open(url) as memory:
        for number in range(times):
            content = f"{who} says {number}"
            try:
                memory.mem_save(USER, content, type="decision", title="Shared", topic_key=KEY)
            except Conflict:
                refused += 1
            else:
                last = content
        print(json.dumps({"last": last, "at": time.time(), "refused": refused}))


def race(url: str, times: int) -> dict[str, object]:
    """Let two processes rewrite at once; what each acknowledged last, which was later, and how many were refused."""
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-m", "tests.live.rewriting", url]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    running = [
        subprocess.Popen(
            [*command, who, str(times)], stdout=subprocess.PIPE, text=True, env=environment, cwd=root
        )
        for who in ("ana", "ben")
    ]
    told = []
    for process in running:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0, "a rewriting process met another error than Conflict"
        told.append(json.loads(out))
    latest = max(told, key=lambda one: one["at"])
    return {
        "last": latest["last"],
        "either": {one["last"] for one in told},
        "refused": sum(one["refused"] for one in told),
    }


if __name__ == "__main__":
    rewrite(sys.argv[1], sys.argv[2], int(sys.argv[3]))
