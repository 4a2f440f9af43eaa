"""Every error that walhouse raises.

Invariant: one base class, one leaf per condition. A message says what is wrong, what is safe, and what to do; it never
holds a value of a row or a secret. Whether to try again is decided in ``walhouse.ops.retry``, not here.
"""

from __future__ import annotations

from typing import ClassVar


class WalhouseError(Exception):
    """Base of all errors. ``fields`` are the condition's identifiers (table, lsn, slot ...), for logs and callers."""

    exit_code: ClassVar[int] = 1
    safe: ClassVar[str] = "Nothing was changed."
    todo: ClassVar[str] = ""

    def __init__(self, problem: str, *, safe: str | None = None, todo: str | None = None, **fields: object) -> None:
        self.problem = problem
        self.safe_text = self.safe if safe is None else safe
        self.todo_text = self.todo if todo is None else todo
        self.fields = {name: value for name, value in fields.items() if value is not None}
        super().__init__(" ".join(part for part in (problem, self.safe_text, self.todo_text) if part))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.safe_text, self.todo_text, self.fields)


def _rebuild(kind: type[WalhouseError], problem: str, safe: str, todo: str, fields: dict[str, object]) -> WalhouseError:
    return kind(problem, safe=safe, todo=todo, **fields)


class WorkerLostError(WalhouseError):
    """A Python process of Spark's died in the midst of a task. Fields: fault, where (its innermost frames)."""

    safe = "Nothing of that task was committed, and the slot was not moved."
    todo = "Run it again. If it dies again and there is memory enough, report it."


# Configuration -------------------------------------------------------------------------------------------------------


class ConfigurationError(WalhouseError):
    """The configuration is wrong: unknown key, wrong type, contradiction. Fields: file, path."""

    exit_code = 2
    safe = "Nothing was read from the source and nothing was written."


class SecretError(ConfigurationError):
    """A reference to a secret cannot be resolved. Fields: reference (never the value)."""


class SnapshotUnfinishedError(ConfigurationError):
    """An initial snapshot was interrupted, and the mode of now forbids to go on with it. Fields: tables."""

    safe = "What bronze holds of it stays, and is not read again."
    todo = "Set snapshot.mode to what it was, or to initial; or begin a new lake."


class NotStreamingError(ConfigurationError):
    """What was asked for needs the stream, and the mode does not capture it."""

    todo = "Set snapshot.mode to one that streams, as initial does."


class NameCollisionError(ConfigurationError):
    """Two source tables would become one lake table. Fields: tables, name."""


class FieldCollisionError(ConfigurationError):
    """Two columns of a table would be printed under one name. Fields: table, columns, name."""

    safe = "Nothing was printed, and the lake is as it was."


# What was asked for --------------------------------------------------------------------------------------------------


class QueryError(WalhouseError):
    """A query that Spark does not understand, that names what is not there, or that a row made fail."""

    exit_code = 2
    todo = "Correct the query. Tables: bronze.wal_readable, silver.<schema>_<table>, gold.<schema>_<table>, ops.*."


class RequestRefusedError(WalhouseError):
    """A signal or a snapshot that was asked for cannot be followed. Fields: id, table."""

    exit_code = 2
    safe = "Nothing was read; streaming goes on."


# The source ----------------------------------------------------------------------------------------------------------


class SourceError(WalhouseError):
    """A condition of the PostgreSQL server. Everything captured so far is safe in bronze."""

    exit_code = 3
    safe = "What bronze holds is safe; the slot keeps everything after it."


class SourceUnreachableError(SourceError):
    """The server does not answer. Fields: host, port."""

    todo = "Check database.hostname and database.port, the network, and that the server accepts connections."


class AuthenticationError(SourceError):
    """The server refuses the user, its password, or the database. Fields: user, database."""

    todo = "Check database.user, database.password and database.dbname, and pg_hba.conf on the server."


class PrivilegeError(SourceError):
    """The user lacks a right. Fields: user, privilege, table."""


class WalLevelError(SourceError):
    """wal_level is not logical. Fields: wal_level."""

    todo = "Set wal_level = logical in postgresql.conf and restart the server."


class UnsupportedServerError(SourceError):
    """What the source is makes capture impossible: its text has no encoding."""


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
    todo = "Give each lake its own slot. Then run once with snapshot.mode when_needed, which reads all tables anew."


class NoFreeSlotError(SlotError):
    """max_replication_slots or max_wal_senders is used up. Fields: slot, limit."""


class PublicationError(SourceError):
    """Something is wrong with the publication. Fields: publication."""


class PublicationMissingError(PublicationError):
    """The publication does not exist, or did not exist when changes were decoded."""


class PublicationChangedError(PublicationError):
    """The publication was dropped and made again, or its tables changed behind our back: changes may be missing."""


class PublicationTableError(PublicationError):
    """The publication lacks a table that the configuration asks for. Fields: publication, table."""


class ReplicaIdentityError(SourceError):
    """A table has no usable replica identity; PostgreSQL refuses its updates and deletes. Fields: table."""


class SourceChangedError(SourceError):
    """The server is another one: system identifier, timeline or database. Fields: expected, found."""


class DecodingNoticeError(SourceError):
    """The server gave a notice while decoding; changes may be missing from the range. Fields: slot, range."""


class WalNotFlushedError(SourceError):
    """The server did not flush its WAL up to a position in time. Fields: lsn, flushed, seconds."""


class ReadOnlySourceError(SourceError):
    """The source takes no writes: a standby, or a read-only session (read.only). Fields: publication, table."""

    todo = "Do it on the primary, as a user who may."


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


