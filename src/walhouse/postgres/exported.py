"""A snapshot of our own that other sessions can read in, and the LSN that goes with it.

Invariant: the snapshot is taken before its LSN is read, in one statement, so every commit that the snapshot sees starts
before that LSN. The reverse does not hold: a commit's record is in the WAL before the commit is visible.

On a standby, where nobody can ask what a snapshot has seen, it is one that is exactly at its LSN: they are taken until
one is. That needs a moment in which replay has nothing to do.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walhouse.errors import StandbyNotStillError
from walhouse.lsn import Lsn
from walhouse.postgres.connection import connect, one_row, source_errors
from walhouse.postgres.standby import REPLAY_STATE, ReplayState, is_standby, replay_state, seen_between
from walhouse.postgres.visibility import SeenBefore, Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

STILL_SECONDS: Final = 30.0
"""How long to wait for a standby's moment of stillness."""

_PAUSE_SECONDS: Final = 0.002

_ANYWHERE: Final = Lsn(0)


@dataclass(frozen=True, slots=True)
class OwnSnapshot:
    """An exported snapshot, what it has seen, and the server's insert LSN right after it was taken."""

    name: str
    visibility: Visibility | SeenBefore
    insert_lsn: Lsn


@contextmanager
def exported_snapshot(
    settings: ConnectionSettings, *, not_before: Lsn = _ANYWHERE, still_seconds: float = STILL_SECONDS
) -> Iterator[OwnSnapshot]:
    """Take a snapshot and keep it open while the context lasts.

    ``not_before``: where a standby must stand at least; one that was restarted is behind what it showed before.
    Raises StandbyNotStillError, StandbyNotStreamingError.
    """
    with closing(connect(settings, read_only=True)) as connection:
        standby = is_standby(connection)
        seen = _exact_on_standby(connection, not_before, still_seconds) if standby else _on_primary(connection)
        [name] = one_row(connection, "SELECT pg_export_snapshot()")
        yield OwnSnapshot(name, *seen)


def _on_primary(connection: Connection) -> tuple[Visibility, Lsn]:
    with source_errors():
        connection.execute(_BEGIN)
    seen, lsn = one_row(connection, "SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
    return Visibility.parse(seen), Lsn.parse(lsn)


def _exact_on_standby(connection: Connection, not_before: Lsn, seconds: float) -> tuple[SeenBefore, Lsn]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = replay_state(connection)
        with source_errors():
            connection.execute(_BEGIN)
        seen = seen_between(before, ReplayState.of_row(*one_row(connection, f"SELECT {REPLAY_STATE}")))
        if seen.is_exact and seen.upto >= not_before.page_aligned():
            return seen.visibility, seen.upto
        with source_errors():
            connection.execute("ROLLBACK")
        time.sleep(_PAUSE_SECONDS)
    raise StandbyNotStillError(
        f"In {seconds:g} s the standby replayed without a pause: no snapshot of it is known to be at just one LSN.",
        seconds=seconds,
    )
