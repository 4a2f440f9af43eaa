"""Connections to the source, all with the same session settings, because these govern the text of values.

Invariant: whatever a role, a database, the environment (PGTZ, PGDATESTYLE, PGOPTIONS) or a pooler sets, a value has the
same text in every session of walhouse, in the stream and in a snapshot.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from walhouse.errors import SourceError, SourceUnreachableError
from walhouse.postgres.failure import Subject, explain_failure, may_quote_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import LiteralString, TypeAlias

    from walhouse.config.connection import ConnectionSettings

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

LOCK_TIMEOUT_SECONDS: Final = 10.0
"""How long a statement waits for a lock before it fails, unless its caller says otherwise."""

SESSION: Final[Mapping[str, str]] = {
    # the text of values
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    "search_path": "pg_catalog",
    "xmlbinary": "base64",
    # a text is the value again where a row's key is a bound: else NULL in an array is a text of four letters
    "array_nulls": "on",
    # each statement sees what is committed by then, and no standby refuses it, unless a transaction asks for another
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    # a row policy is an error, not a row less
    "row_security": "off",
    # a notice while decoding means that changes may be missing, and must reach the client
    "client_min_messages": "warning",
    # a peek or a chunk lasts as long as it has to, and the holder of an exported snapshot is idle in a transaction
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "standard_conforming_strings": "on",
    # compiling costs more than it saves in short catalog queries and in plain scans
    "jit": "off",
    # a machine that vanishes says no goodbye: the server would keep its locks and its slot for two hours
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
    "tcp_user_timeout": "90000",
}

_SINCE: Final = "extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text"
"""To the microsecond: no two servers say the same, and one that was restarted says another."""

_NETWORK: Final[Mapping[str, int]] = {
    "connect_timeout": 15,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    # nobody asks whether the other is there while a query on its way to it is not acknowledged
    "tcp_user_timeout": 90_000,
}
"""A network or a machine that swallows what is sent is a lost connection after 90 seconds, not after a quarter of an
hour, as systems have it."""


def connect(
    settings: ConnectionSettings,
    *,
    replication: bool = False,
    read_only: bool = False,
    autocommit: bool = True,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> Connection:
    """A session with all of ``SESSION``. ``replication`` opens a WAL sender that also takes SQL (simple protocol).

    Raises SourceUnreachableError, also for another server than ``on_same_server`` allows; AuthenticationError,
    PrivilegeError, NoFreeSlotError, and ConfigurationError if a file of a certificate is not there.
    """
    settings.require_files()
    mode = {"replication": "database"} if replication else {}
    parameters: dict[str, Any] = {**_NETWORK, **settings.parameters(), **mode}
    with source_errors(settings):
        connection = psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)
        with ExitStack() as unless_ready:
            unless_ready.callback(connection.close)
            for statement in settings.initial_statements:
                connection.execute(statement.encode())
            read_only = read_only or settings.read_only
            told = connection.execute(_session(connection, lock_timeout_seconds, read_only=read_only))
            while told.nextset():
                pass  # the last statement is the one that tells
            since = told.fetchone()
            if since is None or settings.server_since not in {None, since[0]}:
                raise _another_server(settings)
            unless_ready.pop_all()
        connection.autocommit = autocommit
    return connection


def on_same_server(settings: ConnectionSettings, connection: Connection) -> ConnectionSettings:
    """Settings for sessions that are all on the connection's server, as it runs now.

    An address can lead elsewhere from one session to the next: a standby took over, or several servers share it. How
    far the one's WAL is says nothing of the other's.
    """
    return replace(settings, server_since=one_row(connection, f"SELECT {_SINCE}")[0])


def is_alive(connection: Connection) -> bool:
    """Whether its server still answers. A session that idled may have been ended; only its next use tells."""
    try:
        connection.execute("SELECT")
    except psycopg.OperationalError:
        connection.close()
    return not connection.closed


@contextmanager
def source_errors(
    settings: ConnectionSettings | None = None,
    *,
    slot: str | None = None,
    publication: str | None = None,
    table: str | None = None,
    computes: bool = False,
) -> Iterator[None]:
    """Turn the driver's errors into walhouse's. The names say what the statements are about; ``computes``: they
    compute a user's expression from values of rows.

    The cause is not chained where the server's words may quote a row's value.
    """
    subject = Subject(settings, slot, publication, table, computes)
    try:
        yield
    except psycopg.Error as error:
        raise explain_failure(error, subject) from None if may_quote_values(error, subject) else error


def one_row(connection: Connection, query: LiteralString, parameters: Sequence[object] = ()) -> tuple[Any, ...]:
    """The first row of a query that always gives one."""
    with source_errors():
        row = connection.execute(query, parameters or None).fetchone()
    if row is None:
        raise SourceError("The server gave no row where there must be one.")
    return row


def _session(connection: Connection, lock_timeout_seconds: float, *, read_only: bool) -> sql.Composed:
    """All settings in one round trip, then since when the server runs. SET wins over the environment and passes through
    poolers, unlike ``options``. The round trip is a transaction, and begins as role or database would have it: a
    serializable one a standby refuses."""
    settings = dict(SESSION)
    settings["lock_timeout"] = f"{round(lock_timeout_seconds * 1000)}ms"
    settings["default_transaction_read_only"] = "on" if read_only else "off"
    if connection.info.server_version >= 170000:
        settings["transaction_timeout"] = "0"
    statements = (
        sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)) for name, value in settings.items()
    )
    first, last = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", f"SELECT {_SINCE}"
    return sql.SQL("; ").join([sql.SQL(first), *statements, sql.SQL(last)])


def _another_server(settings: ConnectionSettings) -> SourceUnreachableError:
    return SourceUnreachableError(
        f"The server that answers at {settings.host}:{settings.port} is not the one that this command began with: it"
        " was restarted, another one took its place, or several stand behind the address.",
        safe="Nothing was read there; what bronze holds is safe.",
        todo="Run again. If several servers stand behind the address, give that of one: the slot is on one of them.",
        host=settings.host,
        port=settings.port,
    )
