"""The real PostgreSQL server of a test run, and a database of its own for each test.

With WALHOUSE_TEST_DSN set, that server is used instead of the embedded one; its user must be a superuser. Tests that
run side by side need a server for each process: the further ones are in WALHOUSE_TEST_DSN_1, WALHOUSE_TEST_DSN_2, ...
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fixtures.server import DSN, EmbeddedServer
from walhouse.config.connection import ConnectionSettings
from walhouse.config.secrets import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Server:
    """The server of this run. ``embedded`` is None if it was given by WALHOUSE_TEST_DSN."""

    dsn: str = field(repr=False)
    embedded: EmbeddedServer | None

    def settings(self, database: str = "postgres") -> ConnectionSettings:
        """How walhouse itself would connect."""
        facts: dict[str, Any] = conninfo_to_dict(self.dsn)
        return ConnectionSettings(
            host=str(facts["host"]),
            port=int(facts.get("port", 5432)),
            user=str(facts["user"]),
            password=Secret(str(facts["password"])) if "password" in facts else None,
            database=database,
        )


@dataclass(frozen=True)
class Database:
    """A fresh database, dropped with its slots after the test."""

    name: str
    dsn: str = field(repr=False)
    settings: ConnectionSettings

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A plain superuser connection in autocommit mode, without any of walhouse's session settings."""
        return psycopg.connect(self.dsn, **{"autocommit": True, **options})

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run each statement in a transaction of its own; the rows of the last one that has any."""
        rows: list[tuple[Any, ...]] = []
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
                rows = cursor.fetchall() if cursor.description else rows
        return rows

    def flush_wal(self) -> None:
        """Make the server flush all that is written so far; only its own record of what runs now comes after that."""
        [(version,)] = self.execute("SELECT current_setting('server_version_num')::int")
        self.execute("SELECT pg_log_standby_snapshot()" if version >= 160000 else "CHECKPOINT")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One server for the whole run, in a folder of its own: as root it runs as another user, to whom pytest's own
    temporary folders are closed, again at the start of every other run."""
    if os.environ.get(DSN):
        yield Server(_given(), None)
        return
    with (
        tempfile.TemporaryDirectory(prefix="walhouse-server-") as folder,
        EmbeddedServer.start(Path(folder) / "server") as embedded,
    ):
        yield Server(embedded.dsn(), embedded)


@contextmanager
def server_of_its_own() -> Iterator[EmbeddedServer]:
    """A small one beside that of the run, for what would disturb other tests."""
    with (
        tempfile.TemporaryDirectory(prefix="walhouse-own-") as folder,
        EmbeddedServer.start(Path(folder) / "server", settings={"shared_buffers": "64MB"}) as server,
    ):
        yield server


def database_on(server: EmbeddedServer) -> Database:
    """A new database on a server of its own, which ends with it."""
    name = f"walhouse_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    dsn = make_conninfo(server.dsn(), dbname=name)
    return Database(name, dsn, Server(server.dsn(), server).settings(name))


def _given() -> str:
    lane = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    name = DSN if lane == "0" else f"{DSN}_{lane}"
    if not os.environ.get(name):
        raise RuntimeError(f"{name} is not set: tests side by side need a server each. Set it, or run with LANES=1.")
    return os.environ[name]


@pytest.fixture
def database(server: Server) -> Iterator[Database]:
    """A new, empty database."""
    name = f"walhouse_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield Database(name, make_conninfo(server.dsn, dbname=name), server.settings(name))
        finally:
            drop_slots(admin, name)
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def role(database: Database) -> Iterator[Callable[[str], ConnectionSettings]]:
    """Makes login roles with the given attributes, and says how to connect as one."""
    with ExitStack() as roles:
        yield lambda attributes: roles.enter_context(login_role(database, attributes))


@contextmanager
def login_role(database: Database, attributes: str = "") -> Iterator[ConnectionSettings]:
    """A role on a database's server, dropped with all it may do there, and how to connect as it."""
    name, password = f"walhouse_{uuid.uuid4().hex[:12]}", uuid.uuid4().hex
    database.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}' {attributes}")
    try:
        yield replace(database.settings, user=name, password=Secret(password))
    finally:
        database.execute(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def drop_slots(admin: psycopg.Connection[Any], database: str) -> None:
    """End whoever reads the database's slots, then drop them; an ended reader needs a moment to let go."""
    deadline = time.monotonic() + 20
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
        [database],
    )
    query = "SELECT slot_name FROM pg_replication_slots WHERE database = %s"
    for (slot,) in admin.execute(query, [database]).fetchall():
        while True:
            try:
                admin.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            except psycopg.errors.ObjectInUse:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            except psycopg.errors.UndefinedObject:
                break
            else:
                break
