"""Whose fault it is that a table was not read.

Invariant: what is no table's fault ends the run and leaves every table queued; what is one table's fault is answered,
and the others are read.
"""

from __future__ import annotations

from typing import Final

from walhouse.errors import (
    AuthenticationError,
    LockTimeoutError,
    NoFreeSlotError,
    PromotedError,
    PublicationError,
    RecoveryConflictError,
    SnapshotLostError,
    SourceUnreachableError,
    StandbyIdleError,
    StandbyNotStreamingError,
    WalNotFlushedError,
)

OF_THE_SERVER: Final = (
    SourceUnreachableError,
    AuthenticationError,
    LockTimeoutError,
    PublicationError,
    NoFreeSlotError,
    SnapshotLostError,
    WalNotFlushedError,
    RecoveryConflictError,
    PromotedError,
    StandbyIdleError,
    StandbyNotStreamingError,
)
"""What is no fault of a table."""
