"""One writer at a time on a lake whose tables a catalog manages.

A catalog puts commits in order, but an epoch is many of them: two processes that apply one side by side may both insert
a row that gold lacks. What they have in common is the source; the lock is an advisory lock there.

Invariant: PostgreSQL lets go of the lock when the session that holds it ends, however it ends.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from walhouse.errors import LakeLockedError
from walhouse.postgres.connection import connect, one_row, source_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.config.connection import ConnectionSettings

_SOON_MISSED: Final = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 6"
"""A machine that vanishes says no goodbye: by its own settings the server would wait two hours for it."""

_HOLDER: Final = """
    SELECT min(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(%s, 0)
"""


@contextmanager
def sole_writer(settings: ConnectionSettings, lake: str) -> Iterator[None]:
    """Hold the source's lock of the lake of this name. Raises LakeLockedError, and what connecting raises."""
    with closing(connect(settings)) as connection:
        with source_errors(settings):
            connection.execute(_SOON_MISSED)
        (held,) = one_row(connection, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [lake])
        if not held:
            (pid,) = one_row(connection, _HOLDER, [lake])
            raise LakeLockedError(f"Another process is writing to the lake of {lake}.", pid=pid)
        yield
