"""Sessions: the text of values is the same in all of them, and what goes wrong has a name of its own."""

from __future__ import annotations

import pickle
import socket
import traceback
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures_server import Server
from tests.switch import switch_to
from walhouse.config.secrets import Secret
from walhouse.errors import (
    AuthenticationError,
    LockTimeoutError,
    PrivilegeError,
    SourceError,
    SourceUnreachableError,
    WalhouseError,
)
from walhouse.postgres.connection import SESSION, connect, is_alive, on_same_server, source_errors
from walhouse.postgres.identity import SourceIdentity, read_identity, require_same

if TYPE_CHECKING:
    from collections.abc import Callable

    from fixtures.server import EmbeddedServer
    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings

pytestmark = pytest.mark.server

ODD_SETTINGS = {
    "DateStyle": "German",
    "IntervalStyle": "iso_8601",
    "TimeZone": "America/St_Johns",
    "extra_float_digits": "-3",
    "bytea_output": "escape",
    "quote_all_identifiers": "on",
    "search_path": "public",
    "array_nulls": "off",
    "client_min_messages": "error",
    "statement_timeout": "9s",  # long enough for the statement that takes it away, whatever the machine does beside it
    "idle_in_transaction_session_timeout": "1ms",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
}
TEXTS = {
    "'2020-01-31'::date::text": "2020-01-31",
    "'1 day -2:03'::interval::text": "1 day -02:03:00",
    "'2020-01-31 12:00Z'::timestamptz::text": "2020-01-31 12:00:00+00",
    "(0.1::float8 + 0.2::float8)::text": "0.30000000000000004",
    r"'\x00ff'::bytea::text": r"\x00ff",
    "'public.t'::regclass::text": "public.t",
    "(('{NULL}'::text[])[1] IS NULL)::text": "true",
}
"""What values are in a session of ours, whatever is set."""


@pytest.mark.parametrize("replication", [False, True])
def test_no_environment_role_or_database_changes_the_text_of_values(
    database: Database, monkeypatch: pytest.MonkeyPatch, replication: bool
) -> None:
    """Roles, databases and libpq's environment can all set session variables; a walsender session has them, too."""
    for name, value in ODD_SETTINGS.items():
        database.execute(f"ALTER DATABASE {database.name} SET {name} = '{value}'")
    database.execute("CREATE TABLE t ()")
    monkeypatch.setenv("PGTZ", "Asia/Kathmandu")
    monkeypatch.setenv("PGDATESTYLE", "SQL")
    monkeypatch.setenv("PGOPTIONS", "-c IntervalStyle=sql_standard")
    with closing(connect(database.settings, replication=replication)) as connection:
        found = {name: connection.execute(f"SHOW {name}".encode()).fetchone() for name in SESSION}
        texts = connection.execute(f"SELECT {', '.join(TEXTS)}".encode()).fetchone()
    assert texts == tuple(TEXTS.values())
    assert found == {name: (value,) for name, value in SESSION.items()}


def test_no_role_or_database_makes_transactions_serializable(database: Database) -> None:
    """A standby refuses those, and one that sees nothing new would wait for ever for what others do."""
    database.execute(f"ALTER DATABASE {database.name} SET default_transaction_isolation = 'serializable'")
    with closing(connect(database.settings)) as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


def test_our_settings_win_over_initial_statements(database: Database) -> None:
    settings = replace(database.settings, initial_statements=("SET TimeZone = 'Asia/Tokyo'", "SET work_mem = '5MB'"))
    with closing(connect(settings)) as connection:
        assert connection.execute("SHOW TimeZone").fetchone() == ("UTC",)
        assert connection.execute("SHOW work_mem").fetchone() == ("5MB",)


