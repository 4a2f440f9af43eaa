"""Where the server's WAL stands.

Invariant: a target for reading is a position that is flushed, never inside a page header: an unflushed commit can be
visible and still be lost in a crash, and a target after a page header would never be reached. Nor is it inside a record
whose end is not flushed, where that can be avoided: the server would wait for the rest while it decodes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from walhouse.errors import WalNotFlushedError
from walhouse.lsn import PAGE_SIZE, Lsn
from walhouse.postgres.connection import one_row

if TYPE_CHECKING:
    from walhouse.postgres.connection import Connection

_POLL_SECONDS: Final = 0.02
_NUDGE_SECONDS: Final = 0.3
"""Longer than the WAL writer's default pause (0.2 s), which flushes asynchronous commits by itself."""


def flushed_lsn(connection: Connection) -> Lsn:
    """The position up to which the WAL is on disk (on a standby: replayed), at the page's start if in a page header."""
    row = one_row(
        connection,
        "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END::text",
    )
    return Lsn.parse(row[0]).page_aligned()


def readable_lsn(connection: Connection) -> Lsn:
    """The flushed position, where no record reaches over it: the server decodes up to here without waiting.

    The WAL writer flushes whole pages. What nobody commits (rows of an open transaction, pages that a reader tidied up)
    then ends amid a record, and who decodes waits for its rest until somebody flushes: up to 15 s on a quiet server.
    The commit of an empty transaction ends that at once, where writing is allowed; else the position is given as it is.
    """
    start = time.monotonic()
    asked = False
    while (flushed := flushed_lsn(connection)) % PAGE_SIZE == 0 and flushed < insert_lsn(connection).page_aligned():
        if not asked:
            ask_to_flush(connection)
            asked = True
        elif time.monotonic() - start > _NUDGE_SECONDS:
            return flushed
        else:
            time.sleep(_POLL_SECONDS)
    return flushed


def ask_to_flush(connection: Connection) -> None:
    """Have the WAL writer flush all that is written by now, within its pause: it does so for the commit of an empty
    transaction, where writing is allowed. Asked before other work, it is done when the position is wanted."""
    committed_xid(connection)


def insert_lsn(connection: Connection) -> Lsn:
    """The position at which the next record is written (on a standby: replayed), flushed or not."""
    row = one_row(
        connection,
        "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text",
    )
    return Lsn.parse(row[0])


def current_xid(connection: Connection) -> int:
    """A current 64-bit transaction id, not used up by asking: what 32-bit ids of the stream are widened against."""
    return int(one_row(connection, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")[0])


def committed_xid(connection: Connection) -> int | None:
    """The 64-bit id of an empty transaction, committed by asking for it; None where writing is not allowed.

    Its commit is not decoded, unlike a logical message.
    """
    may_write = "SELECT NOT (pg_is_in_recovery() OR current_setting('transaction_read_only')::bool)"
    if not one_row(connection, may_write)[0]:
        return None
    return int(one_row(connection, "SELECT pg_current_xact_id()::text")[0])


def above_all_running(connection: Connection) -> int:
    """A 64-bit id above those of all transactions that run now, prepared ones among them: the next to be given out.

    A snapshot's xmax is no such bound: it comes after the last one that has *ended*, and later ones may run. The next
    id is told by the age of another, in 32 bits, also on a standby, where it is above all that its WAL has.
    """
    query = """
        SELECT xmax + greatest(0, ((age('3'::xid)::int8 + 3 - xmax + half) & (2 * half - 1)) - half)
        FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS xmax, 1::int8 << 31 AS half) AS now"""
    return int(one_row(connection, query)[0])


def oldest_running(connection: Connection) -> int:
    """The 64-bit id before which all transactions have ended."""
    return int(one_row(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text")[0])


def wait_flushed(connection: Connection, lsn: Lsn, timeout_seconds: float = 10.0) -> Lsn:
    """Wait until the WAL is flushed up to ``lsn``; the flushed position. Raises WalNotFlushedError.

    WAL of transactions that are still open is not flushed by itself. If it takes longer than usual, and writing is
    allowed, the commit of an empty transaction makes the server's WAL writer flush all before it; it is not decoded.
    """
    start = time.monotonic()
    nudged = False
    while (flushed := flushed_lsn(connection)) < lsn.page_aligned():
        waited = time.monotonic() - start
        if waited > timeout_seconds:
            raise WalNotFlushedError(
                f"The server has not flushed its WAL up to {lsn} within {timeout_seconds:g} s; it stands at {flushed}.",
                todo="Run again; if it stays, look at the server's disk and at synchronous replication.",
                lsn=str(lsn),
                flushed=str(flushed),
                seconds=timeout_seconds,
            )
        if waited > _NUDGE_SECONDS and not nudged:
            ask_to_flush(connection)
            nudged = True
        time.sleep(_POLL_SECONDS)
    return flushed
