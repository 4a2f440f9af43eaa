"""The replication slot: the server's promise to keep the WAL that bronze does not have yet.

Invariant: a slot is only ever advanced to the position that the caller names, which must be durable in bronze.
Source: PostgreSQL documentation, "Logical Decoding Concepts", view ``pg_replication_slots``, and "Streaming Replication
Protocol", CREATE_REPLICATION_SLOT.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from walhouse.errors import (
    LockTimeoutError,
    SlotError,
    SlotGapError,
    SlotInUseError,
    SlotInvalidatedError,
    SlotMismatchError,
    SourceError,
    SourceUnreachableError,
)
from walhouse.lsn import Lsn
from walhouse.postgres.connection import LOCK_TIMEOUT_SECONDS, connect, source_errors
from walhouse.postgres.failure import READ_ANEW, slot_missing
from walhouse.postgres.standby import is_standby, starting_point_deadline
from walhouse.postgres.waited_for import running_transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

Result = TypeVar("Result")

PLUGIN: Final = "pgoutput"

RELEASE_SECONDS: Final = 3.0
"""How long a slot may stay in use after its reader was killed, before it counts as really in use."""

_PAUSE_SECONDS: Final = 0.1
_FAILOVER_SINCE: Final = 17
_FIND: Final = "SELECT *, pg_is_in_recovery() AS on_standby FROM pg_replication_slots WHERE slot_name = %s"

log = logging.getLogger("walhouse.capture")


@dataclass(frozen=True, slots=True)
class SlotState:
    """One row of ``pg_replication_slots``. What a server's version does not have is None."""

    name: str
    plugin: str | None
    """None for a physical slot."""
    database: str | None
    temporary: bool
    two_phase: bool
    active_pid: int | None
    restart_lsn: Lsn | None
    confirmed_flush_lsn: Lsn | None
    wal_status: str | None
    """reserved, extended, unreserved (may be lost soon), or lost."""
    invalidation_reason: str | None
    catalog_xmin: int | None
    failover: bool
    """Whether standbys are to keep a copy of it that goes on where one of them is promoted."""
    is_copy: bool
    """Such a copy, and its standby is not promoted: the server lets nobody read or drop it."""
    on_standby: bool
    """Whether the server is a standby."""


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """What a new slot gives: the name to SET TRANSACTION SNAPSHOT to, and the LSN that this snapshot is exactly at."""

    name: str
    consistent_point: Lsn


def find_slot(connection: Connection, name: str) -> SlotState | None:
    """The slot's state, or None if there is no such slot."""
    with source_errors(slot=name), connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_FIND, [name]).fetchone()
    return None if row is None else _state(row)


def require_usable(state: SlotState, *, database: str) -> SlotState:
    """The state again, if changes can be read from the slot. An active reader is no fault: it may be about to leave.

    Raises SlotMismatchError, SlotInvalidatedError.
    """
    name = state.name
    if state.plugin != PLUGIN:
        kind = "a physical slot" if state.plugin is None else f"a slot of the plug-in {state.plugin}"
        raise _mismatch(name, f"a slot of the plug-in {PLUGIN}", kind)
    if state.database != database:
        raise _mismatch(name, f"a slot of the database {database}", f"a slot of the database {state.database}")
    if state.is_copy:
        raise _mismatch(name, "a slot of this server's own", "the copy that this standby keeps of its primary's")
    if state.two_phase:
        raise _mismatch(
            name, "a slot without two_phase", "one with two_phase, which sends transactions before they are committed"
        )
    reason = state.invalidation_reason or ("wal_removed" if state.wal_status == "lost" else None)
    if reason is not None:
        raise SlotInvalidatedError(
            f"The server has invalidated the replication slot {name} ({reason}): WAL that it needs is gone.",
            safe="What bronze holds is safe, but changes after it are lost.",
            todo=f"If it is wal_removed, raise max_slot_wal_keep_size; then {READ_ANEW}.",
            slot=name,
            reason=reason,
        )
    return state


def required_slot(connection: Connection, name: str) -> SlotState:
    """The slot's state if it is there and usable in the connection's database. Raises as ``require_usable``."""
    state = find_slot(connection, name)
    if state is None:
        raise slot_missing(name)
    return require_usable(state, database=connection.info.dbname)


