"""Replica identities that are set when capture begins (``replica.identity.autoset.values``).

Invariant: a table is altered only where its identity is another one than the configuration asks for, and none is if the
configuration asks for what cannot be. PostgreSQL writes old tuples by each partition's own identity, and altering a
partitioned table does not reach its partitions, so all of the tree are looked at.
Source: PostgreSQL documentation, ALTER TABLE, "REPLICA IDENTITY".
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from psycopg import sql
from psycopg.rows import dict_row

from walhouse.config.replica_identity import AUTOSET, Identity
from walhouse.errors import PrivilegeError, ReplicaIdentityError
from walhouse.names import TableName
from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.config.replica_identity import IdentityRules
    from walhouse.postgres.connection import Connection

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IdentityChange:
    """One table, or partition of one, that has another identity than it is to have."""

    table: TableName
    member: TableName
    """The table itself, or the partition that is to be altered."""
    wanted: Identity
    index: str | None
    """The member's own index, where the identity is to be one; None if it has none that belongs to the entry's."""
    owned: bool
    """Whether the user may alter it."""

    @property
    def has_no_index(self) -> bool:
        """Whether it cannot be made, for want of the index."""
        return self.wanted is Identity.INDEX and self.index is None

    def __str__(self) -> str:
        return self.wanted.name if self.wanted is not Identity.INDEX else f"USING INDEX {self.index}"


_CHANGES: Final = """
    WITH wanted AS (
        SELECT c.oid, n.nspname, c.relname, w.identity, (
            SELECT i.indexrelid FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
            WHERE i.indrelid = c.oid AND x.relname = w.index) AS index
        FROM jsonb_to_recordset(%s::jsonb) AS w(schema text, name text, identity text, index text)
        JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    ), members AS (
        SELECT w.*, w.oid AS member FROM wanted w
        UNION SELECT w.*, t.relid FROM wanted w, pg_partition_tree(w.oid) t
    )
    SELECT m.nspname, m.relname, n.nspname AS member_schema, c.relname AS member, m.identity, x.relname AS index,
        pg_has_role(c.relowner, 'USAGE') AS owned
    FROM members m JOIN pg_class c ON c.oid = m.member JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_index i ON m.identity = 'i' AND i.indrelid = c.oid AND (i.indexrelid = m.index
        OR m.index IN (SELECT a.relid FROM pg_partition_ancestors(i.indexrelid) a))
    LEFT JOIN pg_class x ON x.oid = i.indexrelid
    WHERE c.relreplident::text <> m.identity OR m.identity = 'i' AND NOT coalesce(i.indisreplident, false)
    ORDER BY 1, 2, 3, 4"""


def identity_changes(
    connection: Connection, tables: Sequence[TableName], rules: IdentityRules
) -> tuple[IdentityChange, ...]:
    """What is to be altered for these captured tables. Raises ConfigurationError if two entries are for one table."""
    entries = [(table, entry) for table in tables if (entry := rules.of(table)) is not None]
    wanted = json.dumps(
        [
            {"schema": table.schema, "name": table.table, "identity": entry.identity, "index": entry.index}
            for table, entry in entries
        ]
    )
    with source_errors(), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_CHANGES, [wanted]).fetchall() if entries else []
    return tuple(
        IdentityChange(
            TableName(row["nspname"], row["relname"]),
            TableName(row["member_schema"], row["member"]),
            Identity(row["identity"]),
            row["index"],
            row["owned"],
        )
        for row in rows
    )


def set_identities(connection: Connection, tables: Sequence[TableName], rules: IdentityRules) -> None:
    """Alter what is to be altered. A table of somebody else's is left as it is, with a warning in the log.

    Raises ConfigurationError if two entries are for one table, ReplicaIdentityError if there is no such index,
    LockTimeoutError if somebody uses the table for too long.
    """
    changes = identity_changes(connection, tables, rules)
    for change in changes:
        if change.has_no_index:
            raise no_index(change)
    for change in changes:
        try:
            with source_errors(table=str(change.member)):
                connection.execute(_alter(change))
        except PrivilegeError:
            log.warning(
                "the replica identity stays as it is, for the user does not own the table: let its owner alter it",
                extra={"fields": {"table": str(change.member), "wanted": str(change)}},
            )


def _alter(change: IdentityChange) -> sql.Composed:
    table = sql.Identifier(*change.member)
    if change.index is not None:
        statement = sql.SQL("ALTER TABLE {} REPLICA IDENTITY USING INDEX {}")
        return statement.format(table, sql.Identifier(change.index))
    return sql.SQL("ALTER TABLE {} REPLICA IDENTITY {}").format(table, sql.SQL(change.wanted.name))


def no_index(change: IdentityChange) -> ReplicaIdentityError:
    """The error for an index that is not there, whoever noticed it."""
    return ReplicaIdentityError(
        f"{change.member} has no index of the name that {AUTOSET} gives for {change.table}.",
        todo="Name a unique index over columns that are not null, without its schema; in a partitioned table, one that"
        " all partitions have a part of.",
        table=str(change.member),
    )
