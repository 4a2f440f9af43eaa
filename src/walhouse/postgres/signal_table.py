"""The source's table of signals.

Invariant: a signal is an INSERT into it, published like any other change.
Source: Debezium 3.6, "Signaling", "Structure of a signaling data collection".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from walhouse.postgres.connection import source_errors
from walhouse.postgres.publication import find_publication

if TYPE_CHECKING:
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection


def ensure_signal_table(connection: Connection, table: TableName, publication: str) -> None:
    """Make the table if it is missing, and publish it if there is a publication that lacks it. Raises PrivilegeError.

    Columns: ``id``, ``type``, ``data``, all text.
    """
    name = sql.Identifier(*table)
    with source_errors(publication=publication, table=str(table)):
        connection.execute(
            sql.SQL("CREATE TABLE IF NOT EXISTS {} (id text PRIMARY KEY, type text NOT NULL, data text)").format(name)
        )
    state = find_publication(connection, publication)
    if state is not None and table not in state.published:
        with source_errors(publication=publication, table=str(table)):
            connection.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(publication), name))
