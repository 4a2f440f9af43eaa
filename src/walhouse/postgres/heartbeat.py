"""The statement that is run on the source at each beat (``heartbeat.action.query``).

Invariant: run before the WAL position up to which is captured is taken, so that what it writes is captured, too.
Source: Debezium documentation, PostgreSQL connector, ``heartbeat.action.query``.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import psycopg

from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from walhouse.postgres.connection import Connection

log = logging.getLogger(__name__)

_FATAL: Final = frozenset({"57P01", "42P01", "57P03", "25006"})
"""SQLSTATEs that end capture, as they end Debezium's: the server goes down or comes up, or the table is not there.

Walhouse's own is the last one: the server takes no writes, so that no beat will ever succeed."""


class Heartbeat:
    """Runs the statement at most once in an interval, counted by the clock of this process."""

    def __init__(self, query: str, interval_seconds: float) -> None:
        self._query = query
        self._interval = interval_seconds
        self._last: float | None = None

    def beat_if_due(self, connection: Connection) -> None:
        """Beat if the last beat is an interval ago, or never was. Raises as ``beat``."""
        now = time.monotonic()
        if self._last is None or now - self._last >= self._interval:
            self._last = now
            beat(connection, self._query)


def beat(connection: Connection, query: str) -> None:
    """Run it. Raises SourceError if the server goes away or takes no writes, or if the table does not exist.

    Any other failure is a warning."""
    with source_errors():
        try:
            with connection.transaction():
                # the statement is the user's: its names are to mean what they mean to them
                connection.execute("SET LOCAL search_path TO DEFAULT")
                connection.execute(query.encode())
        except psycopg.Error as error:
            if error.sqlstate in _FATAL or connection.closed:
                raise
            log.warning("heartbeat.action.query failed (SQLSTATE %s); capture goes on.", error.sqlstate)
