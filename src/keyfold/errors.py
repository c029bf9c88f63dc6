"""One tree of errors with one root, so that `except KeyfoldError` catches all of Keyfold's own.

Every message says what happened, to which record, and what to do next. None holds a secret,
private text or a driver's words about the data: messages name fields, sizes and positions, never texts.
"""

from __future__ import annotations

SENT = "request"  # the field of an InvalidRequest that a service gave for what was sent to it


class KeyfoldError(Exception):
    """The root of every error that Keyfold raises on purpose."""


class InvalidRequest(KeyfoldError, ValueError):
    """An argument is blank, too long, of the wrong form or not allowed. Nothing was changed.

    `field` names the argument; the message says the limit and what is allowed, never the text itself.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem

    def __reduce__(self) -> tuple[type[InvalidRequest], tuple[str, str]]:
        return type(self), (self.field, self.problem)


class NotFound(KeyfoldError, LookupError):
    """The record, revision or session that the call is about does not exist (for this user)."""


class Conflict(KeyfoldError):
    """Another write came first, or an immutable record would change. Nothing was changed.

    `current_revision` is the record's revision now, where there is one.
    """

    def __init__(self, message: str, *, current_revision: int | None = None) -> None:
        super().__init__(message)
        self.current_revision = current_revision


class IdempotencyConflict(Conflict):
    """An idempotency key was used again with another body. `existing_id` is what the first call wrote."""

    def __init__(self, message: str, *, existing_id: str | None = None) -> None:
        super().__init__(message)
        self.existing_id = existing_id


class Unsupported(KeyfoldError):
    """This engine cannot do what was asked (see its capabilities); the message names what can be used instead."""


class Unauthorized(KeyfoldError):
    """The service refused the credentials."""


class StoreError(KeyfoldError):
    """The store cannot be opened, read or written: a directory, a foreign file, a full disk, a newer version."""


class Unavailable(KeyfoldError):
    """The store or service did not answer in time, or is closed. A read may be repeated."""


class OutcomeUnknown(Unavailable):
    """A write was sent and its answer never came: it may or may not have been carried out."""
