"""Asking what a slot would send, without capturing it.

Invariant: the answer is about whole ranges, no row's values are in it, and the slot is not moved.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from walhouse.errors import SourceChangedError
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


def has_frames(settings: ConnectionSettings, connection: Connection, slot: str, publication: str, upto: Lsn) -> bool:
    """True if the slot would send anything of what committed before ``upto``. Raises the errors of the slot."""
    ask = partial(_row, _PROBE, connection, settings=settings, slot=slot, publication=publication, upto=upto)
    return when_free(ask) is not None


def last_commit_sent(
    settings: ConnectionSettings, connection: Connection, slot: str, publication: str, upto: Lsn
) -> SentCommit | None:
    """The last commit before ``upto`` that the slot would send; None if it sends none. Raises the errors of the slot.

    Source: PostgreSQL documentation, "Logical Replication Message Formats", Begin.
    """
    ask = partial(_row, _LAST_BEGIN, connection, settings=settings, slot=slot, publication=publication, upto=upto)
    row = when_free(ask)
    if row is None:
        return None
    lsn, commit_ts = struct.unpack("!qq", row[0])
    return SentCommit(Lsn(lsn), commit_ts + POSTGRES_EPOCH)


def require_same_commit(sent: SentCommit | None, known: SentCommit | None, end: Lsn) -> None:
    """What a slot sends last before ``end`` is the commit that was read there. Raises SourceChangedError."""
    if sent == known:
        return
    raise SourceChangedError(
        f"The source was set back to an earlier state and went on from there: as the last commit before {end} it sends"
        f" {_named(sent)}, and bronze has {_named(known)}.",
        safe="Nothing was read from it, and the slot was not moved; what bronze holds is safe.",
        todo="Start a new lake for it: this one has changes that the source has not, and lacks some that it has.",
        expected=_named(known),
        found=_named(sent),
    )


def _named(commit: SentCommit | None) -> str:
    if commit is None:
        return "none that its slot has to send"
    seconds, micros = divmod(commit.commit_ts, 10**6)
    return f"{commit.lsn} of {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{micros:06d} UTC"


def _row(
    query: str, connection: Connection, *, settings: ConnectionSettings, slot: str, publication: str, upto: Lsn
) -> tuple[bytes, ...] | None:
    """The first row of a query that peeks, if the server has nothing to say beside it."""
    notices: list[str] = []
    reading = slot_errors(settings, slot, publication)
    with ended_by_loss(settings, slot), listening(connection, notices), reading:
        row = connection.execute(query.encode(), [slot, str(upto), quote_postgres(publication)]).fetchone()
    require_silence(notices, slot, upto)
    return row
