"""The server that scenarios run on, and what it lacks.

With WALHOUSE_TEST_DSN set that server is used, as by the tests, else the embedded one.
"""

from __future__ import annotations

import fcntl
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from fixtures.server import DSN, EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextmanager
def oracle_server(folder: Path) -> Iterator[str]:
    """The server's DSN, with a superuser. ``folder`` is the embedded one's; what is beside it has one run at a time."""
    given = os.environ.get(DSN)
    with _alone(folder.parent):
        if given:
            yield given
            return
        with EmbeddedServer.start(folder) as server:
            yield server.dsn()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two runs would stop each other's server and read each other's events."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("The oracle runs already; wait for its end.")
        yield


def lacking(dsn: str, needs: Sequence[str]) -> list[str]:
    """Those of the names that the server does not have: ``xml``, else the name of an extension."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [need for need in needs if not _has(connection, need)]


def _has(connection: psycopg.Connection[tuple[object, ...]], need: str) -> bool:
    if need == "xml":  # the type is there without libxml, but takes no value
        try:
            connection.execute("SELECT '<a/>'::xml")
        except psycopg.errors.FeatureNotSupported:
            return False
        return True
    found = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [need])
    return found.fetchone() is not None
