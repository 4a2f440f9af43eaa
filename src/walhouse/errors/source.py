"""Conditions of the PostgreSQL server, its publication and its tables."""

from __future__ import annotations

from walhouse.errors.base import WalhouseError


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


class LockTimeoutError(SourceError):
    """Another transaction holds what walhouse waits for. Fields: table, slot, pids, prepared."""

    todo = "Wait for that transaction or end it, then run again."


class TemporarySpaceError(SourceError):
    """What is read does not fit into temp_file_limit, or a disk of the server is full. Fields: slot, table."""

    todo = (
        "Lower lake.max_pass_bytes, or raise temp_file_limit for this user: a transaction is read whole, however large"
        " it is."
    )
