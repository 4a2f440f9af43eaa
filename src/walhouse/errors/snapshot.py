"""What ends a reading of tables, a whole one or one by chunks."""

from __future__ import annotations

from walhouse.errors.source import SourceError


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
