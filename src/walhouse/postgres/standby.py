"""Snapshots on a standby: what they have seen, told by how far the WAL is replayed.

A standby's ``pg_current_snapshot()`` names no running transactions, so it does not tell what a snapshot has seen. But
there commits become visible one after the other, in the order of the WAL, each while its record is replayed; only then
the replay LSN moves to the record's end. So of a snapshot that was taken between two readings of it, ``before`` and
``after``:

* every commit that starts before ``before`` is seen;
* of what was being replayed at the second reading, which is the one record that begins at ``after``, nobody can tell.
  **That both readings are equal does not prove that there was none**: the record may be a commit that is visible
  already. There was none if nothing was there to be replayed: if the WAL was received no further than that, by a
  receiver that is the same at both readings, or if replay is paused.
* nothing that starts later is seen.

Invariant: of every commit that starts before ``seen_to`` the snapshot has seen the effect, and of none that starts at
``upto`` or later. Rows stand at ``upto``; one whose key has a change between the two is left to that change, see
``changes.placed``.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import psycopg

from walhouse.errors import PromotedError, StandbyIdleError, StandbyNotStreamingError
from walhouse.lsn import LONG_PAGE_HEADER, Lsn
from walhouse.postgres.connection import one_row
from walhouse.postgres.visibility import SeenBefore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.postgres.connection import Connection

STARTING_POINT_SECONDS: Final = 90.0
"""How long a standby waits for what a new slot begins with. A primary that writes logs it each 15 s, an idle one never;
if transactions run meanwhile, it is needed up to three times."""

REPLAY_STATE: Final = """
    pg_is_in_recovery(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text,
    CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() = 'paused' ELSE false END,
    pg_last_wal_receive_lsn()::text,
    (SELECT pid FROM pg_stat_wal_receiver)"""
"""The columns of a ``ReplayState``. Any user may ask."""

_BEYOND_START: Final = LONG_PAGE_HEADER + 8
"""A record that follows a position starts there, or after a page's header: surely before so many bytes have passed."""


@dataclass(frozen=True, slots=True)
class ReplayState:
    """How far a standby is. The reading of the one after a snapshot comes after that snapshot."""

    in_recovery: bool
    """False once it was promoted: it writes WAL of its own, and its positions are those of inserts."""
    position: Lsn
    paused: bool
    received: Lsn | None
    receiver: int | None
    """Process id of the WAL receiver; None if there is none."""

    @classmethod
    def of_row(cls, in_recovery: bool, position: str, paused: bool, received: str | None, receiver: int | None) -> Self:  # noqa: FBT001  (a row's columns)
        """From the columns of ``REPLAY_STATE``."""
        return cls(
            in_recovery, Lsn.parse(position), paused, None if received is None else Lsn.parse(received), receiver
        )


@dataclass(frozen=True, slots=True)
class Seen:
    """What a snapshot on a standby has seen: all before ``seen_to``, none from ``upto`` on; of others nobody knows."""

    seen_to: Lsn
    upto: Lsn

    @property
    def is_exact(self) -> bool:
        """Whether nothing is between the two."""
        return self.seen_to == self.upto

    @property
    def visibility(self) -> SeenBefore:
        """The same, for a row that stands at ``upto``."""
        return SeenBefore(self.seen_to)


def is_standby(connection: Connection) -> bool:
    """Whether the server was in recovery when it last said so; a pooler that hides it costs a query."""
    reported = connection.pgconn.parameter_status(b"in_hot_standby")
    if reported is None:
        return bool(one_row(connection, "SELECT pg_is_in_recovery()")[0])
    return reported == b"on"


def require_unpromoted(connection: Connection, *, was_standby: bool) -> None:
    """Raises PromotedError if the server was a standby when capture began, and is none any more.

    Positions up to where it was promoted are those of the timeline that bronze knows, and no others may be captured as
    if they were. What was asked of the server before was answered by a standby if this passes.
    """
    if was_standby and not one_row(connection, "SELECT pg_is_in_recovery()")[0]:
        raise PromotedError("The standby was promoted while capture used it.")


def replay_state(connection: Connection) -> ReplayState:
    """How far it is now. Outside of the transaction whose snapshot it is asked for, since a query takes one."""
    return ReplayState.of_row(*one_row(connection, f"SELECT {REPLAY_STATE}"))


def seen_between(before: ReplayState, after: ReplayState) -> Seen:
    """What a snapshot has seen that was taken between two readings.

    Raises PromotedError if the snapshot may be of a timeline that bronze does not know, StandbyNotStreamingError if the
    WAL does not come by one receiver, so that nobody knows how much was there.
    """
    seen_to = before.position.page_aligned()
    if not after.in_recovery:
        raise PromotedError("The standby was promoted while a snapshot was taken.")
    if after.paused:
        return Seen(seen_to, after.position.page_aligned())
    if after.received is None or after.receiver is None or after.receiver != before.receiver:
        raise _not_streaming("it has no WAL receiver, or another one than a moment ago")
    if after.received < after.position:
        raise _not_streaming("it has replayed more than its WAL receiver has brought")
    # replay gets there, since it is received; and it is near: a delayed standby has much that it has not replayed
    upto = min(after.received, Lsn(after.position + _BEYOND_START))
    return Seen(seen_to, upto.page_aligned())


@contextmanager
def starting_point_deadline(connection: Connection, slot: str) -> Iterator[None]:
    """End the creation of a slot that waits for the primary for too long. Raises StandbyIdleError."""
    if not is_standby(connection):
        yield
        return
    timer = threading.Timer(STARTING_POINT_SECONDS, connection.cancel_safe)
    timer.start()
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise StandbyIdleError(
            f"The replication slot {slot} was not created: in {STARTING_POINT_SECONDS:g} s the primary did not tell the"
            " standby which transactions run, as it does only while it writes.",
            slot=slot,
            seconds=STARTING_POINT_SECONDS,
        ) from error
    finally:
        timer.cancel()


def _not_streaming(why: str) -> StandbyNotStreamingError:
    return StandbyNotStreamingError(
        f"How much of the WAL this standby's snapshot has seen cannot be told: {why}.",
        todo="Let it follow its primary by streaming (primary_conninfo), or hold it still meanwhile: SELECT"
        " pg_wal_replay_pause(), and pg_wal_replay_resume() afterwards.",
    )
