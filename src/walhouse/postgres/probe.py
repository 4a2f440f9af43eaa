"""Asking what a slot would send, without capturing it.

Invariant: the answer is about whole ranges, no row's values are in it, and the slot is not moved.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from walhouse.lsn import Lsn
from walhouse.names import quote_postgres
from walhouse.pgoutput.transactions import POSTGRES_EPOCH
from walhouse.postgres.peek import listening, require_silence
from walhouse.postgres.slot import ended_by_loss, slot_errors, when_free

if TYPE_CHECKING:
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

_PROBE: Final = """
    SELECT FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, 1, 'proto_version', '1',
        'publication_names', %s, 'messages', 'true') LIMIT 1"""

_LAST_BEGIN: Final = """
    SELECT substr(data, 2, 16) FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, NULL, 'proto_version', '1',
        'publication_names', %s, 'messages', 'true')
    WHERE get_byte(data, 0) = ascii('B') ORDER BY 1 DESC LIMIT 1"""
"""A Begin has the LSN of its commit, which orders them, and its time."""


class SentCommit(NamedTuple):
    """A commit's LSN, and its time in microseconds since the Unix epoch."""

    lsn: Lsn
    commit_ts: int

    def __str__(self) -> str:
        seconds, micros = divmod(self.commit_ts, 10**6)
        return f"{self.lsn} of {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{micros:06d} UTC"


def has_frames(settings: ConnectionSettings, connection: Connection, slot: str, publication: str, upto: Lsn) -> bool:
    """True if the slot would send anything of what committed before ``upto``. Raises the errors of the slot."""
    return _row(_PROBE, connection, settings=settings, slot=slot, publication=publication, upto=upto) is not None


def last_commit_sent(
    settings: ConnectionSettings, connection: Connection, slot: str, publication: str, upto: Lsn
) -> SentCommit | None:
    """The last commit before ``upto`` that the slot would send; None if it sends none. Raises the errors of the slot.

    Source: PostgreSQL documentation, "Logical Replication Message Formats", Begin.
    """
    row = _row(_LAST_BEGIN, connection, settings=settings, slot=slot, publication=publication, upto=upto)
    if row is None:
        return None
    lsn, commit_ts = struct.unpack("!qq", row[0])
    return SentCommit(Lsn(lsn), commit_ts + POSTGRES_EPOCH)


def _row(
    query: str, connection: Connection, *, settings: ConnectionSettings, slot: str, publication: str, upto: Lsn
) -> tuple[bytes, ...] | None:
    """The first row of a query that peeks, if the server has nothing to say beside it."""

    def ask() -> tuple[bytes, ...] | None:
        notices: list[str] = []
        reading = slot_errors(settings, slot, publication)
        with ended_by_loss(settings, slot), listening(connection, notices), reading:
            row = connection.execute(query.encode(), [slot, str(upto), quote_postgres(publication)]).fetchone()
        require_silence(notices, slot, upto)
        return row

    return when_free(ask)
