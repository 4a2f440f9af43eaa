"""Conditions of the lake: its tables, files and values."""

from __future__ import annotations

from walhouse.errors.base import WalhouseError


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
    todo = (
        "If somebody gave the table features that delta-rs does not know, or the file system has no hard links,"
        " set lake.writer to spark."
    )


class LakeNotWritableError(LakeError):
    """A file system takes no more of the lake's files, or of Spark's temporary ones. Fields: reason, path."""

    safe = "Every commit is whole, and the slot was not moved past the last one, so nothing is lost."
    todo = "Make room, or give back the right to write there; then run again."


class ForeignWriteError(LakeError):
    """Somebody else, as an OPTIMIZE, wrote to a table of the lake at the same moment. Fields: condition."""

    todo = "Run again: it goes on where it was. Have what tidies the lake's tables run between the runs of walhouse."


class NothingAppliedError(LakeError):
    """No epoch of gold is finished, or none up to a position, or a table was not in it; or nothing was captured.

    Fields: lsn, table.
    """

    todo = "Run `walhouse run` first, or name a later position; ops.epochs has all of them."


class UnreadableFileError(LakeError):
    """A file of a lake's table is missing or damaged. Fields: condition (Spark's name for it)."""

    todo = (
        "If a VACUUM removed what an earlier position needs, name a later one. Otherwise restore the lake's folder;"
        " silver and gold can be made anew from bronze: walhouse rebuild silver|gold TABLE."
    )


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
