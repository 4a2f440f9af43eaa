"""Which server this is.

Invariant: capture goes on only against the cluster and database that bronze was filled from, and on its timeline, or on
a later one that left that timeline no earlier than where bronze is: up to there both have the same WAL; and only if
that WAL is all there. The timeline is asked of the replication protocol, since after a promotion the control file shows
the old one for seconds.
Source: PostgreSQL documentation, "Streaming Replication Protocol", IDENTIFY_SYSTEM and TIMELINE_HISTORY.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.errors import SourceChangedError
from walhouse.lsn import Lsn
from walhouse.postgres.connection import connect, one_row, source_errors
from walhouse.postgres.standby import is_standby
from walhouse.postgres.wal import flushed_lsn

if TYPE_CHECKING:
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.probe import SentCommit


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """A cluster's system identifier and timeline, and the database."""

    system_identifier: str
    timeline: int
    database: str

    def __str__(self) -> str:
        return f"system {self.system_identifier}, timeline {self.timeline}, database {self.database}"


def read_identity(settings: ConnectionSettings) -> SourceIdentity:
    """Ask the server (IDENTIFY_SYSTEM, over a replication connection of its own)."""
    with connect(settings, replication=True) as connection:
        row = one_row(connection, "IDENTIFY_SYSTEM")
    return SourceIdentity(system_identifier=str(row[0]), timeline=int(row[1]), database=str(row[3]))


def require_same(expected: SourceIdentity, found: SourceIdentity) -> None:
    """Raises SourceChangedError if the source is not the one that bronze was filled from."""
    if expected != found:
        raise SourceChangedError(
            f"The source is another one: bronze was filled from {expected}, the server now is {found}.",
            safe="Nothing was read from it; what bronze holds is safe.",
            todo="Restore the address of the source, or start a new lake for the new one.",
            expected=str(expected),
            found=str(found),
        )


def require_continued(
    settings: ConnectionSettings, expected: SourceIdentity, found: SourceIdentity, reached: Lsn
) -> None:
    """Raises SourceChangedError if the source may lack, or have otherwise, what bronze has up to ``reached``."""
    if expected == found:
        return
    if (found.system_identifier, found.database) == (expected.system_identifier, expected.database):
        left = _left_at(settings, found.timeline, expected.timeline)
        if left is not None:
            _require_past(left, reached, expected, found)
            return
    require_same(expected, found)


def _require_past(left: Lsn, reached: Lsn, expected: SourceIdentity, found: SourceIdentity) -> None:
    """Raises SourceChangedError if bronze has more of the earlier timeline than the standby had that took over."""
    if reached <= left:
        return
    raise SourceChangedError(
        f"A standby took over that had the WAL up to {left} (timeline {found.timeline}), and bronze has it up to"
        f" {reached}: what committed between the two is not in the source any more.",
        safe="Nothing was read from it; what bronze holds is safe.",
        todo="`walhouse sql 'SELECT * FROM bronze.wal_readable WHERE commit_lsn >="
        f" {int(left)}'` shows what only bronze has. Begin a new lake for this server; slot.failover, and"
        " synchronized_standby_slots on the server, keep that from happening again.",
        expected=str(expected),
        found=str(found),
    )


def require_not_set_back(connection: Connection, source: SourceIdentity, reached: Lsn) -> None:
    """Raises SourceChangedError if a primary's WAL ends before ``reached``, which it had on its disk once.

    A server that was put back with its files (a disk's snapshot, a copy of its folder) keeps its name and timeline. A
    standby that was restarted only replays anew what it had replayed.
    """
    if is_standby(connection) or (now := flushed_lsn(connection)) >= reached.page_aligned():
        return
    raise SourceChangedError(
        f"The source was set back to an earlier state: its WAL ends at {now}, and bronze has it up to {reached}.",
        safe="Nothing was read from it; what bronze holds is safe.",
        todo="Bring the server to where it was. If it goes on from the earlier state, start a new lake for it:"
        " in this one its changes would be taken for those that bronze has.",
        expected=str(source),
        found=str(now),
    )


def require_same_commit(sent: SentCommit | None, known: SentCommit | None, end: Lsn) -> None:
    """Raises SourceChangedError if what a slot sends last before ``end`` is not the commit that was read there.

    A server that was put back and has written on past ``end`` has a slot that was put back, too.
    """
    if sent == known:
        return
    none = "none that its slot has to send"
    raise SourceChangedError(
        f"The source was set back to an earlier state and went on from there: as the last commit before {end} it sends"
        f" {sent or none}, and bronze has {known or none}.",
        safe="Nothing was read from it, and the slot was not moved; what bronze holds is safe.",
        todo="Start a new lake for it: this one has changes that the source has not, and lacks some that it has.",
        expected=str(known or none),
        found=str(sent or none),
    )


def _left_at(settings: ConnectionSettings, timeline: int, earlier: int) -> Lsn | None:
    """Where a timeline, or one before it, went off from an earlier one; None if that is none of its past."""
    if timeline <= earlier:
        return None
    with connect(settings, replication=True) as connection, source_errors(settings):
        row = connection.execute(f"TIMELINE_HISTORY {int(timeline)}".encode()).fetchone()
    lines = [] if row is None else (row[1].decode() if isinstance(row[1], bytes) else str(row[1])).splitlines()
    for line in lines:
        fields = line.split("\t")
        if fields[0].strip() == str(earlier):
            return Lsn.parse(fields[1].strip())
    return None
