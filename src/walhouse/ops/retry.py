"""Which errors are worth trying again, and how.

Invariant: the place that raises an error does not decide this; an error that is not listed here stops the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from walhouse.errors import (
    LockTimeoutError,
    NoFreeSlotError,
    SlotInUseError,
    SnapshotLostError,
    SourceUnreachableError,
    WalhouseError,
    WalNotFlushedError,
)


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after ``delay_seconds``, at most ``times`` times in a row."""

    delay_seconds: float
    times: int


POLICY: Final[dict[type[WalhouseError], Retry]] = {
    SourceUnreachableError: Retry(delay_seconds=5, times=60),
    SlotInUseError: Retry(delay_seconds=10, times=6),
    NoFreeSlotError: Retry(delay_seconds=10, times=6),
    WalNotFlushedError: Retry(delay_seconds=1, times=10),
    LockTimeoutError: Retry(delay_seconds=10, times=6),
    SnapshotLostError: Retry(delay_seconds=10, times=3),
}
"""Used by continuous runs only: whoever runs a single command sees the error at once."""


def retry_for(error: WalhouseError, slot: Retry | None = None) -> Retry | None:
    """The policy of an error, or None if trying again cannot help. ``slot``: what is configured for a slot in use."""
    if slot is not None and isinstance(error, SlotInUseError):
        return slot
    return POLICY.get(type(error))
