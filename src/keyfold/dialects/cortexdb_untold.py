"""Writes to CortexDB whose outcome was not learned: sent again as the same bytes they are replays, listed or not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from keyfold.dialects.cortexdb_rows import remember
from keyfold.dialects.payload import Payload
from keyfold.dialects.wire import Closed, NotSent, unknown
from keyfold.errors import KeyfoldError, Unavailable


class Untold:
    """What was sent, by the digest of its record."""

    def __init__(self) -> None:
        self._sent: OrderedDict[str, Payload] = OrderedDict()

    def first_try(self, payload: Payload) -> Payload:
        """What was sent for this write when its outcome stayed unknown: the same bytes again are a replay."""
        sent = self._sent.get(payload.digest)
        if sent is None:
            return payload
        record = replace(
            payload.record,
            created_at=sent.record.created_at,
            updated_at=sent.record.updated_at,
            session_id=sent.record.session_id,
        )
        return sent if record == sent.record and payload.derive == sent.derive else payload

    def note(self, payloads: Iterable[Payload]) -> None:
        """These were sent, and what became of them was not said."""
        for payload in payloads:
            remember(self._sent, payload.digest, payload)

    def told(self, digests: Iterable[str]) -> None:
        """What became of these was said."""
        for digest in digests:
            self._sent.pop(digest, None)


def in_doubt(error: BaseException) -> bool:
    """Whether a write may have been carried out that ended so: without an answer, or given up by its caller."""
    return not isinstance(error, KeyfoldError) or (isinstance(error, Unavailable) and not _refused(error))


def accepted(error: KeyfoldError) -> KeyfoldError:
    """The error of a write that was taken: what was refused is a look at it, which does not undo it."""
    return error if in_doubt(error) else unknown(f"{error}; the service had taken the write before")


def _refused(error: Unavailable) -> bool:
    return isinstance(error, (NotSent, Closed))
