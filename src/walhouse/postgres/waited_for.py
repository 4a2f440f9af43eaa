"""Who is waited for, where a lock or a slot is not to be had: sessions, and prepared transactions, which no process has
any more and which nothing but their COMMIT PREPARED or ROLLBACK PREPARED ends.

Invariant: no error of a wait leaves the one unnamed that keeps the lock, as far as the server tells.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from walhouse.errors import LockTimeoutError
from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString

    from walhouse.config.connection import ConnectionSettings
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection

_RUNNING: Final = """
    SELECT pid FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY xact_start LIMIT 10"""
_PREPARED: Final = "SELECT format('%L in %s', gid, database) FROM pg_prepared_xacts ORDER BY prepared LIMIT 10"

_EXCLUSIVE: Final = """l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
_LOCKING: Final = f"""
    SELECT DISTINCT pid FROM pg_locks l WHERE {_EXCLUSIVE} AND pid <> pg_backend_pid() ORDER BY pid LIMIT 10"""
_PREPARED_LOCKING: Final = f"""
    SELECT DISTINCT format('%L in %s', gid, p.database) AS told
    FROM pg_locks l
    JOIN pg_locks own ON own.locktype = 'transactionid' AND own.virtualtransaction = l.virtualtransaction
    JOIN pg_prepared_xacts p ON p.transaction = own.transactionid
    WHERE {_EXCLUSIVE} AND l.pid IS NULL AND own.pid IS NULL ORDER BY told LIMIT 10"""
"""By its own id, which each has locked: what virtual transaction it is depends on the server's version."""


class WaitedFor(NamedTuple):
    """Processes, and names of prepared transactions with their databases; ten of each at most."""

    pids: list[int]
    prepared: list[str]

    def __str__(self) -> str:
        processes = f"the processes {self.pids}" if self.pids else ""
        prepared = f"the prepared transactions {', '.join(self.prepared)}" if self.prepared else ""
        return " and ".join(filter(None, (processes, prepared))) or "others"


def running_transactions(connection: Connection) -> WaitedFor:
    """Those that have written, in all databases."""
    return WaitedFor(_first(connection, _RUNNING), _first(connection, _PREPARED))


@contextmanager
def reading(
    connection: Connection, settings: ConnectionSettings | None, table: TableName, *, computes: bool = False
) -> Iterator[None]:
    """``source_errors`` that says who holds, or waits for, the lock that keeps a reader out."""
    try:
        with source_errors(settings, table=str(table), computes=computes):
            yield
    except LockTimeoutError as error:
        with source_errors(settings):
            connection.execute("ROLLBACK")
            locking = WaitedFor(_first(connection, _LOCKING), _first(connection, _PREPARED_LOCKING))
        raise LockTimeoutError(
            f"The table {table} could not be locked for reading: {locking} have or want exclusive locks.",
            safe="Nothing of this reading counts, and nothing of it was committed.",
            table=str(table),
            **locking._asdict(),
        ) from error


def _first(connection: Connection, query: LiteralString) -> list[Any]:
    return [found for (found,) in connection.execute(query).fetchall()]
