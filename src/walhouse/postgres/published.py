"""Which tables a publication has, and which of their columns, asked without a lock on any of them.

Invariant: the answer is that of the view ``pg_publication_tables`` (a test compares them), which opens each table
for it and so waits while one of them is being rewritten. Source: PostgreSQL documentation, "System Catalogs",
``pg_publication``, ``pg_publication_rel`` and ``pg_publication_namespace``; CREATE PUBLICATION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection

_PUBLISHABLE: Final = "relkind IN ('r', 'p') AND relpersistence = 'p' AND oid >= 16384"
"""What FOR ALL TABLES and a schema's entry take of ``pg_class``."""

_BY_SCHEMA: Final = """
        UNION SELECT c.oid, true FROM publication p JOIN pg_publication_namespace s ON s.pnpubid = p.oid
            JOIN publishable c ON c.relnamespace = s.pnnspid"""
"""From PostgreSQL 15 on."""

_COLUMNS: Final = """
    SELECT jsonb_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND CASE
        WHEN l.listed <> 'null' THEN l.listed @> to_jsonb(a.attnum)
        ELSE a.attgenerated = '' OR a.attgenerated = 's' AND to_jsonb(p) ->> 'pubgencols' = 's' END"""


_PUBLISHED: Final = f"""
    WITH RECURSIVE publication AS (SELECT * FROM pg_publication WHERE pubname = %s),
    publishable AS (SELECT oid, relnamespace FROM pg_class WHERE {_PUBLISHABLE}),
    named AS (
        SELECT r.prrelid AS oid, false AS whole FROM publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
        UNION SELECT c.oid, true FROM publication p JOIN publishable c ON p.puballtables
        {{by_schema}}
    ), below AS (
        SELECT i.inhrelid AS oid FROM named n JOIN pg_inherits i ON i.inhparent = n.oid
            JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relispartition AND NOT i.inhdetachpending
        UNION SELECT i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.oid WHERE NOT i.inhdetachpending
    ), sent AS (
        SELECT n.oid FROM publication p JOIN named n ON p.pubviaroot WHERE n.oid NOT IN (SELECT oid FROM below)
        UNION SELECT n.oid FROM publication p JOIN named n ON NOT p.pubviaroot
        UNION SELECT b.oid FROM publication p JOIN below b ON NOT p.pubviaroot AND NOT p.puballtables
    )
    SELECT c.oid::int8, n.nspname AS schemaname, c.relname AS tablename, c.relreplident::text,
        c.relkind = 'p' AS partitioned, obj_description(c.oid, 'pg_class') AS comment, ({_COLUMNS}) AS columns
    FROM publication p CROSS JOIN sent s
    JOIN pg_class c ON c.oid = s.oid AND (p.pubviaroot OR c.relkind <> 'p')
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid
        AND NOT EXISTS (SELECT FROM named w WHERE w.oid = c.oid AND w.whole)
    CROSS JOIN LATERAL (SELECT to_jsonb(r) -> 'prattrs' AS listed) l"""

_ROW_FILTER: Final = """
    SELECT pg_get_expr(r.prqual, r.prrelid) FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
    JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE p.pubname = %s AND n.nspname = %s AND c.relname = %s AND NOT EXISTS (
        SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid AND s.pnnspid = n.oid)"""


def published_tables(connection: Connection, publication: str) -> list[dict[str, Any]]:
    """The published tables of one publication, under the names that their changes have. Raises psycopg.Error.

    Columns: oid, schemaname, tablename, relreplident, partitioned, comment, and ``columns``, the names of those
    that are sent. Before 18 generated columns of a list are among them, although they are not sent.
    """
    query = _PUBLISHED.format(by_schema=_BY_SCHEMA if _has_schemas(connection) else "")
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), [publication]).fetchall()


def row_filter(connection: Connection, publication: str, table: TableName) -> str | None:
    """The publication's WHERE expression for a table, as SQL. Waits for a lock of this table, and of no other.

    What is published by its schema has none, whatever its own entry says.
    """
    if not _has_schemas(connection):
        return None  # row filters came with them
    with source_errors(publication=publication, table=str(table)):
        row = connection.execute(_ROW_FILTER, [publication, *table]).fetchone()
    return None if row is None else row[0]


def _has_schemas(connection: Connection) -> bool:
    return connection.info.server_version >= 150000
