"""The knobs of the CortexDB doubles: what a test turns to make the service older, slower or worse than it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)  # slots: a knob that is misspelt is an error
class Knobs:
    """How the service is. What is awkward about every CortexDB is on by default; a test may turn it off.

    Numbers that say "the next n" count down as they strike, so that a test sees whether they did.
    """

    # --- on by default, as the service is
    doubled: bool = True  # a listing emits every event twice in a row, and limit counts the copies
    listing_lag: int = 1  # listings of its scope that do not show an event yet...
    listing_lag_seconds: float = 1.0  # ...unless it is as old as this
    recall_lag: int = 1  # recalls that do not find a listed event yet...
    recall_lag_seconds: float = 2.0  # ...unless it is as old as this
    pack_seconds: float = 60.0  # how long a pack lives
    packs_die_at_forget: bool = True  # any forget, in any scope, drops every pack
    key_hours: float = 24.0  # how long an idempotency key is remembered

    # --- how other versions are
    compare_text_only: bool = False  # a repeated key is compared by the text alone
    role_prefix: bool = False  # recalled text begins with "[role] ", as before 0.10.3
    role_prefix_listed: bool = False  # listed text does too
    flat_events: bool = False  # event_id and flat fields, as the documents show, for id and context
    forget_keeps_keys: bool = False  # a forget by memory_ids does not release the keys of what it removed
    redacted_still_list: bool = False  # a redacted event lists on, with its labels and a blank content
    derived_only_deletes: bool = False  # a forget without a cascade deletes the events, as older servers did
    dead_after_redaction: bool = False  # a scope that was redacted whole takes writes and shows none of them
    any_scope_type: bool = False  # scope types are not restricted, as before 0.10
    whoami_missing: bool = False  # GET /v1/auth/whoami is 404, and no actor header is checked
    answer_needs_pack: bool = (
        True  # an answer without use_pack_id is 400 MISSING_PACK; else it recalls by itself
    )
    no_replay_flag: bool = False  # answers carry no replayed_from_idempotency
    version_down: bool = False
    recall_down: bool = False
    no_answer_model: bool = False  # 503 ANSWER_UNAVAILABLE
    refuse_attribution: bool = False  # observed_actor and subject are 403, for want of the capability
    diagnostics_allowed: bool = False  # the caller holds diagnostics.read
    padding_scopes: int = 0  # scopes of nobody's that the list of scopes is filled up with
    listing_delay: float = 0.0  # seconds that a listing takes
    erasure_polls: int = 0  # looks at an erasure that find it still running

    # --- only the hosted wire
    rate_limit: int = 300  # requests a minute and user
    conflict_is_409: bool = False  # newer backends relay a conflict as 409, older ones as 400
    scopes_shape: str = "strings"  # or "paths" {scopes: [{path}]}, or "items" {items: [{path}]}
    scoped_erasures: bool = False  # v1/erasures takes scope and audit_note only, and is done at once
    erase_all_missing: bool = False  # DELETE memory is 404
    answer_odd: Any = None  # this instead of the envelope, on a success

    # --- the next n
    fail_all: int = 0  # every request answers this status until it is 0 again
    hide_listing_for: int = 0  # listings that come out empty
    stuck_cursor: int = 0  # listings whose next_cursor is the cursor that was sent ("0" at first)
    rate_limit_events: int = 0
    rate_limit_experience: int = 0
    rate_limit_forget: int = 0
    state_change_events: int = 0  # 503 AUTHORIZATION_STATE_CHANGED on a listing
    state_change_experience: int = 0  # and on a write, which is not carried out
    apply_then_fail: int = 0  # writes that are carried out and answered 503
    apply_then_fail_every: int = 0  # every nth write request is; stays as it is
    apply_half_then_fail: int = 0  # bulks of which the first half is carried out, then 503
    forget_then_fail: int = 0  # forgets that are carried out and answered 503
    claim_then_fail: int = 0  # hosted writes whose claim is taken, then 502, and nothing is carried out
    fail_nth_experience: int = 0  # this event from now is 503 and not written; those before it in a bulk are
    fail_nth_status: int = 503
    wait_timeouts: int = 0  # writes with ?wait= that are carried out and answered 408 WAIT_TIMEOUT
    expire_packs: int = 0  # answers that find their pack gone

    armed: dict[str, int] = field(default_factory=dict)

    def arm_after_write(self, **knobs: int) -> None:
        """Set these knobs as soon as the next write is carried out: the look-up passes, the wait is struck."""
        self.armed = knobs

    def written(self) -> None:
        """A write was carried out: what was armed is set."""
        armed, self.armed = self.armed, {}
        for name, value in armed.items():
            setattr(self, name, value)

    def strikes(self, name: str) -> bool:
        """Whether the knob has one left, which is now spent."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0

    def nth(self, name: str) -> bool:
        """Whether this is the one that the knob counts down to."""
        return self.strikes(name) and getattr(self, name) == 0
