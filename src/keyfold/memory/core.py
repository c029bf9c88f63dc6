"""What the calls of one memory share: its configuration, its clock, and which session each user is in."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from keyfold.clock import Clock, clock_of
from keyfold.contract import calls
from keyfold.contract.filters import Filter
from keyfold.contract.intents import Capabilities, Idempotency, Query, Ref, SessionUse
from keyfold.contract.prepare import idempotency
from keyfold.contract.reach import above
from keyfold.errors import InvalidRequest, Unsupported
from keyfold.flow import Plan
from keyfold.memory import checks
from keyfold.model import ACTIVE, OBSERVATION, SESSION, UNSET, Config, Reach, plain

REACHES = ("exact", "inherit", "subtree")


# What an engine without a capability does not do, in a user's words.
LACKS = {
    "history": "keeps no earlier revisions",
    "idempotency": "keeps no idempotency keys",
    "derives": "draws no facts from what is saved",
    "reach": "looks into one user's memory at a time",
    "search": "has no search",
    "answers": "answers no questions",
}


class Core:
    """The state behind a Memory or AsyncMemory. Its dictionaries are only hints: the store decides."""

    __slots__ = ("capabilities", "clock", "config", "ended", "ending", "opening", "sessions", "timeout")

    def __init__(self, config: Config, capabilities: Capabilities) -> None:
        self.config = config
        self.clock: Clock = clock_of(config.clock)
        self.capabilities = capabilities
        self.timeout = timedelta(seconds=config.session_timeout)
        self.sessions: dict[str, str] = {}  # user -> the session that this handle is in
        self.opening: dict[str, str] = {}  # user -> the session that writes under way are about to open
        self.ended: dict[str, str] = {}  # user -> the session that this handle ended last
        # (user, session) -> whether an end without a name means it: ends that may have been carried out
        self.ending: dict[tuple[str, str], bool] = {}

    def moved_on(self, user: str) -> None:
        """The user began or ended a session: an end that was broken off before is repeated by its session's name."""
        for whose, session in self.ending:
            if whose == user:
                self.ending[user, session] = False

    def now(self) -> datetime:
        """The clock's time."""
        return self.clock()

    def needs(self, capability: str, instead: str) -> None:
        """Raise Unsupported when the engine lacks a capability; `instead` says what to use."""
        if not getattr(self.capabilities, capability):
            raise Unsupported(f"the {self.capabilities.engine} engine {LACKS[capability]}; {instead}")

    def idempotency(self, operation: str, key: Any, body: dict[str, Any]) -> Idempotency | None:
        """The digests of a caller's idempotency key and of what it passed (already redacted); None without a key."""
        checked = checks.idempotency_key(key)
        if checked is None:
            return None
        self.needs("idempotency", "leave idempotency_key out: a save under a topic_key is safe to repeat")
        passed = {name: plain(value) for name, value in body.items() if value is not UNSET}
        return idempotency(operation, checked, passed)

    def derive(self, value: Any) -> bool | None:
        """Whether a service may draw facts from a record; None is its habit. True needs an engine that does."""
        checked = checks.flag("derive", value)
        if checked:
            self.needs("derives", "leave derive out: nothing but what is saved is kept")
        return checked if isinstance(checked, bool) else None

    def reach(self, value: Any) -> Reach:
        """A reach that the engine supports."""
        if value == "exact":
            return "exact"
        checked: Reach = checks.choice("reach", value, REACHES)
        self.needs("reach", "read each user_id on its own")
        return checked


def current_session(core: Core, user: str, session_id: str | None) -> Plan[SessionUse]:
    """The session of a write: the one passed, else the handle's own, else the user's newest active, else a new one."""
    if session_id is not None:
        return SessionUse(checks.name("session_id", session_id), explicit=True)
    if not core.capabilities.session_activity:  # then a session costs no request: it is this process's own
        return SessionUse(core.sessions.setdefault(user, str(uuid4())))
    alive_since = core.now() - core.timeout
    own = core.sessions.get(user)
    if own is not None:
        return SessionUse(own, alive_since=alive_since)
    newest = yield from newest_active(user, alive_since, alive_since + 2 * core.timeout)
    if newest is not None:
        return SessionUse(newest, alive_since=alive_since)
    # writes that are under way at once open one session between them, not one each
    return SessionUse(core.opening.setdefault(user, str(uuid4())), opens=True, alive_since=alive_since)


def newest_active(user: str, alive_since: datetime | None, until: datetime | None) -> Plan[str | None]:
    """The id of the user's active session with the newest activity, or None.

    One whose activity lies far in the future (an import from a machine with a wrong clock) must not capture
    every save until then: `until` leaves it out.
    """
    where = Filter(types=(ACTIVE,), updated_since=alive_since, updated_until=until)
    page = yield from calls.page(Query(user, kinds=(SESSION,), where=where, limit=1, want_total=False))
    return page.items[0].key if page.items else None


def reference(user_id: Any, observation_id: Any, topic_key: Any) -> Ref:
    """The record that a call names: by id or by topic key, exactly one of them."""
    user = checks.name("user_id", user_id)
    if (observation_id is None) == (topic_key is None):
        raise InvalidRequest("observation_id", "give either an observation_id or a topic_key")
    if observation_id is not None:
        return Ref(user, id=checks.record_id(observation_id), kind="")
    return Ref(user, key=checks.name("topic_key", topic_key), kind=OBSERVATION)


def targets(user: str, reach: Reach) -> Plan[list[str]]:
    """The namespaces a keyed read looks into, nearest first."""
    if reach == "exact":
        return [user]
    if reach == "inherit":
        return [user, *reversed(above(user))]
    below = yield from calls.namespaces(user)
    return [user, *(found for found in below if found != user)]
