"""A primary with a streaming standby, both of their own, and a database that is on both for each test."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from fixtures.standby import StandbyServer
from tests.fixtures_server import Database, Server, drop_slots, server_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fixtures.server import EmbeddedServer


@dataclass(frozen=True)
class Followed:
    """A database on a primary, which takes writes, and the same on its standby, which walhouse reads."""

    primary: Database
    standby: Database
    server: StandbyServer

    def catch_up(self) -> None:
        """Wait until the standby has replayed all that is written on the primary now."""
        [(lsn,)] = self.primary.execute("SELECT pg_log_standby_snapshot()::text")
        deadline = time.monotonic() + 30
        while not self.server.replay_to(lsn):
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.01)

    @contextmanager
    def keeping_slots(self) -> Iterator[None]:
        """The standby may copy slots that are to survive a failover; no change is sent before the standby has it."""
        [(conninfo,)] = self.standby.execute("SHOW primary_conninfo")
        with (
            setting_on(self.primary, synchronized_standby_slots=self.server.slot),
            setting_on(self.standby, primary_conninfo=f"{conninfo} dbname=postgres"),
        ):
            yield

    @contextmanager
    def telling_what_runs(self) -> Iterator[None]:
        """The primary logs which transactions run, again and again: a standby makes no slot without."""
        done = threading.Event()

        def tell() -> None:
            with self.primary.connect() as connection:
                while not done.wait(0.1):
                    connection.execute("SELECT pg_log_standby_snapshot()")

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def setting_on(database: Database, **settings: str) -> Iterator[None]:
    """The database's server with other settings that take no restart."""
    told = "SELECT name, current_setting(name) FROM pg_settings"

    def take(wanted: Mapping[str, str]) -> None:
        with database.connect() as connection:
            for name, value in wanted.items():
                change = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
                connection.execute(change)
            connection.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 10
        while not wanted.items() <= dict(database.execute(told)).items():
            assert time.monotonic() < deadline, f"the server does not take {list(wanted)}"
            time.sleep(0.01)

    now = dict(database.execute(told))
    take(settings)
    try:
        yield
    finally:
        take({name: now[name] for name in settings})


@pytest.fixture(scope="session")
def followed_server() -> Iterator[EmbeddedServer]:
    """A primary that standbys are made of: the other tests' server is not to be copied with all that is on it."""
    with server_of_its_own() as primary:
        yield primary


@contextmanager
def standby_of(primary: EmbeddedServer, **settings: str) -> Iterator[StandbyServer]:
    """A new standby."""
    with tempfile.TemporaryDirectory(prefix="walhouse-standby-") as folder:
        standby = StandbyServer.follow(
            primary, Path(folder) / "server", slot=f"s_{uuid.uuid4().hex[:12]}", settings=settings
        )
        try:
            yield standby
        finally:
            standby.stop_following()


@pytest.fixture(scope="session")
def standby_server(followed_server: EmbeddedServer) -> Iterator[StandbyServer]:
    """The standby of the run."""
    with standby_of(followed_server) as standby:
        yield standby


@contextmanager
def database_on_both(primary: EmbeddedServer, standby: StandbyServer) -> Iterator[Followed]:
    """A new, empty database."""
    name = f"walhouse_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(primary.dsn(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        of_primary, of_standby = (
            Database(name, server.dsn(name), Server(server.dsn(), server).settings(name))
            for server in (primary, standby)
        )
        both = Followed(of_primary, of_standby, standby)
        both.catch_up()
        try:
            yield both
        finally:
            if standby.running:
                with psycopg.connect(standby.dsn(), autocommit=True) as follower:
                    drop_slots(follower, name)
            drop_slots(admin, name)
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def followed(followed_server: EmbeddedServer, standby_server: StandbyServer) -> Iterator[Followed]:
    """A new, empty database on the primary and its standby."""
    with database_on_both(followed_server, standby_server) as both:
        yield both