def require_all_from(state: SlotState, start: Lsn) -> None:
    """Raises SlotGapError if the slot does not send all that commits from ``start`` on, where bronze ends.

    A slot never goes back while its server runs: what was read of it before this passes was all there.
    """
    if state.confirmed_flush_lsn is None or state.confirmed_flush_lsn > start:
        raise SlotGapError(
            f"The replication slot {state.name} stands at {state.confirmed_flush_lsn}, later than bronze, which ends "
            f"at {start}: the changes between are gone from the slot.",
            slot=state.name,
            bronze_lsn=str(start),
            slot_lsn=str(state.confirmed_flush_lsn),
        )


@contextmanager
def slot_errors(settings: ConnectionSettings, name: str, publication: str | None = None) -> Iterator[None]:
    """``source_errors`` that asks ``pg_replication_slots`` what a refusal without a clear reason (55000) is due to."""
    with source_errors(settings, slot=name, publication=publication):
        try:
            yield
        except psycopg.errors.ObjectNotInPrerequisiteState:
            with closing(connect(settings)) as connection:
                required_slot(connection, name)
            raise


@contextmanager
def ended_by_loss(settings: ConnectionSettings, name: str) -> Iterator[None]:
    """Of a session that is gone in its midst the slot tells why, if it is lost: the server ends who reads a slot, or a
    copy of one, whose WAL it removes, in the words for any session that is ended."""
    try:
        yield
    except SourceUnreachableError:
        with closing(connect(settings)) as connection:
            state = find_slot(connection, name)
            if state is not None:
                require_usable(state, database=connection.info.dbname)
        raise


