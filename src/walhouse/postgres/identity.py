"""Which server this is.

Invariant: capture goes on only against the cluster, timeline and database that bronze was filled from. The timeline is
asked of the replication protocol, since after a promotion the control file shows the old one for seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.errors import SourceChangedError
from walhouse.postgres.connection import connect, one_row

if TYPE_CHECKING:
    from walhouse.config.connection import ConnectionSettings


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
