"""A new save, as an agent makes it: Keyfold against other memories from PyPI, which store without a model.

The peers are installed into an environment of their own, .venv-peers, by pip; one that cannot be installed is
skipped by name. All store the same texts, one a call, and take turns in blocks: first each as it is installed
(Keyfold and agno in WAL mode, LangGraph in journal mode DELETE, all with synchronous FULL), then Keyfold at
durability "process" beside the peers as installed, then all in WAL mode with the same `synchronous`. README.md says
why these peers, what each does beyond or short of Keyfold, and what of eight times can be had.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from statistics import fmean

from common import each, median, row, texts
from keyfold import Config, Memory
from raw import Raw

HOME = Path(__file__).resolve().parent.parent / ".venv-peers"
PYTHON = HOME / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
PACKAGES = {
    "langgraph": ("langgraph-checkpoint-sqlite>=3.1,<4",),
    "agno": ("agno>=3.1,<4", "sqlalchemy[asyncio]>=2.1,<3"),
}
# How each is run: Keyfold's durability, the peers' `synchronous` (in WAL mode; empty: as installed).
# At least so many times as quick as the quickest peer: 0 where that is told and no more.
RUNS = {
    "each as installed": ("full", "", 0),
    "as installed, durability process": ("process", "", 8),
    "all WAL, synchronous FULL": ("full", "FULL", 0),
    "all WAL, synchronous NORMAL": ("process", "NORMAL", 0),
}
BLOCK = 100


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--saves", type=int, default=2_000)
    count = parser.parse_args().saves
    names = [name for name in PACKAGES if installed(name)]
    kept = True
    row("", "base", "keyfold", "ratio", "limit", "")
    for title in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            kept &= measure(Path(folder), title, names, count)
    return 0 if kept else 1


def installed(name: str) -> bool:
    """Whether a peer is there, installing it when it is not."""
    marker = HOME / f".{name}"
    wanted = " ".join(PACKAGES[name])
    if marker.exists() and marker.read_text() == wanted:
        return True
    if not PYTHON.exists():
        venv.create(HOME, with_pip=True)
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-qq", "install", *PACKAGES[name]]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        row(f"{name}: skipped, it cannot be installed")
        print(f"  {reason:.200}")
        return False
    marker.write_text(wanted)
    return True


class Peer:
    """A peer in a process of its own."""

    def __init__(self, name: str, path: Path, synchronous: str, count: int) -> None:
        script = Path(__file__).with_name("peer.py")
        command = [str(PYTHON), str(script), name, str(path), synchronous, str(count)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.told()
        self.taken: list[float] = []

    def told(self) -> object:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def save(self, start: int, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{start} {count}\n")
        self.process.stdin.flush()
        self.taken += self.told()  # type: ignore[arg-type]  # a list

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def measure(folder: Path, title: str, names: list[str], count: int) -> bool:
    durability, synchronous, wanted = RUNS[title]
    body = list(texts(count))
    raw = Raw(folder / "raw.db", durability)
    memory = Memory.open(str(folder / "keyfold.db"), config=Config(durability=durability))
    memory.mem_save("alice", "to open the session", type="decision", title="Start")

    def ours(number: int) -> object:
        return memory.mem_save(
            "alice", body[number], type="decision", title=f"Title {number}", topic_key=f"topic/key-{number}"
        )

    def base(number: int) -> object:
        return raw.save("alice", f"topic/key-{number}", "decision", f"Title {number}", body[number])

    saves: list[float] = []
    raws: list[float] = []
    peers: dict[str, Peer] = {}
    try:
        for name in names:
            peers[name] = Peer(name, folder / f"{name}.db", synchronous, count)
        for start in range(0, count, BLOCK):
            raws += each(lambda n, at=start: base(at + n), BLOCK)
            saves += each(lambda n, at=start: ours(at + n), BLOCK)
            for peer in peers.values():
                peer.save(start, BLOCK)
    finally:
        for peer in peers.values():
            peer.close()
    memory.close()
    raw.close()
    row(f"a new save, {title}", "", f"{median(saves):,.1f} us", "", f"mean {fmean(saves):,.0f}")
    of_raw = f"{median(saves) / median(raws):.2f}x"
    row("  raw apsw", f"{median(raws):,.1f} us", "", of_raw, f"mean {fmean(raws):,.0f}")
    for name, peer in peers.items():
        times = f"1/{median(peer.taken) / median(saves):.1f}"
        taken = f"{median(peer.taken):,.1f} us"
        row(f"  {name} {peer.version}", taken, "", times, f"mean {fmean(peer.taken):,.0f}")
    if not peers:
        row("  no peer could be measured")
        return False
    times = min(median(peer.taken) for peer in peers.values()) / median(saves)
    kept = times >= wanted
    limit = (f">= {wanted}", "ok" if kept else "ABOVE") if wanted else ()
    row("  times as quick as the quickest peer", "", f"{times:.1f}", "", *limit)
    return kept


if __name__ == "__main__":
    raise SystemExit(main())
