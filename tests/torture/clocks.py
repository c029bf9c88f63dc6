"""A clock that jumps, hours back or days ahead, at any moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from keyfold import Config, Memory, NotFound
from tests.engines.common import check_agreement
from tests.torture.common import Run, word

CALLS = 4_000
JUMPS = (0.0, 0.0, 0.001, 1.0, 30.0, -1.0, -59.0, -3600.0, -20 * 3600.0, 3600.0, 30 * 3600.0, -40 * 3600.0)
NOTE: dict[str, Any] = {"type": "decision", "title": "Note"}
USERS = ("ana", "ben")


class Jumping:
    """A clock for a store in a file and for the reference beside it."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 6, 1, tzinfo=UTC)
        self.latest = self.moment

    def __call__(self) -> datetime:
        return self.moment

    def jump(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.latest = max(self.latest, self.moment)


def _sane(memory: Memory, clock: Jumping, user: str) -> int:
    """Times rise within every record, and no time is beyond what the clock ever said; how many were looked at."""
    ahead = clock.latest + timedelta(seconds=1)
    seen = 0
    for record in memory.mem_list(user, limit=1000):
        assert record.created_at <= record.updated_at <= ahead
        times = [state.written_at for state in reversed(memory.mem_history(user, record.id))]
        assert all(earlier < later for earlier, later in pairwise(times)), times
        seen += 1
    listed = [record.updated_at for record in memory.mem_list(user, limit=1000)]
    assert listed == sorted(listed, reverse=True)
    for session in memory.mem_session_list(user, limit=1000):
        assert session.started_at <= session.last_activity_at <= ahead, session
        assert (session.ended_at is None) == (session.status == "active")
        assert session.ended_at is None or session.started_at <= session.ended_at <= ahead, session
    return seen


class Play:
    """Random calls under the jumping clock."""

    def __init__(self, run: Run, memory: Memory, clock: Jumping) -> None:
        self.run, self.memory, self.clock = run, memory, clock
        self.last = 0

    def text(self) -> str:
        self.last += 1
        return f"{word(self.last)} is what was said"

    def save_keyed(self, user: str) -> None:
        key = f"key {self.run.random.randrange(8)}"
        before = self.memory.mem_get_observation(user, topic_key=key)
        saved = self.memory.mem_save(user, self.text(), **NOTE, topic_key=key)
        after = self.memory.mem_get_observation(user, saved.id)
        assert after is not None
        if before is not None:
            assert after.updated_at > before.updated_at
            assert after.updated_at >= self.clock.moment
            assert after.created_at == before.created_at

    def repeat(self, user: str) -> None:
        """A repeat within the window is one record, wherever the clock went; after the window it is another."""
        text = self.text()
        first = self.memory.mem_save(user, text, **NOTE)
        back = self.run.random.random() < 0.5
        self.clock.jump(-self.run.random.random() * 7200 if back else self.run.random.random() * 59)
        assert self.memory.mem_save(user, text, **NOTE).id == first.id, "a repeat became a second record"
        if not back:
            self.clock.jump(120)
            assert self.memory.mem_save(user, text, **NOTE).outcome == "created"

    def idempotent(self, user: str) -> None:
        self.last += 1
        call = {"content": self.text(), "idempotency_key": f"i{self.last}", **NOTE}
        first = self.memory.mem_save(user, **call)
        self.clock.jump(self.run.random.choice((-7200.0, 7200.0)))
        again = self.memory.mem_save(user, **call)
        assert (again.id, again.replayed) == (first.id, True)

    def session(self, user: str) -> None:
        started = self.memory.mem_session_start(user)
        self.clock.jump(self.run.random.choice((-3600.0, 0.0, 60.0)))
        if started.session.last_activity_at < self.clock.moment - timedelta(hours=24):
            return  # it went stale while the clock went on
        again = self.memory.mem_session_start(user)
        assert again.session_id == started.session_id, "the clock went back and a session was lost"
        saved = self.memory.mem_save(user, self.text(), **NOTE)
        assert saved.session_id == started.session_id
        if self.run.random.random() < 0.5:
            ended = self.memory.mem_session_end(user, summary="Done.")
            assert (ended.id, ended.status) == (started.session_id, "completed")
            assert ended.ended_at is not None
            assert ended.started_at <= ended.ended_at, "it ended before it began"
            try:
                self.memory.mem_session_end(user)
            except NotFound:
                pass
            else:
                raise AssertionError("a session was ended twice")

    def expiring(self, user: str) -> None:
        text = self.text()
        ends = self.clock.moment + timedelta(seconds=50)
        saved = self.memory.mem_save(user, text, **NOTE, expires_at=ends)
        assert self.memory.mem_search(user, text.split()[0]).total == 1
        self.clock.jump(51)
        assert self.memory.mem_get_observation(user, saved.id) is None
        assert self.memory.mem_search(user, text.split()[0]).total == 0


def jumps(run: Run) -> None:
    clock = Jumping()
    folder = run.place("store")
    for url in (str(folder / "store.db"), "inmemory:"):
        with Memory.open(url, config=Config(clock=clock, durability="process")) as memory:
            play = Play(run, memory, clock)
            kinds = (
                play.save_keyed,
                play.save_keyed,
                play.repeat,
                play.idempotent,
                play.session,
                play.expiring,
            )
            for _ in range(run.times(CALLS // 2, 100)):
                if run.random.random() < 0.5:
                    seconds = run.random.choice(JUMPS)
                    clock.jump(seconds)
                    run.count("jumps back", int(seconds < 0))
                run.random.choice(kinds)(run.random.choice(USERS))
                run.count("calls")
            run.count("records looked at", sum(_sane(memory, clock, user) for user in USERS))
    check_agreement(folder)
