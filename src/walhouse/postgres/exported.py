"""A snapshot of our own that other sessions can read in, and the LSN that goes with it.

Invariant: the snapshot is taken before its LSN is read, in one statement, so every commit that the snapshot sees starts
before that LSN. The reverse does not hold: a commit's record is in the WAL before the commit is visible.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.lsn import Lsn
from walhouse.postgres.connection import connect, one_row, source_errors
from walhouse.postgres.visibility import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.config.connection import ConnectionSettings


@dataclass(frozen=True, slots=True)
class OwnSnapshot:
    """An exported snapshot, which transactions it has seen, and the server's insert LSN right after it was taken."""

    name: str
    visibility: Visibility
    insert_lsn: Lsn


@contextmanager
def exported_snapshot(settings: ConnectionSettings) -> Iterator[OwnSnapshot]:
    """Take a snapshot and keep it open while the context lasts."""
    with closing(connect(settings, read_only=True)) as connection:
        with source_errors(settings):
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        seen, lsn = one_row(connection, "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
        [name] = one_row(connection, "SELECT pg_export_snapshot()")
        yield OwnSnapshot(name, Visibility.parse(seen), Lsn.parse(lsn))
