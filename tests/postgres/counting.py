"""Rows that are written one after another, each with the place of its commit in the log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from walhouse.lsn import Lsn
from walhouse.postgres.connection import one_row

if TYPE_CHECKING:
    from tests.fixtures_standby import Followed
    from walhouse.postgres.connection import Connection


class Written(NamedTuple):
    """A row, and two LSNs on the primary: its commit begins at the first or later, and before the second."""

    id: int
    earliest: Lsn
    latest: Lsn


def write(connection: Connection, number: int) -> Written:
    """Commit one row, on a connection that begins transactions by itself."""
    where = "SELECT pg_current_wal_insert_lsn()::text"
    connection.execute("INSERT INTO t VALUES (%s)", [number])
    earliest = Lsn.parse(one_row(connection, where)[0])
    connection.commit()
    latest = Lsn.parse(one_row(connection, where)[0])
    connection.rollback()
    return Written(number, earliest, latest)


class Counting(threading.Thread):
    """Writes rows, each in a transaction of its own, and notes where their commits are."""

    def __init__(self, followed: Followed) -> None:
        super().__init__(daemon=True)
        self._database = followed.primary
        self._done = threading.Event()
        self.written: list[Written] = []

    def run(self) -> None:
        with self._database.connect(autocommit=False) as connection:
            while not self._done.is_set():
                self.written.append(write(connection, len(self.written) + 1))

    def __enter__(self) -> Counting:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self.join()

    def contradicts(self, rows: set[int], seen_to: Lsn, upto: Lsn) -> list[Written]:
        """Rows that a snapshot shows although they come later, or does not show although they come before."""
        return [
            each
            for each in self.written
            if (each.earliest >= upto if each.id in rows else each.latest <= seen_to.page_aligned())
        ]
