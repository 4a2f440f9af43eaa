"""The server that demo and tests bring along; and what a server says whose settings do not allow capture."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from fixtures.server import EmbeddedServer
from tests.fixtures_server import Server
from walhouse.config.filters import TableFilter
from walhouse.errors import NoFreeSlotError, WalLevelError
from walhouse.postgres.check import check_source
from walhouse.postgres.connection import connect
from walhouse.postgres.slot import create_slot, created_slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not one of pytest's own: they are closed to the server's user whenever another run starts."""
    with tempfile.TemporaryDirectory(prefix="walhouse-server-") as path:
        yield Path(path) / "server with blanks"


def test_a_folder_keeps_its_cluster_password_and_port_through_a_crash(folder: Path) -> None:
    with EmbeddedServer.start(folder, settings={"fsync": "on"}) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            connection.execute("CREATE TABLE t AS SELECT 1 AS id")
        assert EmbeddedServer.start(folder).dsn() == server.dsn()
        server.kill()
        assert not server.running
        server.restart()
        with psycopg.connect(server.dsn()) as connection:
            assert connection.execute("SELECT id FROM t").fetchone() == (1,)
    assert not server.running
    server.stop()
    with EmbeddedServer.start(folder) as again, psycopg.connect(again.dsn()) as connection:
        assert again.dsn() == server.dsn()
        assert connection.execute("SELECT id FROM t").fetchone() == (1,)
    assert server.password not in repr(server)


def test_nobody_gets_in_without_the_password_and_a_bad_setting_shows_the_log(folder: Path) -> None:
    with EmbeddedServer.start(folder) as server, pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(host=server.host, port=server.port, user=server.user, password="guess", dbname="postgres")
    with pytest.raises(RuntimeError, match="no_such_setting"):
        EmbeddedServer.start(folder, settings={"no_such_setting": "1"})


def test_its_programs_get_the_variables_that_they_need(folder: Path) -> None:
    with EmbeddedServer.start(folder, environment={"TZ": "Asia/Tokyo"}) as server, psycopg.connect(server.dsn()) as one:
        assert one.execute("SHOW timezone").fetchone() == ("Asia/Tokyo",), "initdb writes down whose zone it finds"


def test_a_server_that_cannot_be_captured_from_says_which_setting_it_is(folder: Path) -> None:
    with EmbeddedServer.start(folder, settings={"wal_level": "replica", "max_wal_senders": "1"}) as server:
        settings = Server(server.dsn(), server).settings()
        with closing(connect(settings)) as connection:
            with pytest.raises(WalLevelError, match="wal_level"):
                create_slot(connection, "walhouse_level")
            with pytest.raises(WalLevelError, match="wal_level"), created_slot(settings, "walhouse_level"):
                pass
            with closing(_when_free(settings)):
                with pytest.raises(NoFreeSlotError, match="max_wal_senders"):
                    connect(settings, replication=True)
                findings = check_source(
                    connection, settings, slot="s", publication="p", mode="filtered", selection=TableFilter()
                )
        server.restart({"wal_level": "logical", "max_replication_slots": "0"})
        with closing(connect(settings)) as connection, pytest.raises(NoFreeSlotError, match="max_replication_slots"):
            create_slot(connection, "walhouse_none")
    problems = {finding.subject: finding for finding in findings if finding.severity == "error"}
    assert {"wal_level", "replication right", "tables"} == set(problems)
    assert "max_wal_senders" in problems["replication right"].todo


def _when_free(settings: ConnectionSettings) -> Connection:
    """The only WAL sender: that of a connection that was closed is free a moment later."""
    for _ in range(100):
        try:
            return connect(settings, replication=True)
        except NoFreeSlotError:
            time.sleep(0.1)
    return connect(settings, replication=True)
