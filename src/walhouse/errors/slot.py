"""Conditions of the replication slot."""

from __future__ import annotations

from walhouse.errors.source import SourceError


class SlotError(SourceError):
    """Something is wrong with the replication slot. Fields: slot."""


class SlotMissingError(SlotError):
    """The slot that bronze continues from does not exist."""

    safe = "What bronze holds is safe, but the changes since then were kept by nobody."
    todo = "Run once with snapshot.mode when_needed, to read all tables anew, or begin a new lake. See who dropped it."


class SlotInvalidatedError(SlotError):
    """The server removed WAL that the slot needs. Fields: slot, reason."""


class SlotInUseError(SlotError):
    """Another process reads the slot. Fields: slot, pid."""


class SlotMismatchError(SlotError):
    """The slot is of another kind, plug-in or database, or uses two-phase commit. Fields: slot, expected, found."""


class SlotGapError(SlotError):
    """The slot stands later than bronze: changes between them are gone. Fields: slot, bronze_lsn, slot_lsn."""

    safe = "What bronze holds is safe; the slot was not moved by this command."
    todo = (
        "Find who advanced the slot: each lake needs one of its own. Then run once with snapshot.mode when_needed,"
        " which reads all tables anew, or restore bronze to a version that has the changes."
    )


class NoFreeSlotError(SlotError):
    """max_replication_slots or max_wal_senders is used up. Fields: slot, limit."""
