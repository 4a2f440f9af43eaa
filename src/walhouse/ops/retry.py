"""Which errors are worth trying again, and how.

Invariant: the place that raises an error does not decide this; an error that is not listed here stops the run.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from walhouse.errors import (
    ForeignWriteError,
    LakeNotWritableError,
    LockTimeoutError,
    NoFreeSlotError,
    PromotedError,
    RecoveryConflictError,
    SlotInUseError,
    SnapshotLostError,
    SourceUnreachableError,
    StandbyAwayError,
    StandbyIdleError,
    StandbyNotStillError,
    StandbyNotStreamingError,
    TableChangedError,
    WalhouseError,
    WalNotFlushedError,
    WorkerLostError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


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
    LockTimeoutError: Retry(delay_seconds=2, times=600),  # hours: a captured table may be rewritten under its lock
    SnapshotLostError: Retry(delay_seconds=2, times=3),
    RecoveryConflictError: Retry(delay_seconds=2, times=6),
    PromotedError: Retry(delay_seconds=1, times=3),
    StandbyAwayError: Retry(delay_seconds=5, times=60),
    StandbyIdleError: Retry(delay_seconds=5, times=10),
    StandbyNotStillError: Retry(delay_seconds=5, times=10),
    StandbyNotStreamingError: Retry(delay_seconds=2, times=30),
    TableChangedError: Retry(delay_seconds=2, times=6),
    WorkerLostError: Retry(delay_seconds=2, times=2),
    ForeignWriteError: Retry(delay_seconds=2, times=30),
    LakeNotWritableError: Retry(delay_seconds=60, times=60),  # an hour, for somebody to make room
}
"""Used by continuous runs: whoever runs a single command sees the error at once, but for ``PASSING``."""

PASSING: Final = (LockTimeoutError, SnapshotLostError, RecoveryConflictError, TableChangedError, WorkerLostError)
"""What others did on the source at that very moment, and a task's process that died. A TRUNCATE that came while tables
were read, for instance, waits for the readers that are there, and those that come wait for it: only if the first let go
can all go on."""

AT_ONCE: Final = 6
"""How often a single command tries again at most: somebody waits for it."""

log = logging.getLogger(__name__)


def retry_for(error: WalhouseError, slot: Retry | None = None) -> Retry | None:
    """The policy of an error, or None if trying again cannot help. ``slot``: what is configured for a slot in use."""
    if slot is not None and isinstance(error, SlotInUseError):
        return slot
    return POLICY.get(type(error))


class Tries:
    """The tries of a run without end. What fails is told when it begins to, or fails in another way, and when it goes
    on; not at each try."""

    def __init__(self, slot: Retry) -> None:
        self._slot = slot
        self._failures = 0
        self._told = ""

    def failed(self, error: WalhouseError) -> float:
        """After how many seconds to try again. Raises the error if that cannot help, or was done often enough."""
        policy = retry_for(error, self._slot)
        self._failures += 1
        if policy is None or self._failures > policy.times:
            raise error
        if error.problem != self._told:
            self._told = error.problem
            log.warning("%s It is tried again every %g s, %s times.", error.problem, policy.delay_seconds, policy.times)
        return policy.delay_seconds

    def went_on(self) -> None:
        """A round was done."""
        if self._failures:
            log.info("It goes on, after tries that failed: %s.", self._failures)
        self._failures, self._told = 0, ""


def despite_passing(work: Callable[[], Result]) -> Result:
    """Do the work, which is safe to be done again from its beginning, again after an error of ``PASSING``."""
    failures = 0
    while True:
        try:
            return work()
        except PASSING as error:
            policy = POLICY[type(error)]
            failures += 1
            if failures > min(policy.times, AT_ONCE):
                raise
            if isinstance(error, WorkerLostError):
                log.warning("%s It is tried again.", error.problem)
            time.sleep(policy.delay_seconds)