def test_a_row_policy_is_an_error_and_not_a_row_less(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("")
    database.execute(
        "CREATE TABLE public.t (id int)",
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY odd ON t USING (id = 1)",
        f"GRANT SELECT ON t TO {settings.user}",
    )
    with closing(connect(settings)) as connection, pytest.raises(PrivilegeError), source_errors():
        connection.execute("SELECT * FROM public.t")


@pytest.mark.parametrize("limited", ["ROLE", "DATABASE"])
def test_a_limit_of_connections_that_is_reached_may_pass_and_is_no_refusal_of_the_user(
    database: Database, role: Callable[[str], ConnectionSettings], limited: str
) -> None:
    """It is looked at after the password: who has the right one is told of the limit of the role, or the database."""
    settings = role("")
    name = settings.user if limited == "ROLE" else database.name
    database.execute(f"ALTER {limited} {name} CONNECTION LIMIT 1")
    with closing(connect(settings)), pytest.raises(SourceUnreachableError, match="too many connections"):
        connect(settings)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such timeout")
def test_a_network_that_swallows_a_query_is_no_longer_waited_for_than_one_that_swallows_its_answer(
    database: Database,
) -> None:
    """Keepalives find the one only: what is sent and not acknowledged is sent again for a quarter of an hour."""
    with closing(connect(database.settings)) as connection, socket.socket(fileno=connection.fileno()) as line:
        try:
            silent, between, times = (
                line.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == (silent + between * times) * 1000
        finally:
            line.detach()


def _wrong(settings: ConnectionSettings) -> dict[str, tuple[ConnectionSettings, type[WalhouseError]]]:
    return {
        "password": (replace(settings, password=Secret("sesame")), AuthenticationError),
        "no password": (replace(settings, password=None), AuthenticationError),
        "user": (replace(settings, user="nobody of this name"), AuthenticationError),
        "database": (replace(settings, database="none of this name"), AuthenticationError),
        "port": (replace(settings, port=1), SourceUnreachableError),
        "host": (replace(settings, host="no-such-host.invalid"), SourceUnreachableError),
        "certificate": (replace(settings, sslmode="require"), SourceUnreachableError),
    }


@pytest.mark.parametrize("what", ["password", "no password", "user", "database", "port", "host", "certificate"])
def test_a_connection_that_cannot_be_made_says_why_without_the_password(
    database: Database, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/nonexistent")
    settings, expected = _wrong(database.settings)[what]
    with pytest.raises(expected) as caught:
        connect(settings)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value.fields)
    assert "sesame" not in told
    assert database.settings.password is not None
    assert database.settings.password.reveal() not in told
    assert caught.value.todo_text
    assert ("database.sslmode" in caught.value.todo_text) is (what == "certificate")


def test_a_user_without_the_replication_right_is_told_so(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    with pytest.raises(PrivilegeError, match="REPLICATION"):
        connect(role(""), replication=True)


def test_the_values_of_a_row_stay_out_of_errors(database: Database) -> None:
    """PostgreSQL quotes the value that it cannot convert, and the key that is there twice."""
    database.execute("CREATE TABLE public.t (id int PRIMARY KEY, secret text)", "INSERT INTO t VALUES (4711, 'sesame')")
    statements = [
        "SELECT secret::int FROM public.t",
        "INSERT INTO public.t VALUES (4711, 'sesame')",
        "DO $$ BEGIN RAISE EXCEPTION 'sesame 4711'; END $$",
    ]
    with closing(connect(database.settings)) as connection:
        for statement in statements:
            with pytest.raises(SourceError) as caught, source_errors(database.settings):
                connection.execute(statement.encode())
            told = "".join(traceback.format_exception(caught.value))
            assert "sesame" not in told.replace(statement, "")
            assert "4711" not in told.replace(statement, "")


def test_a_lock_held_elsewhere_is_a_lock_timeout(database: Database) -> None:
    database.execute("CREATE TABLE public.t (id int)")
    with database.connect() as other, other.transaction():
        other.execute("LOCK TABLE t")
        with (
            closing(connect(database.settings, lock_timeout_seconds=0.1)) as connection,
            pytest.raises(LockTimeoutError),
            source_errors(),
        ):
            connection.execute("SELECT * FROM public.t")


def test_a_read_only_session_cannot_write(database: Database) -> None:
    with closing(connect(database.settings, read_only=True)) as connection, pytest.raises(SourceError), source_errors():
        connection.execute("CREATE TABLE public.t (id int)")


def test_a_lost_connection_is_an_unreachable_source(database: Database) -> None:
    with closing(connect(database.settings)) as connection:
        database.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        with pytest.raises(SourceUnreachableError), source_errors(database.settings):
            connection.execute("SELECT 1")


def test_a_session_that_was_ended_while_it_idled_is_known_by_asking(database: Database) -> None:
    with closing(connect(database.settings)) as connection:
        assert is_alive(connection)
        database.execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        assert not connection.closed
        assert not is_alive(connection)


def test_errors_survive_the_way_from_a_task_to_the_driver(database: Database) -> None:
    with pytest.raises(AuthenticationError) as caught:
        connect(replace(database.settings, user="nobody"))
    there_and_back: Any = pickle.loads(pickle.dumps(caught.value))
    assert (type(there_and_back), str(there_and_back)) == (AuthenticationError, str(caught.value))


def test_the_server_says_who_it_is_and_another_one_is_refused(database: Database) -> None:
    found = read_identity(database.settings)
    assert database.execute("SELECT system_identifier::text FROM pg_control_system()") == [(found.system_identifier,)]
    assert (found.timeline, found.database) == (1, database.name)
    require_same(found, found)
    for other in (
        SourceIdentity("1", found.timeline, found.database),
        SourceIdentity(found.system_identifier, 2, found.database),
        SourceIdentity(found.system_identifier, found.timeline, "other"),
    ):
        with pytest.raises(WalhouseError, match="another one"):
            require_same(other, found)


def test_sessions_of_one_work_are_on_one_server_though_its_address_leads_to_another_by_then(
    database: Database, followed_server: EmbeddedServer
) -> None:
    other = followed_server.port
    with switch_to(database.settings.port) as switch:
        settings = replace(database.settings, port=switch.port)
        with closing(connect(settings)) as connection:
            pinned = on_same_server(settings, connection)
            connect(pinned).close()
            connect(pinned, replication=True).close()
            switch.to_port = other
            elsewhere = Server(followed_server.dsn(), followed_server).settings()
            pinned = replace(elsewhere, port=switch.port, server_since=pinned.server_since)
            connect(replace(pinned, server_since=None)).close()
            for replication in (False, True):
                with pytest.raises(SourceUnreachableError, match="not the one that this command began with"):
                    connect(pinned, replication=replication)