class LockTimeoutError(SourceError):
    """Another transaction holds what walhouse waits for. Fields: table, slot, pids, prepared."""

    todo = "Wait for that transaction or end it, then run again."


class SnapshotLostError(SourceError):
    """The exported snapshot is gone, because the session that held it ended. Fields: snapshot."""

    safe = "Nothing of this snapshot counts, and nothing of it was committed."
    todo = "Run again: the snapshot starts anew."


class TableChangedError(SourceError):
    """A table's columns changed before a planned part of its snapshot was read. Fields: table."""

    safe = "Nothing of this part counts; streaming goes on."
    todo = "Run again: the part is planned anew and read again."


class ConditionError(SourceError):
    """A snapshot's condition is no SQL expression over the table's columns. Fields: table."""

    safe = "Nothing was read; streaming goes on."


class TableNotReadError(SourceError):
    """A table of a snapshot that was asked for could not be read. Fields: id, table, status."""

    safe = "The other tables were read; streaming goes on."
    todo = "Mend what is said above, then ask again."


class TemporarySpaceError(SourceError):
    """The range does not fit into the server's temp_file_limit. Fields: slot, range."""

    todo = "Lower lake.max_pass_bytes, or raise temp_file_limit for this user."


# Frames --------------------------------------------------------------------------------------------------------------


class FrameError(WalhouseError):
    """The server's bytes cannot be decoded. Fields: lsn, offset."""

    exit_code = 4
    safe = "Nothing of this range was committed and the slot was not moved."
    todo = "Report it with the fields below; the frame can be read again from the slot."


class TruncatedFrameError(FrameError):
    """A frame ends before its content does. Fields: lsn, offset."""


class UnknownMessageError(FrameError):
    """A message type that the protocol does not have. Fields: byte, lsn, offset."""


class UnknownTupleKindError(FrameError):
    """A tuple value of an unknown kind, or one that was not asked for. Fields: byte, lsn, offset."""


class UnknownRelationError(FrameError):
    """A change for a relation that was not described before it. Fields: oid, lsn."""


# The lake ------------------------------------------------------------------------------------------------------------


class LakeError(WalhouseError):
    """A condition of the lake. Fields: table."""

    exit_code = 5


class LakeLockedError(LakeError):
    """Another process writes to this lake. Fields: path of a local lake, pid (else its session's on the source)."""

    todo = "Wait for it to end. A lake has one writer at a time."


class OtherLakeError(LakeError):
    """This Spark session's catalog has a schema of that name in another folder. Fields: schema, path, found."""

    safe = "Nothing was read or written."
    todo = "Open each lake in a Spark session of its own, or give its schemas other names under lake."


class LakeVersionError(LakeError):
    """Another version of walhouse wrote bronze, in a form that cannot be gone on from. Fields: found."""

    safe = "Nothing was written and the slot was not moved."
    todo = "Begin a new lake, in another folder or under other schema names; CHANGELOG.md says which versions need it."


class AppendSkippedError(LakeError):
    """Delta took an append for one it already had and wrote nothing. Fields: table, pass_number, found."""

    safe = "The slot was not moved, so nothing is lost."
    todo = "If bronze was restored to an earlier version, run `walhouse capture --new-generation` once."


class ForeignCommitError(LakeError):
    """A table of the lake does not take a commit of files, or cannot be read without Spark. Fields: path."""

    safe = "The slot was not moved, so nothing is lost."
    todo = "If delta-rs does not know a feature of the table, or the disk has no hard links: set lake.writer to spark."


class LakeNotWritableError(LakeError):
    """A file system takes no more of the lake's files, or of Spark's temporary ones. Fields: reason, path."""

    safe = "Every commit is whole, and the slot was not moved past the last one, so nothing is lost."
    todo = "Make room, or give back the right to write there; then run again."


class ForeignWriteError(LakeError):
    """Somebody else, as an OPTIMIZE, wrote to a table of the lake at the same moment. Fields: condition."""

    todo = "Run again: it goes on where it was. Have what tidies the lake's tables run between the runs of walhouse."


class NothingAppliedError(LakeError):
    """No epoch of gold is finished, or none up to a position, or a table was not in it. Fields: lsn, table."""

    todo = "Run `walhouse run` first, or name a later position; ops.epochs has all of them."


class UnreadableFileError(LakeError):
    """A file of a lake's table is missing or damaged. Fields: condition (Spark's name for it)."""

    todo = "If a VACUUM removed it, name a later position. Else restore the lake's folder, or `walhouse rebuild`."


class TypeConflictError(LakeError):
    """The lake's column has another type than the source now needs. Fields: table, column, expected, found."""


class ConversionError(LakeError):
    """A value has no form in its field's type, and the configuration asks to stop then. Fields: table, lsn, columns."""

    safe = "Nothing of this epoch was written for the table; bronze holds every change."
    todo = "Set event.converting.failure.handling.mode to warn: the field is NULL then, and its text stands beside it."


class GoldKeyError(LakeError):
    """The columns that identify a row of a gold table are no longer its source's. Fields: table, expected, found."""

    safe = "The gold table was not changed; bronze holds every change."
    todo = "Make it anew from bronze: walhouse rebuild gold TABLE."


class BagMismatchError(LakeError):
    """A delete in a table without a key matches no row. Fields: table, count."""


# The proof -----------------------------------------------------------------------------------------------------------


class NotProvenError(WalhouseError):
    """verify found a difference, or a table that it cannot compare. Fields: tables."""

    exit_code = 6
    safe = "Nothing was changed; the differing keys are listed above."
