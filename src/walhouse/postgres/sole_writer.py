"""One writer at a time on a lake whose tables a catalog manages.

A catalog puts commits in order, but an epoch is many of them: two processes that apply one side by side may both insert
a row that gold lacks. What they have in common is the source; the lock is an advisory lock there.

Invariant: PostgreSQL lets go of the lock when the session that holds it ends, however it ends.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final, Self

from walhouse.errors import LakeLockedError, SourceUnreachableError
from walhouse.postgres.connection import connect, is_alive, one_row

if TYPE_CHECKING:
    from types import TracebackType

    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

_HOLDER: Final = """
    SELECT min(pid) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(%s, 0)
"""


class SoleWriter:
    """The source's lock of the lake of this name, held by a session of its own. Use it as a context manager."""

    def __init__(self, settings: ConnectionSettings, lake: str) -> None:
        self._settings = settings
        self._lake = lake
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        """Raises LakeLockedError, and what connecting raises."""
        self.regain()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()

    def require_held(self) -> None:
        """Raises SourceUnreachableError if the session was lost: another writer may have been let in since."""
        if self._connection is None or not is_alive(self._connection):
            raise SourceUnreachableError(
                f"The session that holds the lock of the lake of {self._lake} was lost.",
                safe="Nothing was applied to silver or gold since; what bronze holds is safe.",
                todo="Run again. Look in the server's log who or what ends sessions that are idle for long.",
                host=self._settings.host,
                port=self._settings.port,
            )

    def regain(self) -> None:
        """Take the lock again if the session was lost. Raises LakeLockedError, and what connecting raises."""
        if self._connection is None or not is_alive(self._connection):
            self._connection = self._locking()

    def _locking(self) -> Connection:
        with ExitStack() as unless_held:
            connection = unless_held.enter_context(closing(connect(self._settings)))
            (held,) = one_row(connection, "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [self._lake])
            if not held:
                (pid,) = one_row(connection, _HOLDER, [self._lake])
                raise LakeLockedError(f"Another process is writing to the lake of {self._lake}.", pid=pid)
            unless_held.pop_all()
        return connection
