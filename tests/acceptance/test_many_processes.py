"""Several processes on one store that does not exist when they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from keyfold import Memory

PROCESSES, SAVES, KEYS = 8, 500, 50

WORKER = """
import sys
from keyfold import Config, Memory
path, name, saves, keys = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Memory.open(path, config=Config(durability="process")) as memory:
    for number in range(saves):
        receipt = memory.mem_save("ana", f"{name} {number}", type="decision", title="t", topic_key=f"k{number % keys}")
        assert receipt.outcome in ("created", "updated"), receipt
"""


def test_eight_processes_rewrite_fifty_keys_and_every_revision_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, path, f"p{number}", str(SAVES), str(KEYS)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    errors = [worker.communicate()[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * PROCESSES, errors
    with Memory.open(path) as memory:
        topics = memory.mem_topics("ana")
        assert len(topics) == KEYS
        assert sum(topic.revision_count for topic in topics) == PROCESSES * SAVES
        histories = [memory.mem_history("ana", topic_key=topic.key) for topic in topics]
        assert sum(len(history) for history in histories) == PROCESSES * SAVES
        assert len({state.content for history in histories for state in history}) == PROCESSES * SAVES
