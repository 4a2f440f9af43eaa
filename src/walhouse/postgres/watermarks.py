"""Windows of incremental snapshots, as rows in the source's table of signals: for those who look for them there.

Invariant: nothing is decided by them. Rows are placed by what their chunk's snapshot has seen, see
``walhouse.changes.placed``; a crash leaves a window without an end, as Debezium's does.
Source: Debezium 3.6, "Incremental snapshots", ``incremental.snapshot.watermarking.strategy``.
"""

from __future__ import annotations

import json
import logging
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from psycopg import sql

from walhouse.errors import SourceError
from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection

log = logging.getLogger("walhouse.capture")


class Watermarks(StrEnum):
    """What ends a window."""

    INSERT_INSERT = "insert_insert"
    """A second row."""
    INSERT_DELETE = "insert_delete"
    """The first row is deleted."""


_FIRST_COLUMN: Final = """
    SELECT attname FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped
    ORDER BY attnum LIMIT 1"""


@contextmanager
def window(connection: Connection, table: TableName, strategy: Watermarks) -> Iterator[None]:
    """A row that says that chunks are being read, before; and what ends it, after. Raises PrivilegeError.

    The chunks are in bronze by its end: that it cannot be written, as for want of the right to DELETE, is logged.
    """
    chunk, opened = str(uuid.uuid4()), _now()
    _insert(connection, table, f"{chunk}-open", "snapshot-window-open", {"openWindowTimestamp": opened})
    yield
    try:
        _end(connection, table, strategy, chunk, opened)
    except SourceError as refusal:
        log.warning("A window of chunks has no end in %s. %s", table, refusal.problem)


def _end(connection: Connection, table: TableName, strategy: Watermarks, chunk: str, opened: str) -> None:
    name = sql.Identifier(*table)
    if strategy is Watermarks.INSERT_INSERT:
        times = {"openWindowTimestamp": opened, "closeWindowTimestamp": _now()}
        _insert(connection, table, f"{chunk}-close", "snapshot-window-close", times)
        return
    with source_errors(table=str(table)):
        first = sql.SQL(_FIRST_COLUMN).format(sql.Literal(name.as_string(connection)))
        row = connection.execute(first).fetchone()
        assert row is not None, "the first row was written to it"
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE {} = {}").format(name, sql.Identifier(row[0]), sql.Literal(f"{chunk}-open"))
        )


def _insert(connection: Connection, table: TableName, row: str, kind: str, data: dict[str, str]) -> None:
    """By position: the columns' names are the user's."""
    with source_errors(table=str(table)):
        connection.execute(
            sql.SQL("INSERT INTO {} VALUES ({}, {}, {})").format(
                sql.Identifier(*table), sql.Literal(row), sql.Literal(kind), sql.Literal(json.dumps(data))
            )
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