@contextmanager
def created_slot(
    settings: ConnectionSettings,
    name: str,
    *,
    temporary: bool = False,
    failover: bool = False,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> Iterator[ExportedSnapshot]:
    """Create the slot; its exported snapshot lasts until the context ends, the slot (unless temporary) stays.

    The server first waits for all transactions that run, for each no longer than the timeout; nothing but a lock
    timeout ends this. A standby waits to be told by its primary which transactions run, without end; it is ended here.
    ``failover``: as ``create_slot`` says; no temporary slot survives. Raises LockTimeoutError or StandbyIdleError (no
    slot is left), NoFreeSlotError, SlotError if it exists.
    """
    with connect(settings, replication=True, lock_timeout_seconds=lock_timeout_seconds) as connection:
        lifetime = sql.SQL("TEMPORARY " if temporary else "")
        survives = failover and not temporary and _survives_failover(connection, name)
        options = sql.SQL("(SNAPSHOT 'export', FAILOVER)" if survives else "EXPORT_SNAPSHOT")
        command = sql.SQL("CREATE_REPLICATION_SLOT {} {}LOGICAL pgoutput {}")
        with _creation_errors(connection, name, settings), starting_point_deadline(connection, name):
            row = connection.execute(command.format(sql.Identifier(name), lifetime, options)).fetchone()
        if row is None:
            raise SlotError(f"The server did not say where the new slot {name} begins.", slot=name)
        yield ExportedSnapshot(name=str(row[2]), consistent_point=Lsn.parse(row[1]))


def create_slot(connection: Connection, name: str, *, failover: bool = False) -> Lsn:
    """Create the slot without a snapshot; the LSN from which its changes are sent. Raises as ``created_slot``.

    ``failover``: standbys that synchronise slots keep a copy, from which capture goes on where one is promoted
    (PostgreSQL 17; elsewhere, and on a standby, a plain slot is made, with a warning).
    """
    survives = failover and _survives_failover(connection, name)
    options = ", failover => true" if survives else ""
    query = f"SELECT lsn::text FROM pg_create_logical_replication_slot(%s, 'pgoutput'{options})".encode()
    with _creation_errors(connection, name), starting_point_deadline(connection, name):
        row = connection.execute(query, [name]).fetchone()
    if row is None:
        raise SlotError(f"The server did not say where the new slot {name} begins.", slot=name)
    return Lsn.parse(row[0])


def advance(connection: Connection, name: str, lsn: Lsn) -> Lsn:
    """Let the server drop the WAL of commits before ``lsn``, which must be durable in bronze; where the slot stands.

    A slot that stands there or later stays where it is. Raises as ``require_usable``, and SlotInUseError.
    """
    state = required_slot(connection, name)
    if state.confirmed_flush_lsn is not None and state.confirmed_flush_lsn >= lsn:
        return state.confirmed_flush_lsn
    query = "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, %s::pg_lsn)"

    def run() -> Lsn:
        with source_errors(slot=name):
            row = connection.execute(query, [name, str(lsn)]).fetchone()
        if row is None:
            raise SlotError(f"The server did not say where the slot {name} stands.", slot=name)
        return Lsn.parse(row[0])

    return when_free(run)


def drop_slot(connection: Connection, name: str) -> bool:
    """Drop the slot; False if there is none. Raises SlotInUseError if its reader stays."""

    def run() -> bool:
        with source_errors(slot=name), connection.transaction():  # that an attempt fails is to end no transaction
            query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
            return connection.execute(query, [name]).fetchone() is not None

    return when_free(run)


def retained_bytes(connection: Connection, name: str) -> int | None:
    """Bytes of WAL that the server keeps for the slot; None if it keeps none or there is no such slot."""
    query = (
        "SELECT pg_wal_lsn_diff("
        " CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn"
        ")::bigint FROM pg_replication_slots WHERE slot_name = %s"
    )
    with source_errors(slot=name):
        row = connection.execute(query, [name]).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def when_free(action: Callable[[], Result]) -> Result:
    """Try again while the slot is in use: after its reader was killed the server needs a moment to notice."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while True:
        try:
            return action()
        except SlotInUseError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def refusal_of_failover(connection: Connection) -> str | None:
    """Why the server makes no slot that survives its failover; None if it does."""
    version = connection.info.server_version // 10000
    if version < _FAILOVER_SINCE:
        return f"PostgreSQL {version} has no such slots"
    return "the server is a standby" if is_standby(connection) else None


def _survives_failover(connection: Connection, name: str) -> bool:
    """Whether such a slot can be made here. If not, Debezium makes a plain one without a word."""
    refusal = refusal_of_failover(connection)
    if refusal is not None:
        log.warning("The slot %s will not survive a failover, as slot.failover wants: %s.", name, refusal)
    return refusal is None


@contextmanager
def _creation_errors(connection: Connection, name: str, settings: ConnectionSettings | None = None) -> Iterator[None]:
    """A lock timeout while a slot is created means that some transaction does not end: say which sessions have one."""
    try:
        with source_errors(settings, slot=name):
            yield
    except LockTimeoutError as error:
        running = running_transactions(connection)
        raise LockTimeoutError(
            f"The replication slot {name} was not created: it has to wait for all transactions that run, and those of"
            f" {running} did not end in time.",
            safe="No slot was left behind and nothing was read.",
            slot=name,
            **running._asdict(),
        ) from error
    except SourceError as error:
        if isinstance(error.__cause__, psycopg.errors.DuplicateObject):
            raise SlotError(
                f"The replication slot {name} exists already.",
                safe="It was not touched.",
                todo="Choose another slot.name, or drop that slot if nobody needs it.",
                slot=name,
            ) from error
        raise


def _mismatch(name: str, expected: str, found: str) -> SlotMismatchError:
    return SlotMismatchError(
        f"The replication slot {name} is {found}; what is needed is {expected}.",
        safe="The slot was not touched.",
        todo="Choose another slot.name.",
        slot=name,
        expected=expected,
        found=found,
    )


def _state(row: dict[str, Any]) -> SlotState:
    return SlotState(
        name=row["slot_name"],
        plugin=row["plugin"],
        database=row["database"],
        temporary=row["temporary"],
        two_phase=row["two_phase"],
        active_pid=row["active_pid"],
        restart_lsn=_lsn(row["restart_lsn"]),
        confirmed_flush_lsn=_lsn(row["confirmed_flush_lsn"]),
        wal_status=row["wal_status"],
        invalidation_reason=row.get("invalidation_reason"),
        catalog_xmin=None if row["catalog_xmin"] is None else int(row["catalog_xmin"]),
        failover=bool(row.get("failover", False)),
        # what was a copy is called one after the promotion, too
        is_copy=bool(row.get("synced", False)) and row["on_standby"],
        on_standby=row["on_standby"],
    )


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn.parse(text)
