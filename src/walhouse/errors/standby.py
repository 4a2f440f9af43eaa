"""Conditions of a standby: one that is read, or one that the source waits for."""

from __future__ import annotations

from walhouse.errors.source import SourceError


class PromotedError(SourceError):
    """A standby was promoted while capture used it."""

    todo = "Run again: capture makes sure that bronze is part of the new timeline's past, and goes on."


class StandbyNotStreamingError(SourceError):
    """It cannot be told what a standby's snapshot has seen, since its WAL does not come by streaming."""


class StandbyNotStillError(SourceError):
    """A standby replayed without a moment's pause while one was needed for a proof. Fields: seconds."""

    todo = "Run again when the primary writes less, or between pg_wal_replay_pause() and pg_wal_replay_resume()."


class StandbyAwayError(SourceError):
    """The server sends nothing before a standby has it, and that one does not follow."""


class StandbyIdleError(SourceError):
    """A standby was not told by its primary where a new slot can begin. Fields: slot, seconds."""

    safe = "No slot was left behind and nothing was read."
    todo = "Run SELECT pg_log_standby_snapshot() on the primary while walhouse waits; then run again."


class RecoveryConflictError(SourceError):
    """A standby ended a statement that kept it from replaying. Fields: table."""

    safe = "Nothing of what was being read counts."
    todo = "Run again; if it stays, set hot_standby_feedback = on, and raise max_standby_streaming_delay."
